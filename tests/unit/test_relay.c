/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/relay: two raw ends with a relay between them, over unix sockets and
 * TCP, and over descriptors that cut and refuse at random.
 */
#include "config.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>

#include <cmocka.h>

#include "base/err.h"
#include "net/buf.h"
#include "net/relay.h"
#include "tests/unit/fault_io.h"
#include "tests/unit/net_help.h"

#define BIG (3 * 1024 * 1024)

struct env {
	struct loop *l;
	int a[2], b[2]; /* [0] is the relay's, [1] the test's */
	struct owner oa, ob;
	struct relay *r;
	struct relay_result res;
	int done;
};

static void
done_cb(const struct relay_result *res, void *arg)
{
	struct env *e = arg;

	e->res = *res;
	e->done++;
}

static bool
is_done(void *arg)
{
	return ((struct env *)arg)->done > 0;
}

static int
env_make(void **state, bool tcp)
{
	struct env *e = calloc(1, sizeof(*e));

	e->l = loop_new();
	if (tcp) {
		help_tcp_pair(e->a);
		help_tcp_pair(e->b);
	} else {
		help_pair(e->a);
		help_pair(e->b);
	}
	owner_start(&e->oa, e->l, e->a[0]);
	owner_start(&e->ob, e->l, e->b[0]);
	*state = e;
	return 0;
}

static int
setup(void **state)
{
	return env_make(state, false);
}

static int
setup_tcp(void **state)
{
	return env_make(state, true);
}

static int
teardown(void **state)
{
	struct env *e = *state;

	if (e->done == 0)
		relay_abort(e->r);
	assert_int_equal(e->done, 1);
	if (e->a[1] != -1)
		(void)close(e->a[1]);
	if (e->b[1] != -1)
		(void)close(e->b[1]);
	loop_free(e->l);
	owner_clear(&e->oa);
	owner_clear(&e->ob);
	free(e);
	return 0;
}

static void
start(struct env *e, uint64_t idle_ms, uint64_t half_ms)
{
	struct relay_options o = {.idle_ms = idle_ms,
				  .half_closed_idle_ms = half_ms,
				  .done = done_cb,
				  .arg = e};

	e->r = relay_start(e->l, e->oa.st, e->ob.st, &o);
}

static void
test_both_ways(void **state)
{
	struct env *e = *state;
	char buf[8];

	start(e, 0, 0);
	raw_write(e->l, e->a[1], "question", 8);
	raw_read(e->l, e->b[1], buf, 8);
	assert_memory_equal(buf, "question", 8);
	raw_write(e->l, e->b[1], "answer", 6);
	raw_read(e->l, e->a[1], buf, 6);
	assert_memory_equal(buf, "answer", 6);
	relay_abort(e->r);
	assert_int_equal(e->done, 1); /* before it returns */
	assert_int_equal(e->res.end, RELAY_END_ABORT);
	assert_int_equal(e->res.a_to_b, 8);
	assert_int_equal(e->res.b_to_a, 6);
}

/* What came before the relay began is passed on, the end as well. */
static void
test_early_bytes(void **state)
{
	struct env *e = *state;
	struct strbuf b = {0};

	e->oa.keep = true;
	raw_write(e->l, e->a[1], "early", 5);
	assert_int_equal(shutdown(e->a[1], SHUT_WR), 0);
	help_wait(e->l, owner_saw_eof, &e->oa);
	start(e, 0, 0);
	assert_int_equal(raw_read_end(e->l, e->b[1], &b), 0);
	assert_int_equal(b.len, 5);
	strbuf_clear(&b);
}

struct flow {
	int in, out;
	const char *want;
	size_t sent, got, n;
};

static bool
flow_step(struct flow *f)
{
	char buf[65536];
	ssize_t r;

	if (f->sent < f->n) {
		r = send(f->in, f->want + f->sent, f->n - f->sent,
			 MSG_DONTWAIT | MSG_NOSIGNAL);
		if (r > 0)
			f->sent += (size_t)r;
	}
	while ((r = recv(f->out, buf, sizeof(buf), MSG_DONTWAIT)) > 0) {
		assert_memory_equal(buf, f->want + f->got, r);
		f->got += (size_t)r;
	}
	return f->got == f->n;
}

static bool
flows_done(void *arg)
{
	struct flow *f = arg;
	bool first = flow_step(&f[0]), second = flow_step(&f[1]);

	return first && second;
}

