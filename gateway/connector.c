/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each kind of target is a short list of steps (its socket file, then TCP);
 * an attempt walks them until one connects. "Nobody listens" leads to the next
 * step, and after the last one to another attempt, 25 ms later at first and at
 * most 250 ms, as does a server whose backlog is full; everything else is
 * final.
 *
 * A step answers at once or later (E_AGAIN): by the dialer, or by a message
 * with the number of the question. A late answer to a cancelled question finds
 * nobody, and its descriptor is closed.
 */
#include "config.h"

#include "gateway/connector.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "gateway/gwconf.h"
#include "gateway/portlist.h"
#include "gateway/route.h"
#include "gateway/worker.h"
#include "net/addr.h"
#include "net/dialer.h"
#include "net/seqpkt.h"
#include "net/sockdir.h"

#define BACKOFF_FIRST 25
#define BACKOFF_MAX   250

struct connect_step {
	int (*start)(struct connect_req *q, int *fd);
};

/* A control channel to an agent on this machine, or (path NULL) the one to
 * the master; with the questions that wait for an answer there. One to an agent
 * is gone when its channel ends: jobs' agents come and go. */
struct link {
	struct connector *c;
	char *path;
	struct seqpkt *sp; /* NULL: closed */
	struct connect_req *asked, **tail;
};

struct connector {
	struct worker *w;
	struct loop *loop;
	uint64_t n;
	struct hash *links; /* by path */
	struct link master;
	struct log_gate gate;
};

/* --- the end of a wish ------------------------------------------------- */

static void
unask(struct connect_req *q)
{
	struct link *k = q->link;

	if (q->prevp == NULL)
		return;
	*q->prevp = q->next;
	if (q->next != NULL)
		q->next->prevp = q->prevp;
	else
		k->tail = q->prevp;
	q->next = NULL;
	q->prevp = NULL;
	q->n = 0;
}

void
connector_cancel(struct connect_req *q)
{
	if (q->c == NULL)
		return;
	unask(q);
	if (q->dial != NULL)
		dial_cancel(q->dial);
	q->dial = NULL;
	timer_clear(&q->timer);
	q->c = NULL;
}

static void
finish(struct connect_req *q, int err, int fd)
{
	connector_cancel(q);
	q->done(err, fd, q->arg);
}

static int attempt(struct connect_req *q, int *fd);

/* True for what another step or another attempt may overcome. */
static bool
not_now(struct connect_req *q, int err)
{
	if (err == E_BUSY)
		q->busy = true;
	return err == E_REFUSED || err == E_BUSY;
}

/* Takes up the walk after an answer that came later. */
static void
proceed(struct connect_req *q, int err, int fd)
{
	if (not_now(q, err)) {
		q->step++;
		err = attempt(q, &fd);
	}
	if (err != E_AGAIN)
		finish(q, err, fd);
}

/* --- steps ------------------------------------------------------------- */

static void
dialed(int err, int fd, const struct addr *used, void *arg)
{
	struct connect_req *q = arg;

	(void)used;
	q->dial = NULL;
	proceed(q, err, fd);
}

static int
dial_list(struct connect_req *q, struct dial_options *o)
{
	o->timeout_ms = q->timeout_ms;
	o->done = dialed;
	o->arg = q;
	q->dial = dial_start(q->c->loop, o);
	return E_AGAIN;
}

/* TCP on loopback: 127.0.0.1, then ::1 (some servers choose only one). */
static int
step_tcp(struct connect_req *q, int *fd)
{
	struct dial_options o = {.naddrs = 0};
	int v6, r;

	if (q->sb->conf == NULL || !gwconf_port_allowed(q->sb->conf, q->port))
		return E_REFUSED;
	for (v6 = 0; v6 < 2; v6++) {
		struct addr *a = &o.addrs[o.naddrs];

		addr_loopback(a, v6 != 0, q->port);
		r = dial_now(a, fd);
		if (r == 0)
			return 0;
		if (r == E_AGAIN)
			o.naddrs++;
		else if (r != E_REFUSED && r != E_UNREACHABLE)
			return r;
	}
	return o.naddrs > 0 ? dial_list(q, &o) : E_REFUSED;
}

