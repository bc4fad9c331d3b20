/* SPDX-License-Identifier: Apache-2.0 */
/* Base64 both ways, with the vectors of RFC 4648, section 10. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/base64.h"
#include "base/err.h"

static void
test_vectors(void **state)
{
	static const char *const v[][2] = {
	    {"", ""},
	    {"f", "Zg=="},
	    {"fo", "Zm8="},
	    {"foo", "Zm9v"},
	    {"foob", "Zm9vYg=="},
	    {"fooba", "Zm9vYmE="},
	    {"foobar", "Zm9vYmFy"},
	    {"\xfb\xff\xfe", "+//+"},
	};
	struct strbuf b = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		strbuf_clear(&b);
		base64_encode(strv_of(v[i][0]), &b);
		assert_string_equal(b.s, v[i][1]);
		strbuf_clear(&b);
		strbuf_adds(&b, "");
		assert_int_equal(base64_decode(strv_of(v[i][1]), &b), 0);
		assert_string_equal(b.s, v[i][0]);
	}
	strbuf_clear(&b);
}

static void
test_every_byte(void **state)
{
	struct strbuf text = {0}, back = {0};
	char all[3001];

	(void)state;
	for (size_t i = 0; i < sizeof(all); i++)
		all[i] = (char)(i * 7 + i / 256);
	base64_encode((struct strv){all, sizeof(all)}, &text);
	assert_int_equal(base64_decode((struct strv){text.s, text.len}, &back),
			 0);
	assert_int_equal(back.len, sizeof(all));
	assert_memory_equal(back.s, all, sizeof(all));
	strbuf_clear(&text);
	strbuf_clear(&back);
}

static void
test_refused(void **state)
{
	static const char *const bad[] = {"Z",    "Zg",   "Zg=",  "Zm9v\n",
					  "Z===", "====", "Zm-_", "Zg==Zg=="};
	struct strbuf b = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(base64_decode(strv_of(bad[i]), &b), E_INVALID);
	assert_int_equal(base64_value('='), -1);
	assert_int_equal(base64_value('\0'), -1);
	strbuf_clear(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_vectors),
	    cmocka_unit_test(test_every_byte),
	    cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