static void
test_big_both_ways(void **state)
{
	struct env *e = *state;
	char *x = malloc(BIG), *y = malloc(BIG);
	struct flow f[2] = {{e->a[1], e->b[1], x, 0, 0, BIG},
			    {e->b[1], e->a[1], y, 0, 0, BIG}};

	help_pattern(x, BIG, 1);
	help_pattern(y, BIG, 2);
	start(e, 0, 0);
	help_wait(e->l, flows_done, f);
	assert_int_equal(shutdown(e->b[1], SHUT_WR), 0);
	help_settle(e->l);
	assert_int_equal(e->done, 0); /* half-closed is not ended */
	assert_int_equal(shutdown(e->a[1], SHUT_WR), 0);
	help_wait(e->l, is_done, e);
	assert_int_equal(e->res.end, RELAY_END_FIN);
	assert_int_equal(e->res.side, RELAY_B);
	assert_int_equal(e->res.a_to_b, BIG);
	assert_int_equal(e->res.b_to_a, BIG);
	free(x);
	free(y);
}

/* One direction ends, the other goes on for long. */
static void
test_half_close(void **state)
{
	struct env *e = *state;
	struct strbuf b = {0};
	char *x = malloc(BIG);
	char buf[7];

	help_pattern(x, BIG, 3);
	start(e, 0, 0);
	raw_write(e->l, e->a[1], "request", 7);
	assert_int_equal(shutdown(e->a[1], SHUT_WR), 0);
	raw_read(e->l, e->b[1], buf, 7);
	assert_int_equal(raw_read_end(e->l, e->b[1], &b), 0);
	struct flow f[2] = {{e->b[1], e->a[1], x, 0, 0, BIG},
			    {e->b[1], e->a[1], x, 0, 0, 0}};
	help_wait(e->l, flows_done, f);
	(void)close(e->b[1]);
	e->b[1] = -1;
	assert_int_equal(raw_read_end(e->l, e->a[1], &b), 0);
	help_wait(e->l, is_done, e);
	assert_int_equal(e->res.end, RELAY_END_FIN);
	assert_int_equal(e->res.side, RELAY_A);
	free(x);
}

struct stall {
	struct env *e;
	size_t sent;
	int refused;
};

/* Sends until nothing more is taken for a while. */
static bool
stalled(void *arg)
{
	static char junk[65536];
	struct stall *s = arg;
	ssize_t r;

	r = send(s->e->a[1], junk, sizeof(junk), MSG_DONTWAIT | MSG_NOSIGNAL);
	if (r > 0) {
		s->sent += (size_t)r;
		s->refused = 0;
		return false;
	}
	return ++s->refused > 60;
}

struct sink {
	int fd;
	size_t got;
	size_t n;
};

static bool
sink_full(void *arg)
{
	static char buf[65536];
	struct sink *s = arg;
	ssize_t r;

	while ((r = recv(s->fd, buf, sizeof(buf), MSG_DONTWAIT)) > 0)
		s->got += (size_t)r;
	return s->got >= s->n;
}

/* A reader that takes nothing stops the writer; memory stays bounded, and
 * everything arrives once it reads again. */
static void
test_stalled_reader(void **state)
{
	struct env *e = *state;
	struct stall s = {.e = e};
	struct sink k = {.fd = e->b[1]};

	start(e, 0, 0);
	help_wait(e->l, stalled, &s);
	assert_true(bufpool_live(loop_bufpool(e->l)) <= 16);
	assert_true(stream_output(e->ob.st)->len <= 2 * 65536 + BUF_SLAB_SIZE);
	k.n = s.sent;
	help_wait(e->l, sink_full, &k);
	assert_int_equal(k.got, s.sent);
	assert_int_equal(bufpool_live(loop_bufpool(e->l)), 0);
}

