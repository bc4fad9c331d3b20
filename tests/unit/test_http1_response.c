/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Response heads, the names HTTP/1.1 knows, lists, and writing heads.
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
resp(const char *s)
{
	return parse_n(s, strlen(s), false);
}

static bool
is(struct strv v, const char *s)
{
	if (v.len == strlen(s) && memcmp(v.p, s, v.len) == 0)
		return true;
	print_error("got \"%.*s\", want \"%s\"\n", STRV_ARG(v), s);
	return false;
}

static const char *const bad_responses[] = {
    "\r\nHTTP/1.1 200 OK\r\n\r\n",
    "HTTP/1.1 200 OK\n\r\n",
    "HTTP/1.1 200\n",
    "HTTP/1.1 20 OK\r\n\r\n",
    "HTTP/1.1 2000 OK\r\n\r\n",
    "HTTP/1.1 099 OK\r\n\r\n",
    "HTTP/1.1 2x0 OK\r\n\r\n",
    "HTTP/1.1  200 OK\r\n\r\n",
    "HTTP/1.1 200\tOK\r\n\r\n",
    "HTTP/2 200\r\n\r\n",
    "HTTP/2.0 200 OK\r\n\r\n",
    "HTTP/1.2 200 OK\r\n\r\n",
    "ICY 200 OK\r\n\r\n",
    "<html>",
    "HTTP/1.1 200 O\x01K\r\n\r\n",
    "HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
    "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
    "HTTP/1.1 200 OK\r\n A: b\r\n\r\n",
    "HTTP/1.1 200 OK\r\nA: b\nC: d\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n"
    "Transfer-Encoding: chunked\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
    "Transfer-Encoding: chunked\r\n\r\n",
    "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
};

static void
test_bad_responses(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(bad_responses); i++) {
		int r = resp(bad_responses[i]);

		if (r != E_PROTO)
			print_error("%d: %s", r, bad_responses[i]);
		assert_int_equal(r, E_PROTO);
		assert_int_equal(rej.status, 502);
	}
}

static void
test_response(void **state)
{
	(void)state;
	assert_int_equal(resp("HTTP/1.1 404 Not \xff Found\r\n"
			      "Authorization: a\r\nAuthorization: b\r\n"
			      "Host: ?\r\nHost: /\r\nExpect: x\r\n\r\n"),
			 0);
	assert_int_equal(head.status, 404);
	assert_true(is(http1_reason(&head), "Not \xff Found"));
	assert_int_equal(head.nfields, 5);
	assert_int_equal(resp("HTTP/1.0 999\r\n\r\n"), 0);
	assert_true(is(http1_reason(&head), ""));
	assert_int_equal(head.minor, 0);
	assert_false(head.keep_alive);
	assert_int_equal(resp("HTTP/1.1 200 \r\n\r\n"), 0);
	assert_true(is(http1_reason(&head), ""));
}

#define CL  "Content-Length: 5\r\n"
#define CL0 "Content-Length: 0\r\n"
#define TE  "Transfer-Encoding: chunked\r\n"

static const struct {
	const char *status, *fields;
	enum http_method req;
	int want;
	enum http_body body;
} bodies[] = {
    {"200", CL, M_GET, 0, BODY_LENGTH},
    {"200", CL0, M_GET, 0, BODY_LENGTH},
    {"200", TE, M_POST, 0, BODY_CHUNKED},
    {"200", "", M_GET, 0, BODY_UNTIL_CLOSE},
    {"200", CL, M_HEAD, 0, BODY_NONE},
    {"200", TE, M_HEAD, 0, BODY_NONE},
    {"200", "", M_HEAD, 0, BODY_NONE},
    {"304", CL, M_GET, 0, BODY_NONE},
    {"304", "", M_GET, 0, BODY_NONE},
    {"204", "", M_GET, 0, BODY_NONE},
    {"204", CL0, M_GET, 0, BODY_NONE},
    {"204", CL, M_GET, E_PROTO, BODY_NONE},
    {"204", TE, M_GET, E_PROTO, BODY_NONE},
    {"100", "", M_PUT, 0, BODY_NONE},
    {"103", CL, M_GET, E_PROTO, BODY_NONE},
    {"101", TE, M_GET, E_PROTO, BODY_NONE},
    {"500", "", M_GET, 0, BODY_UNTIL_CLOSE},
};

