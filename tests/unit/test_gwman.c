/* SPDX-License-Identifier: Apache-2.0 */
/* The manual page of the configuration and the key table say the same keys,
 * and the page's example is a configuration that loads. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fdio.h"
#include "base/mem.h"
#include "gateway/gwconf.h"

static char *
read_page(void)
{
	const char *top = getenv("srcdir");
	char *path =
	    xasprintf("%s/doc/sbx-gateway.conf.5.scd", top != NULL ? top : ".");
	char *text;
	size_t len;

	if (file_read(path, 1 << 20, &text, &len) != 0)
		fail_msg("cannot read %s", path);
	free(path);
	return text;
}

/* The part of the page about one section; malloc'ed. */
static char *
section_text(const char *page, const char *section, bool named)
{
	char *head = xasprintf("\n# [%s%s]\n", section, named ? " NAME" : "");
	const char *p = strstr(page, head), *end;
	char *text;

	if (p == NULL)
		fail_msg("no heading%s", head);
	end = strstr(p + strlen(head), "\n# ");
	text = xstrndup(p, end != NULL ? (size_t)(end - p) : strlen(p));
	free(head);
	return text;
}

static void
every_key_is_there(void **state)
{
	char *page = read_page();

	(void)state;
	for (const struct conf_section *s = gwconf_spec.sections;
	     s->name != NULL; s++) {
		char *text = section_text(page, s->name, s->named);

		for (const struct conf_key *k = gwconf_spec.keys;
		     k->key != NULL; k++) {
			char *word;

			if (strcmp(k->section, s->name) != 0)
				continue;
			word = xasprintf("*%s*", k->key);
			if (strstr(text, word) == NULL)
				fail_msg("[%s] %s is not in the manual",
					 s->name, k->key);
			free(word);
		}
		free(text);
	}
	free(page);
}

static bool
is_key(const char *section, struct strv word)
{
	for (const struct conf_key *k = gwconf_spec.keys; k->key != NULL; k++)
		if (strcmp(k->section, section) == 0 &&
		    strv_eq(word, strv_of(k->key)))
			return true;
	return false;
}

static void
nothing_else_is_there(void **state)
{
	char *page = read_page();

	(void)state;
	for (const struct conf_section *s = gwconf_spec.sections;
	     s->name != NULL; s++) {
		char *text = section_text(page, s->name, s->named);
		struct strv rest = strv_of(text), line, item, word;

		while (strv_cut(&rest, '\n', &line)) {
			if (!strv_starts(line, STRV("*")))
				continue;
			while (strv_cut(&line, ',', &item)) {
				item = strv_from(strv_trim(item), 1);
				assert_true(strv_cut(&item, '*', &word));
				if (!is_key(s->name, word))
					fail_msg("[%s] has no key %.*s",
						 s->name, STRV_ARG(word));
			}
		}
		free(text);
	}
	free(page);
}

static void
example_loads(void **state)
{
	char *page = read_page(), *from, *to, *msg = NULL;
	char path[] = "/tmp/sbx-gwman-XXXXXX";
	struct gw_conf *c;
	int fd;

	(void)state;
	from = strstr(page, "\n```\n");
	assert_non_null(from);
	from += 5;
	to = strstr(from, "\n```\n");
	assert_non_null(to);
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, from, (size_t)(to - from) + 1), 0);
	fd_close(&fd);
	if (gwconf_load(path, &c, &msg) != 0 || gwconf_finish(c, &msg) != 0)
		fail_msg("%s", msg);
	assert_string_equal(c->domain, "box.example.org");
	gwconf_free(c);
	(void)unlink(path);
	free(page);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_key_is_there),
	    cmocka_unit_test(nothing_else_is_there),
	    cmocka_unit_test(example_loads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
