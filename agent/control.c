/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control channel. Watchers are told of sandboxes as they come and go,
 * from the host's own events, so before the HTTP answer that made them. A
 * watcher that does not read loses its channel; it comes back and is told all.
 */
#include "config.h"

#include "agent/control.h"

#include <stdlib.h>
#include <unistd.h>

#include "agent/host.h"
#include "agent/portscan.h"
#include "agent/reach.h"
#include "agent/work.h"
#include "base/err.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/dialer.h"
#include "net/listener.h"
#include "net/loop.h"
#include "net/seqpkt.h"

#define CONTROL_DIALS   256 /* of one peer, under way */
#define CONTROL_DIAL_MS 3000
#define CONTROL_ASKS    64

/* A connection in the making: by TCP, or to a socket file. */
struct control_dial {
	struct control_conn *cc;
	struct control_dial *next, **prevp;
	struct dial *dial;
	struct reach *reach;
	struct sandbox *sb;
	uint16_t port;
	uint64_t n; /* what it answers */
};

/* What listens, being found out. */
struct control_ask {
	struct work_job job;
	struct control_conn *cc; /* NULL: it has gone, or has its answer */
	struct control_ask *next, **prevp;
	struct sandbox *sb; /* its lane ends before it does */
	uint64_t n;         /* what it answers */
	int result;
	struct portscan_own own;
	struct portscan scan;
};

struct control_conn {
	struct control *control;
	struct control_conn *next;
	struct control_conn **prevp;
	struct seqpkt *sp;
	bool may_watch;
	bool watches;
	struct host_observer observer;
	struct control_dial *dials;
	unsigned ndials;
	struct control_ask *asks;
	unsigned nasks;
};

struct control {
	struct loop *loop;
	struct host *host;
	struct sandbox *root;
	const struct portscan_own *own;
	char *path;
	bool given; /* the socket was: whoever made it says who may */
	uid_t uid;
	struct listener *listener;
	struct control_conn *conns;
};

static void
control_dial_free(struct control_dial *d)
{
	*d->prevp = d->next;
	if (d->next != NULL)
		d->next->prevp = d->prevp;
	d->cc->ndials--;
	free(d);
}

static void
control_close(struct control_conn *cc)
{
	struct control_dial *next;

	for (struct control_dial *d = cc->dials; d != NULL; d = next) {
		next = d->next;
		if (d->dial != NULL)
			dial_cancel(d->dial);
		reach_cancel(d->reach);
		free(d);
	}
	cc->dials = NULL;
	for (; cc->asks != NULL; cc->asks = cc->asks->next)
		cc->asks->cc = NULL; /* freed when its job is over */
	if (cc->watches)
		host_unobserve(&cc->observer);
	*cc->prevp = cc->next;
	if (cc->next != NULL)
		cc->next->prevp = cc->prevp;
	seqpkt_close(cc->sp);
	loop_defer_free(cc->control->loop, cc, NULL);
}

/* True when it was taken; else the peer is stuck and is let go. */
static bool
control_sent(struct control_conn *cc, int err)
{
	if (err == 0)
		return true;
	log_warn("control.stuck", "error=\"%s\"", err_text(err));
	control_close(cc);
	return false;
}

/* --- what happens ------------------------------------------------------ */

static int
control_say(struct control_conn *cc, const struct sandbox *sb)
{
	return seqpkt_sendf(cc->sp, -1, "sandbox %s %llu %ld %s", sb->id,
			    (unsigned long long)sb->generation,
			    sb->uid == SANDBOX_NO_UID ? (long)geteuid()
						      : (long)sb->uid,
			    sb->token);
}

static void
control_created(struct host_observer *o, const struct sandbox *sb)
{
	struct control_conn *cc =
	    CONTAINER_OF(o, struct control_conn, observer);

	(void)control_sent(cc, control_say(cc, sb));
}

static void
control_gone(struct host_observer *o, const struct sandbox *sb,
	     const char *reason)
{
	struct control_conn *cc =
	    CONTAINER_OF(o, struct control_conn, observer);

	(void)control_sent(
	    cc, seqpkt_sendf(cc->sp, -1, "gone %s %llu %s", sb->id,
			     (unsigned long long)sb->generation, reason));
}

