/* SPDX-License-Identifier: Apache-2.0 */
/* Counting connections by address, and the handshake bucket. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/gwconf.h"
#include "gateway/limits.h"

static struct addr
ip(const char *text)
{
	struct addr a;

	assert_int_equal(addr_parse(strv_of(text), &a), 0);
	return a;
}

static struct addr
nth(unsigned n)
{
	char text[64];

	(void)snprintf(text, sizeof(text), "10.0.%u.%u:1", n >> 8, n & 255);
	return ip(text);
}

static void
test_total(void **state)
{
	struct gw_limits g = {.conns = 2};
	struct limits *l = limits_new(&g);
	struct addr a = ip("10.0.0.1:1");

	(void)state;
	assert_true(limits_open(l, &a));
	assert_true(limits_open(l, &a));
	assert_false(limits_open(l, &a));
	limits_close(l, &a);
	assert_int_equal(limits_count(l), 1);
	assert_true(limits_open(l, &a));
	limits_free(l);
}

static void
test_by_address(void **state)
{
	struct gw_limits g = {.conns_per_ip = 1};
	struct limits *l = limits_new(&g);
	struct addr v4 = ip("10.0.0.1:1");
	struct addr v4again = ip("10.0.0.1:2");
	struct addr mapped = ip("[::ffff:10.0.0.1]:3");
	struct addr six = ip("[2001:db8:0:1::1]:1");
	struct addr same64 = ip("[2001:db8:0:1:9::2]:1");
	struct addr other64 = ip("[2001:db8:0:2::1]:1");
	struct addr un;

	(void)state;
	assert_true(limits_open(l, &v4));
	assert_false(limits_open(l, &v4again));
	assert_false(limits_open(l, &mapped));
	assert_true(limits_open(l, &six));
	assert_false(limits_open(l, &same64));
	assert_true(limits_open(l, &other64));
	assert_int_equal(addr_unix(&un, "/x"), 0);
	assert_true(limits_open(l, &un));
	assert_true(limits_open(l, &un));
	limits_close(l, &v4);
	assert_true(limits_open(l, &mapped));
	limits_free(l);
}

/* Against a plain array of counts, through growth and deletions. */
static void
test_table(void **state)
{
	struct gw_limits g = {.conns_per_ip = 3};
	struct limits *l = limits_new(&g);
	unsigned counts[700] = {0}, seed = 1;
	size_t i, total = 0;

	(void)state;
	for (i = 0; i < 60000; i++) {
		unsigned n;
		struct addr a;

		seed = seed * 1103515245 + 12345;
		n = (seed >> 8) % 700;
		a = nth(n);
		if ((seed >> 28) % 2 == 0) {
			bool in = limits_open(l, &a);

			assert_int_equal(in, counts[n] < 3);
			counts[n] += in;
			total += in;
		} else if (counts[n] > 0) {
			limits_close(l, &a);
			counts[n]--;
			total--;
		}
		assert_int_equal(limits_count(l), total);
	}
	limits_free(l);
}

static void
test_handshakes(void **state)
{
	struct gw_limits g = {.handshakes_per_s = 10};
	struct limits *l = limits_new(&g);
	unsigned i;

	(void)state;
	for (i = 0; i < 10; i++)
		assert_true(limits_handshake(l, 1000000));
	assert_false(limits_handshake(l, 1000000));
	assert_false(limits_handshake(l, 1000099));
	assert_true(limits_handshake(l, 1000100));
	assert_false(limits_handshake(l, 1000100));
	for (i = 0; i < 10; i++)
		assert_true(limits_handshake(l, 1900000));
	assert_false(limits_handshake(l, 1900000));
	limits_free(l);
	g.handshakes_per_s = 0;
	l = limits_new(&g);
	for (i = 0; i < 1000; i++)
		assert_true(limits_handshake(l, 5));
	limits_free(l);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_total),
	    cmocka_unit_test(test_by_address),
	    cmocka_unit_test(test_table),
	    cmocka_unit_test(test_handshakes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
