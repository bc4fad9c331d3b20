/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/stream over real sockets; everything runs a second time over a layer
 * that cuts reads and writes and says EAGAIN at random.
 */
#include "config.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>

#include <cmocka.h>

#include "base/err.h"
#include "net/buf.h"
#include "tests/unit/fault_io.h"
#include "tests/unit/net_help.h"

#define BIG (3 * 1024 * 1024)

struct env {
	struct loop *l;
	int fds[2];
	struct owner o; /* on fds[0]; the raw end is fds[1] */
};

static int
env_make(void **state, bool tcp)
{
	struct env *e = calloc(1, sizeof(*e));

	e->l = loop_new();
	if (tcp)
		help_tcp_pair(e->fds);
	else
		help_pair(e->fds);
	owner_start(&e->o, e->l, e->fds[0]);
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

	if (e->o.st != NULL)
		stream_close(e->o.st);
	if (e->fds[1] != -1)
		(void)close(e->fds[1]);
	assert_true(e->o.st == NULL || stream_fd(e->o.st) == -1);
	loop_free(e->l);
	owner_clear(&e->o);
	free(e);
	return 0;
}

static void
test_both_ways(void **state)
{
	struct env *e = *state;
	char buf[5];

	raw_write(e->l, e->fds[1], "hello", 5);
	owner_wait_bytes(&e->o, e->l, 5);
	assert_memory_equal(e->o.got.s, "hello", 5);
	bufq_add(stream_output(e->o.st), "world", 5);
	stream_flush(e->o.st);
	raw_read(e->l, e->fds[1], buf, 5);
	assert_memory_equal(buf, "world", 5);
	assert_int_equal(stream_bytes_in(e->o.st), 5);
	assert_int_equal(stream_bytes_out(e->o.st), 5);
	assert_true(stream_flushed(e->o.st));
}

/* An idle stream owns no slab. */
static void
test_idle_holds_nothing(void **state)
{
	struct env *e = *state;

	raw_write(e->l, e->fds[1], "hello", 5);
	owner_wait_bytes(&e->o, e->l, 5);
	bufq_add(stream_output(e->o.st), "world", 5);
	stream_flush(e->o.st);
	help_settle(e->l);
	assert_int_equal(bufpool_live(loop_bufpool(e->l)), 0);
}

static void
test_big_out(void **state)
{
	struct env *e = *state;
	char *want = malloc(BIG), *got = malloc(BIG);

	help_pattern(want, BIG, 1);
	bufq_add(stream_output(e->o.st), want, BIG);
	assert_true(stream_over_high(e->o.st));
	stream_flush(e->o.st);
	assert_int_equal(e->o.drained, 0);
	raw_read(e->l, e->fds[1], got, BIG);
	assert_memory_equal(got, want, BIG);
	help_settle(e->l);
	assert_true(e->o.drained >= 1);
	assert_true(stream_flushed(e->o.st));
	assert_false(stream_over_high(e->o.st));
	free(want);
	free(got);
}

static void
test_big_in(void **state)
{
	struct env *e = *state;
	char *want = malloc(BIG);

	help_pattern(want, BIG, 2);
	raw_write(e->l, e->fds[1], want, BIG);
	owner_wait_bytes(&e->o, e->l, BIG);
	assert_memory_equal(e->o.got.s, want, BIG);
	free(want);
}

/* What the owner leaves bounds what is read; draining and resuming goes on. */
static void
test_input_limit(void **state)
{
	struct env *e = *state;
	char *want = malloc(BIG);
	struct bufq *in = stream_input(e->o.st);
	size_t got = 100000;

	help_pattern(want, BIG, 3);
	e->o.keep = true;
	stream_set_input_limit(e->o.st, 1000);
	assert_int_equal(write(e->fds[1], want, got), got);
	help_settle(e->l);
	assert_true(in->len >= 1000);
	assert_true(in->len <= 1000 + BUF_SLAB_SIZE);
	e->o.keep = false;
	while (e->o.got.len < got) {
		while (in->len > 0) {
			struct strv v = bufq_front(in);

			strbuf_addv(&e->o.got, v);
			bufq_drain(in, v.len);
		}
		stream_resume(e->o.st);
		loop_once(e->l, false);
	}
	assert_memory_equal(e->o.got.s, want, got);
	free(want);
}