/* The owner that its sockets must have. */
static uid_t
owner_of(const struct gw_sandbox_conf *conf, int dirfd)
{
	struct stat sb;

	if (conf->proxy_uid >= 0)
		return (uid_t)conf->proxy_uid;
	if (conf->proxy_uid == -2)
		return SOCKDIR_ANY_UID;
	/* Not known: then root's, which is nobody's in there. */
	return fstat(dirfd, &sb) == 0 ? sb.st_uid : 0;
}

static int
open_socket(const struct gw_sandbox_conf *conf, uint16_t port, int *fd)
{
	char name[16];
	int dir, r;

	if ((r = sockdir_open_dir(conf->proxy_dir, &dir)) != 0)
		return r == E_NOTFOUND ? E_REFUSED : r;
	(void)snprintf(name, sizeof(name), "%u.sock", port);
	r = sockdir_connect(dir, name, owner_of(conf, dir), fd);
	(void)close(dir);
	if (r == E_AGAIN)
		return E_BUSY; /* its backlog is full */
	return r == E_NOTFOUND ? E_REFUSED : r;
}

static int
ask(struct connect_req *q, struct link *k)
{
	/* A job's agent has nobody else. */
	const char *id = !q->sb->job && q->sb->id[0] != '\0' ? q->sb->id : "-";
	int r;

	if (k->sp == NULL)
		return E_PEER;
	q->n = ++q->c->n;
	if (q->asks_ports)
		r = seqpkt_sendf(k->sp, -1, "ports %" PRIu64 " %s", q->n, id);
	else
		r = seqpkt_sendf(k->sp, -1, "connect %" PRIu64 " %s %u", q->n,
				 id, q->port);
	if (r != 0)
		return r;
	q->link = k;
	q->next = NULL;
	q->prevp = k->tail;
	*k->tail = q;
	k->tail = &q->next;
	timer_set(&q->timer, q->timeout_ms);
	return E_AGAIN;
}

static int
step_socket(struct connect_req *q, int *fd)
{
	struct connector *c = q->c;
	int r;

	if (q->sb->conf == NULL || q->sb->conf->proxy_dir == NULL)
		return E_REFUSED;
	/* Most are ours to open; only what we may not is the master's. */
	r = open_socket(q->sb->conf, q->port, fd);
	if (r != E_DENIED || worker_direct(c->w))
		return r;
	c->master.sp = worker_channel(c->w);
	return ask(q, &c->master);
}

/* An agent's address, "unix:/path" or "tcp:host:port" (numeric). */
static int
step_address(struct connect_req *q, int *fd)
{
	struct dial_options o = {.naddrs = 1};
	int r;

	r = addr_parse(strv_of(q->http), &o.addrs[0]);
	if (r != 0)
		return E_UNREACHABLE;
	r = dial_now(&o.addrs[0], fd);
	if (r == E_NOTFOUND)
		return E_REFUSED;
	return r == E_AGAIN ? dial_list(q, &o) : r;
}

/* --- agents' channels -------------------------------------------------- */

static struct connect_req *
asked_find(struct link *k, uint64_t n)
{
	struct connect_req *q;

	for (q = k->asked; q != NULL && q->n != n;)
		q = q->next;
	return q;
}

static int
fail_code(struct strv code)
{
	static const struct {
		const char *code;
		int err;
	} codes[] = {
	    {"port_not_listening", E_REFUSED},
	    {"no_such_sandbox", E_NOTFOUND},
	    {"denied", E_DENIED},
	    {"limit", E_BUSY},
	    {"timeout", E_TIMEOUT},
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(codes); i++) {
		if (strv_eq(code, strv_of(codes[i].code)))
			return codes[i].err;
	}
	return E_SYS;
}

