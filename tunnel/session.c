/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of one SSH connection: libssh2's callbacks, its end, keep-alive
 * probes. Setting it up is setup.c's, the work while it is up pump.c's.
 */
#include "config.h"

#include "tunnel/session.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "tunnel/auth.h"
#include "tunnel/openstate.h"
#include "tunnel/options.h"
#include "tunnel/session_int.h"

#define ALIVE_SLACK_MS 20 /* the clock is coarse */
#define OPEN_TIMEOUT_S 180
#define FREE_TRIES     1000 /* libssh2_session_free() says EAGAIN now and then */

static struct session *
session_of(void *arg)
{
	struct session *s = arg;

	assert(s->magic == SESSION_MAGIC);
	return s;
}

/* --- libssh2's callbacks ------------------------------------------------ */

/* libssh2 talks to the agent through these callbacks as well. */
static ssize_t
session_result(ssize_t n)
{
	return n < 0 ? -errno : n;
}

static ssize_t
session_send_cb(libssh2_socket_t fd, const void *p, size_t n, int flags,
		void **abstract)
{
	struct session *s = session_of(*abstract);

	if (fd != stream_fd(s->st) && !s->dead)
		return session_result(send(fd, p, n, flags | MSG_NOSIGNAL));
	if (!s->dead)
		bufq_add(stream_output(s->st), p, n);
	return (ssize_t)n;
}

static ssize_t
session_recv_cb(libssh2_socket_t fd, void *p, size_t n, int flags,
		void **abstract)
{
	struct session *s = session_of(*abstract);
	struct bufq *in;
	size_t got;

	if (s->dead)
		return 0;
	if (fd != stream_fd(s->st))
		return session_result(recv(fd, p, n, flags));
	in = stream_input(s->st);
	if (s->deaf)
		return -EAGAIN;
	if (in->len == 0)
		return stream_eof(s->st) ? 0 : -EAGAIN;
	got = bufq_copy_out(in, p, n);
	bufq_drain(in, got);
	s->fresh = true;
	return (ssize_t)got;
}

static void
session_callbacks(struct session *s)
{
#if LIBSSH2_VERSION_NUM >= 0x010b01
	libssh2_session_callback_set2(s->ssh, LIBSSH2_CALLBACK_SEND,
				      (libssh2_cb_generic *)session_send_cb);
	libssh2_session_callback_set2(s->ssh, LIBSSH2_CALLBACK_RECV,
				      (libssh2_cb_generic *)session_recv_cb);
#else
	union {
		ssize_t (*send)(libssh2_socket_t, const void *, size_t, int,
				void **);
		ssize_t (*recv)(libssh2_socket_t, void *, size_t, int, void **);
		void *p;
	} u;

	u.send = session_send_cb;
	libssh2_session_callback_set(s->ssh, LIBSSH2_CALLBACK_SEND, u.p);
	u.recv = session_recv_cb;
	libssh2_session_callback_set(s->ssh, LIBSSH2_CALLBACK_RECV, u.p);
#endif
}

/* --- its end ------------------------------------------------------------ */

void
session_fail(struct session *s, enum session_end end, const char *text)
{
	if (s->state >= SESSION_DOWN)
		return;
	s->state = SESSION_DOWN;
	s->end = end;
	s->end_text = xstrdup(text);
	task_post(s->loop, &s->task);
}

bool
session_fatal(struct session *s, int rc)
{
	char *msg = NULL;

	switch (rc) {
	case 0:
	case LIBSSH2_ERROR_EAGAIN:
	case LIBSSH2_ERROR_CHANNEL_FAILURE:
	case LIBSSH2_ERROR_CHANNEL_UNKNOWN:
	case LIBSSH2_ERROR_CHANNEL_CLOSED:
	case LIBSSH2_ERROR_CHANNEL_EOF_SENT:
	case LIBSSH2_ERROR_CHANNEL_PACKET_EXCEEDED:
	case LIBSSH2_ERROR_CHANNEL_WINDOW_EXCEEDED:
	case LIBSSH2_ERROR_CHANNEL_WINDOW_FULL:
	case LIBSSH2_ERROR_CHANNEL_REQUEST_DENIED:
	case LIBSSH2_ERROR_REQUEST_DENIED:
	case LIBSSH2_ERROR_TIMEOUT:
		return false;
	}
	libssh2_session_last_error(s->ssh, &msg, NULL, 0);
	log_debug("session.fatal", "rc=%d text=%s", rc, log_esc(strv_of(msg)));
	if (rc == LIBSSH2_ERROR_SOCKET_DISCONNECT ||
	    rc == LIBSSH2_ERROR_SOCKET_RECV)
		msg = NULL;
	session_fail(s, SESSION_END_LOST,
		     msg != NULL && *msg != '\0'
			 ? msg
			 : "Connection closed by remote host");
	return true;
}