static void
test_pause_resume(void **state)
{
	struct env *e = *state;

	stream_pause(e->o.st);
	assert_true(stream_paused(e->o.st));
	raw_write(e->l, e->fds[1], "later", 5);
	help_settle(e->l);
	assert_int_equal(e->o.readable, 0);
	stream_resume(e->o.st);
	assert_int_equal(e->o.readable, 0); /* not from inside */
	owner_wait_bytes(&e->o, e->l, 5);
	/* Pausing without an event in between costs and loses nothing. */
	stream_pause(e->o.st);
	stream_resume(e->o.st);
	raw_write(e->l, e->fds[1], "more", 4);
	owner_wait_bytes(&e->o, e->l, 9);
}

static void
test_eof_with_data(void **state)
{
	struct env *e = *state;
	char *want = malloc(BIG);

	help_pattern(want, BIG, 4);
	raw_write(e->l, e->fds[1], want, BIG);
	assert_int_equal(shutdown(e->fds[1], SHUT_WR), 0);
	help_wait(e->l, owner_saw_eof, &e->o);
	assert_int_equal(e->o.eof_at, BIG);
	assert_memory_equal(e->o.got.s, want, BIG);
	assert_true(stream_eof(e->o.st));
	assert_true(stream_eof_clean(e->o.st));
	help_settle(e->l);
	assert_int_equal(e->o.eof, 1);
	assert_int_equal(e->o.errors, 0);
	free(want);
}

/* The end is told while the owner still holds input. */
static void
test_eof_with_input_kept(void **state)
{
	struct env *e = *state;

	e->o.keep = true;
	raw_write(e->l, e->fds[1], "rest", 4);
	assert_int_equal(shutdown(e->fds[1], SHUT_WR), 0);
	help_wait(e->l, owner_saw_eof, &e->o);
	assert_int_equal(stream_input(e->o.st)->len, 4);
}

/* The peer's end does not stop ours. */
static void
test_half_close_in(void **state)
{
	struct env *e = *state;
	char buf[6];

	assert_int_equal(shutdown(e->fds[1], SHUT_WR), 0);
	help_wait(e->l, owner_saw_eof, &e->o);
	bufq_add(stream_output(e->o.st), "answer", 6);
	stream_flush(e->o.st);
	raw_read(e->l, e->fds[1], buf, 6);
	assert_memory_equal(buf, "answer", 6);
}

/* Ours does not stop the peer's, and comes after what was queued. */
static void
test_half_close_out(void **state)
{
	struct env *e = *state;
	char *want = malloc(BIG);
	struct strbuf b = {0};

	help_pattern(want, BIG, 5);
	bufq_add(stream_output(e->o.st), want, BIG);
	stream_shutdown(e->o.st);
	stream_shutdown(e->o.st);
	assert_true(stream_shut(e->o.st));
	assert_false(stream_flushed(e->o.st));
	assert_int_equal(raw_read_end(e->l, e->fds[1], &b), 0);
	assert_int_equal(b.len, BIG);
	assert_memory_equal(b.s, want, BIG);
	help_settle(e->l);
	assert_true(stream_flushed(e->o.st));
	assert_true(e->o.drained > 0); /* it could not go at once */
	raw_write(e->l, e->fds[1], "still here", 10);
	owner_wait_bytes(&e->o, e->l, 10);
	strbuf_clear(&b);
	free(want);
}

static void
test_close_in_readable(void **state)
{
	struct env *e = *state;

	e->o.close_on_readable = true;
	raw_write(e->l, e->fds[1], "x", 1);
	assert_int_equal(shutdown(e->fds[1], SHUT_WR), 0);
	owner_wait_bytes(&e->o, e->l, 1);
	help_settle(e->l);
	assert_int_equal(e->o.readable, 1);
	assert_int_equal(e->o.eof, 0);
}

static void
test_close_in_eof(void **state)
{
	struct env *e = *state;

	e->o.close_on_eof = true;
	assert_int_equal(shutdown(e->fds[1], SHUT_WR), 0);
	help_wait(e->l, owner_saw_eof, &e->o);
	help_settle(e->l);
	assert_int_equal(e->o.eof, 1);
}

static bool
saw_drained(void *arg)
{
	return ((struct owner *)arg)->drained > 0;
}

