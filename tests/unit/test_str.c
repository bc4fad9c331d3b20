/* SPDX-License-Identifier: Apache-2.0 */
/* Views, strict numbers, the byte string, and UTF-8 as Python replaces it. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "base/utf8.h"

static void
test_views(void **state)
{
	struct strv s = STRV("Content-Length");

	(void)state;
	assert_true(strv_eq(s, strv_of("Content-Length")));
	assert_false(strv_eq(s, STRV("content-length")));
	assert_true(strv_eq_nocase(s, STRV("content-LENGTH")));
	assert_false(strv_eq_nocase(STRV("a["), STRV("a{"))); /* not letters */
	assert_false(strv_eq_nocase(s, STRV("content-lengt")));
	assert_true(strv_eq(STRV_NULL, STRV("")));
	assert_int_equal(strv_of(NULL).len, 0);
	assert_true(strv_starts(s, STRV("Content")));
	assert_true(strv_starts(s, STRV("")));
	assert_false(strv_starts(STRV("Con"), STRV("Content")));
	assert_true(strv_ends(s, STRV("Length")));
	assert_false(strv_ends(STRV("gth"), STRV("Length")));
	assert_true(strv_eq(strv_from(s, 8), STRV("Length")));
	assert_int_equal(strv_from(s, s.len).len, 0);
	assert_null(strv_from(STRV_NULL, 0).p);
	assert_int_equal(strv_index(s, '-'), 7);
	assert_int_equal(strv_index(s, '?'), -1);
	assert_int_equal(strv_index(STRV_NULL, 'x'), -1);
}

static void
test_trim(void **state)
{
	(void)state;
	assert_true(strv_eq(strv_trim(STRV(" \t a b\t ")), STRV("a b")));
	assert_int_equal(strv_trim(STRV(" \t ")).len, 0);
	assert_true(strv_eq(strv_trim(STRV("\na\r")), STRV("\na\r")));
}

static void
test_cut(void **state)
{
	struct strv rest = STRV("a,,b,"), part;
	const char *want[] = {"a", "", "b", ""};

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		assert_true(strv_cut(&rest, ',', &part));
		assert_true(strv_eq(part, strv_of(want[i])));
	}
	assert_null(rest.p);
	assert_false(strv_cut(&rest, ',', &part));
	rest = STRV("");
	assert_true(strv_cut(&rest, ',', &part));
	assert_false(strv_cut(&rest, ',', &part));
}

static void
test_u64(void **state)
{
	static const char *const bad[] = {"",  " 1", "1 ",  "+1", "-1",
					  "a", "1a", "0x1", "1.", "\xd9\xa1"};
	uint64_t v = 77;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(
		    strv_parse_u64(strv_of(bad[i]), UINT64_MAX, false, &v),
		    E_INVALID);
	assert_int_equal(strv_parse_u64(STRV("08"), 99, true, &v), E_INVALID);
	assert_int_equal(strv_parse_u64(STRV("00"), 99, true, &v), E_INVALID);
	assert_int_equal(strv_parse_u64(STRV("100"), 99, true, &v), E_LIMIT);
	assert_int_equal(
	    strv_parse_u64(STRV("18446744073709551616"), UINT64_MAX, true, &v),
	    E_LIMIT);
	assert_int_equal(
	    strv_parse_u64(STRV("99999999999999999999x"), UINT64_MAX, true, &v),
	    E_INVALID);
	assert_int_equal(v, 77); /* untouched by failures */
	assert_int_equal(strv_parse_u64(STRV("08"), 99, false, &v), 0);
	assert_int_equal(v, 8);
	assert_int_equal(strv_parse_u64(STRV("0"), 0, true, &v), 0);
	assert_int_equal(v, 0);
	assert_int_equal(
	    strv_parse_u64(STRV("18446744073709551615"), UINT64_MAX, true, &v),
	    0);
	assert_true(v == UINT64_MAX);
	/* The view ends before the string does. */
	assert_int_equal(
	    strv_parse_u64((struct strv){"12345", 2}, 99, true, &v), 0);
	assert_int_equal(v, 12);
}

