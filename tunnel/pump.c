/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work of an established session. libssh2 hands any packet it reads to a
 * queue that all channels share, so each time bytes came in everybody is
 * looked at: first whoever waits for the answer to a request (their answers
 * carry no name, so nobody else may read before them), then the channels.
 */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "tunnel/farsock.h"
#include "tunnel/openstate.h"
#include "tunnel/session_int.h"
#include "tunnel/spec.h"

static bool
pump_error(struct session *s)
{
	return session_fatal(s, libssh2_session_last_errno(s->ssh));
}

/* The session channel that stays open and unused: its requests have answers of
 * their own, which makes them good probes. */
static bool
pump_idle(struct session *s)
{
	if (s->idle_tried)
		return true;
	s->idle = libssh2_channel_open_ex(s->ssh, "session", 7, CHAN_PACKET,
					  CHAN_PACKET, NULL, 0);
	if (s->idle == NULL &&
	    libssh2_session_last_errno(s->ssh) == LIBSSH2_ERROR_EAGAIN)
		return false;
	s->idle_tried = true;
	if (s->idle == NULL)
		(void)pump_error(s);
	return true;
}

static void
pump_probe(struct session *s)
{
	int rc;

	if (!s->probing || s->idle == NULL)
		return;
	rc = libssh2_channel_setenv_ex(s->idle, "SBX_ALIVE", 9, "1", 1);
	if (rc == LIBSSH2_ERROR_EAGAIN)
		return;
	s->probing = false; /* any answer will do */
	(void)session_fatal(s, rc);
}

static void
remote_free(struct remote_port *rp)
{
	free(rp->host);
	free(rp);
}

static void
remote_ask(struct session *s, const char *host, int port, void *fwd,
	   enum remote_kind kind)
{
	struct remote_port *rp = xcalloc(1, sizeof(*rp));

	rp->host = xstrdup(host);
	rp->port = port;
	rp->fwd = fwd;
	rp->kind = kind;
	TAILQ_INSERT_TAIL(&s->wanted, rp, link);
	session_kick(s);
}

/* The far side listens, or does not. */
static void
pump_listened(struct session *s, struct remote_port *rp, int port)
{
	if (rp->listener == NULL) {
		if (!pump_error(s) && rp->kind != REMOTE_EXTRA)
			s->cbs->listening(E_DENIED, 0, rp->fwd, s->arg);
		remote_free(rp);
		return;
	}
	rp->port = port;
	TAILQ_INSERT_TAIL(&s->remotes, rp, link);
	if (rp->kind == REMOTE_LOOPBACK)
		remote_ask(s, "::1", port, rp->fwd, REMOTE_EXTRA);
	if (rp->kind == REMOTE_SOCKET)
		port = 0;
	if (rp->kind != REMOTE_EXTRA)
		s->cbs->listening(0, (uint16_t)port, rp->fwd, s->arg);
}

static void
pump_listen(struct session *s)
{
	struct remote_port *rp;
	int port;

	while (s->state == SESSION_UP &&
	       (rp = TAILQ_FIRST(&s->wanted)) != NULL) {
		port = rp->port;
		rp->listener = libssh2_channel_forward_listen_ex(
		    s->ssh, rp->host, rp->port, &port, LISTEN_QUEUE);
		if (rp->listener == NULL &&
		    libssh2_session_last_errno(s->ssh) == LIBSSH2_ERROR_EAGAIN)
			return;
		TAILQ_REMOVE(&s->wanted, rp, link);
		pump_listened(s, rp, port);
	}
}

/*
 * Without an address it is the far loopback, as with ssh (libssh2's NULL would
 * be every address). ssh asks for "localhost" then, and sshd is content when
 * one of 127.0.0.1 and ::1 can be had, so that a port taken on 127.0.0.1 looks
 * like success. So 127.0.0.1 is asked for, and ::1 beside it if possible.
 */
void
session_listen(struct session *s, const struct spec_end *at, void *fwd)
{
	const char *host = at->host;

	if (at->path != NULL)
		remote_ask(s, at->path, FARSOCK_PORT, fwd, REMOTE_SOCKET);
	else if (host == NULL)
		remote_ask(s, "127.0.0.1", at->port, fwd, REMOTE_LOOPBACK);
	else
		remote_ask(s, strcmp(host, "*") == 0 ? "" : host, at->port, fwd,
			   REMOTE_GIVEN);
}

const char *
session_lacks(const struct spec_end *listen)
{
	if (listen->path != NULL && !farsock_works())
		return "this libssh2 cannot listen on a unix socket of the far "
		       "side";
	return NULL;
}

static const char *
open_type(const struct chan *c)
{
	return c->streamlocal ? "direct-streamlocal@openssh.com"
			      : "direct-tcpip";
}

