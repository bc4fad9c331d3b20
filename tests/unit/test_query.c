/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/query.h"

static void
gives(const char *query, const char *name, const char *want)
{
	struct strbuf b = {0};

	assert_int_equal(query_get(strv_of(query), name, &b), want != NULL);
	if (want != NULL) {
		assert_non_null(b.s);
		assert_string_equal(b.s, want);
	}
	assert_int_equal(query_get(strv_of(query), name, NULL), want != NULL);
	strbuf_clear(&b);
}

static void
test_get(void **state)
{
	(void)state;
	gives("a=1&b=x%20y+z", "a", "1");
	gives("a=1&b=x%20y+z", "b", "x y z");
	gives("a=1&b", "b", "");
	gives("&&b=&b=2", "b", "");
	gives("a=b=c", "a", "b=c");
	gives("ab=1", "a", NULL);
	gives("", "a", NULL);
	gives("a=%zz%4%", "a", "%zz%4%");
	gives("a=%C3%a4", "a", "\xc3\xa4");
}

static void
decodes(const char *text, enum query_how how, const char *want)
{
	char out[64];
	ssize_t n = query_decode(strv_of(text), how, out);

	if (want == NULL) {
		assert_int_equal(n, E_INVALID);
		return;
	}
	assert_int_equal(n, strlen(want));
	assert_memory_equal(out, want, strlen(want));
}

static void
test_decode(void **state)
{
	char out[4];

	(void)state;
	decodes("a+b%2B", QUERY_STRICT, "a b+");
	decodes("a+b%2B", QUERY_PATH, "a+b+");
	decodes("", QUERY_STRICT, "");
	decodes("%", QUERY_STRICT, NULL);
	decodes("%4", QUERY_PATH, NULL);
	decodes("%4g", QUERY_STRICT, NULL);
	decodes("x%00", QUERY_STRICT, NULL);
	assert_int_equal(query_decode(STRV("x%00y"), QUERY_LENIENT, out), 3);
	assert_memory_equal(out, "x\0y", 3);
}

static void
test_next(void **state)
{
	struct strv rest = STRV("&a=1&&b&=c&"), name, value;

	(void)state;
	assert_true(query_next(&rest, &name, &value));
	assert_true(strv_eq(name, STRV("a")) && strv_eq(value, STRV("1")));
	assert_true(query_next(&rest, &name, &value));
	assert_true(strv_eq(name, STRV("b")) && value.len == 0);
	assert_non_null(value.p);
	assert_true(query_next(&rest, &name, &value));
	assert_true(name.len == 0 && strv_eq(value, STRV("c")));
	assert_false(query_next(&rest, &name, &value));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_get),
	    cmocka_unit_test(test_decode),
	    cmocka_unit_test(test_next),
	};

	return cmocka_run_group_tests_name("query", tests, NULL, NULL);
}