static void
test_put_u64(void **state)
{
	char p[STR_U64_MAX + 1];

	(void)state;
	p[STR_U64_MAX] = '#';
	assert_int_equal(str_put_u64(p, 0), 1);
	assert_memory_equal(p, "0", 1);
	assert_int_equal(str_put_u64(p, 1090), 4);
	assert_memory_equal(p, "1090", 4);
	assert_int_equal(str_put_u64(p, UINT64_MAX), STR_U64_MAX);
	assert_memory_equal(p, "18446744073709551615#", STR_U64_MAX + 1);
}

static void
test_units(void **state)
{
	static const struct {
		const char *text;
		uint64_t ms;
	} durations[] = {{"10", 10000},  {"10ms", 10},    {"2s", 2000},
			 {"5m", 300000}, {"1h", 3600000}, {"1d", 86400000},
			 {"0", 0},       {"0ms", 0}};
	static const char *const bad[] = {"",     "s",  "1S",  "1 s", "-1s",
					  "1.5s", "1w", "1ss", "1mss"};
	uint64_t v = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(durations); i++) {
		assert_int_equal(
		    strv_parse_duration(strv_of(durations[i].text), &v), 0);
		assert_int_equal(v, durations[i].ms);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(strv_parse_duration(strv_of(bad[i]), &v),
				 E_INVALID);
	assert_int_equal(strv_parse_duration(STRV("18446744073709551615"), &v),
			 E_LIMIT);
	assert_int_equal(strv_parse_size(STRV("64K"), &v), 0);
	assert_int_equal(v, 65536);
	assert_int_equal(strv_parse_size(STRV("1G"), &v), 0);
	assert_int_equal(v, 1073741824);
	assert_int_equal(strv_parse_size(STRV("10"), &v), 0);
	assert_int_equal(v, 10);
	assert_int_equal(strv_parse_size(STRV("64k"), &v), E_INVALID);
	assert_int_equal(strv_parse_size(STRV("64KB"), &v), E_INVALID);
	assert_int_equal(strv_parse_size(STRV("99999999999999999G"), &v),
			 E_LIMIT);
}

static void
test_strbuf(void **state)
{
	struct strbuf b = {0};
	char *big, *s;

	(void)state;
	s = strbuf_take(&b);
	assert_string_equal(s, "");
	free(s);
	strbuf_add(&b, NULL, 0);
	assert_string_equal(b.s, "");
	strbuf_addf(&b, "%s-%d", "a", 7);
	strbuf_addc(&b, '/');
	strbuf_addv(&b, STRV("xyz"));
	strbuf_adds(&b, "!");
	assert_string_equal(b.s, "a-7/xyz!");
	assert_int_equal(b.len, 8);
	big = malloc(5001);
	assert_non_null(big);
	memset(big, 'q', 5000);
	big[5000] = '\0';
	strbuf_addf(&b, "%s", big);
	assert_int_equal(b.len, 5008);
	assert_string_equal(b.s + 8, big);
	free(big);
	strbuf_reset(&b);
	assert_int_equal(b.len, 0);
	assert_string_equal(b.s, "");
	strbuf_addf(&b, "%0*d", 63, 1); /* exactly the room, and one more */
	strbuf_addf(&b, "%0*d", 64, 1);
	assert_int_equal(b.len, 127);
	assert_int_equal(strlen(b.s), 127);
	s = strbuf_take(&b);
	assert_int_equal(strlen(s), 127);
	assert_null(b.s);
	free(s);
	strbuf_clear(&b);
}

static void
test_html(void **state)
{
	struct strbuf b = {0};

	(void)state;
	strbuf_add_html(&b, STRV("<a href=\"x\">'&'</a>\xc3\xa9"));
	assert_string_equal(b.s, "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;"
				 "&lt;/a&gt;\xc3\xa9");
	strbuf_clear(&b);
}