/* Takes in what nobody would read: with no channel at all libssh2 would never
 * look at its input. */
static void
pump_drain(struct session *s)
{
	char junk[512];
	ssize_t n;

	if (s->idle == NULL)
		return;
	do
		n = libssh2_channel_read(s->idle, junk, sizeof(junk));
	while (n > 0);
	if (n < 0)
		(void)session_fatal(s, (int)n);
}

/* Begins to open c, or goes on with it. False while that goes on. */
static bool
pump_open_one(struct session *s, struct chan *c)
{
	const char *type = open_type(c);
	LIBSSH2_CHANNEL *ssh;

	openstate_load(s->ssh, &c->open);
	ssh = libssh2_channel_open_ex(s->ssh, type, (unsigned)strlen(type),
				      CHAN_WINDOW, CHAN_PACKET, c->message,
				      (unsigned)c->message_len);
	if (ssh == NULL &&
	    libssh2_session_last_errno(s->ssh) == LIBSSH2_ERROR_EAGAIN) {
		openstate_save(s->ssh, &c->open);
		return false;
	}
	if (ssh == NULL && pump_error(s))
		return true; /* it is handed back */
	TAILQ_REMOVE(&s->opening, c, link);
	s->nopening--;
	if (ssh != NULL)
		chan_opened(c, ssh);
	else
		chan_failed(c);
	return true;
}

/*
 * libssh2 takes the answer to another channel's opening for a broken one to
 * its own. So all input is read before (pump_drain), and none while it looks:
 * it finds the answer in its queue, or nothing.
 */
static void
pump_open(struct session *s)
{
	unsigned max = s->idle != NULL ? openstate_max() : 1, n = 0;
	struct chan *c, *next;

	if (max > 1)
		pump_drain(s);
	s->deaf = max > 1;
	TAILQ_FOREACH_SAFE(c, &s->opening, link, next)
	{
		if (s->state != SESSION_UP)
			break;
		if (!pump_open_one(s, c) && ++n == max)
			break;
	}
	s->deaf = false;
}

/* The session is dead: nothing can be read, and each attempt ends. */
void
pump_forget(struct session *s)
{
	const char *type;
	struct chan *c, *next;

	TAILQ_FOREACH_SAFE(c, &s->opening, link, next)
	{
		if (c->open == NULL)
			continue;
		type = open_type(c);
		openstate_load(s->ssh, &c->open);
		(void)libssh2_channel_open_ex(
		    s->ssh, type, (unsigned)strlen(type), 0, 0, NULL, 0);
	}
}

static void
pump_accept(struct session *s)
{
	LIBSSH2_CHANNEL *ssh;
	struct remote_port *rp;
	struct chan *c;

	TAILQ_FOREACH(rp, &s->remotes, link)
	{
		while ((ssh = libssh2_channel_forward_accept(rp->listener)) !=
		       NULL) {
			c = chan_new(s);
			c->ssh = ssh;
			c->state = CHAN_ACCEPTED;
			if (s->nchans > CHANS_MAX)
				chan_refuse(c);
			else
				s->cbs->accepted(c, rp->fwd, s->arg);
		}
		if (pump_error(s))
			return;
	}
}

static void
pump_pull(struct session *s)
{
	struct chan *c, *next;

	TAILQ_FOREACH_SAFE(c, &s->chans, all, next)
	{
		chan_pull(c);
		if (c->blocked)
			chan_want_write(c);
		if (s->state != SESSION_UP)
			return;
	}
}

static void
pump_push(struct session *s)
{
	struct chan *c;

	while ((c = TAILQ_FIRST(&s->writing)) != NULL) {
		if (stream_over_high(s->st) || s->state != SESSION_UP)
			return;
		TAILQ_REMOVE(&s->writing, c, link);
		c->writing = false;
		chan_push(c);
	}
}

static void
pump_reap(struct session *s)
{
	struct chan *c, *next;

	TAILQ_FOREACH_SAFE(c, &s->closing, link, next)
	{
		if (s->state != SESSION_UP)
			return;
		(void)chan_reap(c);
	}
}

void
pump_run(struct session *s)
{
	do {
		s->fresh = false;
		pump_probe(s);
		pump_listen(s);
		if (s->state == SESSION_UP && exec_run(s) && pump_idle(s) &&
		    s->state == SESSION_UP)
			pump_open(s);
		if (s->state == SESSION_UP)
			pump_drain(s);
		if (s->state == SESSION_UP)
			pump_accept(s);
		if (s->state == SESSION_UP)
			pump_pull(s);
		if (s->state == SESSION_UP)
			pump_push(s);
		if (s->state == SESSION_UP)
			pump_reap(s);
	} while (s->fresh && s->state == SESSION_UP);
}
