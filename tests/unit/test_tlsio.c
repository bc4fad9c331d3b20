/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/tlsio: both ends ours over a socketpair or TCP, and a second time over a
 * descriptor that cuts and refuses at random.
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
#include "net/tlsio.h"
#include "tests/unit/net_help.h"
#include "tests/unit/tls_help.h"

#define BIG (3 * 1024 * 1024)

static struct tls_files files;

struct env {
	struct loop *l;
	struct tlsctx *srv, *cli;
	int fds[2];
	struct owner s, c; /* server on fds[0], client on fds[1] */
};

static int
env_make(void **state, bool tcp)
{
	struct env *e = calloc(1, sizeof(*e));
	char *msg = NULL;

	e->l = loop_new();
	e->srv = tls_help_server(&files, false);
	assert_int_equal(tlsctx_client(files.cert, &e->cli, &msg), 0);
	if (tcp)
		help_tcp_pair(e->fds);
	else
		help_pair(e->fds);
	owner_start(&e->s, e->l, e->fds[0]);
	tlsio_accept(e->s.st, e->srv);
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

	stream_close(e->s.st);
	stream_close(e->c.st);
	tlsctx_unref(e->srv);
	tlsctx_unref(e->cli);
	loop_free(e->l);
	owner_clear(&e->s);
	owner_clear(&e->c);
	free(e);
	return 0;
}

static void
client_start(struct env *e, const char *host)
{
	owner_start(&e->c, e->l, e->fds[1]);
	tlsio_connect(e->c.st, e->cli, host);
}

static void
connect_both(struct env *e)
{
	client_start(e, "localhost");
	help_wait(e->l, owner_saw_ready, &e->c);
	help_wait(e->l, owner_saw_ready, &e->s);
}

static void
put(struct owner *o, const void *p, size_t n)
{
	bufq_add(stream_output(o->st), p, n);
	stream_flush(o->st);
}

static void
test_hello(void **state)
{
	struct env *e = *state;
	struct tls_info info;

	assert_true(tlsio_is(e->s.st));
	assert_false(stream_ready(e->s.st));
	assert_false(tlsio_info(e->s.st, &info));
	connect_both(e);
	assert_true(stream_ready(e->s.st));
	put(&e->c, "ping", 4);
	owner_wait_bytes(&e->s, e->l, 4);
	put(&e->s, "pong!", 5);
	owner_wait_bytes(&e->c, e->l, 5);
	assert_memory_equal(e->c.got.s, "pong!", 5);
	assert_int_equal(stream_bytes_out(e->s.st), 5);
	assert_true(tlsio_info(e->s.st, &info));
	assert_string_equal(info.version, "TLSv1.3");
	assert_string_equal(info.sni, "localhost");
	assert_false(info.resumed);
	assert_int_equal(e->s.ready, 1);
	help_settle(e->l);
	assert_int_equal(bufpool_live(loop_bufpool(e->l)), 0);
}

/* The request arrives with the last bytes of the handshake: OpenSSL has read
 * it already, and the descriptor never becomes readable for it. */
static void
test_request_inside_openssl(void **state)
{
	struct env *e = *state;

	client_start(e, "localhost");
	put(&e->c, "early request", 13); /* queued: leaves with Finished */
	owner_wait_bytes(&e->s, e->l, 13);
	assert_memory_equal(e->s.got.s, "early request", 13);
	/* The server's own output waits for the handshake as well. */
	put(&e->s, "answer", 6);
	owner_wait_bytes(&e->c, e->l, 6);
}

/* The same when the owner was paused at that moment: resume must find it. */
static void
test_paused_with_bytes_inside(void **state)
{
	struct env *e = *state;

	stream_pause(e->s.st);
	client_start(e, "localhost");
	put(&e->c, "early request", 13);
	help_wait(e->l, owner_saw_ready, &e->s);
	help_settle(e->l);
	assert_int_equal(e->s.readable, 0);
	stream_resume(e->s.st);
	assert_int_equal(e->s.readable, 0);
	owner_wait_bytes(&e->s, e->l, 13);
}

