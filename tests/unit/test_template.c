/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines with placeholders, and what status commands answer. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "gateway/launch_command.h"
#include "gateway/template.h"

static const char *const list[] = {"a b", "", "\"{id}"};
static const struct template_var vars[] = {
    {.name = "id", .value = "7"},
    {.name = "image", .value = "x y; $(rm) \"q {id}"},
    {.name = "none", .value = ""},
    {.name = "argv", .list = list, .nlist = ARRAY_LEN(list)},
    {.name = "empty"}};

/* The words, each in <>. */
static void
check(const char *line, const char *want)
{
	struct strbuf b = {0};
	char **argv = NULL, *why = NULL;
	int r = template_expand(line, vars, ARRAY_LEN(vars), &argv, &why);

	if (r == 0) {
		for (size_t i = 0; argv[i] != NULL; i++)
			strbuf_addf(&b, "<%s>", argv[i]);
		assert_null(why);
	} else {
		assert_int_equal(r, E_INVALID);
		strbuf_adds(&b, why);
	}
	assert_string_equal(b.s, want);
	strbuf_clear(&b);
	template_free(argv);
	free(why);
}

static void
words(void **state)
{
	(void)state;
	check("a", "<a>");
	check("  a \t b  ", "<a><b>");
	check("\"a b\" c\" d \"e", "<a b><c d e>");
	check("a \"\" b", "<a><><b>");
	check("", "has no word");
	check("  ", "has no word");
	check("a \"b", "a quote does not end");
}

static void
values(void **state)
{
	(void)state;
	check("run {id}", "<run><7>");
	check("--name=sbx-{id}-{id}", "<--name=sbx-7-7>");
	check("{image}", "<x y; $(rm) \"q {id}>"); /* one word, as it is */
	check("a {none} b", "<a><><b>");
	check("-f {{.State.Status}} { } {A} {}",
	      "<-f><{{.State.Status}}><{><}><{A}><{}>");
	check("{nothing}", "{nothing}: there is no such value");
}

static void
lists(void **state)
{
	(void)state;
	check("run {argv} end", "<run><a b><><\"{id}><end>");
	check("run {empty}", "<run>");
	check("{empty}", "has no word");
	check("x{argv}", "{argv}: must be a whole word");
	check("{argv}x", "{argv}: must be a whole word");
	check("\"{argv}\"", "{argv}: must be a whole word");
}

static void
check_status(const char *text, enum launch_command_state want, int want_code)
{
	int code = -1;

	assert_int_equal(launch_command_parse(text, &code), want);
	assert_int_equal(code, want_code);
}

static void
status(void **state)
{
	(void)state;
	check_status("running", CMD_RUNNING, -1);
	check_status("RUNNING\n", CMD_RUNNING, -1);
	check_status("created 0", CMD_PENDING, -1);
	check_status("exited 3", CMD_ENDED, 3);
	check_status("exited", CMD_ENDED, -1);
	check_status("COMPLETED", CMD_ENDED, 0);
	check_status("FAILED|2:0|", CMD_ENDED, 2);
	check_status("CANCELLED by 0", CMD_ENDED, -1);
	check_status("TIMEOUT", CMD_ENDED, -1);
	check_status("CANCELLED+ 0:15", CMD_ENDED, -1);
	check_status("FAILED              768       ", CMD_ENDED, 3);
	check_status("FAILED 9", CMD_ENDED, 9);
	check_status("failed 65536", CMD_ENDED, 1);
	check_status("", CMD_UNKNOWN, -1);
	check_status("run", CMD_UNKNOWN, -1);
	check_status("runnings", CMD_UNKNOWN, -1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(words),
	    cmocka_unit_test(values),
	    cmocka_unit_test(lists),
	    cmocka_unit_test(status),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
