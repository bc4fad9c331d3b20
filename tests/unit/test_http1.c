/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parser of request heads: what it takes, what it refuses and with which
 * status, and what it says about a head. Each input also goes through every
 * check of http1_diff.h.
 */
#include "config.h"

#include "net/http1.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/err.h"
#include "net/buf.h"
#include "tests/unit/http1_diff.h"

static struct bufpool *pool;
static struct http_head head;
static struct http_reject rej;

static int
parse_n(const char *p, size_t n, bool request)
{
	int r = http1_diff_parse(p, n, request, &head, &rej);

	if (r == 0)
		http1_diff_rewrite(&head, pool);
	return r;
}

static int
req(const char *s)
{
	return parse_n(s, strlen(s), true);
}

static bool
is(struct strv v, const char *s)
{
	if (v.len == strlen(s) && memcmp(v.p, s, v.len) == 0)
		return true;
	print_error("got \"%.*s\", want \"%s\"\n", STRV_ARG(v), s);
	return false;
}

/* --- requests ----------------------------------------------------------- */

static void
test_simple(void **state)
{
	(void)state;
	assert_int_equal(req("GET /a?b=c HTTP/1.1\r\nHost: x\r\n"
			     "X-Thing:\t v w \t\r\nEmpty:\r\n\r\nrest"),
			 0);
	assert_int_equal(head.method, M_GET);
	assert_true(is(http1_method(&head), "GET"));
	assert_true(is(http1_target(&head), "/a?b=c"));
	assert_true(is(http1_path(&head), "/a?b=c"));
	assert_null(http1_authority(&head).p);
	assert_int_equal(head.minor, 1);
	assert_int_equal(head.nfields, 3);
	assert_true(is(http1_name(&head, 1), "X-Thing"));
	assert_true(is(http1_value(&head, 1), "v w"));
	assert_true(is(http1_value(&head, 2), ""));
	assert_true(is(http1_get(&head, H_HOST), "x"));
	assert_null(http1_get(&head, H_COOKIE).p);
	assert_true(is(http1_find(&head, STRV("x-THING")), "v w"));
	assert_true(is(http1_find(&head, STRV("HOST")), "x"));
	assert_null(http1_find(&head, STRV("x-thin")).p);
	assert_true(head.keep_alive);
	assert_int_equal(head.body, BODY_NONE);
	assert_int_equal(head.len, 57);
}

static const char *const good_requests[] = {
    "GET / HTTP/1.1\r\nHost: a.example:8443\r\n\r\n",
    "GET / HTTP/1.1\r\nhOsT:a\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: [::1]\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: [fe80::1.2.3.4]:80\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a_b-c.%41!$&'()*+,;=~\r\n\r\n",
    "GET / HTTP/1.0\r\nHost: a\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
    "BREW /%00%2e%2E/../\"<>\\^`{|}~ HTTP/1.1\r\nHost: a\r\n\r\n",
    "!#$%&'*+-.^_`|~09azAZ / HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\n!#$%&'*+-.^_`|~09azAZ: v\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nA: \xff\x80 \t x\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nA: ::\r\nA: b\r\n\r\n",
    "GET http://a HTTP/1.1\r\nHost: A\r\n\r\n",
    "GET HTTPS://a:1/x?http://b/ HTTP/1.1\r\nHost: a:1\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:999999999999999999\r\n\r\n",
    "POST / HTTP/1.0\r\nHost: a\r\nContent-Length: 007\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:chunked\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: CHUNKED \r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nConnection: ,, a ,\t,b,\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nConnection:\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nCookie: a\r\nCookie: b\r\n\r\n",
};

static void
test_good_requests(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(good_requests); i++) {
		int r = req(good_requests[i]);

		if (r != 0)
			print_error("%s: %s", rej.what, good_requests[i]);
		assert_int_equal(r, 0);
		assert_int_equal(head.len, strlen(good_requests[i]));
	}
}

#define OK_LINE "GET / HTTP/1.1\r\n"
#define OK_HOST OK_LINE "Host: a\r\n"

