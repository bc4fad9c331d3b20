/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/podlines: from the agent's events to lines of output. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "gateway/podlines.h"

struct env {
	struct podlines p;
	size_t held;
	struct strbuf out, said; /* said: "stdout:text|" and so on */
	uint64_t seq;
};

static int
setup(void **state)
{
	struct env *e = xcalloc(1, sizeof(*e));

	podlines_init(&e->p, true, &e->held);
	*state = e;
	return 0;
}

static int
teardown(void **state)
{
	struct env *e = *state;

	podlines_clear(&e->p);
	assert_int_equal(e->held, 0);
	strbuf_clear(&e->out);
	strbuf_clear(&e->said);
	free(e);
	return 0;
}

/* Reads what was told: every line is an event with the next number. */
static void
read_out(struct env *e)
{
	struct strv rest = {e->out.s, e->out.len}, line;
	struct json_doc *doc;
	uint64_t seq, code;

	while (strv_cut(&rest, '\n', &line) && rest.p != NULL) {
		const struct json *v;

		assert_int_equal(json_parse(line, &doc, NULL), 0);
		v = json_root(doc);
		assert_int_equal(json_count(v), 4);
		assert_int_equal(json_u64(json_get(v, "seq"), UINT64_MAX, &seq),
				 0);
		assert_int_equal(seq, e->seq++);
		strbuf_addf(&e->said, "%s:", json_string(json_get(v, "type")));
		if (json_u64(json_get(v, "data"), 255, &code) == 0)
			strbuf_addf(&e->said, "%u", (unsigned)code);
		else
			strbuf_adds(&e->said, json_string(json_get(v, "data")));
		strbuf_addc(&e->said, '|');
		json_doc_free(doc);
	}
	strbuf_reset(&e->out);
}

static void
feed(struct env *e, const char *text)
{
	assert_int_equal(podlines_feed(&e->p, strv_of(text), &e->out), 0);
	read_out(e);
}

static void
assert_said(struct env *e, const char *want)
{
	assert_string_equal(e->said.s != NULL ? e->said.s : "", want);
}

#define EXIT                                                                   \
	"{\"event\":\"exit\",\"exit_code\":0,\"signal\":null,"                 \
	"\"timed_out\":false}\n"
#define OUT(b64) "{\"event\":\"stdout\",\"data\":\"" b64 "\"}\n"
#define ERR(b64) "{\"event\":\"stderr\",\"data\":\"" b64 "\"}\n"

static void
test_lines(void **state)
{
	struct env *e = *state;

	feed(e,
	     "{\"event\":\"start\",\"pid\":5}\n" OUT("YQpiYg==")); /* a\nbb */
	assert_said(e, "stdout:a|");
	feed(e, ERR("WA=="));     /* X */
	feed(e, OUT("YgoKYw==")); /* b\n\nc */
	assert_said(e, "stdout:a|stdout:bbb|stdout:|");
	feed(e, EXIT);
	assert_said(e, "stdout:a|stdout:bbb|stdout:|stdout:c|stderr:X|"
		       "exit:0|");
	assert_true(e->p.ended);
}

/* Whatever the pieces, the same comes out. */
static void
test_torn(void **state)
{
	static const char all[] = "{\"event\":\"ping\"}\n" OUT("YQpiCg==")
	    ERR("ZQ==") OUT("Y2M=") EXIT;
	struct env *e = *state;

	for (size_t i = 0; i + 1 < sizeof(all); i++) {
		const char one[2] = {all[i], '\0'};

		feed(e, one);
	}
	assert_said(e, "stdout:a|stdout:b|stdout:cc|stderr:e|exit:0|");
}

static void
test_values(void **state)
{
	struct env *e = *state;

	feed(e, OUT("cA==")); /* p */
	feed(e, "{\"event\":\"result\",\"text\":\"[1,\\n2]\","
		"\"data\":{\"text/html\":\"<b>\"}}\n");
	feed(e, "{\"event\":\"display\",\"text\":\"\"}\n");
	assert_said(e, "stdout:p|stdout:[1,|stdout:2]|");
	e->p.values = false;
	feed(e, "{\"event\":\"result\",\"text\":\"7\"}\n" EXIT);
	assert_said(e, "stdout:p|stdout:[1,|stdout:2]|exit:0|");
}

