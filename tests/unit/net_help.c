/* SPDX-License-Identifier: Apache-2.0 */
/* Shared parts of the tests of net/; see net_help.h. */
#include "config.h"

#include "tests/unit/net_help.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <netinet/in.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/fdio.h"
#include "tests/unit/fault_io.h"

/* Long: under valgrind on a busy machine. */
#define HELP_DEADLINE_US 60000000
#define HELP_TICK_MS     5

uint32_t help_fault_seed;

uint32_t
help_seed(void)
{
	const char *s = getenv("FAULT_SEED");

	return s != NULL ? (uint32_t)strtoul(s, NULL, 10) | 1 : 1;
}

static void
tick_cb(void *arg)
{
	timer_set(arg, HELP_TICK_MS);
}

void
help_wait(struct loop *l, bool (*cond)(void *), void *arg)
{
	uint64_t end = loop_clock_us() + HELP_DEADLINE_US;
	struct timer tick;

	timer_init(&tick, l, tick_cb, &tick);
	timer_set(&tick, HELP_TICK_MS);
	while (!cond(arg)) {
		if (loop_clock_us() > end)
			fail_msg("condition not met in time");
		loop_once(l, true);
	}
	timer_clear(&tick);
}

bool
help_true(void *arg)
{
	return *(bool *)arg;
}

void
help_settle(struct loop *l)
{
	int i;

	for (i = 0; i < 20; i++)
		loop_once(l, false);
}

static bool
clock_reached(void *arg)
{
	return loop_clock_us() >= *(uint64_t *)arg;
}

void
help_pass(struct loop *l, uint64_t ms)
{
	uint64_t end = loop_clock_us() + ms * 1000;

	help_wait(l, clock_reached, &end);
}

void
help_pair(int fds[2])
{
	assert_int_equal(socketpair(AF_UNIX,
				    SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
				    0, fds),
			 0);
}