static void
test_close_in_drained(void **state)
{
	struct env *e = *state;
	struct strbuf b = {0};
	char *want = malloc(BIG);

	help_pattern(want, BIG, 6);
	e->o.close_on_drained = true;
	bufq_add(stream_output(e->o.st), want, BIG);
	stream_flush(e->o.st);
	assert_int_equal(raw_read_end(e->l, e->fds[1], &b), 0);
	help_wait(e->l, saw_drained, &e->o);
	help_settle(e->l);
	assert_int_equal(e->o.drained, 1);
	strbuf_clear(&b);
	free(want);
}

static void
test_close_in_error(void **state)
{
	struct env *e = *state;
	struct linger now = {1, 0};

	assert_int_equal(
	    setsockopt(e->fds[1], SOL_SOCKET, SO_LINGER, &now, sizeof(now)), 0);
	(void)close(e->fds[1]);
	e->fds[1] = -1;
	help_wait(e->l, owner_saw_error, &e->o);
	assert_int_equal(e->o.err, E_PEER);
	help_settle(e->l);
	assert_int_equal(e->o.errors, 1);
}

/* A broken pipe while writing does not hide what the peer sent before. */
static void
test_last_words(void **state)
{
	struct env *e = *state;
	char *lots = calloc(1, BIG);

	raw_write(e->l, e->fds[1], "too large, go away", 18);
	(void)close(e->fds[1]);
	e->fds[1] = -1;
	bufq_add(stream_output(e->o.st), lots, BIG);
	stream_flush(e->o.st);
	assert_int_equal(e->o.errors, 0); /* never from inside */
	help_wait(e->l, owner_saw_error, &e->o);
	assert_int_equal(e->o.got.len, 18);
	assert_int_equal(e->o.err, E_PEER);
	free(lots);
}

/* An error is told although the owner reads nothing now. */
static void
test_error_while_paused(void **state)
{
	struct env *e = *state;
	char *lots = calloc(1, BIG);

	stream_pause(e->o.st);
	raw_write(e->l, e->fds[1], "unread", 6);
	bufq_add(stream_output(e->o.st), lots, BIG);
	stream_flush(e->o.st);
	help_settle(e->l);
	e->o.keep_on_error = true;
	(void)close(e->fds[1]);
	e->fds[1] = -1;
	help_wait(e->l, owner_saw_error, &e->o);
	assert_int_equal(e->o.got.len, 0);
	/* What it had sent is still to be had. */
	while (stream_salvage(e->o.st))
		continue;
	if (help_fault_seed == 0)
		assert_int_equal(stream_input(e->o.st)->len, 6);
	assert_int_equal(stream_output(e->o.st)->len, 0);
	free(lots);
}

static void
test_set_cbs(void **state)
{
	struct env *e = *state;
	struct owner second = {0};

	e->o.keep = true;
	raw_write(e->l, e->fds[1], "early", 5);
	assert_int_equal(shutdown(e->fds[1], SHUT_WR), 0);
	help_wait(e->l, owner_saw_eof, &e->o);
	second.st = e->o.st;
	stream_set_cbs(e->o.st, &owner_cbs, &second);
	assert_int_equal(second.readable, 0);
	help_wait(e->l, owner_saw_eof, &second);
	assert_int_equal(second.readable, 1);
	assert_int_equal(second.eof_at, 5);
	help_settle(e->l);
	assert_int_equal(second.eof, 1);
	owner_clear(&second);
}

static void
test_set_cbs_paused(void **state)
{
	struct env *e = *state;
	struct owner second = {0};

	e->o.keep = true;
	raw_write(e->l, e->fds[1], "early", 5);
	assert_int_equal(shutdown(e->fds[1], SHUT_WR), 0);
	help_wait(e->l, owner_saw_eof, &e->o);
	second.st = e->o.st;
	stream_pause(e->o.st);
	stream_set_cbs(e->o.st, &owner_cbs, &second);
	help_settle(e->l);
	assert_int_equal(second.readable + second.eof, 0);
	stream_resume(e->o.st);
	help_wait(e->l, owner_saw_eof, &second);
	assert_int_equal(second.eof_at, 5);
	owner_clear(&second);
}

/* stream_finish(): the last answer arrives although the peer was still
 * sending, which would be a reset had the socket just been closed. */
