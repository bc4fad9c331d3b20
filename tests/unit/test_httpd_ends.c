/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/httpd: how exchanges and connections end: deadlines, aborts, peers that
 * leave, draining, upgrades. Everything runs twice, as in test_httpd.c.
 */
#include "config.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>

#include <cmocka.h>

#include "base/err.h"
#include "net/buf.h"
#include "net/stream.h"
#include "tests/unit/fault_io.h"
#include "tests/unit/httpd_help.h"

#define GET(path)   "GET " path " HTTP/1.1\r\nHost: h\r\n\r\n"
#define SHORT_MS    40
#define POST_10     " HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n"
#define TIMES_BEGAN uint64_t began = loop_clock_us()
#define MS_PASSED   ((loop_clock_us() - began) / 1000)

/* --- deadlines --------------------------------------------------------- */

static void
test_idle_timeout(void **state)
{
	struct web *w = *state;

	w->o.idle_ms = SHORT_MS;
	web_open(w);
	web_send(w, GET("/ok"));
	web_expect(w, 200, "ok");
	web_expect_end(w);
	assert_int_equal(w->refused, 0);
	assert_true(web_conn_gone(w));
}

static void
test_first_byte_timeout(void **state)
{
	struct web *w = *state;

	w->o.handshake_ms = SHORT_MS;
	web_open(w);
	web_expect_end(w);
	assert_int_equal(w->refused, 0);
}

