/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/httpd: request and response bodies, large, unread, refused. Everything
 * runs twice, as in test_httpd.c.
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

/* --- big bodies -------------------------------------------------------- */

static void
send_big(struct web *w, const char *head, bool chunked)
{
	char *p = malloc(BIG), line[16];
	size_t at, n;

	help_pattern(p, BIG, 0);
	web_send(w, head);
	for (at = 0; chunked && at < BIG; at += n) {
		n = 1 + at * 7 % 70001;
		n = n < BIG - at ? n : BIG - at;
		(void)snprintf(line, sizeof(line), "%zX\r\n", n);
		web_send(w, line);
		raw_write(w->l, w->fd, p + at, n);
		web_send(w, "\r\n");
	}
	if (chunked)
		web_send(w, "0\r\n\r\n");
	else
		raw_write(w->l, w->fd, p, BIG);
	free(p);
}

static void
test_big_request_length(void **state)
{
	struct web *w = *state;

	send_big(w,
		 "PUT /count HTTP/1.1\r\nHost: h\r\n"
		 "Content-Length: 10485760\r\n\r\n",
		 false);
	web_expect(w, 200, "10485760");
	assert_false(w->bad);
}

static void
test_big_request_chunked(void **state)
{
	struct web *w = *state;

	send_big(w,
		 "PUT /count HTTP/1.1\r\nHost: h\r\n"
		 "Transfer-Encoding: chunked\r\n\r\n",
		 true);
	web_expect(w, 200, "10485760");
	assert_false(w->bad);
}

static void
check_big(struct web *w, enum http_body kind)
{
	char *want = malloc(5000);
	struct answer a;
	size_t i;

	w->big = BIG;
	w->kind = kind;
	web_send(w, GET("/big"));
	web_read(w, M_GET, &a);
	assert_int_equal(a.chunked, kind != BODY_LENGTH);
	assert_int_equal(a.body.len, BIG);
	help_pattern(want, 5000, 0);
	for (i = 0; i + 5000 <= BIG; i += 5000)
		assert_memory_equal(a.body.s + i, want, 5000);
	/* A slow reader holds back the producer, not the memory. */
	assert_true(w->peak < 128 * 1024);
	assert_true(w->drained > 0);
	answer_clear(&a);
	free(want);
}

static void
test_big_response_length(void **state)
{
	check_big(*state, BODY_LENGTH);
}

static void
test_big_response_chunked(void **state)
{
	check_big(*state, BODY_CHUNKED);
}

struct pump {
	struct web *w;
	const char *out;
	size_t sent, n;
	struct strbuf got;
};

static bool
pump_done(void *arg)
{
	struct pump *p = arg;
	char buf[65536];
	ssize_t r;

	if (p->sent < p->n &&
	    (r = send(p->w->fd, p->out + p->sent, p->n - p->sent,
		      MSG_DONTWAIT | MSG_NOSIGNAL)) > 0)
		p->sent += (size_t)r;
	if ((r = recv(p->w->fd, buf, sizeof(buf), MSG_DONTWAIT)) > 0)
		strbuf_add(&p->got, buf, (size_t)r);
	return p->got.len >= 5 &&
	       memcmp(p->got.s + p->got.len - 5, "0\r\n\r\n", 5) == 0 &&
	       p->sent == p->n;
}

/* Both directions at the same time, with back-pressure between them. */
static void
test_echo_duplex(void **state)
{
	struct web *w = *state;
	char *msg = malloc(BIG + 200);
	struct pump p = {.w = w, .out = msg};
	int n = snprintf(msg, 200,
			 "POST /echo HTTP/1.1\r\nHost: h\r\n"
			 "Content-Length: %d\r\n\r\n",
			 BIG);

	help_pattern(msg + n, BIG, 0);
	p.n = BIG + (size_t)n;
	help_wait(w->l, pump_done, &p);
	assert_true(p.got.len > BIG);
	assert_true(w->peak <= 256 * 1024);
	strbuf_clear(&p.got);
	free(msg);
}

/* --- bodies and those who do not take them ----------------------------- */