/* "80 8000 …" */
static void
take_ports(struct connect_req *q, struct strv words)
{
	struct strv word;
	uint16_t port;

	while (strv_cut(&words, ' ', &word)) {
		port = route_port_parse(word);
		if (port != 0 && q->nlistening < CONNECTOR_PORTS)
			q->listening[q->nlistening++] = port;
	}
}

/* `ok <n>` with fd, `ports <n> …`, or `fail <n> <code> <text>`. */
static void
answer(struct link *k, struct strv msg, int fd)
{
	struct strv word = STRV_NULL, num = STRV_NULL, code = STRV_NULL;
	struct connect_req *q = NULL;
	int err = E_SYS;
	uint64_t n;

	(void)strv_cut(&msg, ' ', &word);
	(void)strv_cut(&msg, ' ', &num);
	if (strv_parse_u64(num, UINT64_MAX, true, &n) == 0)
		q = asked_find(k, n);
	if (q != NULL && q->asks_ports && strv_eq(word, STRV("ports"))) {
		take_ports(q, msg);
		fd_close(&fd);
		err = 0;
	} else if (q == NULL || !strv_eq(word, STRV("ok"))) {
		fd_close(&fd);
		(void)strv_cut(&msg, ' ', &code);
		err = fail_code(code);
	} else if (fd >= 0) {
		err = 0;
	}
	if (q == NULL)
		return;
	unask(q);
	timer_stop(&q->timer);
	proceed(q, err, fd);
}

static void
link_message(struct seqpkt *sp, struct strv msg, int fd, void *arg)
{
	(void)sp;
	answer(arg, msg, fd);
}

/* It broke, or never came about: whoever asked is told. */
static void
link_end(struct link *k)
{
	struct connect_req *q;

	(void)hash_del(k->c->links, strv_of(k->path));
	if (k->sp != NULL)
		seqpkt_close(k->sp);
	k->sp = NULL;
	while ((q = k->asked) != NULL) {
		unask(q);
		finish(q, E_PEER, -1);
	}
	free(k->path);
	loop_defer_free(k->c->loop, k, NULL);
}

static void
link_closed(struct seqpkt *sp, void *arg)
{
	(void)sp;
	link_end(arg);
}

static const struct seqpkt_cbs link_cbs = {.message = link_message,
					   .closed = link_closed};

static void
link_init(struct link *k, struct connector *c)
{
	k->c = c;
	k->tail = &k->asked;
}

/* The channel at path; NULL: nobody is there. */
static struct link *
link_get(struct connector *c, const char *path)
{
	struct link *k = hash_get(c->links, strv_of(path));
	unsigned held;
	int fd, r;

	if (k != NULL)
		return k;
	if ((r = seqpkt_connect(path, &fd)) != 0) {
		if (log_gate_pass(&c->gate, 1, &held))
			log_warn("agent.control", "path=%s err=%s more=%u",
				 path, err_text(r), held);
		return NULL;
	}
	k = xcalloc(1, sizeof(*k));
	link_init(k, c);
	k->path = xstrdup(path);
	k->sp = seqpkt_take_fd(c->loop, fd, &link_cbs, k);
	(void)hash_set(c->links, strv_of(k->path), k);
	return k;
}

/* Of the agent that can give descriptors to its ports; NULL: none. */
static const char *
control_of(const struct route_sandbox *sb)
{
	if (sb->job)
		return sb->control;
	return sb->agent != NULL ? sb->agent->control : NULL;
}

static int
step_agent(struct connect_req *q, int *fd)
{
	const char *path = control_of(q->sb);
	struct link *k;

	(void)fd;
	if (path == NULL || (k = link_get(q->c, path)) == NULL)
		return E_PEER; /* it has moved away, or ended meanwhile */
	return ask(q, k);
}

/* --- attempts ---------------------------------------------------------- */

static const struct connect_step steps_conf[] = {
    {step_socket}, {step_tcp}, {NULL}};
static const struct connect_step steps_agent[] = {{step_agent}, {NULL}};
static const struct connect_step steps_address[] = {{step_address}, {NULL}};

