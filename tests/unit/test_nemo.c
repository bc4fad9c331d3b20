/* SPDX-License-Identifier: Apache-2.0 */
/* agent/nemo: what must come out as Python has it. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/nemo_int.h"

static void
check_base64(const char *in, const char *want)
{
	struct strbuf b = {0};
	const char *why = NULL;

	strbuf_add(&b, "", 0);
	assert_true(nemo_base64(strv_of(in), &b, &why));
	assert_string_equal(b.s, want);
	strbuf_clear(&b);
}

static void
check_bad(const char *in, const char *want)
{
	struct strbuf b = {0};
	const char *why = NULL;

	assert_false(nemo_base64(strv_of(in), &b, &why));
	assert_non_null(strstr(why, want));
	strbuf_clear(&b);
}

static void
test_base64(void **state)
{
	(void)state;
	check_base64("", "");
	check_base64("YQ==", "a");
	check_base64("YWI=", "ab");
	check_base64("YWJj", "abc");
	check_base64("YW\nJj ZGVm", "abcdef");
	check_base64("YQ==YWJj", "a"); /* nothing after the end */
	check_base64("=YWJj", "abc");
	check_base64("~-_", "");
	check_bad("YQ", "Incorrect padding");
	check_bad("YQ=", "Incorrect padding");
	check_bad("YWJjZ", "1 more than a multiple of 4");
}

static void
check_timeout(const char *body, const char *want)
{
	char *text = nemo_timeout_text(strv_of(body));

	assert_string_equal(text, want);
	free(text);
}

static void
test_timeout(void **state)
{
	(void)state;
	check_timeout("{\"cmd\": \"x\"}", "300");
	check_timeout("", "300");
	check_timeout("{\"timeout\": 5}", "5");
	check_timeout("{\"timeout\":5", "5");
	check_timeout("{\"timeout\" : 0.50 , \"cmd\":\"\"}", "0.5");
	check_timeout("{\"timeout\": 30.0}", "30.0");
	check_timeout("{\"timeout\": 1e2}", "100.0");
	check_timeout("{\"timeout\": null}", "300");
	check_timeout("{\"cmd\": \"\\\"timeout\\\": 7\", \"timeout\": 3}", "3");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_base64),
	    cmocka_unit_test(test_timeout),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
