/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints outside for a job; see the header. */
#include "config.h"

#include "agent/jobout.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "net/addr.h"
#include "net/dialer.h"
#include "net/listener.h"
#include "net/loop.h"
#include "net/relay.h"
#include "net/stream.h"

#define CONNS_MAX 256 /* at each endpoint; others wait in its backlog */
#define DIAL_MS   10000

struct end;

struct conn {
	struct conn *next, **prevp;
	struct end *end;
	int fd; /* the job's, until there is a relay */
	struct dial *dial;
	struct relay *relay;
};

struct end {
	struct end *next;
	struct jobout *all;
	struct listener *ls;
	struct addr to[2];
	size_t nto;
	struct conn *conns;
	unsigned n;
};

struct jobout {
	struct loop *loop;
	struct end *ends;
};

/* --- entries ----------------------------------------------------------- */

/* What an entry says; to has room for two. */
static int
parse(const char *entry, uint16_t *port, struct addr *to, size_t *n)
{
	struct strv rest = strv_of(entry), word, host;
	uint16_t there;
	uint64_t v;

	if (!strv_cut(&rest, ' ', &word) ||
	    strv_parse_u64(word, 65535, true, &v) != 0 || v == 0 ||
	    addr_split(rest, &host, &there) != 0 || there == 0)
		return E_INVALID;
	*port = (uint16_t)v;
	*n = 1;
	if (!strv_eq(host, STRV("localhost")))
		return addr_parse(rest, &to[0]);
	addr_loopback(&to[0], false, there);
	addr_loopback(&to[1], true, there);
	*n = 2;
	return 0;
}

bool
jobout_entry_ok(const char *entry)
{
	struct addr to[2];
	uint16_t port;
	size_t n;

	return parse(entry, &port, to, &n) == 0;
}

int
jobout_listen(const char *entry, int *fd)
{
	const struct listen_options lo = {.uid = (uid_t)-1, .gid = (gid_t)-1};
	struct addr to[2], at;
	uint16_t port;
	size_t n;
	int r;

	if ((r = parse(entry, &port, to, &n)) != 0)
		return r;
	addr_loopback(&at, false, port);
	return listener_bind(&at, &lo, fd);
}

/* --- connections ------------------------------------------------------- */

static void
conn_end(struct conn *c)
{
	struct end *e = c->end;

	*c->prevp = c->next;
	if (c->next != NULL)
		c->next->prevp = c->prevp;
	if (c->dial != NULL)
		dial_cancel(c->dial);
	fd_close(&c->fd);
	if (e->n-- == CONNS_MAX)
		listener_resume(e->ls);
	loop_defer_free(e->all->loop, c, NULL);
}

static void
relayed(const struct relay_result *res, void *arg)
{
	(void)res;
	conn_end(arg);
}

static struct stream *
stream_of(struct loop *l, int fd)
{
	struct stream *st = stream_take_fd(l, fd, NULL, NULL);

	stream_tune_tcp(st);
	return st;
}

static void
dialed(int err, int fd, const struct addr *used, void *arg)
{
	const struct relay_options o = {.done = relayed, .arg = arg};
	struct conn *c = arg;
	struct loop *l = c->end->all->loop;
	struct stream *ours;

	(void)used;
	c->dial = NULL;
	if (err != 0) {
		conn_end(c);
		return;
	}
	ours = stream_of(l, c->fd);
	c->fd = -1;
	c->relay = relay_start(l, ours, stream_of(l, fd), &o);
}

static void
accepted(int fd, const struct addr *peer, void *arg)
{
	struct end *e = arg;
	struct dial_options o = {
	    .naddrs = e->nto, .timeout_ms = DIAL_MS, .done = dialed};
	struct conn *c = xcalloc(1, sizeof(*c));

	(void)peer;
	c->end = e;
	c->fd = fd;
	c->next = e->conns;
	c->prevp = &e->conns;
	if (c->next != NULL)
		c->next->prevp = &c->next;
	e->conns = c;
	if (++e->n == CONNS_MAX)
		listener_pause(e->ls);
	memcpy(o.addrs, e->to, sizeof(e->to));
	o.arg = c;
	c->dial = dial_start(e->all->loop, &o);
}

/* --- life -------------------------------------------------------------- */

struct jobout *
jobout_new(struct loop *l)
{
	struct jobout *o = xcalloc(1, sizeof(*o));

	o->loop = l;
	return o;
}

void
jobout_take_fd(struct jobout *o, int fd, const char *entry)
{
	struct end *e = xcalloc(1, sizeof(*e));
	uint16_t port;

	if (parse(entry, &port, e->to, &e->nto) != 0 ||
	    fd_set_nonblock(fd) != 0) {
		fd_close(&fd);
		free(e);
		return;
	}
	e->all = o;
	e->next = o->ends;
	o->ends = e;
	e->ls = listener_take_fd(o->loop, fd, accepted, e);
}

void
jobout_enter(struct jobout *o, int pidfd, char *const *entries)
{
	int own, fd, r;

	own = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	if (own == -1 || setns(pidfd, CLONE_NEWNET) != 0) {
		log_error("outside.enter", "errno=%d", errno);
		fd_close(&own);
		return;
	}
	for (; *entries != NULL; entries++) {
		if ((r = jobout_listen(*entries, &fd)) == 0)
			jobout_take_fd(o, fd, *entries);
		else
			log_error("outside.listen", "entry=%s error=\"%s\"",
				  *entries, err_text(r));
	}
	if (setns(own, CLONE_NEWNET) != 0)
		log_fatal("outside.leave", "errno=%d", errno);
	fd_close(&own);
}

void
jobout_free(struct jobout *o)
{
	struct end *e;
	struct conn *c;

	if (o == NULL)
		return;
	while ((e = o->ends) != NULL) {
		o->ends = e->next;
		while ((c = e->conns) != NULL) {
			if (c->relay != NULL)
				relay_abort(c->relay); /* ends it */
			else
				conn_end(c);
		}
		listener_close(e->ls);
		free(e);
	}
	free(o);
}
