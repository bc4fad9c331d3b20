/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting times between tries. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/defs.h"
#include "tunnel/backoff.h"

static void
test_first_at_once(void **state)
{
	struct backoff b;

	(void)state;
	backoff_init(&b, 30000);
	assert_int_equal(backoff_next(&b, 1000, 7), 0);
	assert_in_range(backoff_next(&b, 1000, 7), 50, 100);
}

/* An eighth of the outage, half of it jitter, and never above the cap. */
static void
test_grows_to_the_cap(void **state)
{
	struct backoff b;
	uint64_t now = 1000, least = UINT64_MAX, most = 0, w;

	(void)state;
	backoff_init(&b, 30000);
	(void)backoff_next(&b, now, 0);
	assert_in_range(backoff_next(&b, now + 8000, 12345), 500, 1000);
	assert_in_range(backoff_next(&b, now + 80000, 12345), 5000, 10000);
	for (uint32_t rnd = 0; rnd < 100000; rnd += 7) {
		w = backoff_next(&b, now + 100000000, rnd);
		least = w < least ? w : least;
		most = w > most ? w : most;
	}
	assert_in_range(least, 15000, 15100);
	assert_in_range(most, 29900, 30000);
}

static void
test_short_up_goes_on(void **state)
{
	struct backoff b;

	(void)state;
	backoff_init(&b, 30000);
	(void)backoff_next(&b, 1000, 0);
	backoff_up(&b, 41000);
	assert_in_range(backoff_next(&b, 41100, 0), 2000, 5100);
	backoff_up(&b, 50000);
	/* it lasted: a new outage, the first try at once */
	assert_int_equal(backoff_next(&b, 56000, 0), 0);
}

static void
test_small_cap(void **state)
{
	struct backoff b;

	(void)state;
	backoff_init(&b, 1);
	(void)backoff_next(&b, 1000, 0);
	assert_in_range(backoff_next(&b, 900000, 3), 50, 100);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_first_at_once),
	    cmocka_unit_test(test_grows_to_the_cap),
	    cmocka_unit_test(test_short_up_goes_on),
	    cmocka_unit_test(test_small_cap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
