/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chunked coding: what is taken, what is refused, limits, and that it
 * comes out the same however the input was cut.
 */
#include "config.h"

#include "net/chunk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/err.h"
#include "net/buf.h"

static struct bufpool *pool;
static struct bufq in, out;

static void
clear_all(void)
{
	bufq_clear(&in);
	bufq_clear(&out);
}

/* Decodes p[0..n) in pieces of step bytes, at most max data bytes at a time;
 * the data stays in out, what follows the end in in. */
static int
decode(const char *p, size_t n, size_t step, size_t max)
{
	struct chunk_dec d;
	size_t at = 0;
	int r = E_AGAIN;

	clear_all();
	chunk_dec_init(&d);
	while (r == E_AGAIN && (at < n || in.len > 0)) {
		size_t more = n - at < step ? n - at : step;
		size_t had = out.len;

		bufq_add(&in, p + at, more);
		at += more;
		r = chunk_decode(&d, &in, &out, max);
		assert_true(out.len - had <= max);
		assert_int_equal(d.total, out.len);
		/* no progress, nothing to come: max is 0 or it is stuck */
		assert_true(more > 0 || out.len > had || r != E_AGAIN);
	}
	if (r == E_PROTO || r == E_LIMIT) {
		bufq_add(&in, "0\r\n\r\n", 5);
		assert_int_equal(chunk_decode(&d, &in, &out, max), E_PROTO);
	}
	/* what came in after the end belongs to the next message */
	if (r == 0)
		bufq_add(&in, p + at, n - at);
	return r;
}

static void
expect(const char *s, size_t n, int want, const char *data, const char *rest)
{
	static const size_t maxes[] = {SIZE_MAX, 1, 3};
	size_t step, m;

	for (step = 1; step <= n; step++)
		for (m = 0; m < ARRAY_LEN(maxes); m++) {
			int r = decode(s, n, step, maxes[m]);

			if (r != want)
				print_error("step %zu: %d: %s\n", step, r, s);
			assert_int_equal(r, want);
			if (r == E_PROTO || r == E_LIMIT)
				continue;
			assert_int_equal(out.len, strlen(data));
			if (out.len > 0)
				assert_memory_equal(bufq_pullup(&out, out.len),
						    data, out.len);
			assert_int_equal(in.len, strlen(rest));
			if (in.len > 0)
				assert_memory_equal(bufq_pullup(&in, in.len),
						    rest, in.len);
		}
	clear_all();
}

static const struct {
	const char *coded, *data, *rest;
} good[] = {
    {"0\r\n\r\n", "", ""},
    {"000\r\n\r\nGET", "", "GET"},
    {"5\r\nhello\r\n0\r\n\r\n\r\n", "hello", "\r\n"},
    {"1\r\na\r\n1\r\nb\r\n0000000000000000\r\n\r\nx", "ab", "x"},
    {"a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n", "01234567890123456789",
     ""},
    {"0000000000000002\r\n\r\n\r\n0\r\n\r\n", "\r\n", ""},
    {"1;a\r\nx\r\n0;b\r\n\r\n", "x", ""},
    {"1;a=b;c\r\nx\r\n0;d=\"e\"\r\n\r\n", "x", ""},
    {"1;a=\"\"\r\nx\r\n0;d=\"e;\\\" \t\\\\\x80\";f\r\n\r\n", "x", ""},
    {"0\r\nA: b\r\nC:\r\nD:\t\x80 \r\n\r\nrest", "", "rest"},
    {"0\r\nTransfer-Encoding: chunked\r\nX-Sandbox-Token: t\r\n\r\n", "", ""},
};

static void
test_good(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(good); i++)
		expect(good[i].coded, strlen(good[i].coded), 0, good[i].data,
		       good[i].rest);
}

static void
test_incomplete(void **state)
{
	static const char s[] = "3;a=\"b\"\r\nabc\r\n0\r\nA: b\r\n\r\n";
	size_t n;

	(void)state;
	for (n = 1; n < sizeof(s) - 1; n++)
		expect(s, n, E_AGAIN,
		       n < 10   ? ""
		       : n < 11 ? "a"
		       : n < 12 ? "ab"
				: "abc",
		       "");
}

