/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/httpd: requests and responses over real sockets. Everything runs twice,
 * the second time over a layer that cuts reads and writes at random.
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
#include "net/stream.h"
#include "tests/unit/httpd_help.h"

#define BIG       (10 * 1024 * 1024)
#define GET(path) "GET " path " HTTP/1.1\r\nHost: h\r\n\r\n"

static void
test_simple(void **state)
{
	struct web *w = *state;
	struct answer a;
	int i;

	for (i = 0; i < 3; i++) {
		web_send(w, GET("/ok"));
		web_read(w, M_GET, &a);
		assert_int_equal(a.status, 200);
		assert_false(a.close || a.keep || a.chunked);
		assert_non_null(strstr(a.head.s, "\r\nX-Extra: 1\r\n"));
		assert_non_null(strstr(a.head.s, "\r\nDate: "));
		assert_int_equal(a.body.len, 2);
		answer_clear(&a);
	}
	assert_int_equal(w->requests, 3);
	assert_int_equal(w->err, 0);
	assert_int_equal(httpd_count(w->s), 1);
	help_settle(w->l);
	assert_int_equal(bufpool_live(loop_bufpool(w->l)), 0);
}

static void
test_every_split(void **state)
{
	static const char msg[] = "POST /count?x=1 HTTP/1.1\r\nHost: h\r\n"
				  "Transfer-Encoding: chunked\r\n\r\n"
				  "3;a=b\r\n\0\x1f\x3e\r\n1\r\n]\r\n0\r\n"
				  "T: x\r\n\r\nGET /ok HTTP/1.1\r\n"
				  "Host: h\r\n\r\n";
	struct web *w = *state;
	size_t i;

	for (i = 1; i < sizeof(msg) - 1; i++) {
		/* "/count?x=1" is not "/count": the body is dropped. */
		raw_write(w->l, w->fd, msg, i);
		help_settle(w->l);
		raw_write(w->l, w->fd, msg + i, sizeof(msg) - 1 - i);
		web_expect(w, 200, "ok");
		web_expect(w, 200, "ok");
	}
	assert_int_equal(w->refused, 0);
}

static void
test_byte_by_byte(void **state)
{
	static const char msg[] = "POST /count HTTP/1.1\r\nHost: h\r\n"
				  "Transfer-Encoding: chunked\r\n\r\n"
				  "3\r\n\0\x1f\x3e\r\n1\r\n]\r\n0\r\n\r\n";
	struct web *w = *state;
	size_t i;

	for (i = 0; i < sizeof(msg) - 1; i++) {
		raw_write(w->l, w->fd, msg + i, 1);
		help_settle(w->l);
	}
	web_expect(w, 200, "4");
	assert_false(w->bad);
	assert_int_equal(w->ends, 1);
}

static void
test_no_body_end(void **state)
{
	struct web *w = *state;

	web_send(w, GET("/count"));
	web_expect(w, 200, "0");
	assert_int_equal(w->ends, 1);
}

static void
test_pipeline(void **state)
{
	struct web *w = *state;
	char *p = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&p, &n);
	int i;

	for (i = 0; i < 100; i++) {
		if (i % 3 == 0)
			(void)fprintf(f,
				      "POST /echo HTTP/1.1\r\nHost: h\r\n"
				      "Content-Length: 3\r\n\r\n%03d",
				      i);
		else
			(void)fprintf(f, GET("/ok"));
	}
	(void)fclose(f);
	raw_write(w->l, w->fd, p, n);
	for (i = 0; i < 100; i++) {
		char text[16];

		(void)snprintf(text, sizeof(text), "%03d", i);
		web_expect(w, 200, i % 3 == 0 ? text : "ok");
	}
	assert_int_equal(w->requests, 100);
	help_settle(w->l);
	assert_int_equal(w->closed, 100);
	free(p);
}

static void
test_pipeline_waits(void **state)
{
	struct web *w = *state;

	web_send(w, GET("/hold") GET("/ok"));
	help_wait(w->l, web_has_held, w);
	help_settle(w->l);
	assert_int_equal(w->requests, 1);
	httpd_respond(w->held, 404, NULL, STRV_NULL, STRV("gone"));
	assert_int_equal(w->closed, 0); /* not from inside */
	web_expect(w, 404, "gone");
	web_expect(w, 200, "ok");
	assert_int_equal(w->closed, 2);
}

/* --- framing of responses ---------------------------------------------- */

static void
read_as(struct web *w, const char *req, enum http_method m, struct answer *a)
{
	web_send(w, req);
	web_read(w, m, a);
}