static void
reset_fd(int *fd)
{
	struct linger now = {1, 0};

	(void)setsockopt(*fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	(void)close(*fd);
	*fd = -1;
}

/* A reset ends the relay, but not before what was sent has arrived. */
static void
test_reset_delivers(void **state)
{
	struct env *e = *state;
	struct strbuf b = {0};

	start(e, 0, 0);
	if (help_fault_seed != 0) /* a late read may meet the reset first */
		return;
	raw_write(e->l, e->a[1], "last words", 10);
	help_settle(e->l);
	reset_fd(&e->a[1]);
	assert_int_equal(raw_read_end(e->l, e->b[1], &b), 0);
	assert_int_equal(b.len, 10);
	help_wait(e->l, is_done, e);
	assert_int_equal(e->res.end, RELAY_END_RESET);
	assert_int_equal(e->res.side, RELAY_A);
	assert_int_equal(e->res.err, E_PEER);
	strbuf_clear(&b);
}

/* The writer fills everything and dies while the reader stalls: all that the
 * kernel and the relay hold is delivered when it reads again. */
static void
test_reset_with_stalled_reader(void **state)
{
	struct env *e = *state;
	struct stall s = {.e = e};
	struct strbuf b = {0};

	start(e, 0, 0);
	if (help_fault_seed != 0) /* EAGAIN from a dead socket is its end */
		return;
	help_wait(e->l, stalled, &s);
	/* B speaks, so that writing to A, which is gone, fails. */
	(void)close(e->a[1]);
	e->a[1] = -1;
	raw_write(e->l, e->b[1], "x", 1);
	help_settle(e->l);
	assert_int_equal(raw_read_end(e->l, e->b[1], &b), 0);
	assert_int_equal(b.len, s.sent);
	help_wait(e->l, is_done, e);
	assert_int_equal(e->res.end, RELAY_END_RESET);
	assert_int_equal(e->res.a_to_b, s.sent);
	strbuf_clear(&b);
}

static void
test_idle(void **state)
{
	struct env *e = *state;
	uint64_t t0 = loop_clock_us();

	start(e, 60, 0);
	help_wait(e->l, is_done, e);
	assert_int_equal(e->res.end, RELAY_END_IDLE);
	assert_true(loop_clock_us() - t0 >= 50000);
}

static void
test_idle_is_put_off(void **state)
{
	struct env *e = *state;
	char c;
	int i;

	start(e, 1500, 0); /* well above what a busy machine may stall */
	for (i = 0; i < 6; i++) {
		help_pass(e->l, 300);
		raw_write(e->l, e->b[1], "x", 1);
		raw_read(e->l, e->a[1], &c, 1);
		assert_int_equal(e->done, 0);
	}
}

static void
test_half_closed_idle(void **state)
{
	struct env *e = *state;

	start(e, 3600 * 1000, 50);
	help_pass(e->l, 100);
	assert_int_equal(e->done, 0);
	assert_int_equal(shutdown(e->a[1], SHUT_WR), 0);
	help_wait(e->l, is_done, e);
	assert_int_equal(e->res.end, RELAY_END_IDLE);
	assert_int_equal(e->res.side, RELAY_A);
}

static void
tap_cb(const struct bufq *q, void *arg)
{
	*(size_t *)arg += q->len;
}

static void
test_tap(void **state)
{
	struct env *e = *state;
	size_t seen = 0;
	char buf[5];

	start(e, 0, 0);
	relay_tap_b(e->r, tap_cb, &seen);
	assert_ptr_equal(relay_stream(e->r, RELAY_B), e->ob.st);
	raw_write(e->l, e->a[1], "12345", 5);
	raw_read(e->l, e->b[1], buf, 5);
	assert_int_equal(seen, 0);
	raw_write(e->l, e->b[1], "123", 3);
	raw_read(e->l, e->a[1], buf, 3);
	assert_int_equal(seen, 3);
}

static void
test_no_descriptor_left(void **state)
{
	struct env *e = *state;
	int before = help_fd_count();

	start(e, 0, 0);
	assert_int_equal(shutdown(e->a[1], SHUT_WR), 0);
	assert_int_equal(shutdown(e->b[1], SHUT_WR), 0);
	help_wait(e->l, is_done, e);
	assert_int_equal(help_fd_count(), before - 2);
}

#define T(f)   cmocka_unit_test_setup_teardown(f, setup, teardown)
#define TCP(f) cmocka_unit_test_setup_teardown(f, setup_tcp, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    T(test_both_ways),
	    T(test_early_bytes),
	    T(test_big_both_ways),
	    TCP(test_big_both_ways),
	    T(test_half_close),
	    TCP(test_half_close),
	    T(test_stalled_reader),
	    TCP(test_stalled_reader),
	    TCP(test_reset_delivers),
	    T(test_reset_with_stalled_reader),
	    T(test_idle),
	    T(test_idle_is_put_off),
	    T(test_half_closed_idle),
	    T(test_tap),
	    T(test_no_descriptor_left),
	};
	int failed;

	failed = cmocka_run_group_tests_name("relay", tests, NULL, NULL);
	help_fault_seed = 1;
	failed += cmocka_run_group_tests_name("relay, faulty descriptors",
					      tests, NULL, NULL);
	return failed;
}