static const char *const bad[] = {
    /* sizes */
    "\r\n",
    "\n",
    " 5\r\n",
    "5 \r\n",
    "5\t\r\n",
    "+5\r\n",
    "-5\r\n",
    "0x5\r\n",
    "g\r\n",
    "5g\r\n",
    ";a\r\n",
    "5,\r\n",
    "5.\r\n",
    "\"5\"\r\n",
    "\x80\r\n",
    "00000000000000000\r\n",
    "10000000000000000\r\n",
    "fffffffffffffffff\r\n",
    /* line ends */
    "5\n",
    "5\r\r\n",
    "5\rhello",
    "0\r\n\n",
    "0\n\r\n",
    "0\r\n\rx",
    "0\r\r\n",
    "5;a\n",
    "5;a\rb",
    /* after data */
    "1\r\nab\r\n",
    "1\r\na\n",
    "1\r\na\r0",
    "1\r\na0\r\n\r\n",
    "1\r\na\r\r\n",
    "1\r\na\rX0\r\n\r\n",
    "1\rXa\r\n",
    "0\rX\r\n",
    /* extensions */
    "1;\r\n",
    "1;a=\r\n",
    "1;=b\r\n",
    "1; a\r\n",
    "1;a =b\r\n",
    "1;a= b\r\n",
    "1;a \r\n",
    "1;;a\r\n",
    "1;a=b=c\r\n",
    "1;a=\"b\r\n",
    "1;a=\"b\"c\r\n",
    "1;a=\"\\\r\n",
    "1;a=b\"\r\n",
    "1;a\x01\r\n",
    "1;a=\"\x7f\"\r\n",
    "1;a=\"\n\"\r\n",
    "1;a/b\r\n",
    "1;\x80\r\n",
    /* trailers */
    "0\r\nA\r\n",
    "0\r\n: b\r\n",
    "0\r\n A: b\r\n",
    "0\r\nA : b\r\n",
    "0\r\nA: b\r\n c\r\n",
    "0\r\nA: b\n",
    "0\r\nA: b\rc",
    "0\r\nA: \x01\r\n",
    "0\r\nA B: c\r\n",
    "0\r\n\x80: c\r\n",
    "0\r\nA: b\r\n\n",
    "0\r\nGET / HTTP/1.1\r\n",
};

static void
test_bad(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(bad); i++)
		expect(bad[i], strlen(bad[i]), E_PROTO, "", "");
	expect("1\0\r\n", 4, E_PROTO, "", "");
	expect("1;a\0\r\n", 6, E_PROTO, "", "");
	expect("0\r\nA: \0\r\n", 9, E_PROTO, "", "");
}

/* before, then n times part, then after */
static int
repeat(const char *before, const char *part, size_t n, const char *after)
{
	char *s = malloc(strlen(before) + n * strlen(part) + strlen(after) + 1);
	char *p = s;
	int r;

	assert_non_null(s);
	p += sprintf(p, "%s", before);
	while (n-- > 0)
		p += sprintf(p, "%s", part);
	p += sprintf(p, "%s", after);
	r = decode(s, (size_t)(p - s), 1000, SIZE_MAX);
	assert_int_equal(r, decode(s, (size_t)(p - s), SIZE_MAX / 2, 7));
	free(s);
	return r;
}

static void
test_limits(void **state)
{
	(void)state;
	assert_int_equal(repeat("0;", "a", 4000, "\r\n\r\n"), 0);
	assert_int_equal(repeat("0;", "a", 4200, "\r\n\r\n"), E_LIMIT);
	assert_int_equal(repeat("0;", "a", 4200, ""), E_LIMIT);
	/* of the body, not of each chunk */
	assert_int_equal(repeat("", "1;abc\r\nx\r\n", 1000, "0\r\n\r\n"), 0);
	assert_int_equal(repeat("", "1;abc\r\nx\r\n", 1100, "0\r\n\r\n"),
			 E_LIMIT);
	assert_int_equal(repeat("0\r\n", "A: b\r\n", 1300, "\r\n"), 0);
	assert_int_equal(repeat("0\r\n", "A: b\r\n", 1700, "\r\n"), E_LIMIT);
	assert_int_equal(repeat("0\r\nA: ", "x", 9000, ""), E_LIMIT);
	clear_all();
}