/* Who came at the wrong moment waits with the others. */
static void
session_hand_back(struct session *s)
{
	const struct spec_end *target;
	struct chan *c;

	s->dead = true;
	pump_forget(s);
	while ((c = TAILQ_FIRST(&s->opening)) != NULL) {
		target = c->target;
		s->cbs->unopened(target, chan_unqueue(c), s->arg);
	}
}

static void
session_task_cb(void *arg)
{
	struct session *s = session_of(arg);

	if (s->state == SESSION_DOWN) {
		session_hand_back(s);
		s->cbs->down(s->end, s->end_text, s->arg);
		return;
	}
	session_run(s);
}

void
session_kick(struct session *s)
{
	task_post(s->loop, &s->task);
}

static void
session_destroy(void *arg)
{
	struct session *s = arg;

	s->magic = 0;
	free(s->end_text);
	free(s);
}

static void
session_free_remotes(struct remote_list *l)
{
	struct remote_port *rp;

	while ((rp = TAILQ_FIRST(l)) != NULL) {
		TAILQ_REMOVE(l, rp, link);
		free(rp->host);
		free(rp);
	}
}

static void
session_free_ssh(struct session *s)
{
	struct chan *c, *next;

	s->dead = true;
	pump_forget(s);
	TAILQ_FOREACH_SAFE(c, &s->chans, all, next)
	chan_abort(c);
	auth_try_free(s->try);
	s->try = NULL;
	if (s->ssh == NULL)
		return;
	for (int i = 0; i < FREE_TRIES; i++)
		if (libssh2_session_free(s->ssh) != LIBSSH2_ERROR_EAGAIN)
			break;
	s->ssh = NULL;
}

void
session_close(struct session *s)
{
	if (s == NULL || s->state == SESSION_CLOSED)
		return;
	session_free_ssh(s);
	s->state = SESSION_CLOSED;
	stream_close(s->st);
	session_free_remotes(&s->wanted);
	session_free_remotes(&s->remotes);
	exec_free(s->exec);
	task_cancel(&s->task);
	timer_clear(&s->alive);
	timer_clear(&s->setup);
	loop_defer_free(s->loop, s, session_destroy);
}

void
session_goodbye(struct session *s)
{
	if (s == NULL || s->state >= SESSION_DOWN || s->ssh == NULL)
		return;
	(void)libssh2_session_disconnect(s->ssh, "disconnected by user");
	stream_flush(s->st);
}

/* --- keep-alive --------------------------------------------------------- */

static void
session_setup_cb(void *arg)
{
	struct session *s = session_of(arg);
	char *text;

	text = xasprintf("Connection to %s port %u timed out",
			 options_host(s->o), options_port(s->o));
	session_fail(s, SESSION_END_TIMEOUT, text);
	free(text);
}

/* Without the idle channel there is only the global request. Its answer stays
 * in libssh2's queue, a few bytes each: that is what a server without session
 * channels costs. */
static void
session_probe(struct session *s)
{
	int next;

	if (s->idle != NULL) {
		s->probing = true;
		session_kick(s);
		return;
	}
	libssh2_keepalive_config(s->ssh, 1, 1);
	if (!session_fatal(s, libssh2_keepalive_send(s->ssh, &next)))
		stream_flush(s->st);
}

/* Times count from the last byte, so that the limit is kept to the second. */
static void
session_alive_cb(void *arg)
{
	struct session *s = session_of(arg);
	uint64_t every = s->o->alive_interval * 1000;
	uint64_t limit = every * (s->o->alive_max > 1 ? s->o->alive_max : 2);
	uint64_t now = loop_now_ms(s->loop), silent;
	char *text;

	if (s->state >= SESSION_DOWN)
		return;
	if (now - s->tick_ms > 2 * every)
		s->rx_ms = now; /* it was us who did not run */
	s->tick_ms = now;
	silent = now - s->rx_ms;
	if (silent + ALIVE_SLACK_MS >= limit) {
		text =
		    xasprintf("Timeout, server %s not responding.", s->o->host);
		session_fail(s, SESSION_END_TIMEOUT, text);
		free(text);
		return;
	}
	if (silent + ALIVE_SLACK_MS < every) {
		timer_set(&s->alive, every - silent);
		return;
	}
	if (s->state == SESSION_UP)
		session_probe(s);
	timer_set(&s->alive, every);
}

/* --- the stream --------------------------------------------------------- */

