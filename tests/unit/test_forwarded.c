/* SPDX-License-Identifier: Apache-2.0 */
/* The forwarding fields for peers that are trusted and that are not. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/forwarded.h"
#include "net/buf.h"

static struct http_head head;

static void
parse(const char *text)
{
	struct http_reject rej;
	size_t scanned = 0;

	assert_int_equal(
	    http1_parse_request(text, strlen(text), &scanned, &head, &rej), 0);
}

static char *
put(const struct forwarded *f)
{
	struct bufpool *pool = bufpool_new(1);
	struct http_writer w;
	struct bufq q;
	char *text;
	size_t n;

	bufq_init(&q, pool);
	http1_write_request(&w, &q, forwarded_room(f) + 64 + head.len,
			    STRV("GET"), STRV("/"));
	forwarded_put(&w, f);
	assert_int_equal(http1_write_end(&w), 0);
	n = q.len;
	text = calloc(1, n + 1);
	(void)bufq_copy_out(&q, text, n);
	bufq_clear(&q);
	bufpool_free(pool);
	return text;
}

static void
has(const char *text, const char *line)
{
	if (strstr(text, line) == NULL)
		fail_msg("no %s in\n%s", line, text);
}

#define SPOOF                                                                  \
	"GET / HTTP/1.1\r\nHost: gw:8443\r\n"                                  \
	"X-Forwarded-For: 9.9.9.9\r\nX-Forwarded-For: 8.8.8.8\r\n"             \
	"X-Forwarded-Proto: ftp\r\nX-Forwarded-Host: evil\r\n"                 \
	"X-Forwarded-Port: 1\r\nX-Forwarded-Prefix: /up/\r\n"                  \
	"Forwarded: for=9.9.9.9\r\nX-Real-IP: 9.9.9.9\r\n"                     \
	"X-Request-Id: abc-1\r\n\r\n"

static struct addr
peer(const char *text)
{
	struct addr a;

	assert_int_equal(addr_parse(strv_of(text), &a), 0);
	return a;
}

static void
test_untrusted(void **state)
{
	struct addr a = peer("192.0.2.7:5555");
	struct forwarded f = {.head = &head,
			      .peer = &a,
			      .https = true,
			      .host = STRV("gw:8443"),
			      .prefix = STRV("/v1/proxy/80"),
			      .id = STRV("id1")};
	char *t;

	(void)state;
	parse(SPOOF);
	t = put(&f);
	has(t, "\r\nX-Forwarded-For: 192.0.2.7\r\n");
	has(t, "\r\nX-Forwarded-Proto: https\r\n");
	has(t, "\r\nX-Forwarded-Host: gw:8443\r\n");
	has(t, "\r\nX-Forwarded-Port: 8443\r\n");
	has(t, "\r\nX-Forwarded-Prefix: /v1/proxy/80\r\n");
	has(t, "\r\nForwarded: for=192.0.2.7;host=\"gw:8443\";proto=https\r\n");
	has(t, "\r\nX-Request-Id: id1\r\n");
	assert_null(strstr(t, "9.9.9.9"));
	assert_null(strstr(t, "X-Real-IP"));
	free(t);
}

static void
test_trusted(void **state)
{
	struct addr a = peer("[2001:db8::1]:5555");
	struct forwarded f = {.head = &head,
			      .peer = &a,
			      .trusted = true,
			      .host = STRV("gw"),
			      .prefix = STRV("/p"),
			      .id = STRV("abc-1")};
	char *t;

	(void)state;
	parse(SPOOF);
	t = put(&f);
	has(t, "\r\nX-Forwarded-For: 9.9.9.9, 8.8.8.8, 2001:db8::1\r\n");
	has(t, "\r\nX-Forwarded-Proto: ftp\r\n");
	has(t, "\r\nX-Forwarded-Host: evil\r\n");
	has(t, "\r\nX-Forwarded-Port: 1\r\n");
	has(t, "\r\nX-Forwarded-Prefix: /up/p\r\n");
	has(t, "\r\nForwarded: for=9.9.9.9, "
	       "for=\"[2001:db8::1]\";host=\"gw\";proto=http\r\n");
	free(t);
}

static void
test_small_things(void **state)
{
	struct addr a;
	struct forwarded f = {
	    .head = &head, .peer = &a, .host = STRV("gw"), .id = STRV("i")};
	char *t;

	(void)state;
	parse("GET / HTTP/1.1\r\nHost: gw\r\nX-Request-Id: a b\r\n\r\n");
	assert_int_equal(forwarded_id(&head).len, 0);
	parse("GET / HTTP/1.1\r\nHost: gw\r\nX-Request-Id: a_b.1\r\n\r\n");
	assert_true(strv_eq(forwarded_id(&head), STRV("a_b.1")));
	a = peer("unix:/x");
	t = put(&f);
	has(t, "\r\nX-Forwarded-For: unknown\r\n");
	has(t, "\r\nX-Forwarded-Port: 80\r\n");
	assert_null(strstr(t, "Prefix"));
	free(t);
	assert_true(forwarded_owns(H_X_REAL_IP));
	assert_false(forwarded_owns(H_COOKIE));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_untrusted),
	    cmocka_unit_test(test_trusted),
	    cmocka_unit_test(test_small_things),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