/* --- what is asked ----------------------------------------------------- */

static int
control_fail(struct control_conn *cc, uint64_t n, const char *code,
	     const char *text)
{
	return seqpkt_sendf(cc->sp, -1, "fail %llu %s %s",
			    (unsigned long long)n, code, text);
}

static int
control_watch(struct control_conn *cc, uint64_t n)
{
	struct host *h = cc->control->host;
	struct sandbox *sb = h != NULL ? host_next(h, NULL) : NULL;
	int r = 0;

	if (!cc->may_watch)
		return control_fail(cc, n, "denied", "only root may watch");
	for (; r == 0 && sb != NULL; sb = host_next(h, sb))
		r = control_say(cc, sb);
	if (r != 0)
		return r;
	if (h != NULL && !cc->watches) {
		cc->watches = true;
		cc->observer.created = control_created;
		cc->observer.gone = control_gone;
		host_observe(h, &cc->observer);
	}
	return seqpkt_sendf(cc->sp, -1, "synced %llu", (unsigned long long)n);
}

static int
control_connect_error(struct control_conn *cc, uint64_t n, int err)
{
	switch (err) {
	case E_NOTFOUND:
	case E_REFUSED:
	case E_UNREACHABLE:
		return control_fail(cc, n, "port_not_listening", err_text(err));
	case E_DENIED:
		return control_fail(cc, n, "denied", err_text(err));
	case E_AGAIN:
	case E_TIMEOUT: /* of TCP on the loopback */
		return control_fail(cc, n, "limit", "its backlog is full");
	}
	return control_fail(cc, n, "error", err_text(err));
}

/* fd is ours. */
static int
control_hand_over(struct control_conn *cc, uint64_t n, struct sandbox *sb,
		  int fd)
{
	int r = seqpkt_sendf(cc->sp, fd, "ok %llu", (unsigned long long)n);

	lent_add(&sb->lent, fd);
	fd_close(&fd);
	sb->active_ms = loop_now_ms(cc->control->loop);
	if (sb->host != NULL && sb->idle_ms != 0)
		timer_set(&sb->timer, sandbox_look_ms(sb->idle_ms));
	return r;
}

static struct control_dial *
control_dial_new(struct control_conn *cc, uint64_t n, struct sandbox *sb,
		 uint16_t port)
{
	struct control_dial *d = xcalloc(1, sizeof(*d));

	d->cc = cc;
	d->n = n;
	d->sb = sb;
	d->port = port;
	d->prevp = &cc->dials;
	if ((d->next = cc->dials) != NULL)
		d->next->prevp = &d->next;
	cc->dials = d;
	cc->ndials++;
	return d;
}

static void
control_dialed(int err, int fd, const struct addr *used, void *arg)
{
	struct control_dial *d = arg;
	struct control_conn *cc = d->cc;
	struct sandbox *sb = d->sb;
	uint64_t n = d->n;

	(void)used;
	control_dial_free(d);
	(void)control_sent(cc, err == 0 ? control_hand_over(cc, n, sb, fd)
					: control_connect_error(cc, n, err));
}

/* Dedicated mode: a server on TCP, on one family only perhaps. */
static void
control_dial(struct control_dial *d)
{
	struct dial_options o = {
	    .naddrs = 2,
	    .timeout_ms = CONTROL_DIAL_MS,
	    .done = control_dialed,
	    .arg = d,
	};

	addr_loopback(&o.addrs[0], false, d->port);
	addr_loopback(&o.addrs[1], true, d->port);
	d->dial = dial_start(d->cc->control->loop, &o);
}

static void
control_reached(int err, int fd, void *arg)
{
	struct control_dial *d = arg;

	d->reach = NULL;
	if (err == E_UNSUPPORTED)
		control_dial(d);
	else
		control_dialed(err, fd, NULL, d);
}

/* "-" is the one sandbox of a dedicated agent. */
static struct sandbox *
control_find(struct control_conn *cc, struct strv id)
{
	struct control *c = cc->control;

	if (c->host != NULL)
		return host_find(c->host, id);
	return strv_eq(id, STRV("-")) ? c->root : NULL;
}

