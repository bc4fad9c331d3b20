/* SPDX-License-Identifier: Apache-2.0 */
/* Frame boundaries, for every way a stream can be cut into reads. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/wsframe.h"

static size_t
frame(uint8_t *p, unsigned op, size_t n, bool masked)
{
	size_t at = 2, i;

	p[0] = (uint8_t)(0x80 | op);
	p[1] = (uint8_t)((masked ? 0x80 : 0) | (n < 126     ? n
						: n < 65536 ? 126
							    : 127));
	if (n >= 126 && n < 65536) {
		p[at++] = (uint8_t)(n >> 8);
		p[at++] = (uint8_t)n;
	} else if (n >= 65536) {
		for (i = 0; i < 8; i++)
			p[at++] = (uint8_t)((uint64_t)n >> (56 - 8 * i));
	}
	if (masked)
		at += 4;
	memset(p + at, 0x88, n); /* looks like a close */
	return at + n;
}

static void
test_boundaries(void **state)
{
	static uint8_t buf[400000];
	static const size_t lens[] = {0, 1, 125, 126, 65535, 65536, 70000};
	static const size_t cuts[] = {1, 2, 3, 7, 100, 4096, 100000};
	size_t ends[32], nends = 0, total = 0, c, i, at;

	(void)state;
	for (i = 0; i < 7; i++) {
		total += frame(buf + total, i % 3, lens[i], i % 2 == 0);
		ends[nends++] = total;
	}
	for (c = 0; c < 7; c++) {
		struct wsframe f = {0};
		size_t next = 0;

		assert_true(wsframe_at_end(&f));
		for (at = 0; at < total;) {
			size_t n = cuts[c];

			if (n > total - at)
				n = total - at;
			wsframe_feed(&f, buf + at, n);
			at += n;
			while (next < nends && ends[next] < at)
				next++;
			assert_int_equal(wsframe_at_end(&f),
					 next < nends && ends[next] == at);
		}
	}
}

static void
test_close(void **state)
{
	struct wsframe f = {0}, g = {0};
	uint8_t close[4];

	(void)state;
	wsframe_close(close, 1001);
	assert_int_equal(close[2] << 8 | close[3], 1001);
	wsframe_feed(&f, close, 4);
	assert_true(f.closed);
	assert_false(wsframe_at_end(&f));
	/* impossible lengths */
	wsframe_feed(&g, "\x82\x7f\xff\xff\xff\xff\xff\xff\xff\xff", 10);
	assert_true(g.lost);
	wsframe_feed(&g, "xxxxxx", 6);
	assert_false(wsframe_at_end(&g));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_boundaries),
	    cmocka_unit_test(test_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
