/* SPDX-License-Identifier: Apache-2.0 */
/* agent/filename: any name there, and back. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/filename.h"
#include "base/json.h"
#include "base/utf8.h"

static void
check_round_trip(struct strv name)
{
	struct strbuf b = {0}, back = {0};
	struct json_doc *d = NULL;
	const char *why, *text;

	filename_add_json(&b, name);
	assert_int_equal(json_parse((struct strv){b.s, b.len}, &d, &why), 0);
	text = json_string(json_root(d));
	assert_non_null(text);
	assert_true(utf8_valid(strv_of(text)));
	strbuf_add(&back, "", 0);
	filename_unescape(&back, strv_of(text));
	assert_int_equal(back.len, name.len);
	assert_memory_equal(back.s, name.p, name.len);
	assert_int_equal(filename_escaped(strv_of(text)), !utf8_valid(name));
	json_doc_free(d);
	strbuf_clear(&b);
	strbuf_clear(&back);
}

static void
test_known(void **state)
{
	struct strbuf b = {0};

	(void)state;
	filename_add_json(&b, STRV("a\xff\x80\xc3"));
	assert_string_equal(b.s, "\"a\xee\xbf\xbf\xee\xbe\x80\xee\xbf\x83\"");
	strbuf_clear(&b);
	filename_add_json(&b, STRV("\xc3\xa9\n\""));
	assert_string_equal(b.s, "\"\xc3\xa9\\n\\\"\"");
	strbuf_clear(&b);
	assert_false(filename_escaped(STRV("plain \xc3\xa9 \xee\xbd\xbf")));
	assert_false(filename_escaped(STRV("\xee\xbe")));
	assert_true(filename_escaped(STRV("x\xee\xbe\x80")));
}

static void
test_round_trips(void **state)
{
	unsigned seed = 1;
	char name[40];

	(void)state;
	for (int i = 0; i < 20000; i++) {
		size_t n = 1 + (size_t)(rand_r(&seed) % 24);

		/* No bytes of the characters that are in use for it: they
		 * would come back as what they may stand for. */
		for (size_t k = 0; k < n; k++) {
			do
				name[k] = (char)(1 + rand_r(&seed) % 255);
			while ((unsigned char)name[k] == 0xee);
		}
		check_round_trip((struct strv){name, n});
	}
	check_round_trip(STRV("\xf0\x9f\x98"));
	check_round_trip(STRV("\xed\xb2\x80"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_known),
	    cmocka_unit_test(test_round_trips),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
