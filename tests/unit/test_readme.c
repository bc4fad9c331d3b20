/* SPDX-License-Identifier: Apache-2.0 */
/*
 * README.md's table of configuration keys says what the key table says. To
 * bring it up to date: SBX_PRINT=1 tests/unit/test_readme, and put what it
 * prints between the two marks.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/fdio.h"
#include "base/mem.h"
#include "gateway/gwconf.h"

#define MARK "<!-- keys: "
#define END  "<!-- keys end -->"

static void
add_section(const struct conf_section *s, struct strbuf *out)
{
	strbuf_addf(out, "| **[%s%s]** | | %s |\n", s->name,
		    s->named ? " NAME" : "", s->help);
	for (const struct conf_key *k = gwconf_spec.keys; k->key != NULL; k++) {
		const char *def = k->deflt != NULL ? k->deflt : "";

		if (strcmp(k->section, s->name) != 0)
			continue;
		strbuf_addf(out, "| `%s` | %s%s%s | %s |\n", k->key,
			    def[0] != '\0' ? "`" : "", def,
			    def[0] != '\0' ? "`" : "", k->help);
	}
}

static char *
table(void)
{
	struct strbuf out = {0};
	const struct conf_section *s;

	strbuf_adds(&out, "| key | default | meaning |\n|---|---|---|\n");
	for (s = gwconf_spec.sections; s->name != NULL; s++)
		add_section(s, &out);
	return strbuf_take(&out);
}

static void
test_keys(void **state)
{
	const char *top = getenv("srcdir");
	char *want = table(), *path, *text, *from, *to;
	size_t n;

	(void)state;
	if (getenv("SBX_PRINT") != NULL)
		fputs(want, stdout);
	path = xasprintf("%s/README.md", top != NULL ? top : ".");
	assert_int_equal(file_read(path, 1 << 20, &text, &n), 0);
	from = strstr(text, MARK);
	assert_non_null(from);
	from = strchr(from, '\n');
	assert_non_null(from);
	from++;
	to = strstr(from, END);
	assert_non_null(to);
	*to = '\0';
	assert_string_equal(from, want);
	free(text);
	free(path);
	free(want);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_keys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