static void
test_continue(void **state)
{
	struct web *w = *state;
	struct answer a;

	web_send(w, "POST /count HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n"
		    "Expect: 100-continue\r\n\r\n");
	web_read(w, M_POST, &a);
	assert_int_equal(a.status, 100);
	answer_clear(&a);
	raw_write(w->l, w->fd, "\0\x1f\x3e", 3);
	web_expect(w, 200, "3");
	/* Who does not wait gets none. */
	web_send(w, "POST /count HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n"
		    "Expect: 100-continue\r\n\r\nx");
	web_read(w, M_POST, &a);
	if (help_fault_seed == 0)
		assert_int_equal(a.status, 200);
	answer_clear(&a);
}

static void
test_continue_refused(void **state)
{
	struct web *w = *state;
	struct answer a;

	web_send(w, "POST /early HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n"
		    "Expect: 100-continue\r\n\r\n");
	web_read(w, M_POST, &a);
	assert_int_equal(a.status, 200);
	assert_true(a.close);
	answer_clear(&a);
	web_expect_end(w);
}

static void
test_unread_body_dropped(void **state)
{
	struct web *w = *state;
	char *p = calloc(1, 200000);

	web_send(w, "POST /early HTTP/1.1\r\nHost: h\r\n"
		    "Content-Length: 200000\r\n\r\n");
	web_expect(w, 200, "early");
	raw_write(w->l, w->fd, p, 200000);
	web_send(w, GET("/ok"));
	web_expect(w, 200, "ok");
	free(p);
}

static void
test_unread_body_too_big(void **state)
{
	struct web *w = *state;
	struct answer a;

	web_send(w, "POST /early HTTP/1.1\r\nHost: h\r\n"
		    "Content-Length: 2000000\r\n\r\nstart");
	web_read(w, M_POST, &a);
	assert_true(a.close);
	assert_int_equal(a.body.len, 5);
	answer_clear(&a);
	web_expect_end(w);
}

static bool
keeps_all(void *arg)
{
	struct web *w = arg;

	return w->in != NULL && w->in->len >= 65536;
}

static bool
takes_all(void *arg)
{
	struct web *w = arg;

	bufq_drain(w->in, w->in->len);
	httpd_body_resume(w->held);
	return httpd_body_bytes(w->held) == 150000;
}

static bool
has_ten(void *arg)
{
	struct web *w = arg;

	return w->in != NULL && w->in->len == 10;
}

static bool
has_ended(void *arg)
{
	return ((struct web *)arg)->ends > 0;
}

static void
test_body_left_alone(void **state)
{
	struct web *w = *state;
	char *p = malloc(200000);

	help_pattern(p, 200000, 0);
	web_send(w, "POST /keep HTTP/1.1\r\nHost: h\r\n"
		    "Content-Length: 200000\r\n\r\n");
	raw_write(w->l, w->fd, p, 150000);
	help_wait(w->l, keeps_all, w);
	help_settle(w->l);
	assert_int_equal(w->in->len, 65536);
	assert_int_equal(httpd_body_bytes(w->held), 65536);
	assert_int_equal(w->ends, 0);
	/* Taken out of turn: told anew after the batch, and reading, which
	 * had stopped with a full input, goes on. */
	help_wait(w->l, takes_all, w);
	httpd_respond(w->held, 200, NULL, STRV_NULL, STRV("enough"));
	web_expect(w, 200, "enough");
	raw_write(w->l, w->fd, p, 50000);
	web_send(w, GET("/ok"));
	web_expect(w, 200, "ok");
	free(p);
}

/* A request of 100 bytes, 10 of which the handler has: then it lends. -1 over
 * a layer. */
static int
lend(struct web *w, uint64_t *left)
{
	uint64_t none = 7;
	int fd;

	web_send(w, "POST /keep HTTP/1.1\r\nHost: h\r\n"
		    "Content-Length: 100\r\n\r\n0123456789");
	help_wait(w->l, web_has_held, w);
	help_wait(w->l, has_ten, w);
	assert_int_equal(httpd_body_lend(w->held, &none), -1); /* it waits */
	assert_int_equal(none, 7);
	bufq_drain(w->in, 10);
	fd = httpd_body_lend(w->held, left);
	assert_int_equal(fd == -1, help_fault_seed != 0);
	return fd;
}