static int
control_connect(struct control_conn *cc, uint64_t n, struct strv rest)
{
	struct control_dial *d;
	struct sandbox *sb;
	uint64_t port;
	struct strv id;
	int fd = -1, r;

	if (!strv_cut(&rest, ' ', &id) ||
	    strv_parse_u64(rest, 65535, true, &port) != 0 || port == 0)
		return control_fail(cc, n, "error", "malformed");
	if ((sb = control_find(cc, id)) == NULL)
		return control_fail(cc, n, "no_such_sandbox",
				    "no such sandbox");
	r = sandbox_connect(sb, (uint16_t)port, &fd);
	if (r == 0)
		return control_hand_over(cc, n, sb, fd);
	if (r != E_UNSUPPORTED && r != E_BUSY)
		return control_connect_error(cc, n, r);
	if (cc->ndials >= CONTROL_DIALS)
		return control_fail(cc, n, "limit",
				    "too many connections under way");
	d = control_dial_new(cc, n, sb, (uint16_t)port);
	if (r == E_BUSY)
		d->reach = reach_start(sb, (uint16_t)port, control_reached, d);
	else
		control_dial(d);
	return 0;
}

static void
control_port_cb(uint16_t port, void *arg)
{
	portscan_add_unix(arg, port);
}

static int
control_say_ports(struct control_conn *cc, uint64_t n, struct portscan *s)
{
	struct strbuf b = {0};
	int r;

	portscan_sort(s);
	strbuf_addf(&b, "ports %llu", (unsigned long long)n);
	for (size_t i = 0; i < s->n; i++) {
		if (i == 0 || s->v[i].port != s->v[i - 1].port)
			strbuf_addf(&b, " %u", s->v[i].port);
	}
	r = seqpkt_send(cc->sp, (struct strv){b.s, b.len}, -1);
	strbuf_clear(&b);
	return r;
}

/* On a thread: a directory may be long, and a disk slow. */
static void
control_ask_job(struct work_job *j)
{
	struct control_ask *k = CONTAINER_OF(j, struct control_ask, job);

	k->result = sandbox_ports(k->sb, control_port_cb, &k->scan);
	if (k->sb->host == NULL)
		portscan_tcp(&k->scan, &k->own);
}

/* The ask is not the channel's any more. */
static struct control_conn *
control_ask_leave(struct control_ask *k)
{
	struct control_conn *cc = k->cc;

	if (cc == NULL)
		return NULL;
	*k->prevp = k->next;
	if (k->next != NULL)
		k->next->prevp = k->prevp;
	cc->nasks--;
	k->cc = NULL;
	return cc;
}

static void
control_ask_done(struct work_job *j)
{
	struct control_ask *k = CONTAINER_OF(j, struct control_ask, job);
	struct control_conn *cc = control_ask_leave(k);
	int r = j->ran ? k->result : E_AGAIN;

	if (cc == NULL) {
		free(k);
		return;
	}
	if (r == 0 || r == E_NOTFOUND || r == E_UNSUPPORTED)
		r = control_say_ports(cc, k->n, &k->scan);
	else
		r = control_fail(cc, k->n, "error", err_text(r));
	free(k);
	(void)control_sent(cc, r);
}

static void
control_ask_late(struct work_job *j)
{
	struct control_ask *k = CONTAINER_OF(j, struct control_ask, job);
	struct control_conn *cc = control_ask_leave(k);

	if (cc != NULL)
		(void)control_sent(cc, control_fail(cc, k->n, "error",
						    "the disk does not "
						    "answer"));
}