static void
test_response_body(void **state)
{
	char buf[128];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(bodies); i++) {
		int r;

		snprintf(buf, sizeof(buf), "HTTP/1.1 %s x\r\n%s\r\n",
			 bodies[i].status, bodies[i].fields);
		assert_int_equal(resp(buf), 0);
		r = http1_response_body(&head, bodies[i].req);
		if (r != bodies[i].want ||
		    (r == 0 && head.body != bodies[i].body))
			print_error("%s", buf);
		assert_int_equal(r, bodies[i].want);
		if (r != 0)
			continue;
		assert_int_equal(head.body, bodies[i].body);
		assert_int_equal(head.keep_alive,
				 head.body != BODY_UNTIL_CLOSE);
	}
}

/* --- names ---------------------------------------------------------------- */

static void
test_names(void **state)
{
	char up[64], low[64];
	size_t i;
	int id;

	(void)state;
	for (id = H_OTHER + 1; id < H_COUNT; id++) {
		struct strv n = http1_hdr_name((enum http_hdr)id);

		assert_true(n.len > 1 && n.len < sizeof(up));
		for (i = 0; i < n.len; i++) {
			char c = n.p[i];

			up[i] = c >= 'a' && c <= 'z' ? (char)(c - 32) : c;
			low[i] = c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
		}
		assert_int_equal(http1_hdr_id(n), id);
		assert_int_equal(http1_hdr_id((struct strv){up, n.len}), id);
		assert_int_equal(http1_hdr_id((struct strv){low, n.len}), id);
		/* each letter counts, and so do '-' and the length */
		for (i = 0; i < n.len; i++) {
			low[i] ^= 1;
			assert_int_equal(
			    http1_hdr_id((struct strv){low, n.len}), H_OTHER);
			low[i] ^= 1;
		}
		assert_int_equal(http1_hdr_id((struct strv){low, n.len - 1}),
				 H_OTHER);
		low[n.len] = 'x';
		assert_int_equal(http1_hdr_id((struct strv){low, n.len + 1}),
				 H_OTHER);
	}
	assert_null(http1_hdr_name(H_OTHER).p);
	assert_int_equal(http1_hdr_id(STRV("X_Sandbox_Token")), H_OTHER);
	assert_int_equal(http1_hdr_id(STRV("a")), H_OTHER);
	assert_int_equal(http1_hdr_id(STRV("")), H_OTHER);
}

static void
test_hop(void **state)
{
	static const enum http_hdr hop[] = {H_CONNECTION,
					    H_KEEP_ALIVE,
					    H_PROXY_CONNECTION,
					    H_TE,
					    H_TRAILER,
					    H_TRANSFER_ENCODING,
					    H_UPGRADE,
					    H_PROXY_AUTHENTICATE,
					    H_PROXY_AUTHORIZATION};
	size_t i, n = 0;
	int id;

	(void)state;
	for (i = 0; i < ARRAY_LEN(hop); i++)
		assert_true(http1_is_hop(hop[i]));
	for (id = 0; id < H_COUNT; id++)
		n += http1_is_hop((enum http_hdr)id);
	assert_int_equal(n, ARRAY_LEN(hop));
}

