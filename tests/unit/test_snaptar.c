/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/snaptar: which paths an archive may have. The rest needs processes
 * and trees: tests/e2e/test_snapshot_archive.py. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/snaptar.h"

static const char *const parts[] = {"upper", "data/root", NULL};

static void
test_paths(void **state)
{
	static const char *const good[] = {
	    "upper",     "upper/a",       "upper/a/b",     "upper/...",
	    "data/root", "data/root/ .a", "upper/a\\..\\b"};
	static const char *const bad[] = {
	    "",          "/",          "/upper",       "upper/",
	    "upper//a",  "upper/.",    "upper/..",     "upper/../upper",
	    "./upper",   "../upper",   "uppe",         "upper2",
	    "data",      "data/root2", "data/rootx/a", "data/../upper",
	    "root/upper"};
	char longest[5000];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		assert_true(snaptar_path_ok(parts, strv_of(good[i])));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_false(snaptar_path_ok(parts, strv_of(bad[i])));
	assert_false(snaptar_path_ok(parts, STRV("upper/a\0b")));
	memset(longest, 'a', sizeof(longest));
	memcpy(longest, "upper/", 6);
	assert_true(snaptar_path_ok(parts, (struct strv){longest, 4095}));
	assert_false(snaptar_path_ok(parts, (struct strv){longest, 4096}));
}

static void
test_suffix(void **state)
{
	(void)state;
	assert_int_equal(strncmp(snaptar_suffix(), ".tar.", 5), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_paths),
	    cmocka_unit_test(test_suffix),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