/* Sizes that do not fit the input are taken as they are, and wait. */
static void
test_huge_size(void **state)
{
	(void)state;
	expect("ffffffffffffffff\r\nab", 20, E_AGAIN, "ab", "");
}

/* max 0 takes framing, and no data. */
static void
test_max_zero(void **state)
{
	struct chunk_dec d;

	(void)state;
	chunk_dec_init(&d);
	bufq_add(&in, "2\r\nab\r\n0\r\n\r\n", 12);
	assert_int_equal(chunk_decode(&d, &in, &out, 0), E_AGAIN);
	assert_int_equal(out.len, 0);
	/* the end is seen in the call that takes the last byte of data */
	assert_int_equal(chunk_decode(&d, &in, &out, 2), 0);
	assert_int_equal(out.len, 2);
	assert_int_equal(in.len, 0);
	assert_int_equal(chunk_decode(&d, &in, &out, 2), 0);
	clear_all();
}

static void
round_trip(size_t total, size_t chunk)
{
	struct bufq src, coded;
	struct chunk_dec d;
	char *data = malloc(total);
	size_t i;

	assert_non_null(data);
	for (i = 0; i < total; i++)
		data[i] = (char)(i * 7 + i / 251);
	bufq_init(&src, pool);
	bufq_init(&coded, pool);
	bufq_add(&src, data, total);
	while (src.len > 0)
		chunk_encode(&coded, &src, src.len < chunk ? src.len : chunk);
	chunk_encode_end(&coded);
	bufq_add(&coded, "next", 4);
	chunk_dec_init(&d);
	assert_int_equal(chunk_decode(&d, &coded, &out, SIZE_MAX), 0);
	assert_int_equal(out.len, total);
	assert_int_equal(coded.len, 4);
	for (i = 0; i < total;) {
		struct strv run = bufq_front(&out);

		assert_memory_equal(run.p, data + i, run.len);
		i += run.len;
		bufq_drain(&out, run.len);
	}
	bufq_clear(&coded);
	free(data);
}

static void
test_round_trip(void **state)
{
	(void)state;
	round_trip(1, 1);
	round_trip(300, 1);
	round_trip(5000, 15);
	round_trip(100000, 16);
	round_trip(100000, 4096);
	round_trip(1000000, 65536);
	round_trip(1000000, 1000000);
}

static void
test_encode_text(void **state)
{
	struct bufq src;

	(void)state;
	bufq_init(&src, pool);
	bufq_add(&src, "0123456789abcdefg", 17);
	chunk_encode(&out, &src, 16);
	chunk_encode(&out, &src, 1);
	chunk_encode_end(&out);
	assert_int_equal(out.len, 33);
	assert_memory_equal(bufq_pullup(&out, 33),
			    "10\r\n0123456789abcdef\r\n1\r\ng\r\n0\r\n\r\n",
			    33);
	clear_all();
}

static int
setup(void **state)
{
	(void)state;
	pool = bufpool_new(8);
	bufq_init(&in, pool);
	bufq_init(&out, pool);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	clear_all();
	assert_int_equal(bufpool_live(pool), 0);
	bufpool_free(pool);
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_good),
	    cmocka_unit_test(test_incomplete),
	    cmocka_unit_test(test_bad),
	    cmocka_unit_test(test_limits),
	    cmocka_unit_test(test_huge_size),
	    cmocka_unit_test(test_max_zero),
	    cmocka_unit_test(test_round_trip),
	    cmocka_unit_test(test_encode_text),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