void
help_tcp_pair(int fds[2])
{
	struct sockaddr_in in = {.sin_family = AF_INET};
	socklen_t n = sizeof(in);
	int ls, small = 65536;

	/* Fixed buffers: what does not fit is the same on every machine. */
	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ls = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	(void)setsockopt(ls, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
	(void)setsockopt(ls, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	assert_int_equal(bind(ls, (struct sockaddr *)&in, n), 0);
	assert_int_equal(listen(ls, 1), 0);
	assert_int_equal(getsockname(ls, (struct sockaddr *)&in, &n), 0);
	fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	(void)setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
	assert_int_equal(connect(fds[0], (struct sockaddr *)&in, n), 0);
	fds[1] = accept4(ls, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	assert_true(fds[1] >= 0);
	(void)close(ls);
	assert_int_equal(fd_set_nonblock(fds[0]), 0);
}

int
help_fd_count(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	assert_non_null(d);
	while (readdir(d) != NULL)
		n++;
	(void)closedir(d);
	return n;
}

/* --- owner ------------------------------------------------------------- */

static void
owner_take(struct owner *o)
{
	struct bufq *in = stream_input(o->st);
	struct strv v;

	while ((v = bufq_front(in)).len > 0) {
		strbuf_addv(&o->got, v);
		bufq_drain(in, v.len);
	}
}

/* From inside a callback, and twice: the second is to do nothing. */
static void
owner_close(struct owner *o)
{
	stream_close(o->st);
	stream_close(o->st);
	o->st = NULL;
}

static void
owner_readable_cb(struct stream *st, void *arg)
{
	struct owner *o = arg;

	assert_ptr_equal(o->st, st);
	o->readable++;
	if (!o->keep)
		owner_take(o);
	if (o->close_on_readable)
		owner_close(o);
}

static void
owner_drained_cb(struct stream *st, void *arg)
{
	struct owner *o = arg;

	(void)st;
	o->drained++;
	if (o->close_on_drained)
		owner_close(o);
}

static void
owner_eof_cb(struct stream *st, void *arg)
{
	struct owner *o = arg;

	(void)st;
	o->eof++;
	o->eof_at = o->got.len;
	if (o->close_on_eof)
		owner_close(o);
}

static void
owner_error_cb(struct stream *st, int err, void *arg)
{
	struct owner *o = arg;

	(void)st;
	o->errors++;
	o->err = err;
	if (!o->keep_on_error)
		owner_close(o);
}

static void
owner_ready_cb(struct stream *st, void *arg)
{
	struct owner *o = arg;

	(void)st;
	o->ready++;
}

const struct stream_cbs owner_cbs = {
    .readable = owner_readable_cb,
    .drained = owner_drained_cb,
    .eof = owner_eof_cb,
    .error = owner_error_cb,
};

void
owner_start(struct owner *o, struct loop *l, int fd)
{
	o->st = stream_take_fd(l, fd, &owner_cbs, o);
	stream_on_ready(o->st, owner_ready_cb);
	if (help_fault_seed != 0)
		fault_put_mix(o->st, help_fault_seed++);
}

void
owner_clear(struct owner *o)
{
	strbuf_clear(&o->got);
}

bool
owner_saw_eof(void *o)
{
	return ((struct owner *)o)->eof > 0;
}

bool
owner_saw_error(void *o)
{
	return ((struct owner *)o)->errors > 0;
}

bool
owner_saw_ready(void *o)
{
	return ((struct owner *)o)->ready > 0;
}

struct want {
	struct owner *o;
	size_t n;
};

static bool
want_met(void *arg)
{
	struct want *w = arg;

	return w->o->got.len >= w->n;
}

void
owner_wait_bytes(struct owner *o, struct loop *l, size_t n)
{
	struct want w = {o, n};

	help_wait(l, want_met, &w);
}

/* --- raw ends ---------------------------------------------------------- */

struct raw {
	int fd;
	char *p;
	size_t n;
	size_t at;
	struct strbuf *b;
	int eno;
};

static bool
raw_writes(void *arg)
{
	struct raw *r = arg;
	ssize_t n;

	n = send(r->fd, r->p + r->at, r->n - r->at,
		 MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n > 0)
		r->at += (size_t)n;
	else
		assert_int_equal(errno, EAGAIN);
	return r->at == r->n;
}

void
raw_write(struct loop *l, int fd, const void *p, size_t n)
{
	struct raw r = {.fd = fd, .p = (char *)(uintptr_t)p, .n = n};

	help_wait(l, raw_writes, &r);
}

static bool
raw_reads(void *arg)
{
	struct raw *r = arg;
	ssize_t n;

	n = recv(r->fd, r->p + r->at, r->n - r->at, MSG_DONTWAIT);
	if (n > 0)
		r->at += (size_t)n;
	else if (n == 0)
		fail_msg("end of stream after %zu of %zu bytes", r->at, r->n);
	else
		assert_int_equal(errno, EAGAIN);
	return r->at == r->n;
}

void
raw_read(struct loop *l, int fd, void *p, size_t n)
{
	struct raw r = {.fd = fd, .p = p, .n = n};

	help_wait(l, raw_reads, &r);
}

static bool
raw_ends(void *arg)
{
	struct raw *r = arg;
	char buf[4096];
	ssize_t n;

	while ((n = recv(r->fd, buf, sizeof(buf), MSG_DONTWAIT)) > 0)
		strbuf_add(r->b, buf, (size_t)n);
	r->eno = n == 0 ? 0 : errno;
	return r->eno != EAGAIN;
}

int
raw_read_end(struct loop *l, int fd, struct strbuf *b)
{
	struct raw r = {.fd = fd, .b = b};

	help_wait(l, raw_ends, &r);
	return r.eno;
}

void
help_pattern(char *p, size_t n, unsigned salt)
{
	size_t i;

	for (i = 0; i < n; i++)
		p[i] = (char)(i * 31 + i / 253 + salt);
}