static void
test_head_request(void **state)
{
	struct web *w = *state;
	struct answer a;

	read_as(w, "HEAD /ok HTTP/1.1\r\nHost: h\r\n\r\n", M_HEAD, &a);
	assert_non_null(strstr(a.head.s, "Content-Length: 2\r\n"));
	answer_clear(&a);
	w->big = 100000;
	read_as(w, "HEAD /big HTTP/1.1\r\nHost: h\r\n\r\n", M_HEAD, &a);
	assert_false(a.chunked || a.has_length || a.close);
	answer_clear(&a);
	web_send(w, GET("/ok"));
	web_expect(w, 200, "ok");
}

static void
test_http10(void **state)
{
	struct web *w = *state;
	struct answer a;

	read_as(w,
		"GET /ok HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\n\r\n",
		M_GET, &a);
	assert_true(a.keep);
	assert_int_equal(a.body.len, 2);
	answer_clear(&a);
	w->big = 50000;
	read_as(
	    w, "GET /big HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\n\r\n",
	    M_GET, &a);
	assert_true(a.close && !a.chunked && !a.has_length);
	assert_int_equal(a.body.len, 50000);
	answer_clear(&a);
	help_wait(w->l, web_conn_gone, w);
	assert_int_equal(w->err, 0);
}

static void
test_http10_closes(void **state)
{
	struct web *w = *state;

	web_send(w, "GET /ok HTTP/1.0\r\nHost: h\r\n\r\n");
	web_expect(w, 200, "ok");
	web_expect_end(w);
}

static void
answer_held(struct web *w, unsigned status, enum http_body kind, uint64_t n,
	    const char *body)
{
	struct httpd_req *rq;

	help_wait(w->l, web_has_held, w);
	rq = w->held;
	(void)httpd_begin(rq, status, http1_reason_for(status), kind, n, 0);
	assert_int_equal(httpd_end_head(rq), 0);
	httpd_write(rq, body, strlen(body));
	httpd_end(rq);
	help_wait(w->l, web_is_closed, w);
	w->closed = 0;
}

static void
test_statuses_without_body(void **state)
{
	struct web *w = *state;
	struct answer a;

	web_send(w, GET("/hold"));
	answer_held(w, 204, BODY_LENGTH, 5, "drop!");
	web_read(w, M_GET, &a);
	assert_int_equal(a.status, 204);
	assert_false(a.has_length);
	answer_clear(&a);
	web_send(w, GET("/hold"));
	answer_held(w, 304, BODY_UNTIL_CLOSE, 0, "drop!");
	web_read(w, M_GET, &a);
	assert_int_equal(a.status, 304);
	assert_false(a.has_length || a.chunked);
	answer_clear(&a);
	web_send(w, GET("/hold"));
	answer_held(w, 200, BODY_NONE, 0, "");
	web_read(w, M_GET, &a);
	assert_true(a.has_length);
	assert_int_equal(a.body.len, 0);
	answer_clear(&a);
	web_send(w, GET("/hold"));
	answer_held(w, 200, BODY_LENGTH, 2, "okay"); /* too much is cut */
	web_expect(w, 200, "ok");
}

static void
test_bad_field(void **state)
{
	struct web *w = *state;
	struct http_writer *hw;

	web_send(w, GET("/hold"));
	help_wait(w->l, web_has_held, w);
	hw = httpd_begin(w->held, 200, STRV("OK"), BODY_NONE, 0, 100);
	http1_put(hw, STRV("X"), STRV("a\r\nEvil: 1"));
	assert_int_equal(httpd_end_head(w->held), E_INVALID);
	assert_false(httpd_begun(w->held));
	httpd_respond(w->held, 502, NULL, STRV_NULL, STRV("no"));
	assert_true(httpd_begun(w->held));
	web_expect(w, 502, "no");
}

static void
test_inform(void **state)
{
	struct web *w = *state;
	struct answer a;

	web_send(w, GET("/hold"));
	help_wait(w->l, web_has_held, w);
	httpd_inform(w->held, 103, STRV("Link: </x>\r\n"));
	web_read(w, M_GET, &a);
	assert_int_equal(a.status, 103);
	answer_clear(&a);
	httpd_respond(w->held, 200, NULL, STRV_NULL, STRV("x"));
	web_expect(w, 200, "x");
}

/* --- bad and odd heads ------------------------------------------------- */