static const struct {
	unsigned status;
	const char *text;
} bad_requests[] = {
    /* line ends and control bytes */
    {400, "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"},
    {400, "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"},
    {400, "GET / HTTP/1.1\n"},
    {400, "GET / HTTP/1.1\r\r\n"},
    {400, "GET / HTTP/1.1\rHost: a\r\n"},
    {400, OK_LINE "Host: a\n"},
    {400, OK_LINE "Host: a\r\r\n"},
    {400, OK_LINE "Host: a\rb: c\r\n"},
    {400, OK_HOST "\n"},
    {400, OK_HOST "\rx"},
    {400, OK_HOST "A: b\x01\r\n"},
    {400, OK_HOST "A: b\x7f\r\n"},
    {400, OK_HOST "A: b\x0b\r\n"},
    {400, OK_HOST "A\x80: b\r\n"},
    {400, OK_HOST "A\n"},
    /* folds and blanks */
    {400, OK_LINE " Host: a\r\n"},
    {400, OK_LINE "\tHost: a\r\n"},
    {400, OK_HOST "A: b\r\n c\r\n"},
    {400, OK_HOST "A: b\r\n\tc\r\n"},
    {400, OK_HOST " \r\n"},
    {400, OK_HOST "A : b\r\n"},
    {400, OK_HOST "A\t: b\r\n"},
    {400, OK_HOST ": b\r\n"},
    {400, OK_HOST "A\r\n"},
    {400, OK_HOST "A B: c\r\n"},
    {400, OK_HOST "A(: c\r\n"},
    /* request line */
    {400, " GET / HTTP/1.1\r\n"},
    {400, "GET  / HTTP/1.1\r\n"},
    {400, "GET\t/ HTTP/1.1\r\n"},
    {400, "GET /  HTTP/1.1\r\n"},
    {400, "GET / HTTP/1.1 \r\n"},
    {400, "GET / x HTTP/1.1\r\n"},
    {400, "GET /\r\n"},
    {400, "GET\r\n"},
    {400, "G(T / HTTP/1.1\r\n"},
    {400, "\x16\x03\x01\x02"},
    {400, "GET / http/1.1\r\n"},
    {400, "GET / HTTP/1.10\r\n"},
    {400, "GET / HTTP/11\r\n"},
    {400, "GET / HTTP/1.\r\n"},
    {400, "GET / HTTP/01.1\r\n"},
    {400, "GET / HTPT/1.1\r\n"},
    {505, "GET / HTTP/1.2\r\n"},
    {505, "GET / HTTP/0.9\r\n"},
    {505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
    {501, "CONNECT a:443 HTTP/1.1\r\n"},
    /* targets */
    {400, "GET * HTTP/1.1\r\n"},
    {400, "OPTIONS ** HTTP/1.1\r\n"},
    {400, "GET a/b HTTP/1.1\r\n"},
    {400, "GET /a#b HTTP/1.1\r\n"},
    {400, "GET /\x80 HTTP/1.1\r\n"},
    {400, "GET /\x01 HTTP/1.1\r\n"},
    {400, "GET /0123456789abcdef\x7f HTTP/1.1\r\n"},
    {400, "GET ftp://a/ HTTP/1.1\r\n"},
    {400, "GET http:/a HTTP/1.1\r\n"},
    {400, "GET http:// HTTP/1.1\r\n"},
    {400, "GET http:///x HTTP/1.1\r\n"},
    {400, "GET http://u@a/ HTTP/1.1\r\n"},
    {400, "GET http://a:x/ HTTP/1.1\r\n"},
    {400, "GET http://a?b HTTP/1.1\r\n"},
    {400, "GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n"},
    {400, "GET http://a:80/ HTTP/1.1\r\nHost: a\r\n\r\n"},
    /* Host */
    {400, OK_LINE "\r\n"},
    {400, OK_HOST "Host: a\r\n"},
    {400, OK_LINE "Host:\r\n"},
    {400, OK_LINE "Host: a b\r\n"},
    {400, OK_LINE "Host: a/b\r\n"},
    {400, OK_LINE "Host: u@a\r\n"},
    {400, OK_LINE "Host: a:\r\n"},
    {400, OK_LINE "Host: :80\r\n"},
    {400, OK_LINE "Host: a:b\r\n"},
    {400, OK_LINE "Host: a:65536\r\n"},
    {400, OK_LINE "Host: a:000080\r\n"},
    {400, OK_LINE "Host: a:80:80\r\n"},
    {400, OK_LINE "Host: \xe9\r\n"},
    {400, OK_LINE "Host: [::1\r\n"},
    {400, OK_LINE "Host: []\r\n"},
    {400, OK_LINE "Host: [::g]\r\n"},
    {400, OK_LINE "Host: [::1]80\r\n"},
    /* framing */
    {400, OK_HOST "Content-Length: 1\r\nContent-Length: 1\r\n"},
    {400, OK_HOST "Content-Length: 1\r\ncontent-length: 2\r\n"},
    {400, OK_HOST "Content-Length: 1, 1\r\n"},
    {400, OK_HOST "Content-Length: +1\r\n"},
    {400, OK_HOST "Content-Length: -1\r\n"},
    {400, OK_HOST "Content-Length: 0x1\r\n"},
    {400, OK_HOST "Content-Length: 1 1\r\n"},
    {400, OK_HOST "Content-Length: 1.0\r\n"},
    {400, OK_HOST "Content-Length:\r\n"},
    {400, OK_HOST "Content-Length: 1000000000000000000\r\n"},
    {400, OK_HOST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"},
    {400, OK_HOST "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n"},
    {400, OK_HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n"},
    {400,
     OK_HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"},
    {400, OK_HOST "Transfer-Encoding: chunked, chunked\r\n"},
    {400, OK_HOST "Transfer-Encoding: gzip, chunked\r\n"},
    {400, OK_HOST "Transfer-Encoding: identity\r\n"},
    {400, OK_HOST "Transfer-Encoding: xchunked\r\n"},
    {400, OK_HOST "Transfer-Encoding: chunked;q=1\r\n"},
    {400, OK_HOST "Transfer-Encoding: \"chunked\"\r\n"},
    {400, OK_HOST "Transfer-Encoding:\r\n"},
    {400, "GET / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"},
    /* the rest */
    {400, OK_HOST "X-Sandbox-Token: a\r\nx-sandbox-token: a\r\n"},
    {400, OK_HOST "Authorization: a\r\nauthorization: a\r\n"},
    {417, OK_HOST "Expect: 200-ok\r\n"},
    {417, OK_HOST "Expect: 100-continue, x\r\n"},
    {417, OK_HOST "Expect:\r\n"},
    {400, OK_HOST "Connection: a b\r\n"},
    {400, OK_HOST "Connection: \"close\"\r\n"},
    {400, OK_HOST "Connection: close;x\r\n"},
};

static void
test_bad_requests(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(bad_requests); i++) {
		int r = req(bad_requests[i].text);

		if (r != E_PROTO || rej.status != bad_requests[i].status)
			print_error("%d %u: %s", r, rej.status,
				    bad_requests[i].text);
		assert_int_equal(r, E_PROTO);
		assert_int_equal(rej.status, bad_requests[i].status);
	}
}

static void
test_nul(void **state)
{
	static const char in_target[] = "GET /\0 HTTP/1.1\r\n";
	static const char in_name[] = OK_HOST "A\0: b\r\n";
	static const char in_value[] = OK_HOST "A: 0123456789abcdef\0b\r\n";
	static const char in_host[] = OK_LINE "Host: [\0\0\0]\r\n";

	(void)state;
	assert_int_equal(parse_n(in_target, sizeof(in_target) - 1, true),
			 E_PROTO);
	assert_int_equal(parse_n(in_name, sizeof(in_name) - 1, true), E_PROTO);
	assert_int_equal(parse_n(in_value, sizeof(in_value) - 1, true),
			 E_PROTO);
	assert_int_equal(parse_n(in_host, sizeof(in_host) - 1, true), E_PROTO);
	assert_false(http1_host_ok((struct strv){"[\0\0\0]", 5}));
	assert_false(http1_value_ok((struct strv){"a\0b", 3}));
}

/* Any one byte of a good head replaced by any other: never a crash, and the
 * same answer for every cut (http1_diff checks). */
static void
test_any_byte(void **state)
{
	static const char s[] =
	    "PUT /a HTTP/1.1\r\nHost: a\r\nTE: t\r\nContent-Length: 1\r\n\r\n";
	char copy[sizeof(s)];
	size_t i;
	int b;

	(void)state;
	for (i = 0; i < sizeof(s) - 1; i++)
		for (b = 0; b < 256; b += i % 3 + 1) {
			memcpy(copy, s, sizeof(s));
			copy[i] = (char)b;
			(void)parse_n(copy, sizeof(s) - 1, true);
		}
}

static void
test_absolute(void **state)
{
	(void)state;
	assert_int_equal(req("GET http://a.b:8/c?d HTTP/1.1\r\nHost: A.b:8\r\n"
			     "\r\n"),
			 0);
	assert_true(head.absolute);
	assert_true(is(http1_authority(&head), "a.b:8"));
	assert_true(is(http1_path(&head), "/c?d"));
	assert_true(is(http1_target(&head), "http://a.b:8/c?d"));
	assert_int_equal(req("GET https://a HTTP/1.1\r\nHost: a\r\n\r\n"), 0);
	assert_true(is(http1_authority(&head), "a"));
	assert_true(is(http1_path(&head), "/"));
}

static void
test_connection(void **state)
{
	(void)state;
	assert_int_equal(req(OK_HOST "Connection: close\r\n\r\n"), 0);
	assert_false(head.keep_alive);
	assert_false(head.connection_other);
	assert_int_equal(req("GET / HTTP/1.0\r\nHost: a\r\n\r\n"), 0);
	assert_false(head.keep_alive);
	assert_int_equal(req("GET / HTTP/1.0\r\nHost: a\r\n"
			     "Connection: Keep-Alive\r\n\r\n"),
			 0);
	assert_true(head.keep_alive);
	assert_int_equal(req(OK_HOST "Connection: x, keep-alive\r\n"
				     "Connection: close\r\n\r\n"),
			 0);
	assert_false(head.keep_alive);
	assert_true(head.connection_other);
	assert_true(http1_connection_names(&head, STRV("X")));
	assert_true(http1_connection_names(&head, STRV("close")));
	assert_false(http1_connection_names(&head, STRV("y")));
	assert_int_equal(req(OK_HOST "Connection: TE, Keep-Alive\r\n\r\n"), 0);
	assert_false(head.connection_other);
}

static void
test_upgrade(void **state)
{
	(void)state;
	assert_int_equal(req(OK_HOST "Upgrade: websocket\r\n"
				     "Connection: keep-alive, Upgrade\r\n\r\n"),
			 0);
	assert_true(head.wants_upgrade);
	assert_int_equal(req(OK_HOST "Upgrade: websocket\r\n\r\n"), 0);
	assert_false(head.wants_upgrade);
	assert_int_equal(req(OK_HOST "Connection: Upgrade\r\n\r\n"), 0);
	assert_false(head.wants_upgrade);
	assert_int_equal(req("GET / HTTP/1.0\r\nHost: a\r\nUpgrade: x\r\n"
			     "Connection: upgrade\r\n\r\n"),
			 0);
	assert_false(head.wants_upgrade);
}

static void
test_expect(void **state)
{
	(void)state;
	assert_int_equal(req(OK_HOST "Expect: 100-continue\r\n\r\n"), 0);
	assert_true(head.expect_continue);
	assert_int_equal(req("PUT / HTTP/1.0\r\nHost: a\r\n"
			     "Expect: 100-continue\r\n\r\n"),
			 0);
	assert_false(head.expect_continue);
}

static void
test_several(void **state)
{
	int i;

	(void)state;
	assert_int_equal(req(OK_HOST "Cookie: a\r\nZ: 1\r\nCookie: b\r\n"
				     "Y: 2\r\n\r\n"),
			 0);
	assert_int_equal(http1_count(&head, H_COOKIE), 2);
	assert_int_equal(http1_count(&head, H_OTHER), 2);
	assert_int_equal(http1_count(&head, H_ORIGIN), 0);
	i = http1_next(&head, H_COOKIE, -1);
	assert_int_equal(i, 1);
	i = http1_next(&head, H_COOKIE, i);
	assert_int_equal(i, 3);
	assert_int_equal(http1_next(&head, H_COOKIE, i), -1);
}

static const struct {
	const char *text;
	enum http_method id;
} methods[] = {
    {"GET", M_GET},        {"HEAD", M_HEAD},     {"POST", M_POST},
    {"PUT", M_PUT},        {"DELETE", M_DELETE}, {"OPTIONS", M_OPTIONS},
    {"TRACE", M_TRACE},    {"PATCH", M_PATCH},   {"get", M_OTHER},
    {"GETX", M_OTHER},     {"POSTS", M_OTHER},   {"A", M_OTHER},
    {"PROPFIND", M_OTHER}, {"DELETF", M_OTHER},  {"OPTIONZ", M_OTHER},
    {"connect", M_OTHER},
};

static void
test_methods(void **state)
{
	char buf[64];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(methods); i++) {
		snprintf(buf, sizeof(buf), "%s / HTTP/1.1\r\nHost: a\r\n\r\n",
			 methods[i].text);
		assert_int_equal(req(buf), 0);
		assert_int_equal(head.method, methods[i].id);
		assert_true(is(http1_method(&head), methods[i].text));
	}
}

/* --- limits -------------------------------------------------------------- */

/* A request with a target, or else a field value, of that many bytes. */
static char *
sized(size_t target, size_t value, size_t *n)
{
	char *s = malloc(target + value + 100), *p = s;

	assert_non_null(s);
	p += sprintf(p, "GET /");
	memset(p, 'a', target - 1);
	p += target - 1;
	p += sprintf(p, " HTTP/1.1\r\nHost: a\r\nA: ");
	memset(p, 'b', value);
	p += value;
	p += sprintf(p, "\r\n\r\n");
	*n = (size_t)(p - s);
	return s;
}

static void
check_sized(size_t target, size_t value, int want, unsigned status)
{
	size_t n;
	char *s = sized(target, value, &n);

	assert_int_equal(parse_n(s, n, true), want);
	assert_int_equal(rej.status, status);
	free(s);
}

static void
test_limits(void **state)
{
	size_t n, over;
	char *s = sized(1, 0, &over);

	(void)state;
	free(s);
	check_sized(HTTP1_TARGET_MAX, 0, 0, 0);
	check_sized(HTTP1_TARGET_MAX + 1, 0, E_LIMIT, 414);
	check_sized(2 * HTTP1_HEAD_MAX, 0, E_LIMIT, 414);
	check_sized(1, HTTP1_HEAD_MAX - over, 0, 0);
	assert_int_equal(head.len, HTTP1_HEAD_MAX);
	check_sized(1, HTTP1_HEAD_MAX - over + 1, E_LIMIT, 431);
	check_sized(1, 3 * HTTP1_HEAD_MAX, E_LIMIT, 431);
	/* incomplete, and not going to get better */
	s = sized(1, HTTP1_HEAD_MAX, &n);
	assert_int_equal(parse_n(s, HTTP1_HEAD_MAX - 1, true), E_AGAIN);
	assert_int_equal(parse_n(s, HTTP1_HEAD_MAX, true), E_LIMIT);
	free(s);
}

static void
test_too_many_fields(void **state)
{
	char buf[4096];
	size_t i, n, count;

	(void)state;
	for (count = 99; count <= 101; count++) {
		n = (size_t)sprintf(buf, OK_HOST);
		for (i = 1; i < count; i++)
			n += (size_t)sprintf(buf + n, "a%zu: b\r\n", i);
		strcat(buf, "\r\n");
		assert_int_equal(req(buf), count <= 100 ? 0 : E_LIMIT);
		if (count > 100)
			assert_int_equal(rej.status, 431);
		else
			assert_int_equal(head.nfields, count);
	}
}

static void
test_pipelined(void **state)
{
	static const char two[] = OK_HOST "\r\nGET /2 HTTP/1.1\r\nHost: b\r\n"
					  "\r\n";
	size_t first;

	(void)state;
	assert_int_equal(req(two), 0);
	first = head.len;
	assert_int_equal(req(two + first), 0);
	assert_true(is(http1_target(&head), "/2"));
	assert_int_equal(first + head.len, sizeof(two) - 1);
}

static int
setup(void **state)
{
	(void)state;
	pool = bufpool_new(8);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	assert_int_equal(bufpool_live(pool), 0);
	bufpool_free(pool);
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_simple),
	    cmocka_unit_test(test_good_requests),
	    cmocka_unit_test(test_bad_requests),
	    cmocka_unit_test(test_nul),
	    cmocka_unit_test(test_any_byte),
	    cmocka_unit_test(test_absolute),
	    cmocka_unit_test(test_connection),
	    cmocka_unit_test(test_upgrade),
	    cmocka_unit_test(test_expect),
	    cmocka_unit_test(test_several),
	    cmocka_unit_test(test_methods),
	    cmocka_unit_test(test_limits),
	    cmocka_unit_test(test_too_many_fields),
	    cmocka_unit_test(test_pipelined),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
