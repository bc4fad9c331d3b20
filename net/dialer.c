/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connecting. A dial goes through its addresses in rounds; a round that found
 * nobody listening is repeated after a pause, as long as its owner wants to
 * wait. The outcome is always told by a task, so never from inside
 * dial_start().
 */
#include "config.h"

#include "net/dialer.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <event2/event.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/loop.h"

#define DIAL_TIMEOUT_MS   5000
#define DIAL_PAUSE_MS     25 /* after the first round, then doubled */
#define DIAL_PAUSE_MAX_MS 250
/* Below this the kernel hands out no ports by default. */
#define DIAL_EPHEMERAL_MIN 32768

struct dial {
	struct loop *loop;
	struct dial_options o;
	size_t at;   /* address under way */
	size_t used; /* the one that answered */
	int fd;
	int err;      /* first failure of this round; then the outcome */
	bool again;   /* this round: somebody may listen there later */
	bool pausing; /* between rounds */
	bool gone;    /* told or cancelled; freed after the batch */
	uint64_t start_ms;
	uint64_t pause_ms;
	struct event *ev;
	struct timer timer;
	struct task task;
};

static int
dial_error(int eno)
{
	switch (eno) {
	case ECONNREFUSED:
	case ENOENT: /* a unix socket that is not there yet */
		return E_REFUSED;
	case ETIMEDOUT:
		return E_TIMEOUT;
	case EHOSTUNREACH:
	case ENETUNREACH:
	case EADDRNOTAVAIL:
	case EAFNOSUPPORT:
		return E_UNREACHABLE;
	case EACCES:
	case EPERM:
		return E_DENIED;
	case EMFILE:
	case ENFILE:
	case ENOBUFS:
	case ENOMEM:
		return E_FULL;
	case EAGAIN: /* a unix listener whose backlog is full */
		return E_BUSY;
	}
	return E_SYS;
}

/* A connect to a port of this machine that nobody listens on may, once in
 * some ten thousand times, be given that very port as its own, and then TCP
 * connects it to itself. */
static bool
dial_met_itself(int fd, const struct addr *a)
{
	struct addr own;

	if (addr_is_unix(a) || addr_port(a) < DIAL_EPHEMERAL_MIN)
		return false;
	own.len = sizeof(own.u);
	if (getsockname(fd, &own.u.sa, &own.len) != 0 || own.len != a->len)
		return false;
	if (a->u.sa.sa_family == AF_INET)
		return own.u.in.sin_port == a->u.in.sin_port &&
		       own.u.in.sin_addr.s_addr == a->u.in.sin_addr.s_addr;
	return own.u.in6.sin6_port == a->u.in6.sin6_port &&
	       IN6_ARE_ADDR_EQUAL(&own.u.in6.sin6_addr, &a->u.in6.sin6_addr);
}

/* 0: connected; E_AGAIN: under way, *fd is set as well. */
static int
dial_connect(const struct addr *a, int *out)
{
	int fd, r = 0;

	fd = socket(a->u.sa.sa_family,
		    SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd == -1)
		return dial_error(errno);
	if (connect(fd, &a->u.sa, a->len) != 0)
		r = errno == EINPROGRESS ? E_AGAIN : dial_error(errno);
	if (r == 0 && dial_met_itself(fd, a))
		r = E_REFUSED;
	if (r != 0 && r != E_AGAIN)
		(void)close(fd);
	else
		*out = fd;
	return r;
}

int
dial_now(const struct addr *a, int *fd)
{
	int got, r = dial_connect(a, &got);

	if (r == E_AGAIN)
		(void)close(got);
	else if (r == E_BUSY)
		r = E_AGAIN;
	else if (r == 0)
		*fd = got;
	return r;
}

/* --- rounds ------------------------------------------------------------ */

static void
dial_finish(struct dial *d, int err)
{
	d->err = err;
	timer_stop(&d->timer);
	task_post(d->loop, &d->task);
}

static void
dial_event_free(struct dial *d)
{
	if (d->ev != NULL)
		event_free(d->ev);
	d->ev = NULL;
}

static uint64_t
dial_timeout(const struct dial *d)
{
	return d->o.timeout_ms != 0 ? d->o.timeout_ms : DIAL_TIMEOUT_MS;
}