static void
test_lists(void **state)
{
	(void)state;
	assert_true(http1_list_has(STRV("a, B ,c"), STRV("b")));
	assert_true(http1_list_has(STRV("\tb"), STRV("b")));
	assert_true(http1_list_has(STRV(",,b,"), STRV("b")));
	assert_false(http1_list_has(STRV("ab, b c"), STRV("b")));
	assert_false(http1_list_has(STRV(""), STRV("b")));
	assert_false(http1_list_has(STRV_NULL, STRV("b")));
	assert_false(http1_list_has(STRV("a=\"x, b, y\""), STRV("b")));
	assert_true(http1_list_has(STRV("a=\"\\\",x\", b"), STRV("b")));
	assert_false(http1_list_has(STRV("a=\"x, b"), STRV("b")));
}

static void
test_reasons(void **state)
{
	(void)state;
	assert_true(is(http1_reason_for(200), "OK"));
	assert_true(
	    is(http1_reason_for(511), "Network Authentication Required"));
	assert_true(is(http1_reason_for(299), ""));
}

/* --- writing -------------------------------------------------------------- */

static struct bufq q;

static void
expect_q(const char *want)
{
	size_t n = strlen(want);

	assert_int_equal(q.len, n);
	assert_memory_equal(bufq_pullup(&q, n), want, n);
	bufq_clear(&q);
}

static void
test_write(void **state)
{
	const struct strv parts[] = {STRV("a"), STRV_NULL, STRV("bc")};
	struct http_writer w;

	(void)state;
	bufq_init(&q, pool);
	http1_write_request(&w, &q, 512, STRV("PUT"), STRV("/x?y"));
	http1_put(&w, STRV("Host"), STRV("h"));
	http1_put(&w, STRV("E"), STRV_NULL);
	http1_put_u64(&w, STRV("N"), 0);
	http1_put_u64(&w, STRV("M"), UINT64_MAX);
	http1_put_parts(&w, STRV("P"), parts, 3);
	http1_put_f(&w, STRV("F"), "%s=%d", "k", 7);
	assert_int_equal(q.len, 0);
	assert_int_equal(http1_write_end(&w), 0);
	expect_q("PUT /x?y HTTP/1.1\r\nHost: h\r\nE: \r\nN: 0\r\n"
		 "M: 18446744073709551615\r\nP: abc\r\nF: k=7\r\n\r\n");
	http1_write_status(&w, &q, 64, 299, STRV("\tso so"));
	assert_int_equal(http1_write_end(&w), 0);
	expect_q("HTTP/1.1 299 \tso so\r\n\r\n");
}

static void
test_write_fields(void **state)
{
	struct http_writer w;
	size_t i, fits;

	(void)state;
	assert_int_equal(resp("HTTP/1.1 200 OK\r\nA: b\r\nC:d\r\n"
			      "E:\tf \r\nG:\r\nH:  i\r\nJ: \r\n\r\n"),
			 0);
	bufq_init(&q, pool);
	http1_write_status(&w, &q, 512, 200, STRV("OK"));
	for (i = 0; i < head.nfields; i++)
		http1_put_field(&w, &head, i);
	assert_int_equal(http1_write_end(&w), 0);
	expect_q("HTTP/1.1 200 OK\r\nA: b\r\nC: d\r\nE: f\r\nG: \r\n"
		 "H: i\r\nJ: \r\n\r\n");
	/* until the room ends */
	http1_write_status(&w, &q, 100, 200, STRV("OK"));
	fits = (size_t)(w.end - w.p) / 6;
	for (i = 0; i <= fits; i++) {
		assert_int_equal(w.err, 0);
		http1_put_field(&w, &head, 0);
	}
	assert_int_equal(w.err, E_LIMIT);
	assert_int_equal(http1_write_end(&w), E_LIMIT);
	assert_int_equal(q.len, 0);
	bufq_clear(&q);
}

/* Begins a request after some bytes that must survive what goes wrong. */
static void
begin(struct http_writer *w, size_t room)
{
	bufq_init(&q, pool);
	bufq_add(&q, "keep", 4);
	http1_write_request(w, &q, room, STRV("GET"), STRV("/"));
}

