/* SPDX-License-Identifier: Apache-2.0 */
/* agent/ring: what is kept, what is dropped, and where the streams change. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/ring.h"

static void
test_streams(void **state)
{
	struct ring *r = ring_new();
	uint64_t pos = 0;
	unsigned s = 9;
	struct strv v;

	(void)state;
	assert_int_equal(ring_read(r, &pos, &s).len, 0);
	ring_add(r, 0, "ab", 2);
	ring_add(r, 0, "c", 1);
	ring_add(r, 1, "XY", 2);
	ring_add(r, 0, "d", 1);
	v = ring_read(r, &pos, &s);
	assert_true(strv_eq(v, STRV("abc")));
	assert_int_equal(s, 0);
	pos += 1; /* a part of it only */
	v = ring_read(r, &pos, &s);
	assert_true(strv_eq(v, STRV("bc")));
	pos += 2;
	v = ring_read(r, &pos, &s);
	assert_true(strv_eq(v, STRV("XY")));
	assert_int_equal(s, 1);
	pos += 2;
	v = ring_read(r, &pos, &s);
	assert_true(strv_eq(v, STRV("d")));
	assert_int_equal(s, 0);
	pos += 1;
	assert_int_equal(ring_read(r, &pos, &s).len, 0);
	assert_int_equal(pos, ring_end(r));
	ring_free(r);
}

static unsigned char
byte_at(uint64_t pos)
{
	return (unsigned char)(pos * 2654435761U >> 13);
}

static unsigned
stream_at(uint64_t pos)
{
	return pos / 7777 & 1;
}

/* Adds the bytes from..to, in pieces that end where the stream changes. */
static void
feed(struct ring *r, uint64_t to)
{
	char buf[4096];

	while (ring_end(r) < to) {
		uint64_t at = ring_end(r);
		size_t n = 0;

		while (n < sizeof(buf) && at + n < to &&
		       stream_at(at + n) == stream_at(at)) {
			buf[n] = (char)byte_at(at + n);
			n++;
		}
		ring_add(r, stream_at(at), buf, n);
	}
}

static void
verify(struct ring *r)
{
	uint64_t pos = ring_start(r);
	unsigned s;
	struct strv v;

	while ((v = ring_read(r, &pos, &s)).len > 0) {
		for (size_t i = 0; i < v.len; i++) {
			if ((unsigned char)v.p[i] != byte_at(pos + i) ||
			    s != stream_at(pos + i))
				fail_msg("byte %llu",
					 (unsigned long long)pos + i);
		}
		pos += v.len;
	}
	assert_int_equal(pos, ring_end(r));
}

static void
test_wraps(void **state)
{
	static const uint64_t steps[] = {
	    1,        4095,         4096,
	    4097,     100000,       RING_MAX - 1,
	    RING_MAX, RING_MAX + 1, 3ULL * RING_MAX + 12345};
	struct ring *r = ring_new();
	uint64_t pos = 0;
	unsigned s;

	(void)state;
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		feed(r, steps[i]);
		verify(r);
		assert_true(ring_end(r) - ring_start(r) <= RING_MAX);
	}
	assert_int_equal(ring_end(r) - ring_start(r), RING_MAX);
	/* A position that is no more kept moves up. */
	assert_true(ring_read(r, &pos, &s).len > 0);
	assert_int_equal(pos, ring_start(r));
	ring_free(r);
}

static void
test_one_big_piece(void **state)
{
	size_t n = RING_MAX + 1000;
	char *p = malloc(n);
	struct ring *r = ring_new();
	uint64_t pos = 0;
	unsigned s;

	(void)state;
	assert_non_null(p);
	for (size_t i = 0; i < n; i++)
		p[i] = (char)byte_at(i);
	ring_add(r, 0, p, n);
	free(p);
	assert_int_equal(ring_end(r), n);
	assert_int_equal(ring_start(r), 1000);
	(void)ring_read(r, &pos, &s);
	assert_int_equal(pos, 1000);
	ring_free(r);
}

/* Streams that alternate byte by byte cost no more than a bound. */
static void
test_alternating(void **state)
{
	struct ring *r = ring_new();
	uint64_t pos = 0;
	unsigned s;

	(void)state;
	for (unsigned i = 0; i < 200000; i++)
		ring_add(r, i & 1, i & 1 ? "e" : "o", 1);
	assert_true(ring_memory(r) < 1U << 20);
	while (pos < ring_end(r)) {
		struct strv v = ring_read(r, &pos, &s);

		assert_int_equal(v.len, 1);
		assert_int_equal(v.p[0], s == 1 ? 'e' : 'o');
		pos++;
	}
	ring_free(r);
}

/* Memory that many logs share is short: this one stays small. */
static void
test_limited(void **state)
{
	size_t n = 1 << 20;
	char *p = malloc(n);
	struct ring *r = ring_new();

	(void)state;
	assert_non_null(p);
	for (size_t i = 0; i < n; i++)
		p[i] = (char)byte_at(i);
	ring_add(r, 0, p, 1000);
	ring_limit(r, 65536);
	ring_add(r, 0, p, 65536);
	assert_int_equal(ring_start(r), 1000);
	ring_add(r, 0, p, n);
	assert_int_equal(ring_end(r), n + 66536);
	assert_int_equal(ring_end(r) - ring_start(r), 65536);
	assert_true(ring_memory(r) < 70000);
	ring_limit(r, RING_MAX);
	ring_add(r, 0, p, n);
	assert_int_equal(ring_end(r) - ring_start(r), n + 65536);
	ring_limit(r, 65536); /* what it has it keeps */
	ring_add(r, 0, p, n);
	assert_true(ring_end(r) - ring_start(r) >= n + 65536);
	ring_free(r);
	free(p);
}

/* Across the place where the memory begins anew. */
static void
test_copy(void **state)
{
	struct ring *r = ring_new();
	char fill[100], out[8] = "";
	uint64_t pos;
	unsigned s;

	(void)state;
	memset(fill, '.', sizeof(fill));
	ring_limit(r, 65536);
	while (ring_end(r) < 65536 + 4096)
		ring_add(r, 0, fill, sizeof(fill));
	assert_int_equal(ring_bound(r), 65536);
	pos = (uint64_t)2 * 65536 - 3;
	while (ring_end(r) < pos)
		ring_add(r, 0, fill, 1);
	ring_add(r, 1, "abcdef", 6);
	ring_add(r, 0, "x", 1);
	assert_int_equal(ring_read(r, &pos, &s).len, 3);
	assert_int_equal(s, 1);
	assert_int_equal(ring_span_left(r, pos), 6);
	ring_copy(r, pos, out, 6);
	assert_string_equal(out, "abcdef");
	assert_int_equal(ring_span_left(r, ring_end(r)), 0);
	ring_free(r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_streams),
	    cmocka_unit_test(test_copy),
	    cmocka_unit_test(test_wraps),
	    cmocka_unit_test(test_one_big_piece),
	    cmocka_unit_test(test_alternating),
	    cmocka_unit_test(test_limited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