/* Many records in one read; the owner takes a few bytes at a time. */
static void
test_limit_with_bytes_inside(void **state)
{
	struct env *e = *state;
	struct bufq *in = stream_input(e->s.st);
	size_t got = 0;
	char want[20000];
	char *p;
	int i;

	connect_both(e);
	help_pattern(want, sizeof(want), 9);
	e->s.keep = true;
	stream_set_input_limit(e->s.st, 100);
	for (i = 0; i < 200; i++)
		put(&e->c, want + i * 100, 100);
	while (got < sizeof(want)) {
		uint64_t end = loop_clock_us() + 5000000;

		while (in->len < 100) {
			assert_true(loop_clock_us() < end);
			loop_once(e->l, false);
		}
		p = bufq_pullup(in, 100);
		assert_memory_equal(p, want + got, 100);
		bufq_drain(in, 100);
		got += 100;
		stream_resume(e->s.st);
	}
}

static void
exchange_big(struct env *e)
{
	char *want = malloc(BIG);

	connect_both(e);
	help_pattern(want, BIG, 10);
	put(&e->c, want, BIG);
	put(&e->s, want, BIG);
	assert_true(stream_over_high(e->s.st));
	owner_wait_bytes(&e->s, e->l, BIG);
	owner_wait_bytes(&e->c, e->l, BIG);
	assert_memory_equal(e->s.got.s, want, BIG);
	assert_memory_equal(e->c.got.s, want, BIG);
	help_settle(e->l);
	assert_true(e->s.drained > 0);
	assert_true(stream_flushed(e->s.st));
	assert_int_equal(stream_bytes_out(e->s.st), BIG);
	assert_int_equal(bufpool_live(loop_bufpool(e->l)), 0);
	free(want);
}

static void
test_big(void **state)
{
	exchange_big(*state);
}

struct sharer {
	struct owner s, c;
	size_t got;
};

/* Two connections of one context with records read ahead: each gets its own,
 * however their turns mix. */
static void
test_two_read_ahead(void **state)
{
	struct env *e = *state;
	struct sharer sh[2] = {0}, *x;
	char want[2][20000];
	int i, j, fds[2];

	for (j = 0; j < 2; j++) {
		help_pair(fds);
		owner_start(&sh[j].s, e->l, fds[0]);
		tlsio_accept(sh[j].s.st, e->srv);
		owner_start(&sh[j].c, e->l, fds[1]);
		tlsio_connect(sh[j].c.st, e->cli, "localhost");
		help_wait(e->l, owner_saw_ready, &sh[j].s);
		help_pattern(want[j], sizeof(want[j]), 20U + (unsigned)j);
		sh[j].s.keep = true;
		stream_set_input_limit(sh[j].s.st, 100);
		for (i = 0; i < 200; i++)
			put(&sh[j].c, want[j] + i * 100, 100);
	}
	for (i = 0; i < 400; i++) {
		struct bufq *in;
		uint64_t end = loop_clock_us() + 5000000;

		x = &sh[i % 2];
		in = stream_input(x->s.st);
		while (in->len < 100) {
			assert_true(loop_clock_us() < end);
			loop_once(e->l, false);
		}
		assert_memory_equal(bufq_pullup(in, 100), want[i % 2] + x->got,
				    100);
		bufq_drain(in, 100);
		x->got += 100;
		stream_resume(x->s.st);
	}
	for (j = 0; j < 2; j++) {
		stream_close(sh[j].s.st);
		stream_close(sh[j].c.st);
	}
}

/* Thousands of small records, so that OpenSSL's read buffer is filled to its
 * last byte and records lie across its end in every way. */
static void
test_small_records(void **state)
{
	struct env *e = *state;
	size_t n = 0, len, total = 1000000;
	char *want = malloc(total + 200);
	unsigned salt = 1;

	connect_both(e);
	help_settle(e->l);
	help_pattern(want, total + 200, 12);
	stream_pause(e->s.st);
	while (n < total) {
		salt = salt * 1103515245 + 12345;
		len = 1 + (salt >> 16) % 200;
		put(&e->c, want + n, len);
		n += len;
		if (stream_output(e->c.st)->len > 0) { /* the pipe is full */
			stream_resume(e->s.st);
			help_settle(e->l);
			stream_pause(e->s.st);
		}
	}
	stream_resume(e->s.st);
	owner_wait_bytes(&e->s, e->l, n);
	assert_memory_equal(e->s.got.s, want, n);
	assert_int_equal(e->s.errors, 0);
	free(want);
}