/* How long rounds are repeated. A full backlog is waited out in any case. */
static uint64_t
dial_patience(const struct dial *d)
{
	if (d->err == E_BUSY && d->o.wait_ms < dial_timeout(d))
		return dial_timeout(d);
	return d->o.wait_ms;
}

static void
dial_round_over(struct dial *d)
{
	uint64_t spent = loop_now_ms(d->loop) - d->start_ms;
	uint64_t patience = dial_patience(d);

	if (!d->again || spent >= patience) {
		dial_finish(d, d->err == E_BUSY ? E_TIMEOUT : d->err);
		return;
	}
	if (d->pause_ms > patience - spent)
		d->pause_ms = patience - spent;
	d->pausing = true;
	timer_set(&d->timer, d->pause_ms);
	d->pause_ms = d->pause_ms * 2 < DIAL_PAUSE_MAX_MS ? d->pause_ms * 2
							  : DIAL_PAUSE_MAX_MS;
}

static void
dial_failed(struct dial *d, int err)
{
	fd_close(&d->fd);
	dial_event_free(d);
	if (d->err == 0)
		d->err = err;
	if (err == E_REFUSED || err == E_BUSY)
		d->again = true;
	d->at++;
}

static void dial_event_cb(evutil_socket_t fd, short what, void *arg);

static void
dial_wait(struct dial *d)
{
	d->ev =
	    event_new(loop_base(d->loop), d->fd, EV_WRITE, dial_event_cb, d);
	if (d->ev == NULL || event_add(d->ev, NULL) != 0) {
		dial_failed(d, E_SYS);
		return;
	}
	timer_set(&d->timer, dial_timeout(d));
}

static void
dial_go_on(struct dial *d)
{
	int r;

	while (d->at < d->o.naddrs) {
		r = dial_connect(&d->o.addrs[d->at], &d->fd);
		if (r == 0) {
			d->used = d->at;
			dial_finish(d, 0);
			return;
		}
		if (r == E_AGAIN)
			dial_wait(d);
		else
			dial_failed(d, r);
		if (d->ev != NULL)
			return;
	}
	dial_round_over(d);
}

static void
dial_event_cb(evutil_socket_t fd, short what, void *arg)
{
	struct dial *d = arg;
	socklen_t n = sizeof(int);
	int eno = 0;

	(void)what;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &eno, &n) != 0)
		eno = errno;
	if (eno == 0 && dial_met_itself(fd, &d->o.addrs[d->at]))
		eno = ECONNREFUSED;
	if (eno != 0) {
		dial_failed(d, dial_error(eno));
		dial_go_on(d);
		return;
	}
	dial_event_free(d);
	d->used = d->at;
	dial_finish(d, 0);
}

static void
dial_timer_cb(void *arg)
{
	struct dial *d = arg;

	if (d->pausing) {
		d->pausing = false;
		d->at = 0;
		d->err = 0;
		d->again = false;
	} else {
		dial_failed(d, E_TIMEOUT);
	}
	dial_go_on(d);
}

/* --- life -------------------------------------------------------------- */

static void
dial_free(struct dial *d)
{
	if (d->gone)
		return;
	d->gone = true;
	fd_close(&d->fd);
	dial_event_free(d);
	timer_clear(&d->timer);
	task_cancel(&d->task);
	loop_defer_free(d->loop, d, NULL);
}

static void
dial_task_cb(void *arg)
{
	struct dial *d = arg;
	int fd = d->fd;

	d->fd = -1; /* the callee's now */
	dial_free(d);
	d->o.done(d->err, fd, d->err == 0 ? &d->o.addrs[d->used] : NULL,
		  d->o.arg);
}

struct dial *
dial_start(struct loop *l, const struct dial_options *o)
{
	struct dial *d = xcalloc(1, sizeof(*d));

	assert(o->naddrs > 0 && o->naddrs <= DIAL_ADDRS_MAX);
	d->loop = l;
	d->o = *o;
	d->fd = -1;
	d->start_ms = loop_now_ms(l);
	d->pause_ms = DIAL_PAUSE_MS;
	timer_init(&d->timer, l, dial_timer_cb, d);
	task_init(&d->task, dial_task_cb, d);
	dial_go_on(d);
	return d;
}

void
dial_cancel(struct dial *d)
{
	if (d != NULL)
		dial_free(d);
}
