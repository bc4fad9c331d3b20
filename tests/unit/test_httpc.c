/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/httpc against a raw server end, and its pool. Everything runs twice, the
 * second time over a layer that cuts reads and writes at random.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>

#include <cmocka.h>

#include "base/err.h"
#include "net/buf.h"
#include "net/httpc.h"
#include "net/stream.h"
#include "tests/unit/httpc_help.h"

#define BIG (10 * 1024 * 1024)

static void
test_simple_and_reuse(void **state)
{
	struct cli *e = *state;
	struct httpc *first = e->c;
	int i;

	assert_false(httpc_reused(e->c));
	for (i = 0; i < 3; i++) {
		cli_send_get(e);
		cli_hears(e, GET_TEXT);
		cli_say(e, OK_TEXT);
		cli_expect(e, 200, "ok");
		assert_int_equal(httpc_pool_count(e->pool), 1);
		assert_null(httpc_pool_get(e->pool, STRV("other")));
		e->c = httpc_pool_get(e->pool, STRV("k"));
		assert_ptr_equal(e->c, first);
		assert_true(httpc_reused(e->c));
		assert_int_equal(httpc_pool_count(e->pool), 0);
	}
	help_settle(e->l);
	assert_int_equal(bufpool_live(loop_bufpool(e->l)), 0);
}

static void
test_next_in_end(void **state)
{
	struct cli *e = *state;

	e->again = true;
	cli_send_get(e);
	cli_hears(e, GET_TEXT);
	cli_say(e, OK_TEXT);
	cli_hears(e, GET_TEXT);
	cli_say(e, OK_TEXT);
	help_wait(e->l, cli_has_ended, e);
	while (e->ends < 2)
		loop_once(e->l, true);
	assert_int_equal(e->body.len, 4);
	assert_int_equal(httpc_pool_count(e->pool), 1);
}