/* Small pieces become one record, and so one packet. */
static void
test_pieces_in_one_record(void **state)
{
	struct env *e = *state;
	struct bufq piece;
	int i;

	if (help_fault_seed != 0)
		return;
	connect_both(e);
	help_settle(e->l);
	bufq_init(&piece, loop_bufpool(e->l));
	for (i = 0; i < 4; i++) {
		/* Each a slab of its own. */
		size_t room;
		char *p =
		    bufq_reserve(stream_output(e->s.st), BUF_SLAB_SIZE, &room);

		memset(p, 'a' + i, 3000);
		bufq_commit(stream_output(e->s.st), 3000);
	}
	e->c.keep = true;
	stream_flush(e->s.st);
	help_settle(e->l);
	assert_int_equal(e->c.readable, 1);
	assert_int_equal(stream_input(e->c.st)->len, 12000);
	/* One record read in one go stands in one piece. */
	assert_int_equal(bufq_front(stream_input(e->c.st)).len, 12000);
}

static void
test_half_close_client(void **state)
{
	struct env *e = *state;
	char *want = malloc(BIG);

	connect_both(e);
	put(&e->c, "request", 7);
	stream_shutdown(e->c.st);
	help_wait(e->l, owner_saw_eof, &e->s);
	assert_int_equal(e->s.eof_at, 7);
	assert_true(stream_eof_clean(e->s.st));
	help_pattern(want, BIG, 11);
	put(&e->s, want, BIG);
	stream_shutdown(e->s.st);
	help_wait(e->l, owner_saw_eof, &e->c);
	assert_int_equal(e->c.eof_at, BIG);
	assert_memory_equal(e->c.got.s, want, BIG);
	assert_true(stream_eof_clean(e->c.st));
	assert_true(stream_flushed(e->s.st));
	assert_int_equal(e->s.errors + e->c.errors, 0);
	free(want);
}

static void
test_half_close_server(void **state)
{
	struct env *e = *state;

	connect_both(e);
	stream_shutdown(e->s.st);
	help_wait(e->l, owner_saw_eof, &e->c);
	put(&e->c, "still talking", 13);
	owner_wait_bytes(&e->s, e->l, 13);
}

/* A FIN without close_notify ends the peer's direction, not clean; it can
 * still be answered. */
static void
test_fin_without_notify(void **state)
{
	struct env *e = *state;

	connect_both(e);
	put(&e->c, "cut", 3);
	help_settle(e->l);
	assert_int_equal(shutdown(e->fds[1], SHUT_WR), 0);
	help_wait(e->l, owner_saw_eof, &e->s);
	assert_false(stream_eof_clean(e->s.st));
	put(&e->s, "answer", 6);
	owner_wait_bytes(&e->c, e->l, 6);
	assert_int_equal(e->s.errors, 0);
}

static void
test_finish(void **state)
{
	struct env *e = *state;
	char *junk = calloc(1, 100000);

	connect_both(e);
	put(&e->c, junk, 100000);
	bufq_add(stream_output(e->s.st), "last words", 10);
	stream_finish(e->s.st, 5000);
	e->s.st = NULL;
	help_wait(e->l, owner_saw_eof, &e->c);
	assert_int_equal(e->c.eof_at, 10);
	assert_true(stream_eof_clean(e->c.st));
	assert_int_equal(e->c.errors, 0);
	free(junk);
}

/* Closing inside callbacks frees the layer under OpenSSL's feet. */
static void
test_close_inside(void **state)
{
	struct env *e = *state;

	e->s.close_on_readable = true;
	client_start(e, "localhost");
	put(&e->c, "x", 1);
	owner_wait_bytes(&e->s, e->l, 1);
	help_settle(e->l);
	assert_int_equal(e->s.readable, 1);
}

static void
close_when_ready_cb(struct stream *st, void *arg)
{
	struct owner *o = arg;

	o->ready++;
	stream_close(st);
	o->st = NULL;
}

static void
test_close_when_ready(void **state)
{
	struct env *e = *state;

	stream_on_ready(e->s.st, close_when_ready_cb);
	client_start(e, "localhost");
	put(&e->c, "x", 1);
	help_wait(e->l, owner_saw_ready, &e->s);
	help_settle(e->l);
	assert_int_equal(e->s.readable, 0);
}