static void
test_finish_no_reset(void **state)
{
	struct env *e = *state;
	struct strbuf b = {0};
	char *junk = calloc(1, 100000);

	raw_write(e->l, e->fds[1], junk, 1000);
	bufq_add(stream_output(e->o.st), "bye", 3);
	stream_finish(e->o.st, 5000);
	e->o.st = NULL;
	raw_write(e->l, e->fds[1], junk, 100000);
	assert_int_equal(raw_read_end(e->l, e->fds[1], &b), 0);
	assert_int_equal(b.len, 3);
	/* It ends with us. */
	(void)close(e->fds[1]);
	e->fds[1] = -1;
	help_settle(e->l);
	assert_int_equal(e->o.readable + e->o.eof + e->o.errors, 0);
	strbuf_clear(&b);
	free(junk);
}

static bool
peer_gone(void *arg)
{
	return send(*(int *)arg, "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 &&
	       errno == EPIPE;
}

static void
test_finish_bounds(void **state)
{
	struct env *e = *state;

	bufq_add(stream_output(e->o.st), "bye", 3);
	stream_finish(e->o.st, 30);
	e->o.st = NULL;
	/* Neither the end of the peer nor its silence is waited for long. */
	help_wait(e->l, peer_gone, &e->fds[1]);
}

/* A stream that still finishes when the loop ends is freed with it. */
static void
test_finish_at_loop_end(void **state)
{
	struct env *e = *state;

	bufq_add(stream_output(e->o.st), "bye", 3);
	stream_finish(e->o.st, 60000);
	e->o.st = NULL;
	help_settle(e->l);
}

static void
test_reset(void **state)
{
	struct env *e = *state;
	struct strbuf b = {0};

	stream_reset(e->o.st);
	e->o.st = NULL;
	assert_int_equal(raw_read_end(e->l, e->fds[1], &b), ECONNRESET);
	strbuf_clear(&b);
}

static void
test_injected_read_error(void **state)
{
	struct env *e = *state;
	struct fault_script s = {.seed = 1, .read_reset = 3};
	struct owner o = {0};
	int fds[2];

	help_pair(fds);
	o.st = stream_take_fd(e->l, fds[0], &owner_cbs, &o);
	fault_put(o.st, &s);
	raw_write(e->l, fds[1], "a", 1);
	owner_wait_bytes(&o, e->l, 1);
	raw_write(e->l, fds[1], "b", 1);
	owner_wait_bytes(&o, e->l, 2);
	raw_write(e->l, fds[1], "c", 1);
	help_wait(e->l, owner_saw_error, &o);
	assert_int_equal(o.err, E_PEER);
	assert_int_equal(o.got.len, 2);
	(void)close(fds[1]);
	owner_clear(&o);
}

static void
test_tune(void **state)
{
	struct env *e = *state;

	stream_tune_tcp(e->o.st);
	stream_quickack(e->o.st);
	stream_quickack(e->o.st);
}

/* A file cannot be waited for: the owner hears it, nothing dies. */
static void
test_bad_descriptor(void **state)
{
	struct env *e = *state;
	struct owner o = {0};
	FILE *f = tmpfile();

	o.st = stream_take_fd(e->l, dup(fileno(f)), &owner_cbs, &o);
	help_wait(e->l, owner_saw_error, &o);
	assert_int_equal(o.err, E_SYS);
	(void)fclose(f);
}

#define T(f)   cmocka_unit_test_setup_teardown(f, setup, teardown)
#define TCP(f) cmocka_unit_test_setup_teardown(f, setup_tcp, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    T(test_both_ways),
	    T(test_idle_holds_nothing),
	    T(test_big_out),
	    TCP(test_big_out),
	    T(test_big_in),
	    TCP(test_big_in),
	    T(test_input_limit),
	    T(test_pause_resume),
	    T(test_eof_with_data),
	    T(test_eof_with_input_kept),
	    T(test_half_close_in),
	    T(test_half_close_out),
	    TCP(test_half_close_out),
	    T(test_close_in_readable),
	    T(test_close_in_eof),
	    T(test_close_in_drained),
	    TCP(test_close_in_error),
	    T(test_last_words),
	    T(test_error_while_paused),
	    T(test_set_cbs),
	    T(test_set_cbs_paused),
	    TCP(test_finish_no_reset),
	    T(test_finish_bounds),
	    T(test_finish_at_loop_end),
	    TCP(test_reset),
	    T(test_injected_read_error),
	    T(test_tune),
	    TCP(test_tune),
	    T(test_bad_descriptor),
	};
	int failed;

	failed = cmocka_run_group_tests_name("stream", tests, NULL, NULL);
	help_fault_seed = 1;
	failed += cmocka_run_group_tests_name("stream, faulty descriptor",
					      tests, NULL, NULL);
	return failed;
}
