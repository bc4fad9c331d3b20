/* SPDX-License-Identifier: Apache-2.0 */
/* What is JSON and what is not, typed getters, and the limits. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/jsonlex.h"
#include "base/mem.h"

static struct json_doc *
parse(const char *text)
{
	struct json_doc *d = NULL;
	const char *why = NULL;

	if (json_parse(strv_of(text), &d, &why) != 0)
		fail_msg("%s: %s", text, why);
	return d;
}

static void
refuse(struct strv text, const char *want)
{
	struct json_doc *d = NULL;
	const char *why = NULL;
	/* An exact block: the text has no NUL behind it. */
	char *copy = xmemdup(text.p, text.len);

	text.p = copy;
	if (json_parse(text, &d, &why) != E_INVALID)
		fail_msg("taken: %.*s", STRV_ARG(text));
	assert_null(d);
	assert_string_equal(why, want);
	assert_int_equal(json_parse(text, &d, NULL), E_INVALID);
	free(copy);
}

static void
test_refused(void **state)
{
	static const struct {
		struct strv text;
		const char *why;
	} cases[] = {
#define R(t, w) {{t, sizeof(t) - 1}, w}
	    R("", "empty"),
	    R("  ", "unexpected end"),
	    R("\xef\xbb\xbf{}", "not a JSON value"),
	    R("{", "unexpected end"),
	    R("[1", "unexpected end"),
	    R("[1 2]", "expected a comma"),
	    R("[1,]", "not a JSON value"),
	    R("[,1]", "not a JSON value"),
	    R("{\"a\":1,}", "expected a string"),
	    R("{a:1}", "expected a string"),
	    R("{\"a\" 1}", "expected a colon"),
	    R("{\"a\":}", "not a JSON value"),
	    R("[1}", "expected a comma"),
	    R("{\"a\":1]", "expected a comma"),
	    R("{} x", "text after the JSON value"),
	    R("{}\0", "text after the JSON value"),
	    R("\v1", "not a JSON value"),
	    R("tru", "not a JSON value"),
	    R("True", "not a JSON value"),
	    R("nullx", "text after the JSON value"),
	    R("'a'", "not a JSON value"),
	    R("01", "number with a leading zero"),
	    R("-01", "number with a leading zero"),
	    R("-", "not a JSON value"),
	    R("+1", "not a JSON value"),
	    R(".5", "not a JSON value"),
	    R("1.", "number without digits after the point"),
	    R("1e", "number without an exponent"),
	    R("1e+", "number without an exponent"),
	    R("NaN", "not a JSON value"),
	    R("-Infinity", "not a JSON value"),
	    R("0x10", "text after the JSON value"),
	    R("1e999", "number out of range"),
	    R("0.00000000000000000000000000000000000000000000000000000000001",
	      "number too long"),
	    R("\"a", "unterminated string"),
	    R("\"a\\", "unterminated string"),
	    R("\"a\nb\"", "control byte in string"),
	    R("\"a\0b\"", "control byte in string"),
	    R("\"\\x41\"", "bad escape in string"),
	    R("\"\\\0\"", "bad escape in string"),
	    R("\"\\u12g4\"", "bad \\u escape"),
	    R("\"\\u12", "bad \\u escape"),
	    R("\"\\u0000\"", "U+0000 in string"),
	    R("\"\\ud800\"", "lone surrogate in string"),
	    R("\"\\ud800\\n\"", "lone surrogate in string"),
	    R("\"\\ud800\\ud800\"", "lone surrogate in string"),
	    R("\"\\udc00\"", "lone surrogate in string"),
	    R("\"\xff\"", "not UTF-8"),
	    R("\"\xed\xa0\x80\"", "not UTF-8"),
	    R("\"\xe2\x82\"", "not UTF-8"),
	    R("{\"\\u0000\":1}", "U+0000 in string"),
	    R("{\"a\":1,\"b\":2,\"a\":1}", "the same name twice in an object"),
	    R("[{\"a\":1,\"\\u0061\":2}]", "the same name twice in an object"),
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		refuse(cases[i].text, cases[i].why);
	refuse(STRV_NULL, "empty");
}

static void
test_depth(void **state)
{
	struct strbuf b = {0};
	struct json_doc *d;

	(void)state;
	for (int objects = 0; objects < 2; objects++) {
		for (int i = 0; i < 63; i++)
			strbuf_adds(&b, objects ? "{\"a\":" : "[");
		strbuf_adds(&b, "[]");
		for (int i = 0; i < 63; i++)
			strbuf_adds(&b, objects ? "}" : "]");
		d = parse(b.s);
		json_doc_free(d);
		strbuf_reset(&b);
	}
	for (int i = 0; i < 65; i++)
		strbuf_addc(&b, '[');
	refuse((struct strv){b.s, b.len}, "nested too deeply");
	strbuf_clear(&b);
}

/* A long list of small things takes far more memory than its text. */
static void
test_many_values(void **state)
{
	struct strbuf b = {0};
	struct json_doc *d;

	(void)state;
	strbuf_addc(&b, '[');
	for (int i = 1; i < JSONLEX_VALUES_MAX - 1; i++)
		strbuf_adds(&b, "1,");
	strbuf_adds(&b, "1]");
	d = parse(b.s);
	assert_int_equal(json_count(json_root(d)), JSONLEX_VALUES_MAX - 1);
	json_doc_free(d);
	b.s[b.len - 1] = ',';
	strbuf_adds(&b, "1]");
	refuse((struct strv){b.s, b.len}, "too many values");
	strbuf_clear(&b);
}

/* Large objects are checked through the hash table. */
static void
test_many_names(void **state)
{
	struct strbuf b = {0};
	struct json_doc *d;
	uint64_t v;

	(void)state;
	strbuf_adds(&b, "{\"first\":0");
	for (int i = 0; i < 20000; i++)
		strbuf_addf(&b, ",\"k%d\":%d", i, i);
	strbuf_adds(&b, "}");
	d = parse(b.s);
	assert_int_equal(json_count(json_root(d)), 20001);
	assert_int_equal(json_u64(json_get(json_root(d), "k777"), 1000, &v), 0);
	assert_int_equal(v, 777);
	json_doc_free(d);
	b.s[--b.len] = '\0';
	strbuf_adds(&b, ",\"k1\":1}");
	refuse((struct strv){b.s, b.len}, "the same name twice in an object");
	strbuf_clear(&b);
}

static void
test_getters(void **state)
{
	struct json_doc *d =
	    parse(" {\"s\":\"a\\u00e9\\ud83d\\ude00\\n\",\"S\":\"x\","
		  "\"n\":42,\"neg\":-1,\"f\":1.5,\"t\":true,\"z\":null,"
		  "\"a\":[1,2],\"o\":{}} \r\n");
	const struct json *o = json_root(d);
	uint64_t u = 7;
	double f = 7;
	bool b = false;

	(void)state;
	assert_int_equal(json_type(o), JSON_OBJECT);
	assert_string_equal(json_string(json_get(o, "s")),
			    "a\xc3\xa9\xf0\x9f\x98\x80\n");
	assert_string_equal(json_string(json_get(o, "S")), "x");
	assert_null(json_get(o, "N"));
	assert_null(json_get(NULL, "s"));
	assert_null(json_get(json_get(o, "a"), "s"));
	assert_null(json_string(NULL));
	assert_null(json_string(json_get(o, "n")));
	assert_int_equal(json_u64(NULL, 9, &u), E_NOTFOUND);
	assert_int_equal(json_u64(json_get(o, "s"), 9, &u), E_INVALID);
	assert_int_equal(json_u64(json_get(o, "f"), 9, &u), E_INVALID);
	assert_int_equal(json_u64(json_get(o, "neg"), 9, &u), E_INVALID);
	assert_int_equal(json_u64(json_get(o, "n"), 41, &u), E_INVALID);
	assert_int_equal(u, 7);
	assert_int_equal(json_u64(json_get(o, "n"), 42, &u), 0);
	assert_int_equal(u, 42);
	assert_int_equal(json_number(json_get(o, "s"), &f), E_INVALID);
	assert_int_equal(json_number(json_get(o, "f"), &f), 0);
	assert_true(f == 1.5);
	assert_int_equal(json_bool(json_get(o, "n"), &b), E_INVALID);
	assert_int_equal(json_bool(NULL, &b), E_NOTFOUND);
	assert_int_equal(json_bool(json_get(o, "t"), &b), 0);
	assert_true(b);
	assert_int_equal(json_type(json_get(o, "z")), JSON_NULL);
	assert_int_equal(json_type(json_get(o, "a")), JSON_ARRAY);
	assert_int_equal(json_count(json_get(o, "a")), 2);
	assert_int_equal(json_count(json_get(o, "o")), 0);
	assert_int_equal(json_count(json_get(o, "s")), 0);
	assert_int_equal(json_count(NULL), 0);
	json_doc_free(d);
	json_doc_free(NULL);
}

static void
test_whole_numbers(void **state)
{
	static const struct {
		const char *text;
		int r;
		uint64_t v;
	} cases[] = {{"9007199254740991", 0, UINT64_C(9007199254740991)},
		     {"9007199254740992", E_INVALID, 0},
		     {"9007199254740993", E_INVALID, 0},
		     {"1e3", 0, 1000},
		     {"1e300", E_INVALID, 0},
		     {"-0", 0, 0},
		     {"5.0", 0, 5}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct json_doc *d = parse(cases[i].text);
		uint64_t v = 0;

		assert_int_equal(json_u64(json_root(d), UINT64_MAX, &v),
				 cases[i].r);
		assert_true(v == cases[i].v);
		json_doc_free(d);
	}
}

static void
test_scalar_text(void **state)
{
	static const char *const cases[][2] = {
	    {"\"a b\"", "a b"},
	    {"\"\"", ""},
	    {"true", "true"},
	    {"false", "false"},
	    {"0", "0"},
	    {"-0", "0"},
	    {"-17", "-17"},
	    {"1.50", "1.5"},
	    {"0.1", "0.1"},
	    {"1e2", "100"},
	    {"1e21", "1e+21"},
	    {"1e-7", "1e-07"},
	    {"0.30000000000000004", "0.30000000000000004"},
	    {"null", NULL},
	    {"[]", NULL},
	    {"{}", NULL}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct json_doc *d = parse(cases[i][0]);
		char *s = json_scalar_text(json_root(d));

		if (cases[i][1] == NULL)
			assert_null(s);
		else
			assert_string_equal(s, cases[i][1]);
		free(s);
		json_doc_free(d);
	}
	assert_null(json_scalar_text(NULL));
}

static void
test_each(void **state)
{
	struct json_doc *d = parse("{\"x\":[10,20],\"y\":2}");
	const struct json *it = NULL;
	const char *name;
	uint64_t v, sum = 0;

	(void)state;
	assert_true(json_each(json_root(d), &it, &name));
	assert_string_equal(name, "x");
	assert_true(json_each(json_root(d), &it, &name));
	assert_string_equal(name, "y");
	assert_false(json_each(json_root(d), &it, &name));
	for (it = NULL; json_each(json_get(json_root(d), "x"), &it, NULL);) {
		assert_int_equal(json_u64(it, 100, &v), 0);
		sum += v;
	}
	assert_int_equal(sum, 30);
	it = NULL;
	assert_false(json_each(json_get(json_root(d), "y"), &it, NULL));
	assert_false(json_each(NULL, &it, NULL));
	json_doc_free(d);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_refused),
	    cmocka_unit_test(test_depth),
	    cmocka_unit_test(test_many_values),
	    cmocka_unit_test(test_many_names),
	    cmocka_unit_test(test_getters),
	    cmocka_unit_test(test_whole_numbers),
	    cmocka_unit_test(test_scalar_text),
	    cmocka_unit_test(test_each),
	};

	return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