static void
test_garbage(void **state)
{
	struct env *e = *state;
	const char *text;

	e->s.keep_on_error = true;
	raw_write(e->l, e->fds[1], "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27);
	help_wait(e->l, owner_saw_error, &e->s);
	assert_int_equal(e->s.err, E_TLS);
	text = tlsio_error(e->s.st);
	assert_string_equal(text, "http request");
	assert_int_equal(e->s.ready, 0);
	(void)close(e->fds[1]);
}

static void
test_peer_leaves_during_handshake(void **state)
{
	struct env *e = *state;

	e->s.keep_on_error = true;
	(void)close(e->fds[1]);
	help_wait(e->l, owner_saw_error, &e->s);
	assert_int_equal(e->s.err, E_PEER);
	assert_string_not_equal(tlsio_error(e->s.st), "");
}

static void
test_wrong_name(void **state)
{
	struct env *e = *state;

	e->c.keep_on_error = true;
	client_start(e, "wrong.test");
	help_wait(e->l, owner_saw_error, &e->c);
	assert_int_equal(e->c.err, E_TLS);
	assert_string_equal(tlsio_error(e->c.st), "hostname mismatch");
	help_wait(e->l, owner_saw_error, &e->s);
}

static void
test_address_as_name(void **state)
{
	struct env *e = *state;
	struct tls_info info;

	client_start(e, "127.0.0.1");
	help_wait(e->l, owner_saw_ready, &e->c);
	help_wait(e->l, owner_saw_ready, &e->s);
	assert_true(tlsio_info(e->s.st, &info));
	assert_null(info.sni);
}

static void
test_wrong_address(void **state)
{
	struct env *e = *state;

	e->c.keep_on_error = true;
	client_start(e, "127.0.0.2");
	help_wait(e->l, owner_saw_error, &e->c);
	assert_string_equal(tlsio_error(e->c.st), "IP address mismatch");
}

static void
test_reset_by_peer(void **state)
{
	struct env *e = *state;

	connect_both(e);
	put(&e->c, "gone", 4);
	owner_wait_bytes(&e->s, e->l, 4);
	stream_reset(e->c.st);
	e->c.st = NULL;
	help_wait(e->l, owner_saw_error, &e->s);
	assert_int_equal(e->s.err, E_PEER);
}

/* Flipped bits do not get through. */
static void
test_corrupted(void **state)
{
	struct env *e = *state;
	char junk[64] = {0x17, 3, 3, 0, 59};

	connect_both(e);
	help_settle(e->l);
	e->s.keep_on_error = true;
	raw_write(e->l, e->fds[1], junk, sizeof(junk));
	help_wait(e->l, owner_saw_error, &e->s);
	assert_int_equal(e->s.err, E_TLS);
	assert_int_equal(e->s.got.len, 0);
}

static int
files_setup(void **state)
{
	(void)state;
	if (files.dir[0] == '\0')
		tls_files_make(&files);
	return 0;
}

#define T(f)   cmocka_unit_test_setup_teardown(f, setup, teardown)
#define TCP(f) cmocka_unit_test_setup_teardown(f, setup_tcp, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    T(test_hello),
	    TCP(test_hello),
	    T(test_request_inside_openssl),
	    T(test_paused_with_bytes_inside),
	    T(test_limit_with_bytes_inside),
	    T(test_big),
	    TCP(test_big),
	    T(test_two_read_ahead),
	    T(test_small_records),
	    TCP(test_small_records),
	    T(test_pieces_in_one_record),
	    T(test_half_close_client),
	    T(test_half_close_server),
	    T(test_fin_without_notify),
	    TCP(test_finish),
	    T(test_close_inside),
	    T(test_close_when_ready),
	    T(test_garbage),
	    T(test_peer_leaves_during_handshake),
	    T(test_wrong_name),
	    T(test_address_as_name),
	    T(test_wrong_address),
	    TCP(test_reset_by_peer),
	    T(test_corrupted),
	};
	int failed;

	failed = cmocka_run_group_tests_name("tlsio", tests, files_setup, NULL);
	help_fault_seed = 1;
	failed += cmocka_run_group_tests_name("tlsio, faulty descriptor", tests,
					      files_setup, NULL);
	tls_files_remove(&files);
	return failed;
}