static void
test_ends(void **state)
{
	static const struct {
		const char *event, *want;
	} ends[] = {
	    {"\"exit_code\":3,\"signal\":null", "exit:3|"},
	    {"\"exit_code\":null,\"signal\":9", "exit:137|"},
	    {"\"exit_code\":130,\"signal\":null,\"timed_out\":true",
	     "stderr:timed out|exit:124|"},
	    {"\"exit_code\":null,\"signal\":11,\"state_lost\":true,"
	     "\"error\":\"why\"",
	     "stderr:why|stderr:the interpreter ended; its state is lost|"
	     "exit:139|"},
	    {"\"x\":1", "exit:255|"},
	};

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		struct env *e;
		char *text =
		    xasprintf("{\"event\":\"exit\",%s}\n", ends[i].event);

		teardown(state);
		setup(state);
		e = *state;
		feed(e, text);
		assert_said(e, ends[i].want);
		free(text);
	}
}

static void
test_other_events(void **state)
{
	struct env *e = *state;

	feed(e, "{\"event\":\"queued\",\"position\":3}\n"
		"{\"event\":\"restarted\",\"exit_code\":1}\n"
		"{\"event\":\"error\",\"name\":\"ValueError\","
		"\"value\":\"on stderr too\"}\n"
		"{\"event\":\"error\",\"name\":\"CannotStart\","
		"\"value\":\"no fork\"}\n"
		"{\"event\":\"something new\"}\n" EXIT);
	assert_said(e, "stderr:the interpreter had ended; this is a new one|"
		       "stderr:no fork|exit:0|");
}

static void
test_nonsense(void **state)
{
	static const char *const bad[] = {
	    "no\n",      "{}\n",
	    "[]\n",      "\n",
	    OUT("YQ="),  OUT("Y*=="),
	    OUT("===="), "{\"event\":\"stdout\"}\n",
	    EXIT EXIT,   EXIT OUT("YQ==")};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct env *e;

		teardown(state);
		setup(state);
		e = *state;
		assert_int_equal(podlines_feed(&e->p, strv_of(bad[i]), &e->out),
				 E_PROTO);
	}
}

/* n bytes of output, "é" again and again (odd: a space first). */
static char *
output(size_t n)
{
	static const char twelve[] = "w6nDqcOpw6nDqcOp"; /* six of them */
	struct strbuf b = {0};

	strbuf_adds(&b, "{\"event\":\"stdout\",\"data\":\"");
	for (size_t i = 0; i < n; i += 12)
		strbuf_adds(&b, twelve);
	strbuf_adds(&b, "\"}\n");
	return strbuf_take(&b);
}

static void
test_long_line_is_cut(void **state)
{
	struct env *e = *state;
	char *piece = output(48000);

	for (unsigned i = 0; i < 50; i++) {
		feed(e, piece);
		assert_true(e->held <= PODLINES_MAX);
	}
	feed(e, OUT("Cg==") EXIT);
	assert_int_equal(e->seq, 4); /* 2.4 MB: three parts */
	assert_null(strstr(e->said.s, "\xef\xbf\xbd")); /* no character */
	free(piece);
}

/* While all calls together hold too much, lines are cut earlier. */
static void
test_memory_of_all(void **state)
{
	struct env *e = *state;
	char *piece = output(120000);

	e->held = PODLINES_HELD + 1;
	feed(e, piece);
	assert_int_equal(e->seq, 1);
	assert_true(e->held - PODLINES_HELD <= PODLINES_SHORT + 1);
	e->held -= PODLINES_HELD + 1;
	feed(e, EXIT);
	free(piece);
}

static void
test_value_too_large(void **state)
{
	struct env *e = *state;
	struct strbuf b = {0};

	feed(e, "{\"event\":\"result\",\"text\":\"");
	for (unsigned i = 0; i < 1024; i++)
		strbuf_adds(&b, "0123456789");
	for (unsigned i = 0; i < 300; i++) {
		feed(e, b.s);
		assert_true(e->p.in.len <= PODLINES_IN_MAX);
	}
	feed(e, "\"}\n" OUT("YQo=") EXIT);
	assert_said(e, "stdout:<too large to show>|stdout:a|exit:0|");
	strbuf_clear(&b);
}

/* Bytes that are no text, NUL among them. */
static void
test_bytes(void **state)
{
	struct env *e = *state;

	assert_int_equal(podlines_feed(&e->p, STRV(OUT("AP8K")), &e->out), 0);
	assert_non_null(strstr(e->out.s, "\"data\":\"\\u0000\xef\xbf\xbd\""));
	strbuf_reset(&e->out);
	e->seq = 1;
	feed(e, OUT("w6k=")); /* é, in two pieces: */
	feed(e, OUT("ww==") OUT("qQo="));
	assert_said(e, "stdout:\xc3\xa9\xc3\xa9|");
}

int
main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    T(test_lines),
	    T(test_torn),
	    T(test_values),
	    T(test_ends),
	    T(test_other_events),
	    T(test_nonsense),
	    T(test_long_line_is_cut),
	    T(test_memory_of_all),
	    T(test_value_too_large),
	    T(test_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