/* Each right side is what Python 3 prints for
 * json.dumps(b"...".decode("utf-8", "replace"), ensure_ascii=False). */
#define V(in, out)                                                             \
	{                                                                      \
		in, sizeof(in) - 1, out, sizeof(out) - 1                       \
	}
static const struct {
	const char *in;
	size_t in_len;
	const char *out;
	size_t out_len;
} python[] = {
    V("", "\"\""),
    V("abc", "\"abc\""),
    V("\x7f", "\"\x7f\""),
    V("\xc3\xa9", "\"\xc3\xa9\""),
    V("\xe2\x82\xac", "\"\xe2\x82\xac\""),
    V("\xf0\x9f\x98\x80", "\"\xf0\x9f\x98\x80\""),
    V("\xc0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\""),
    V("\xc1\xbf", "\"\xef\xbf\xbd\xef\xbf\xbd\""),
    V("\xc2", "\"\xef\xbf\xbd\""),
    V("\xc2"
      "A",
      "\"\xef\xbf\xbd"
      "A\""),
    V("\xc2\xc2\x80", "\"\xef\xbf\xbd\xc2\x80\""),
    V("\xdf\xbf", "\"\xdf\xbf\""),
    V("\x80", "\"\xef\xbf\xbd\""),
    V("\xbf\xbf", "\"\xef\xbf\xbd\xef\xbf\xbd\""),
    V("\xe0\x80\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""),
    V("\xe0\x9f\xbf", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""),
    V("\xe0\xa0\x80", "\"\xe0\xa0\x80\""),
    V("\xe0\xa0", "\"\xef\xbf\xbd\""),
    V("\xe0", "\"\xef\xbf\xbd\""),
    V("\xe0\xa0"
      "A",
      "\"\xef\xbf\xbd"
      "A\""),
    V("\xe2\x82", "\"\xef\xbf\xbd\""),
    V("\xe2\x82\xe2\x82\xac", "\"\xef\xbf\xbd\xe2\x82\xac\""),
    V("\xed\x9f\xbf", "\"\xed\x9f\xbf\""),
    V("\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""),
    V("\xed\xbf\xbf", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""),
    V("\xed\xa0\x80\xed\xb0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef"
				  "\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""),
    V("\xee\x80\x80", "\"\xee\x80\x80\""),
    V("\xef\xbf\xbf", "\"\xef\xbf\xbf\""),
    V("\xef\xbb\xbfx", "\"\xef\xbb\xbfx\""),
    V("\xf0\x80\x80\x80",
      "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""),
    V("\xf0\x8f\xbf\xbf",
      "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""),
    V("\xf0\x90\x80\x80", "\"\xf0\x90\x80\x80\""),
    V("\xf0\x90\x80", "\"\xef\xbf\xbd\""),
    V("\xf0\x9f\x98", "\"\xef\xbf\xbd\""),
    V("\xf0\x9f", "\"\xef\xbf\xbd\""),
    V("\xf0", "\"\xef\xbf\xbd\""),
    V("\xf0\x9f\x98"
      "A",
      "\"\xef\xbf\xbd"
      "A\""),
    V("\xf0\x9f"
      "A\x80",
      "\"\xef\xbf\xbd"
      "A\xef\xbf\xbd\""),
    V("\xf1\x80\x80\x80", "\"\xf1\x80\x80\x80\""),
    V("\xf1\x80\x80\xf1\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\""),
    V("\xf3\xbf\xbf\xbf", "\"\xf3\xbf\xbf\xbf\""),
    V("\xf4\x8f\xbf\xbf", "\"\xf4\x8f\xbf\xbf\""),
    V("\xf4\x90\x80\x80",
      "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""),
    V("\xf5\x80\x80\x80",
      "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""),
    V("\xf8\x88\x80\x80\x80",
      "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""),
    V("\xfc\x84\x80\x80\x80\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef"
				  "\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""),
    V("\xfe\xff", "\"\xef\xbf\xbd\xef\xbf\xbd\""),
    V("\xff", "\"\xef\xbf\xbd\""),
    V("a\xf1\x80\x80\xe1\x80\xc2"
      "b\x80"
      "c\x80\xbf"
      "d",
      "\"a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
      "b\xef\xbf\xbd"
      "c\xef\xbf\xbd\xef\xbf\xbd"
      "d\""),
    V("\xc2\x00", "\"\xef\xbf\xbd\\u0000\""),
    V("\x00\x01\x1f\x08\x09\x0a\x0b\x0c\x0d\"\\/",
      "\"\\u0000\\u0001\\u001f\\b\\t\\n\\u000b\\f\\r\\\"\\\\/\""),
    /* But for these, at which some split lines. */
    V("a\xe2\x80\xa8\xe2\x80\xa9\xc2\x85z", "\"a\\u2028\\u2029\\u0085z\""),
    V("\xe2\x80\xa7\xe2\x80\xaa\xc2\x84\xc3\x85",
      "\"\xe2\x80\xa7\xe2\x80\xaa\xc2\x84\xc3\x85\""),
    V("x\x80y\xffz\x0a", "\"x\xef\xbf\xbdy\xef\xbf\xbdz\\n\""),
};

static void
test_json_like_python(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(python); i++) {
		struct strbuf b = {0};
		/* An exact block: reading behind the end is seen by ASan. */
		char *in = malloc(python[i].in_len);

		if (python[i].in_len != 0)
			memcpy(in, python[i].in, python[i].in_len);
		strbuf_addc(&b, '>');
		strbuf_add_json(&b, (struct strv){in, python[i].in_len});
		if (b.len != python[i].out_len + 1 ||
		    memcmp(b.s + 1, python[i].out, python[i].out_len) != 0)
			fail_msg("vector %zu: got %s, want %s", i, b.s + 1,
				 python[i].out);
		strbuf_clear(&b);
		free(in);
	}
}

/* What was escaped, back again; but what was no text stays U+FFFD. */
static void
test_unjson(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(python); i++) {
		struct strv in = {python[i].in, python[i].in_len};
		struct strbuf esc = {0}, back = {0}, again = {0};
		struct strv inner;

		strbuf_add_json(&esc, in);
		inner = (struct strv){esc.s + 1, esc.len - 2};
		strbuf_add_unjson(&back, inner);
		assert_int_equal(str_json_len(inner), back.len);
		if (utf8_valid(in)) {
			assert_int_equal(back.len, in.len);
			assert_memory_equal(back.s, in.p, in.len);
		}
		strbuf_add_json(&again, (struct strv){back.s, back.len});
		assert_int_equal(again.len, esc.len);
		assert_memory_equal(again.s, esc.s, esc.len);
		strbuf_clear(&esc);
		strbuf_clear(&back);
		strbuf_clear(&again);
	}
	assert_int_equal(str_json_len(STRV("\\")), 1);
}

static void
test_utf8_valid(void **state)
{
	(void)state;
	assert_true(utf8_valid(STRV_NULL));
	assert_true(utf8_valid(STRV("a\xc3\xa9\xf4\x8f\xbf\xbf")));
	assert_false(utf8_valid(STRV("a\xc3")));
	assert_false(utf8_valid(STRV("\xed\xa0\x80")));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_views),
	    cmocka_unit_test(test_trim),
	    cmocka_unit_test(test_cut),
	    cmocka_unit_test(test_u64),
	    cmocka_unit_test(test_put_u64),
	    cmocka_unit_test(test_units),
	    cmocka_unit_test(test_strbuf),
	    cmocka_unit_test(test_html),
	    cmocka_unit_test(test_json_like_python),
	    cmocka_unit_test(test_unjson),
	    cmocka_unit_test(test_utf8_valid),
	};

	return cmocka_run_group_tests_name("str", tests, NULL, NULL);
}