static void
test_body_lent(void **state)
{
	struct web *w = *state;
	char got[100] = {0};
	uint64_t left;
	int fd = lend(w, &left);

	if (fd == -1)
		return;
	assert_int_equal(left, 90);
	assert_int_equal(httpd_body_lend(w->held, &left), -1); /* once */
	raw_write(w->l, w->fd, got, 30);
	help_settle(w->l);
	assert_int_equal(w->in->len, 0); /* nobody here reads it */
	assert_int_equal(read(fd, got, 20), 20);
	httpd_body_return(w->held, 20);
	help_wait(w->l, has_ten, w);
	assert_int_equal(httpd_body_bytes(w->held), 40);
	bufq_drain(w->in, 10);

	/* To its end, and the connection goes on. */
	assert_int_equal(httpd_body_lend(w->held, &left), fd);
	assert_int_equal(left, 60);
	raw_write(w->l, w->fd, got, 60);
	web_send(w, GET("/ok"));
	assert_int_equal(read(fd, got, 60), 60);
	assert_int_equal(w->ends, 0);
	httpd_body_return(w->held, 60);
	help_wait(w->l, has_ended, w);
	assert_int_equal(w->ends, 1);
	httpd_respond(w->held, 200, NULL, STRV_NULL, STRV("enough"));
	web_expect(w, 200, "enough");
	web_expect(w, 200, "ok");
}

/* Nobody knows how much of the body was read: the answer is the last. */
static void
test_body_lent_answered(void **state)
{
	struct web *w = *state;
	struct answer a;
	uint64_t left;

	if (lend(w, &left) == -1)
		return;
	httpd_respond(w->held, 200, NULL, STRV_NULL, STRV("late"));
	web_read(w, M_POST, &a);
	assert_int_equal(a.status, 200);
	assert_true(a.close);
	answer_clear(&a);
	web_expect_end(w);
}

/* Neither the pace nor the end of a client is seen while it is lent. */
static void
test_body_lent_slow(void **state)
{
	struct web *w = *state;
	uint64_t left;

	w->o.body_ms = 1000;
	web_open(w);
	if (lend(w, &left) == -1)
		return;
	help_pass(w->l, 5000);
	assert_int_equal(shutdown(w->fd, SHUT_WR), 0);
	help_settle(w->l);
	assert_int_equal(w->closed, 0);
	httpd_body_return(w->held, 0);
	help_wait(w->l, web_is_closed, w);
	assert_int_equal(w->err, E_PEER);
}

static void
test_max_body(void **state)
{
	struct web *w = *state;
	struct answer a;

	w->o.max_body = 10;
	web_open(w);
	web_send(w, "POST /count HTTP/1.1\r\nHost: h\r\n"
		    "Content-Length: 11\r\nExpect: 100-continue\r\n\r\n");
	web_read(w, M_POST, &a);
	assert_int_equal(a.status, 413);
	assert_true(a.close);
	answer_clear(&a);
	web_expect_end(w);
	assert_int_equal(w->err, E_LIMIT);
	assert_int_equal(w->status, 413);
	web_open(w);
	web_send(w, "POST /count HTTP/1.1\r\nHost: h\r\n"
		    "Transfer-Encoding: chunked\r\n\r\nb\r\n01234567890\r\n");
	web_expect(w, 413, "request body too large");
	web_expect_end(w);
}

static void
test_bad_chunk(void **state)
{
	struct web *w = *state;

	web_send(w, "POST /count HTTP/1.1\r\nHost: h\r\n"
		    "Transfer-Encoding: chunked\r\n\r\nzz\r\n");
	web_expect(w, 400, "malformed chunked body");
	web_expect_end(w);
	help_wait(w->l, web_is_closed, w);
	assert_int_equal(w->err, E_PROTO);
}

#define T(f)   cmocka_unit_test_setup_teardown(f, web_setup, web_teardown)
#define TCP(f) cmocka_unit_test_setup_teardown(f, web_setup_tcp, web_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    T(test_big_request_length),
	    TCP(test_big_request_chunked),
	    T(test_big_response_length),
	    TCP(test_big_response_chunked),
	    TCP(test_echo_duplex),
	    T(test_echo_duplex),
	    T(test_continue),
	    TCP(test_continue_refused),
	    T(test_unread_body_dropped),
	    TCP(test_unread_body_too_big),
	    T(test_body_left_alone),
	    T(test_body_lent),
	    TCP(test_body_lent),
	    T(test_body_lent_answered),
	    T(test_body_lent_slow),
	    T(test_max_body),
	    TCP(test_bad_chunk),
	};
	int failed;

	failed = cmocka_run_group_tests_name("httpd bodies", tests, NULL, NULL);
	help_fault_seed = help_seed();
	failed += cmocka_run_group_tests_name("httpd bodies, faulty descriptor",
					      tests, NULL, NULL);
	return failed;
}
