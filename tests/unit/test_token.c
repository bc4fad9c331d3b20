/* SPDX-License-Identifier: Apache-2.0 */
/* Identifiers, hex, and comparisons of secrets. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/err.h"
#include "base/token.h"

static void
test_random(void **state)
{
	unsigned char a[64] = {0}, b[64] = {0};
	char hex[2 * 40 + 2], label[1001];
	unsigned seen[256] = {0};

	(void)state;
	token_random(a, sizeof(a));
	token_random(b, sizeof(b));
	assert_memory_not_equal(a, b, sizeof(a));
	hex[81] = '#';
	token_hex(hex, 40);
	assert_int_equal(strlen(hex), 80);
	assert_int_equal(strspn(hex, "0123456789abcdef"), 80);
	assert_int_equal(hex[81], '#');
	token_hex(hex, 0);
	assert_string_equal(hex, "");
	token_label(label, 1000);
	assert_int_equal(strlen(label), 1000);
	for (int i = 0; i < 1000; i++)
		seen[(unsigned char)label[i]]++;
	/* A character that is missing among 1000 of 36 has odds of 2^-40. */
	for (const char *c = "abcdefghijklmnopqrstuvwxyz0123456789"; *c; c++) {
		assert_true(seen[(unsigned char)*c] > 0);
		seen[(unsigned char)*c] = 0;
	}
	for (int i = 0; i < 256; i++)
		assert_int_equal(seen[i], 0);
}

static void
test_equal(void **state)
{
	(void)state;
	assert_true(token_equal(STRV("abcdef"), STRV("abcdef")));
	assert_false(token_equal(STRV("abcdef"), STRV("abcdeg")));
	assert_false(token_equal(STRV("abcdef"), STRV("bbcdef")));
	assert_false(token_equal(STRV("abcdef"), STRV("abcde")));
	assert_false(token_equal(STRV("abcde"), STRV("abcdef")));
	assert_false(token_equal(STRV("abcdef"), STRV("")));
	assert_false(token_equal(STRV(""), STRV("a")));
	assert_false(token_equal(STRV_NULL, STRV("a")));
	assert_true(token_equal(STRV_NULL, STRV("")));
	assert_false(token_equal(STRV("a\0b"), STRV("a\0c")));
	assert_true(token_equal_raw("xy", "xy", 2));
	assert_false(token_equal_raw("xy", "xz", 2));
	assert_true(token_equal_raw("x", "y", 0));
}

static void
test_plausible(void **state)
{
	(void)state;
	assert_true(token_plausible(STRV("hf_abc.DEF-~!"), 64));
	assert_false(token_plausible(STRV(""), 64));
	assert_false(token_plausible(STRV("abc"), 2));
	assert_true(token_plausible(STRV("ab"), 2));
	for (int c = 0; c < 256; c++) {
		char s[3] = {'a', (char)c, 'b'};
		bool want = c > ' ' && c < 0x7f && c != '"' && c != '\'' &&
			    c != ',' && c != ';';

		assert_int_equal(token_plausible((struct strv){s, 3}, 64),
				 want);
	}
}

static void
test_hex(void **state)
{
	static const char *const bad[] = {
	    "", "00ff7", "00ff", "00ff7f00", "00ff7g", "0x00ff", " 0ff7f"};
	unsigned char out[3] = {9, 9, 9};
	char text[7];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(token_hex_decode(strv_of(bad[i]), out, 3),
				 E_INVALID);
	assert_memory_equal(out, "\x09\x09\x09", 3);
	assert_int_equal(token_hex_decode(STRV("00Ff7a"), out, 3), 0);
	assert_memory_equal(out, "\x00\xff\x7a", 3);
	token_hex_encode(text, out, 3);
	assert_string_equal(text, "00ff7a");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_random),
	    cmocka_unit_test(test_equal),
	    cmocka_unit_test(test_plausible),
	    cmocka_unit_test(test_hex),
	};

	return cmocka_run_group_tests_name("token", tests, NULL, NULL);
}