static void
test_bad_heads(void **state)
{
	static const struct {
		const char *text;
		unsigned status;
	} cases[] = {
	    {"GET / HTTP/1.1\n\n", 400},
	    {"GET / HTTP/1.1\r\n\r\n", 400},
	    {"GET / HTTP/2.0\r\nHost: h\r\n\r\n", 505},
	    {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n"
	     "Transfer-Encoding: chunked\r\n\r\n",
	     400},
	};
	struct web *w = *state;
	struct answer a;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		web_open(w);
		web_send(w, cases[i].text);
		web_read(w, M_GET, &a);
		assert_int_equal(a.status, cases[i].status);
		assert_true(a.close);
		answer_clear(&a);
		web_expect_end(w);
	}
	assert_int_equal(w->requests, 0);
}

static void
test_head_too_long(void **state)
{
	struct web *w = *state;
	char *p = malloc(40000);

	memset(p, 'a', 40000);
	web_send(w, "GET / HTTP/1.1\r\nHost: h\r\nX: ");
	raw_write(w->l, w->fd, p, 40000);
	help_wait(w->l, web_conn_gone, w);
	assert_int_equal(w->refused, 1);
	free(p);
}

static void
test_long_head(void **state)
{
	struct web *w = *state;
	char *p = malloc(31000);

	memset(p, 'a', 31000);
	web_send(w, "GET /hold HTTP/1.1\r\nHost: h\r\nX: ");
	raw_write(w->l, w->fd, p, 31000);
	web_send(w, "\r\n\r\n");
	help_wait(w->l, web_has_held, w);
	assert_int_equal(http1_find(httpd_head(w->held), STRV("x")).len, 31000);
	httpd_respond(w->held, 200, NULL, STRV_NULL, STRV("long"));
	web_expect(w, 200, "long");
	free(p);
}

static void
test_arena(void **state)
{
	struct web *w = *state;
	size_t i, n;
	char *p, *before = NULL;

	web_send(w, GET("/hold"));
	help_wait(w->l, web_has_held, w);
	for (i = 0; i < 300; i++) {
		n = i * 97 % 3000 + (i % 50 == 0 ? 20000 : 1);
		p = httpd_alloc(w->held, n);
		assert_int_equal((uintptr_t)p % _Alignof(max_align_t), 0);
		memset(p, (int)i, n);
		if (before != NULL)
			assert_int_equal(*before, (char)(i - 1));
		before = p;
	}
	httpd_respond(w->held, 200, NULL, STRV_NULL, STRV("x"));
	web_expect(w, 200, "x");
}

/* --- an upgrade whose head cannot leave at once ------------------------ */

static bool
all_written(void *arg)
{
	struct web *w = arg;
	char buf[65536];

	(void)!recv(w->fd, buf, sizeof(buf), MSG_DONTWAIT);
	return stream_output(w->up)->len == 0;
}

/* The connection is freed while its stream still has to write: nobody must be
 * called there. */
static void
test_upgrade_blocked(void **state)
{
	static const char junk[4096];
	struct web *w = *state;
	int fd;

	web_send(w, GET("/hold"));
	help_wait(w->l, web_has_held, w);
	fd = stream_fd(httpd_conn_stream(w->c));
	while (send(fd, junk, sizeof(junk), MSG_DONTWAIT) > 0)
		continue;
	(void)httpd_begin(w->held, 101, STRV("Switching Protocols"), BODY_NONE,
			  0, 0);
	w->up = httpd_upgrade(w->held, STRV("x"));
	assert_non_null(w->up);
	help_settle(w->l);
	assert_int_equal(w->conn_closed, 1);
	assert_true(stream_output(w->up)->len > 0);
	help_wait(w->l, all_written, w);
}

#define T(f)   cmocka_unit_test_setup_teardown(f, web_setup, web_teardown)
#define TCP(f) cmocka_unit_test_setup_teardown(f, web_setup_tcp, web_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    T(test_simple),          TCP(test_simple),
	    T(test_every_split),     TCP(test_byte_by_byte),
	    T(test_no_body_end),     T(test_pipeline),
	    TCP(test_pipeline),      T(test_pipeline_waits),
	    T(test_head_request),    T(test_http10),
	    T(test_http10_closes),   T(test_statuses_without_body),
	    T(test_bad_field),       T(test_inform),
	    TCP(test_bad_heads),     T(test_head_too_long),
	    T(test_long_head),       T(test_arena),
	    T(test_upgrade_blocked),
	};
	int failed;

	failed = cmocka_run_group_tests_name("httpd", tests, NULL, NULL);
	help_fault_seed = help_seed();
	failed += cmocka_run_group_tests_name("httpd, faulty descriptor", tests,
					      NULL, NULL);
	return failed;
}
