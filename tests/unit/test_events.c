/* SPDX-License-Identifier: Apache-2.0 */
/* agent/events: the lines, and text that reads cut anywhere. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/events.h"
#include "base/json.h"

#define BAD "\xef\xbf\xbd"

/* All data of one stream, from the lines in b. */
static void
join(struct strbuf *b, struct strbuf *out)
{
	struct strv rest = {b->s, b->len}, line;

	strbuf_add(out, "", 0);
	while (strv_cut(&rest, '\n', &line)) {
		struct json_doc *d;

		if (line.len == 0)
			continue;
		assert_int_equal(json_parse(line, &d, NULL), 0);
		strbuf_adds(out, json_string(json_get(json_root(d), "data")));
		json_doc_free(d);
	}
}

/* Cuts in at every place (and twice) and expects the same text. */
static void
check(const char *in, const char *want)
{
	size_t n = strlen(in);

	for (size_t a = 0; a <= n; a++) {
		for (size_t c = a; c <= n; c++) {
			struct strbuf b = {0}, text = {0};
			struct events e = {0};

			events_output(&e, &b, 0, (struct strv){in, a});
			events_output(&e, &b, 0, (struct strv){in + a, c - a});
			events_output(&e, &b, 0, (struct strv){in + c, n - c});
			events_flush(&e, &b);
			join(&b, &text);
			assert_string_equal(text.s, want);
			strbuf_clear(&text);
			strbuf_clear(&b);
		}
	}
}

static void
test_text(void **state)
{
	(void)state;
	check("plain\n", "plain\n");
	check("\"quoted\" \\ \t", "\"quoted\" \\ \t");
	check("h\xc3\xa9llo \xe2\x82\xac \xf0\x9f\x98\x80!",
	      "h\xc3\xa9llo \xe2\x82\xac \xf0\x9f\x98\x80!");
}

/* What Python's bytes.decode("utf-8", "replace") makes of it. */
static void
test_invalid(void **state)
{
	(void)state;
	check("a\xff z", "a" BAD " z");
	check("\xf0\x9f\x98", BAD);
	check("\xf0\x9f\x98 x", BAD " x");
	check("\xe2\x82\xe2\x82\xac", BAD "\xe2\x82\xac");
	check("\xc3\xc3\xa9", BAD "\xc3\xa9");
	check("\xed\xa0\x80", BAD BAD BAD); /* a surrogate */
	check("\xe0\x80\x80", BAD BAD BAD); /* overlong */
	check("\xf5\x80", BAD BAD);
	check("\x80\x80", BAD BAD);
	check("\xf4\x90\x80\x80", BAD BAD BAD BAD); /* beyond U+10FFFF */
	check("\xc3", BAD);
}

static void
test_streams_apart(void **state)
{
	struct strbuf b = {0};
	struct events e = {0};

	(void)state;
	events_output(&e, &b, 0, STRV("\xc3"));
	assert_int_equal(b.len, 0);
	events_output(&e, &b, 1, STRV("err"));
	assert_string_equal(b.s, "{\"event\":\"stderr\",\"data\":\"err\"}\n");
	strbuf_reset(&b);
	events_output(&e, &b, 0, STRV("\xa9"));
	assert_string_equal(b.s,
			    "{\"event\":\"stdout\",\"data\":\"\xc3\xa9\"}\n");
	strbuf_clear(&b);
}

static void
test_base64(void **state)
{
	struct events e = {.base64 = true};
	struct strbuf b = {0};

	(void)state;
	events_output(&e, &b, 0, STRV("\xff\x00\xc3"));
	events_output(&e, &b, 1, STRV("ab"));
	events_output(&e, &b, 1, STRV("a"));
	events_flush(&e, &b);
	assert_string_equal(b.s, "{\"event\":\"stdout\",\"data\":\"/wDD\"}\n"
				 "{\"event\":\"stderr\",\"data\":\"YWI=\"}\n"
				 "{\"event\":\"stderr\",\"data\":\"YQ==\"}\n");
	strbuf_clear(&b);
}

static void
test_pieces(void **state)
{
	struct strbuf b = {0};

	(void)state;
	events_piece(&b, false, 0, STRV("ab"), 2);
	events_piece(&b, true, 1, STRV("ab"), 0);
	assert_string_equal(
	    b.s, "{\"event\":\"stdout\",\"data\":\"ab\",\"next\":2}\n"
		 "{\"event\":\"stderr\",\"data\":\"YWI=\"}\n");
	strbuf_clear(&b);
}

static void
test_exit(void **state)
{
	const struct events_exit ok = {.code = 3, .duration_ms = 12};
	const struct events_exit killed = {
	    .code = -1, .signal = 9, .timed_out = true};
	struct strbuf b = {0};

	(void)state;
	events_exit(&b, &ok);
	assert_string_equal(b.s, "{\"event\":\"exit\",\"exit_code\":3,"
				 "\"signal\":null,\"timed_out\":false,"
				 "\"duration_ms\":12}\n");
	strbuf_reset(&b);
	events_exit(&b, &killed);
	assert_string_equal(b.s, "{\"event\":\"exit\",\"exit_code\":null,"
				 "\"signal\":9,\"timed_out\":true,"
				 "\"duration_ms\":0}\n");
	strbuf_clear(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_text),
	    cmocka_unit_test(test_invalid),
	    cmocka_unit_test(test_streams_apart),
	    cmocka_unit_test(test_base64),
	    cmocka_unit_test(test_pieces),
	    cmocka_unit_test(test_exit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