/* Walks on from q->step. E_AGAIN: something is under way. */
static int
attempt(struct connect_req *q, int *fd)
{
	uint64_t now, left, until;
	int r;

	for (; q->steps[q->step].start != NULL; q->step++) {
		r = q->steps[q->step].start(q, fd);
		if (!not_now(q, r))
			return r;
	}
	now = loop_now_ms(q->c->loop);
	until = q->busy ? q->give_up_busy_ms : q->give_up_ms;
	if (now >= until)
		return q->busy ? E_TIMEOUT : E_REFUSED;
	left = until - now;
	timer_set(&q->timer, q->backoff_ms < left ? q->backoff_ms : left);
	q->backoff_ms *= 2;
	if (q->backoff_ms > BACKOFF_MAX)
		q->backoff_ms = BACKOFF_MAX;
	return E_AGAIN;
}

/* Time for the next attempt, or an answer that did not come. */
static void
timer_cb(void *arg)
{
	struct connect_req *q = arg;
	int fd = -1, r;

	if (q->n != 0) {
		finish(q, E_TIMEOUT, -1);
		return;
	}
	q->step = 0;
	q->busy = false;
	r = attempt(q, &fd);
	if (r != E_AGAIN)
		finish(q, r, r == 0 ? fd : -1);
}

bool
connector_reaches(const struct route_sandbox *sb)
{
	return sb->conf != NULL || control_of(sb) != NULL;
}

int
connector_ports(struct connector *c, struct connect_req *q)
{
	int fd = -1, r;

	q->asks_ports = true;
	q->nlistening = 0;
	if (q->sb->conf != NULL) {
		q->nlistening =
		    portlist_conf(q->sb->conf, q->listening, CONNECTOR_PORTS);
		return 0;
	}
	q->wait_ms = 0;
	r = connector_start(c, q, &fd);
	fd_close(&fd);
	return r;
}

int
connector_start(struct connector *c, struct connect_req *q, int *fd)
{
	int r;

	q->c = c;
	q->step = 0;
	q->backoff_ms = BACKOFF_FIRST;
	q->give_up_ms = loop_now_ms(c->loop) + q->wait_ms;
	q->give_up_busy_ms = loop_now_ms(c->loop) + q->timeout_ms;
	if (q->give_up_busy_ms < q->give_up_ms)
		q->give_up_busy_ms = q->give_up_ms;
	timer_init(&q->timer, c->loop, timer_cb, q);
	if (q->port == 0)
		q->steps = steps_address;
	else if (q->sb->conf != NULL)
		q->steps = steps_conf;
	else
		q->steps = steps_agent;
	r = attempt(q, fd);
	if (r != E_AGAIN)
		connector_cancel(q);
	return r;
}

void
connector_text(const struct connect_req *q, char *buf, size_t n)
{
	const struct gw_sandbox_conf *conf = q->port != 0 ? q->sb->conf : NULL;

	if (q->port == 0)
		(void)snprintf(buf, n, "%s", q->http);
	else if (conf == NULL)
		(void)snprintf(buf, n, "agent:%s:%u", q->sb->id, q->port);
	else if (q->step == 0)
		(void)snprintf(buf, n, "unix:%s/%u.sock", conf->proxy_dir,
			       q->port);
	else
		(void)snprintf(buf, n, "tcp:localhost:%u", q->port);
}

void
connector_message(struct connector *c, struct strv msg, int fd)
{
	answer(&c->master, msg, fd);
}

struct connector *
connector_new(struct worker *w)
{
	struct connector *c = xcalloc(1, sizeof(*c));

	c->w = w;
	c->loop = worker_loop(w);
	c->links = hash_new();
	link_init(&c->master, c);
	return c;
}

void
connector_free(struct connector *c)
{
	struct link *k;
	size_t pos;

	if (c == NULL)
		return;
	assert(c->master.asked == NULL);
	for (pos = 0; (k = hash_next(c->links, &pos, NULL)) != NULL; pos = 0) {
		assert(k->asked == NULL);
		link_end(k);
	}
	hash_free(c->links);
	free(c);
}