static void
test_not_pooled_says_close(void **state)
{
	struct cli *e = *state;

	httpc_close(e->c);
	(void)close(e->fd);
	e->c = cli_connect(e, "", &e->fd);
	cli_send_get(e);
	cli_hears(e, "GET /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
	cli_say(e, OK_TEXT);
	cli_expect(e, 200, "ok");
	assert_int_equal(httpc_pool_count(e->pool), 0);
}

static void
test_every_split(void **state)
{
	static const char *const texts[] = {
	    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n"
	    "Link: </a>\r\n\r\n" OK_TEXT,
	    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	    "1;x\r\no\r\n1\r\nk\r\n0\r\nT: v\r\n\r\n",
	};
	struct cli *e = *state;
	size_t i, k;

	for (k = 0; k < ARRAY_LEN(texts); k++) {
		for (i = 1; i < strlen(texts[k]); i++) {
			cli_send_get(e);
			cli_hears(e, GET_TEXT);
			raw_write(e->l, e->fd, texts[k], i);
			help_settle(e->l);
			cli_say(e, texts[k] + i);
			cli_expect(e, 200, "ok");
			e->c = httpc_pool_get(e->pool, STRV("k"));
			assert_non_null(e->c);
		}
	}
	assert_int_equal(e->interims, 2 * (strlen(texts[0]) - 1));
}

static void
test_bodiless(void **state)
{
	struct cli *e = *state;

	cli_send_get(e);
	cli_hears(e, GET_TEXT);
	cli_say(e, "HTTP/1.1 204 No Content\r\n\r\n");
	cli_expect(e, 204, "");
	e->c = httpc_pool_get(e->pool, STRV("k"));
	cli_send_get(e);
	cli_hears(e, GET_TEXT);
	cli_say(e, "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n");
	cli_expect(e, 304, "");
	e->c = httpc_pool_get(e->pool, STRV("k"));
	assert_non_null(e->c);
	cli_send_head(e, "HEAD", M_HEAD, BODY_NONE, 0, NULL);
	httpc_end(e->c);
	cli_hears(e, "HEAD /x HTTP/1.1\r\nHost: h\r\n\r\n");
	cli_say(e, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n");
	cli_expect(e, 200, "");
	/* A body may follow all the same. */
	assert_int_equal(httpc_pool_count(e->pool), 0);
}

static void
test_until_close(void **state)
{
	struct cli *e = *state;

	cli_send_get(e);
	cli_hears(e, GET_TEXT);
	cli_say(e, "HTTP/1.0 200 OK\r\n\r\nall of it");
	help_settle(e->l);
	assert_int_equal(e->ends, 0);
	(void)shutdown(e->fd, SHUT_WR);
	cli_expect(e, 200, "all of it");
	assert_int_equal(httpc_pool_count(e->pool), 0);
}

static void
test_not_kept(void **state)
{
	static const char *const texts[] = {
	    "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n"
	    "ok",
	    "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
	    OK_TEXT "HTTP/1.1 200 Poison\r\n\r\n",
	};
	struct cli *e = *state;
	size_t i;

	for (i = 0; i < ARRAY_LEN(texts); i++) {
		cli_fresh(e);
		cli_send_get(e);
		cli_hears(e, GET_TEXT);
		cli_say(e, texts[i]);
		cli_expect(e, 200, "ok");
		help_settle(e->l);
		assert_int_equal(httpc_pool_count(e->pool), 0);
	}
}

/* --- what no honest server says ---------------------------------------- */

static void
test_bad_responses(void **state)
{
	static const char *const texts[] = {
	    "SSH-2.0-OpenSSH_9.2\r\n\r\n",
	    "HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
	    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"
	    "Transfer-Encoding: chunked\r\n\r\n",
	    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n",
	    "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n"
	    "Upgrade: websocket\r\n\r\n",
	    "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n",
	    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
	};
	struct cli *e = *state;
	size_t i;

	for (i = 0; i < ARRAY_LEN(texts); i++) {
		cli_fresh(e);
		cli_send_get(e);
		cli_hears(e, GET_TEXT);
		cli_say(e, texts[i]);
		help_wait(e->l, cli_has_failed, e);
		assert_int_equal(e->err, E_PROTO);
		assert_true(e->begun);
		assert_int_equal(e->ends, 0);
	}
}

static void
test_endless_interim(void **state)
{
	struct cli *e = *state;
	int i;

	cli_send_get(e);
	for (i = 0; i < 33; i++)
		cli_say(e, "HTTP/1.1 102 Processing\r\n\r\n");
	help_wait(e->l, cli_has_failed, e);
	assert_int_equal(e->err, E_PROTO);
	assert_int_equal(e->interims, 32);
}

/* --- upgrades ---------------------------------------------------------- */

#define UPGRADE_TEXT                                                           \
	"GET /x HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\n"                \
	"Upgrade: websocket\r\n\r\n"
#define UP_TEXT                                                                \
	"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n"          \
	"Upgrade: WebSocket\r\n\r\nearly"

static void
check_upgraded(struct cli *e)
{
	struct owner o = {.st = e->up};

	stream_set_cbs(e->up, &owner_cbs, &o);
	owner_wait_bytes(&o, e->l, 5);
	assert_memory_equal(o.got.s, "early", 5);
	owner_clear(&o);
}

static void
test_upgrade_in_head(void **state)
{
	struct cli *e = *state;

	e->take = true;
	cli_send_head(e, "GET", M_GET, BODY_NONE, 0, "websocket");
	httpc_end(e->c);
	cli_hears(e, UPGRADE_TEXT);
	cli_say(e, UP_TEXT);
	help_wait(e->l, cli_has_head, e);
	check_upgraded(e);
}

static void
test_upgrade_later(void **state)
{
	struct cli *e = *state;

	cli_send_head(e, "GET", M_GET, BODY_NONE, 0, "websocket");
	httpc_end(e->c);
	cli_say(e, UP_TEXT);
	help_wait(e->l, cli_has_head, e);
	help_settle(e->l);
	e->up = httpc_upgrade(e->c);
	e->c = NULL;
	check_upgraded(e);
}

static void
test_upgrade_other(void **state)
{
	struct cli *e = *state;

	cli_send_head(e, "GET", M_GET, BODY_NONE, 0, "h3");
	httpc_end(e->c);
	cli_say(e, UP_TEXT);
	help_wait(e->l, cli_has_failed, e);
	assert_int_equal(e->err, E_PROTO);
}

static void
test_upgrade_declined(void **state)
{
	struct cli *e = *state;

	cli_send_head(e, "GET", M_GET, BODY_NONE, 0, "websocket");
	httpc_end(e->c);
	cli_hears(e, UPGRADE_TEXT);
	cli_say(e, OK_TEXT);
	cli_expect(e, 200, "ok");
	assert_int_equal(httpc_pool_count(e->pool), 1);
}

/* --- bodies ------------------------------------------------------------ */

static void
check_request_body(struct cli *e, enum http_body kind)
{
	char *p = malloc(BIG), *got = malloc(BIG);
	size_t at, n;

	help_pattern(p, BIG, 0);
	cli_send_head(e, "PUT", M_PUT, kind, BIG, NULL);
	httpc_flush(e->c);
	if (kind == BODY_LENGTH)
		cli_hears(e, "PUT /x HTTP/1.1\r\nHost: h\r\n"
			     "Content-Length: 10485760\r\n\r\n");
	else
		cli_hears(e, "PUT /x HTTP/1.1\r\nHost: h\r\n"
			     "Transfer-Encoding: chunked\r\n\r\n");
	for (at = 0; at < BIG; at += n) {
		char line[16];

		n = BIG - at < 65536 ? BIG - at : 65536;
		httpc_write(e->c, p + at, n);
		httpc_flush(e->c);
		(void)snprintf(line, sizeof(line), "%zx\r\n", n);
		if (kind == BODY_CHUNKED)
			cli_hears(e, line);
		raw_read(e->l, e->fd, got + at, n);
		if (kind == BODY_CHUNKED)
			cli_hears(e, "\r\n");
	}
	httpc_end(e->c);
	httpc_end(e->c);
	if (kind == BODY_CHUNKED)
		cli_hears(e, "0\r\n\r\n");
	assert_memory_equal(p, got, BIG);
	cli_say(e, OK_TEXT);
	cli_expect(e, 200, "ok");
	assert_int_equal(httpc_pool_count(e->pool), 1);
	free(p);
	free(got);
}

static void
test_request_length(void **state)
{
	check_request_body(*state, BODY_LENGTH);
}

static void
test_request_chunked(void **state)
{
	check_request_body(*state, BODY_CHUNKED);
}

static void
test_empty_post(void **state)
{
	struct cli *e = *state;

	cli_send_head(e, "POST", M_POST, BODY_NONE, 0, NULL);
	httpc_end(e->c);
	cli_hears(e,
		  "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n");
}

static void
test_bad_request_field(void **state)
{
	struct cli *e = *state;
	struct http_writer *w;

	w = httpc_begin(e->c, &cli_cbs, e, STRV("GET"), M_GET, STRV("/x"),
			BODY_NONE, 0, 100);
	http1_put(w, STRV("X"), STRV("a\nb"));
	assert_int_equal(httpc_end_head(e->c, STRV_NULL), E_INVALID);
	cli_send_get(e);
	cli_hears(e, GET_TEXT);
	cli_say(e, OK_TEXT);
	cli_expect(e, 200, "ok");
}

static void
check_response_body(struct cli *e, bool chunked)
{
	char *p = malloc(BIG), line[16];
	size_t at, n;

	help_pattern(p, BIG, 0);
	cli_send_get(e);
	cli_hears(e, GET_TEXT);
	if (chunked)
		cli_say(
		    e, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
	else
		cli_say(e,
			"HTTP/1.1 200 OK\r\nContent-Length: 10485760\r\n\r\n");
	for (at = 0; at < BIG; at += n) {
		n = 1 + at * 7 % 70001;
		n = n < BIG - at ? n : BIG - at;
		(void)snprintf(line, sizeof(line), "%zx\r\n", n);
		if (chunked)
			cli_say(e, line);
		raw_write(e->l, e->fd, p + at, n);
		if (chunked)
			cli_say(e, "\r\n");
	}
	if (chunked)
		cli_say(e, "0\r\n\r\n");
	help_wait(e->l, cli_has_ended, e);
	assert_int_equal(e->body.len, BIG);
	assert_memory_equal(e->body.s, p, BIG);
	assert_int_equal(httpc_pool_count(e->pool), 1);
	free(p);
}

static void
test_response_length(void **state)
{
	check_response_body(*state, false);
}

static void
test_response_chunked(void **state)
{
	check_response_body(*state, true);
}

static void
test_response_held(void **state)
{
	struct cli *e = *state;
	char *p = calloc(1, 400000);

	e->hold = true;
	cli_send_get(e);
	cli_hears(e, GET_TEXT);
	cli_say(e, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n");
	raw_write(e->l, e->fd, p, 100);
	help_wait(e->l, cli_has_ended, e);
	assert_int_equal(e->in->len, 100);
	assert_false(httpc_busy(e->c));
	/* The rest is told once more, when it is asked for. */
	e->hold = false;
	httpc_body_resume(e->c);
	help_settle(e->l);
	assert_int_equal(e->ends, 2);
	assert_int_equal(e->body.len, 100);
	assert_int_equal(httpc_pool_count(e->pool), 1);
	free(p);
}

static void
test_early_response(void **state)
{
	struct cli *e = *state;

	cli_send_head(e, "POST", M_POST, BODY_LENGTH, 10, NULL);
	httpc_write(e->c, "123", 3);
	httpc_flush(e->c);
	cli_say(e, OK_TEXT);
	cli_expect(e, 200, "ok");
	assert_int_equal(httpc_pool_count(e->pool), 0);
}

/* The whole request was said, but not all of it has left. */
static void
test_response_before_flush(void **state)
{
	struct cli *e = *state;
	char *p = calloc(1, BIG);

	cli_send_head(e, "POST", M_POST, BODY_LENGTH, BIG, NULL);
	httpc_write(e->c, p, BIG);
	httpc_end(e->c);
	cli_say(e, OK_TEXT);
	cli_expect(e, 200, "ok");
	assert_int_equal(httpc_pool_count(e->pool), 0);
	free(p);
}

#define T(f)   cmocka_unit_test_setup_teardown(f, cli_setup, cli_teardown)
#define TCP(f) cmocka_unit_test_setup_teardown(f, cli_setup_tcp, cli_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    T(test_simple_and_reuse),
	    TCP(test_simple_and_reuse),
	    T(test_next_in_end),
	    T(test_not_pooled_says_close),
	    T(test_every_split),
	    T(test_bodiless),
	    TCP(test_until_close),
	    T(test_not_kept),
	    T(test_bad_responses),
	    T(test_endless_interim),
	    T(test_upgrade_in_head),
	    TCP(test_upgrade_later),
	    T(test_upgrade_other),
	    T(test_upgrade_declined),
	    TCP(test_request_length),
	    T(test_request_chunked),
	    T(test_empty_post),
	    T(test_bad_request_field),
	    T(test_response_length),
	    TCP(test_response_chunked),
	    T(test_response_held),
	    T(test_early_response),
	    T(test_response_before_flush),
	};
	int failed;

	failed = cmocka_run_group_tests_name("httpc", tests, NULL, NULL);
	help_fault_seed = help_seed();
	failed += cmocka_run_group_tests_name("httpc, faulty descriptor", tests,
					      NULL, NULL);
	return failed;
}