static int
control_ports(struct control_conn *cc, uint64_t n, struct strv id)
{
	struct sandbox *sb = control_find(cc, id);
	struct control_ask *k;

	if (sb == NULL)
		return control_fail(cc, n, "no_such_sandbox",
				    "no such sandbox");
	if (cc->nasks >= CONTROL_ASKS)
		return control_fail(cc, n, "limit", "too many asks under way");
	k = xcalloc(1, sizeof(*k));
	k->cc = cc;
	k->sb = sb;
	k->n = n;
	if (cc->control->own != NULL)
		k->own = *cc->control->own;
	k->job.fn = control_ask_job;
	k->job.done = control_ask_done;
	k->job.late = control_ask_late;
	k->job.uid = sb->uid;
	k->prevp = &cc->asks;
	if ((k->next = cc->asks) != NULL)
		k->next->prevp = &k->next;
	cc->asks = k;
	cc->nasks++;
	work_submit(&sb->files, &k->job);
	return 0;
}

static int
control_obey(struct control_conn *cc, struct strv msg)
{
	struct strv verb, number;
	uint64_t n;

	if (!strv_cut(&msg, ' ', &verb) || !strv_cut(&msg, ' ', &number) ||
	    strv_parse_u64(number, UINT64_MAX, true, &n) != 0)
		return E_PROTO;
	if (strv_eq(verb, STRV("watch")))
		return control_watch(cc, n);
	if (strv_eq(verb, STRV("sync")))
		return seqpkt_sendf(cc->sp, -1, "synced %llu",
				    (unsigned long long)n);
	if (strv_eq(verb, STRV("connect")))
		return control_connect(cc, n, msg);
	if (strv_eq(verb, STRV("ports")))
		return control_ports(cc, n, msg);
	return control_fail(cc, n, "error", "no such message");
}

static void
control_message_cb(struct seqpkt *sp, struct strv msg, int fd, void *arg)
{
	struct control_conn *cc = arg;

	(void)sp;
	fd_close(&fd);
	(void)control_sent(cc, control_obey(cc, msg));
}

static void
control_closed_cb(struct seqpkt *sp, void *arg)
{
	(void)sp;
	control_close(arg);
}

/* --- who --------------------------------------------------------------- */

static void
control_accepted(int fd, const struct addr *peer, void *arg)
{
	static const struct seqpkt_cbs cbs = {control_message_cb,
					      control_closed_cb};
	struct control *c = arg;
	struct control_conn *cc = xcalloc(1, sizeof(*cc));
	uid_t uid;
	pid_t pid;

	(void)peer;
	cc->sp = seqpkt_take_fd(c->loop, fd, &cbs, cc);
	if (seqpkt_peer(cc->sp, &uid, &pid) != 0)
		uid = (uid_t)-1;
	cc->may_watch = c->given || uid == 0 || uid == geteuid();
	if (uid == (uid_t)-1 || (!cc->may_watch && uid != c->uid)) {
		log_warn("control.denied", "uid=%ld", (long)uid);
		seqpkt_close(cc->sp);
		free(cc);
		return;
	}
	cc->control = c;
	cc->prevp = &c->conns;
	if ((cc->next = c->conns) != NULL)
		cc->next->prevp = &cc->next;
	c->conns = cc;
}

static int
control_fd(const struct control_options *o, int *fd)
{
	uint64_t n;

	if (*o->path == '/')
		return seqpkt_bind(o->path, 0660, o->uid, (gid_t)-1, fd);
	if (strv_parse_u64(strv_of(o->path + 3), 1023, true, &n) != 0 || n < 3)
		return E_INVALID;
	*fd = (int)n;
	return fd_set_nonblock(*fd);
}

int
control_new(const struct control_options *o, struct control **out, char **why)
{
	struct control *c;
	int fd, r;

	if ((r = control_fd(o, &fd)) != 0) {
		*why = xasprintf("SBX_CONTROL: %s: %s", o->path, err_text(r));
		return r;
	}
	c = xcalloc(1, sizeof(*c));
	c->loop = o->loop;
	c->host = o->host;
	c->root = o->root;
	c->own = o->own;
	c->uid = o->uid;
	c->path = xstrdup(o->path);
	c->given = *o->path != '/';
	c->listener = listener_take_fd(o->loop, fd, control_accepted, c);
	*out = c;
	return 0;
}

void
control_free(struct control *c)
{
	if (c == NULL)
		return;
	listener_close(c->listener);
	while (c->conns != NULL)
		control_close(c->conns);
	if (!c->given)
		(void)unlink(c->path);
	free(c->path);
	free(c);
}