void
session_run(struct session *s)
{
	if (s->running || s->state >= SESSION_DOWN)
		return;
	s->running = true;
	/* libssh2 may say EAGAIN with input left to take. */
	do {
		s->fresh = false;
		setup_run(s);
	} while (s->fresh && s->state < SESSION_UP);
	if (s->state == SESSION_UP)
		pump_run(s);
	s->running = false;
	if (s->state == SESSION_UP && s->cbs->load != NULL)
		s->cbs->load(s->arg);
	if (s->state < SESSION_DOWN && stream_eof(s->st) &&
	    stream_input(s->st)->len == 0)
		session_fail(s,
			     s->state == SESSION_UP ? SESSION_END_LOST
						    : SESSION_END_HANDSHAKE,
			     s->state == SESSION_UP
				 ? "Connection closed by remote host"
				 : "kex_exchange_identification: Connection "
				   "closed by remote host");
	stream_flush(s->st);
	stream_resume(s->st);
}

static void
session_readable(struct stream *st, void *arg)
{
	struct session *s = session_of(arg);

	(void)st;
	s->rx_ms = loop_now_ms(s->loop);
	session_run(s);
}

static void
session_drained(struct stream *st, void *arg)
{
	(void)st;
	session_run(session_of(arg));
}

static void
session_eof(struct stream *st, void *arg)
{
	(void)st;
	session_run(session_of(arg));
}

static void
session_error(struct stream *st, int err, void *arg)
{
	struct session *s = session_of(arg);
	enum session_end end = SESSION_END_LOST;
	char *text;

	(void)st;
	if (s->state < SESSION_UP)
		end = SESSION_END_HANDSHAKE;
	if (err == E_TIMEOUT) {
		end = SESSION_END_TIMEOUT;
		text =
		    xasprintf("Timeout, server %s not responding.", s->o->host);
	} else {
		text = xstrdup(err == E_PEER ? "Connection reset by peer"
					     : err_text(err));
	}
	session_fail(s, end, text);
	free(text);
}

static const struct stream_cbs session_stream_cbs = {
    .readable = session_readable,
    .drained = session_drained,
    .eof = session_eof,
    .error = session_error,
};

static void
session_tune(struct session *s)
{
	unsigned ms;

	stream_tune_tcp(s->st);
	stream_set_high(s->st, SESSION_HIGH);
	stream_set_input_limit(s->st, SESSION_INPUT);
	if (s->o->alive_interval == 0)
		return;
	ms = (unsigned)(s->o->alive_interval * (s->o->alive_max + 1) * 1000);
	(void)!setsockopt(stream_fd(s->st), IPPROTO_TCP, TCP_USER_TIMEOUT, &ms,
			  sizeof(ms));
}

struct session *
session_take_fd(struct loop *l, int fd, const struct options *o,
		const struct auth *auth, const struct session_cbs *cbs,
		void *arg)
{
	struct session *s = xcalloc(1, sizeof(*s));

	s->magic = SESSION_MAGIC;
	s->loop = l;
	s->o = o;
	s->auth = auth;
	s->cbs = cbs;
	s->arg = arg;
	TAILQ_INIT(&s->chans);
	TAILQ_INIT(&s->opening);
	TAILQ_INIT(&s->writing);
	TAILQ_INIT(&s->closing);
	TAILQ_INIT(&s->wanted);
	TAILQ_INIT(&s->remotes);
	task_init(&s->task, session_task_cb, s);
	timer_init(&s->alive, l, session_alive_cb, s);
	timer_init(&s->setup, l, session_setup_cb, s);
	s->st = stream_take_fd(l, fd, &session_stream_cbs, s);
	session_tune(s);
	s->ssh = libssh2_session_init_ex(NULL, NULL, NULL, s);
	if (s->ssh == NULL)
		log_fatal("session", "libssh2 cannot make a session");
	libssh2_session_set_blocking(s->ssh, 0);
#if LIBSSH2_VERSION_NUM >= 0x010b00
	/* The far side gives up a target first, and says so. */
	libssh2_session_set_read_timeout(s->ssh, OPEN_TIMEOUT_S);
#endif
	session_callbacks(s);
	setup_methods(s);
	s->rx_ms = s->tick_ms = loop_now_ms(l);
	timer_set(&s->setup, o->connect_timeout * 1000);
	if (o->alive_interval != 0)
		timer_set(&s->alive, o->alive_interval * 1000);
	session_kick(s);
	return s;
}

bool
session_is_up(const struct session *s)
{
	return s != NULL && s->state == SESSION_UP;
}

unsigned
session_channels(const struct session *s)
{
	return s != NULL ? s->nchans : 0;
}

unsigned
session_opening(const struct session *s)
{
	return s != NULL ? s->nopening : 0;
}

const char *
session_library(void)
{
	return openstate_max() > 1 ? "libssh2 " LIBSSH2_VERSION
				   : "libssh2 " LIBSSH2_VERSION
				     ", opens one channel at a time";
}