static void
expect_err(struct http_writer *w, int err)
{
	http1_put(w, STRV("After"), STRV("the error"));
	assert_int_equal(http1_write_end(w), err);
	expect_q("keep");
}

static void
test_write_invalid(void **state)
{
	static const struct strv bad[] = {
	    {"a\r\nb: c", 7}, {"\n", 1},   {"\r", 1},
	    {"a\0b", 3},      {"\x7f", 1}, {"0123456789abcdef\x1f", 17}};
	static const struct strv names[] = {
	    {"", 0}, {"a b", 3}, {"a:", 2}, {"a\r\nb", 4}, {"\xe9", 1}};
	struct http_writer w;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(bad); i++) {
		begin(&w, 512);
		http1_put(&w, STRV("A"), bad[i]);
		expect_err(&w, E_INVALID);
		begin(&w, 512);
		http1_put_parts(&w, STRV("A"), &bad[i], 1);
		expect_err(&w, E_INVALID);
		http1_write_request(&w, &q, 512, STRV("GET"), bad[i]);
		assert_int_equal(http1_write_end(&w), E_INVALID);
		http1_write_request(&w, &q, 512, bad[i], STRV("/"));
		assert_int_equal(http1_write_end(&w), E_INVALID);
		http1_write_status(&w, &q, 512, 200, bad[i]);
		assert_int_equal(http1_write_end(&w), E_INVALID);
	}
	for (i = 0; i < ARRAY_LEN(names); i++) {
		begin(&w, 512);
		http1_put(&w, names[i], STRV("v"));
		expect_err(&w, E_INVALID);
	}
	begin(&w, 512);
	http1_put_f(&w, STRV("A"), "%s", "x\ny");
	expect_err(&w, E_INVALID);
	http1_write_request(&w, &q, 512, STRV("GET"), STRV("/a b"));
	assert_int_equal(http1_write_end(&w), E_INVALID);
	http1_write_request(&w, &q, 512, STRV("GET"), STRV(""));
	assert_int_equal(http1_write_end(&w), E_INVALID);
	http1_write_status(&w, &q, 512, 1000, STRV(""));
	assert_int_equal(http1_write_end(&w), E_INVALID);
	assert_int_equal(q.len, 0);
}

static void
test_write_no_room(void **state)
{
	static char big[BUF_PULLUP_MAX];
	struct strv v = {big, sizeof(big)};
	struct http_writer w;

	(void)state;
	memset(big, 'x', sizeof(big));
	begin(&w, 512);
	http1_put(&w, STRV("A"), v);
	expect_err(&w, E_LIMIT);
	begin(&w, 512);
	http1_put_parts(&w, STRV("A"), &v, 1);
	expect_err(&w, E_LIMIT);
	begin(&w, 512);
	http1_put_f(&w, STRV("A"), "%.*s", (int)sizeof(big), big);
	expect_err(&w, E_LIMIT);
	begin(&w, BUF_PULLUP_MAX + 1);
	expect_err(&w, E_LIMIT);
	/* fills what there is to the last byte, and then no empty line */
	begin(&w, 512);
	v.len = (size_t)(w.end - w.p) - 5;
	http1_put(&w, STRV("A"), v);
	assert_int_equal(w.err, 0);
	assert_ptr_equal(w.p, w.end);
	assert_int_equal(http1_write_end(&w), E_LIMIT);
	expect_q("keep");
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
	    cmocka_unit_test(test_bad_responses),
	    cmocka_unit_test(test_response),
	    cmocka_unit_test(test_response_body),
	    cmocka_unit_test(test_names),
	    cmocka_unit_test(test_hop),
	    cmocka_unit_test(test_lists),
	    cmocka_unit_test(test_reasons),
	    cmocka_unit_test(test_write),
	    cmocka_unit_test(test_write_fields),
	    cmocka_unit_test(test_write_invalid),
	    cmocka_unit_test(test_write_no_room),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
