/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/defs.h"
#include "base/scratch.h"

static void
test_good(void **state)
{
	struct strv name;
	const char *place;

	(void)state;
	assert_true(scratch_parse("a /w", &name, &place));
	assert_int_equal(name.len, 1);
	assert_string_equal(place, "/w");
	assert_true(scratch_parse("vol-01 /a b/..c/.d/e.", &name, &place));
	assert_string_equal(place, "/a b/..c/.d/e.");
	assert_true(scratch_parse("x /devices", &name, &place));
	assert_true(scratch_parse("x /root/.cache", &name, &place));
}

static void
test_bad(void **state)
{
	static const char *const bad[] = {
	    "",        "a",         "a ",     " /w",        "a w",
	    "a /",     "a //w",     "a /w/",  "a /w//x",    "a /w/../x",
	    "a /..",   "a /.",      "a /w/.", "a /./w",     "A /w",
	    "a/b /w",  ".. /w",     "-a /w",  "a- /w",      "a_b /w",
	    "a /proc", "a /proc/x", "a /sys", "a /dev/shm", "a /sbx/homes"};
	char text[SCRATCH_PATH_MAX + 16];
	struct strv name;
	const char *place;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (scratch_parse(bad[i], &name, &place))
			fail_msg("taken: %s", bad[i]);
	(void)memset(text, 'a', sizeof(text));
	(void)memcpy(text + SCRATCH_NAME_MAX + 1, " /w", 4);
	assert_false(scratch_parse(text, &name, &place));
	assert_true(scratch_parse(text + 1, &name, &place));
	(void)memset(text, 'a', sizeof(text));
	(void)memcpy(text, "a /", 3);
	text[2 + SCRATCH_PATH_MAX] = '\0';
	assert_true(scratch_parse(text, &name, &place));
	text[2 + SCRATCH_PATH_MAX] = 'a';
	text[3 + SCRATCH_PATH_MAX] = '\0';
	assert_false(scratch_parse(text, &name, &place));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_good),
	    cmocka_unit_test(test_bad),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