static void
test_head_timeout_is_absolute(void **state)
{
	struct web *w = *state;
	TIMES_BEGAN;
	int i;

	w->o.head_ms = 100;
	web_open(w);
	web_send(w, "GET / HTTP/1.1\r\nHost: h\r\nX: ");
	for (i = 0; i < 200 && w->refused == 0; i++) {
		if (send(w->fd, "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1)
			break;
		help_pass(w->l, 5);
	}
	assert_true(MS_PASSED >= 90 && i < 200);
	web_expect(w, 408, "request head too slow");
	web_expect_end(w);
	assert_int_equal(w->requests, 0);
}

static void
test_body_timeout(void **state)
{
	struct web *w = *state;

	w->o.body_ms = SHORT_MS;
	web_open(w);
	web_send(w, "POST /count" POST_10 "1234");
	web_expect(w, 408, "request body too slow");
	web_expect_end(w);
	assert_int_equal(w->err, E_TIMEOUT);
	assert_int_equal(w->status, 408);
}

/* Whoever may type has all the time there is. */
static void
test_body_timeout_patient(void **state)
{
	struct web *w = *state;

	w->o.body_ms = SHORT_MS;
	w->patient = true;
	web_open(w);
	web_send(w, "POST /count" POST_10 "1234");
	help_pass(w->l, 3 * SHORT_MS);
	assert_int_equal(w->closed, 0);
	web_send(w, "567890");
	web_expect(w, 200, "10");
}

/* A pause while the handler does not want the body is not the client's. */
static void
test_body_timeout_spares_waiting(void **state)
{
	struct web *w = *state;

	w->o.body_ms = SHORT_MS;
	w->stop_at_once = true;
	web_open(w);
	web_send(w, "POST /wait" POST_10);
	help_wait(w->l, web_has_held, w);
	help_pass(w->l, 3 * SHORT_MS);
	assert_int_equal(w->closed, 0);
	httpd_respond(w->held, 200, NULL, STRV_NULL, STRV("x"));
	web_expect(w, 200, "x");
}

static void
test_body_rate(void **state)
{
	struct web *w = *state;
	int i;

	w->o.body_ms = 60;
	w->o.body_rate = 100000;
	web_open(w);
	web_send(w, "POST /count HTTP/1.1\r\nHost: h\r\n"
		    "Content-Length: 1000\r\n\r\n");
	for (i = 0; i < 200 && w->closed == 0; i++) {
		(void)!send(w->fd, "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
		help_pass(w->l, 5);
	}
	assert_true(i < 200);
	assert_int_equal(w->err, E_TIMEOUT);
}

static void
test_write_timeout(void **state)
{
	struct web *w = *state;

	w->o.write_ms = SHORT_MS;
	w->big = 50 * 1024 * 1024;
	web_open(w);
	web_send(w, GET("/big"));
	help_wait(w->l, web_is_closed, w);
	assert_int_equal(w->err, E_TIMEOUT);
	assert_true(web_conn_gone(w));
}

static void
test_drop_timeout(void **state)
{
	struct web *w = *state;

	w->o.linger_ms = SHORT_MS;
	web_open(w);
	web_send(w, "POST /early" POST_10);
	web_expect(w, 200, "early");
	web_expect_end(w);
	assert_int_equal(w->err, 0);
}

/* --- peers that leave -------------------------------------------------- */

static void
client_reset(struct web *w)
{
	struct linger now = {.l_onoff = 1};

	(void)setsockopt(w->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	(void)close(w->fd);
	w->fd = -1;
}

static void
test_reset_while_held(void **state)
{
	struct web *w = *state;

	web_send(w, GET("/hold"));
	help_wait(w->l, web_has_held, w);
	client_reset(w);
	help_wait(w->l, web_is_closed, w);
	assert_int_equal(w->err, E_PEER);
	assert_int_equal(w->conn_closed, 1);
}

static bool
saw_peer_eof(void *arg)
{
	return ((struct web *)arg)->peer_eof > 0;
}

static void
test_half_close(void **state)
{
	struct web *w = *state;

	web_send(w, GET("/hold"));
	(void)shutdown(w->fd, SHUT_WR);
	help_wait(w->l, saw_peer_eof, w);
	help_settle(w->l);
	assert_int_equal(w->closed, 0);
	httpd_respond(w->held, 200, NULL, STRV_NULL, STRV("still"));
	web_expect(w, 200, "still");
	web_expect_end(w);
	assert_int_equal(w->err, 0);
	assert_int_equal(w->peer_eof, 1);
}

static void
test_half_close_pipelined(void **state)
{
	struct web *w = *state;

	web_send(w, GET("/ok") GET("/ok") "GET /ok HTT");
	(void)shutdown(w->fd, SHUT_WR);
	web_expect(w, 200, "ok");
	web_expect(w, 200, "ok");
	web_expect_end(w);
	assert_int_equal(w->requests, 2);
}

static void
test_eof_within_body(void **state)
{
	struct web *w = *state;

	web_send(w, "POST /count" POST_10 "1234");
	(void)shutdown(w->fd, SHUT_WR);
	help_wait(w->l, web_is_closed, w);
	assert_int_equal(w->err, E_PEER);
	assert_int_equal(w->got, 4);
	web_expect_end(w);
}

static void
test_reset_while_writing(void **state)
{
	struct web *w = *state;
	char buf[1000];

	w->big = 50 * 1024 * 1024;
	web_send(w, GET("/big"));
	raw_read(w->l, w->fd, buf, sizeof(buf));
	client_reset(w);
	help_wait(w->l, web_is_closed, w);
	assert_int_equal(w->err, E_PEER);
}

/* A response that could not be written is not a success. */
static void
test_lost_response(void **state)
{
	struct fault_script s = {.seed = 7, .write_reset = 1};
	struct web *w = *state;
	struct stream *st;
	int fds[2];

	help_pair(fds);
	st = stream_take_fd(w->l, fds[1], NULL, NULL);
	fault_put(st, &s);
	(void)httpd_serve(w->s, st, NULL, NULL);
	raw_write(w->l, fds[0], GET("/ok"), strlen(GET("/ok")));
	help_wait(w->l, web_is_closed, w);
	assert_int_equal(w->err, E_PEER);
	(void)close(fds[0]);
}

/* --- aborts ------------------------------------------------------------ */

static void
begin_held(struct web *w, const char *req, enum http_body kind)
{
	struct httpd_req *rq;

	web_send(w, req);
	help_wait(w->l, web_has_held, w);
	rq = w->held;
	(void)httpd_begin(rq, 200, STRV("OK"), kind, 1000, 0);
	assert_int_equal(httpd_end_head(rq), 0);
	httpd_write(rq, "part", 4);
	httpd_flush(rq);
	assert_int_equal(httpd_sent(rq), 4);
}

static void
check_cut(struct web *w, int err)
{
	struct strbuf got = {0};

	web_expect_cut(w, &got);
	help_wait(w->l, web_is_closed, w);
	assert_int_equal(w->err, err);
	assert_true(got.len == 0 || strstr(got.s, "\r\n0\r\n") == NULL);
	strbuf_clear(&got);
}

static void
test_abort_before(void **state)
{
	struct web *w = *state;

	web_send(w, GET("/hold"));
	help_wait(w->l, web_has_held, w);
	httpd_abort(w->held);
	assert_int_equal(w->closed, 0);
	/* Nothing hurts until closed says so. */
	httpd_respond(w->held, 200, NULL, STRV_NULL, STRV("late"));
	httpd_body_resume(w->held);
	httpd_flush(w->held);
	httpd_abort(w->held);
	check_cut(w, E_CANCELLED);
	assert_int_equal(w->closed, 1);
}

static void
test_abort_within_head(void **state)
{
	struct web *w = *state;
	struct http_writer *hw;

	web_send(w, GET("/hold"));
	help_wait(w->l, web_has_held, w);
	hw = httpd_begin(w->held, 200, STRV("OK"), BODY_NONE, 0, 0);
	http1_put(hw, STRV("X"), STRV("y"));
	httpd_abort(w->held);
	assert_int_equal(httpd_end_head(w->held), E_PEER);
	check_cut(w, E_CANCELLED);
}

static void
test_abort_chunked(void **state)
{
	struct web *w = *state;

	begin_held(w, GET("/hold"), BODY_CHUNKED);
	httpd_abort(w->held);
	check_cut(w, E_CANCELLED);
}

static void
test_abort_length(void **state)
{
	struct web *w = *state;

	begin_held(w, GET("/hold"), BODY_LENGTH);
	httpd_abort(w->held);
	check_cut(w, E_CANCELLED);
}

static void
test_end_too_early(void **state)
{
	struct web *w = *state;

	begin_held(w, GET("/hold"), BODY_LENGTH);
	httpd_end(w->held);
	check_cut(w, E_CANCELLED);
}

static void
test_abort_until_close(void **state)
{
	struct web *w = *state;
	struct strbuf got = {0};

	begin_held(w, "GET /hold HTTP/1.0\r\nHost: h\r\n\r\n",
		   BODY_UNTIL_CLOSE);
	httpd_abort(w->held);
	assert_int_equal(raw_read_end(w->l, w->fd, &got), ECONNRESET);
	strbuf_clear(&got);
}

static void
test_conn_close(void **state)
{
	struct web *w = *state;

	web_send(w, GET("/hold"));
	help_wait(w->l, web_has_held, w);
	httpd_conn_close(w->c);
	assert_int_equal(w->closed, 1);
	assert_int_equal(w->conn_closed, 1);
	assert_int_equal(w->err, E_CANCELLED);
	assert_int_equal(httpd_count(w->s), 0);
}

static void
test_free_with_open(void **state)
{
	struct web *w = *state;
	int other;

	web_send(w, GET("/hold"));
	help_wait(w->l, web_has_held, w);
	other = web_connect(w);
	assert_int_equal(httpd_count(w->s), 2);
	httpd_free(w->s);
	w->s = NULL;
	assert_int_equal(w->closed, 1);
	assert_int_equal(w->conn_closed, 2);
	(void)close(other);
}

/* --- last responses ---------------------------------------------------- */

static void
expect_close(struct web *w)
{
	struct answer a;

	web_read(w, M_GET, &a);
	assert_int_equal(a.status, 200);
	assert_true(a.close);
	answer_clear(&a);
	web_expect_end(w);
}

static void
test_max_requests(void **state)
{
	struct web *w = *state;

	w->o.max_requests = 2;
	web_open(w);
	web_send(w, GET("/ok") GET("/ok") GET("/ok"));
	web_expect(w, 200, "ok");
	expect_close(w);
	assert_int_equal(w->requests, 2);
}

static void
test_close_after(void **state)
{
	struct web *w = *state;

	web_send(w, GET("/hold"));
	help_wait(w->l, web_has_held, w);
	httpd_close_after(w->held);
	httpd_respond(w->held, 200, NULL, STRV_NULL, STRV("x"));
	expect_close(w);
}

static void
test_client_closes(void **state)
{
	struct web *w = *state;

	web_send(w, "GET /ok HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
	expect_close(w);
}

static void
test_drain(void **state)
{
	struct web *w = *state;
	int idle = web_connect(w), busy = w->fd;
	struct answer a;

	web_send(w, GET("/hold"));
	help_wait(w->l, web_has_held, w);
	httpd_drain(w->s);
	w->fd = idle;
	web_expect_end(w);
	w->fd = busy;
	httpd_respond(w->held, 200, NULL, STRV_NULL, STRV("last"));
	web_read(w, M_GET, &a);
	assert_true(a.close);
	assert_int_equal(a.body.len, 4);
	answer_clear(&a);
	web_expect_end(w);
	assert_int_equal(httpd_count(w->s), 0);
	(void)close(idle);
}

/* Who has only just come is served once. */
static void
test_drain_first_request(void **state)
{
	struct web *w = *state;
	struct answer a;

	httpd_drain(w->s);
	web_send(w, GET("/"));
	web_read(w, M_GET, &a);
	assert_true(a.close);
	assert_int_equal(a.status, 200);
	answer_clear(&a);
	web_expect_end(w);
}

/* An idle connection is not cut, it ends with its next response. */
static void
test_retire(void **state)
{
	struct web *w = *state;
	struct answer a;

	web_send(w, GET("/"));
	web_read(w, M_GET, &a);
	assert_false(a.close);
	answer_clear(&a);
	httpd_retire(w->s);
	web_send(w, GET("/"));
	web_read(w, M_GET, &a);
	assert_true(a.close);
	assert_int_equal(a.status, 200);
	answer_clear(&a);
	web_expect_end(w);
}

/* Its head had said that the connection is kept. */
static void
test_retire_after_head(void **state)
{
	struct web *w = *state;
	struct answer a;

	begin_held(w, GET("/hold"), BODY_CHUNKED);
	httpd_retire(w->s);
	httpd_end(w->held);
	web_expect(w, 200, "part");
	web_send(w, GET("/"));
	web_read(w, M_GET, &a);
	assert_true(a.close);
	assert_int_equal(a.status, 200);
	answer_clear(&a);
	web_expect_end(w);
}

static void
test_drain_after_head(void **state)
{
	struct web *w = *state;

	begin_held(w, GET("/hold"), BODY_CHUNKED);
	httpd_drain(w->s);
	httpd_end(w->held);
	web_expect(w, 200, "part");
	web_expect_end(w);
	assert_int_equal(w->err, 0);
}

/* --- upgrade ----------------------------------------------------------- */

static void
test_upgrade(void **state)
{
	struct web *w = *state;
	struct owner o = {0};
	struct answer a;
	char buf[4];

	web_send(w, "GET /up HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\n"
		    "Upgrade: websocket\r\n\r\nearly");
	web_read(w, M_GET, &a);
	assert_int_equal(a.status, 101);
	assert_non_null(strstr(a.head.s, "\r\nConnection: Upgrade\r\n"));
	assert_non_null(strstr(a.head.s, "\r\nUpgrade: websocket\r\n"));
	answer_clear(&a);
	assert_non_null(w->up);
	assert_int_equal(w->closed, 1);
	assert_int_equal(w->err, 0);
	o.st = w->up;
	stream_set_cbs(w->up, &owner_cbs, &o);
	owner_wait_bytes(&o, w->l, 5);
	assert_memory_equal(o.got.s, "early", 5);
	bufq_add(stream_output(w->up), "back", 4);
	stream_flush(w->up);
	raw_read(w->l, w->fd, buf, 4);
	assert_memory_equal(buf, "back", 4);
	assert_int_equal(w->conn_closed, 1);
	assert_int_equal(httpd_count(w->s), 0);
	owner_clear(&o);
}

static void
test_upgrade_late(void **state)
{
	struct web *w = *state;

	web_send(w, GET("/hold") "raw");
	help_wait(w->l, web_has_held, w);
	(void)httpd_begin(w->held, 101, STRV("Switching Protocols"), BODY_NONE,
			  0, 0);
	w->up = httpd_upgrade(w->held, STRV("x"));
	assert_non_null(w->up);
	assert_int_equal(w->closed, 1);
	assert_int_equal(w->conn_closed, 0);
	help_settle(w->l);
	assert_int_equal(w->conn_closed, 1);
}

static void
test_upgrade_with_body(void **state)
{
	struct web *w = *state;

	web_send(w, "POST /up" POST_10 "123");
	help_wait(w->l, web_is_closed, w);
	assert_null(w->up);
	assert_int_equal(w->err, E_INVALID);
}

#define T(f)   cmocka_unit_test_setup_teardown(f, web_setup, web_teardown)
#define TCP(f) cmocka_unit_test_setup_teardown(f, web_setup_tcp, web_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    T(test_idle_timeout),
	    TCP(test_first_byte_timeout),
	    TCP(test_head_timeout_is_absolute),
	    TCP(test_body_timeout),
	    T(test_body_timeout_patient),
	    T(test_body_timeout_spares_waiting),
	    TCP(test_body_rate),
	    T(test_write_timeout),
	    TCP(test_write_timeout),
	    T(test_drop_timeout),
	    TCP(test_reset_while_held),
	    T(test_half_close),
	    TCP(test_half_close),
	    T(test_half_close_pipelined),
	    T(test_eof_within_body),
	    TCP(test_reset_while_writing),
	    T(test_lost_response),
	    T(test_abort_before),
	    T(test_abort_within_head),
	    TCP(test_abort_chunked),
	    TCP(test_abort_length),
	    T(test_end_too_early),
	    TCP(test_abort_until_close),
	    T(test_conn_close),
	    T(test_free_with_open),
	    TCP(test_max_requests),
	    T(test_close_after),
	    T(test_client_closes),
	    T(test_drain),
	    T(test_drain_first_request),
	    T(test_retire),
	    T(test_retire_after_head),
	    T(test_drain_after_head),
	    T(test_upgrade),
	    TCP(test_upgrade),
	    T(test_upgrade_late),
	    T(test_upgrade_with_body),
	};
	int failed;

	failed = cmocka_run_group_tests_name("httpd ends", tests, NULL, NULL);
	help_fault_seed = help_seed();
	failed += cmocka_run_group_tests_name("httpd ends, faulty descriptor",
					      tests, NULL, NULL);
	return failed;
}
