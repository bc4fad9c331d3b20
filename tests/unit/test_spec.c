/* SPDX-License-Identifier: Apache-2.0 */
/* Forward specifications: every form, and what is refused. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "tunnel/spec.h"

struct want {
	const char *text;
	const char *lpath, *lhost;
	int lport;
	const char *tpath, *thost;
	int tport;
};

static void
same(const char *a, const char *b)
{
	if (a == NULL || b == NULL)
		assert_ptr_equal(a, b);
	else
		assert_string_equal(a, b);
}

static void
test_forms(void **state)
{
	static const struct want v[] = {
	    {"80:h:81", NULL, NULL, 80, NULL, "h", 81},
	    {"0:127.0.0.1:81", NULL, NULL, 0, NULL, "127.0.0.1", 81},
	    {"b:80:h:81", NULL, "b", 80, NULL, "h", 81},
	    {":80:h:81", NULL, "", 80, NULL, "h", 81},
	    {"*:80:h:81", NULL, "*", 80, NULL, "h", 81},
	    {"[::1]:80:[fe80::1]:81", NULL, "::1", 80, NULL, "fe80::1", 81},
	    {"80:[::1]:81", NULL, NULL, 80, NULL, "::1", 81},
	    {"80:/run/x", NULL, NULL, 80, "/run/x", NULL, 0},
	    {"b:80:/run/x", NULL, "b", 80, "/run/x", NULL, 0},
	    {"/run/y:h:81", "/run/y", NULL, 0, NULL, "h", 81},
	    {"/run/y:/run/x", "/run/y", NULL, 0, "/run/x", NULL, 0},
	    {"/a\\:b:/c", "/a:b", NULL, 0, "/c", NULL, 0},
	};
	const char *why = NULL;
	struct spec *sp;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		assert_int_equal(spec_parse(SPEC_LOCAL, v[i].text, &sp, &why),
				 0);
		same(sp->listen.path, v[i].lpath);
		same(sp->listen.host, v[i].lhost);
		assert_int_equal(sp->listen.port, v[i].lport);
		same(sp->target.path, v[i].tpath);
		same(sp->target.host, v[i].thost);
		assert_int_equal(sp->target.port, v[i].tport);
		assert_string_equal(sp->text, v[i].text);
		spec_free(sp);
	}
}

static void
test_refused(void **state)
{
	static const char *const v[] = {"",           ":",
					"::",         "80",
					"b:80",       "80:h:0",
					"80:h:65536", "80:h:x",
					"80:h:",      "80::81",
					"x:h:81",     "-1:h:81",
					"1:2:3:4:5",  "80:/",
					"/:h:81",     "[::1:80:h:81",
					"[]:80:h:81", "[::1]x:80:h:81",
					"80:h h:81",  "80:u@h:81",
					"/a:b:/c",    "80:h:+81",
					"80:h:/x:1"};
	const char *why;
	struct spec *sp;
	int r;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		why = NULL;
		r = spec_parse(SPEC_REMOTE, v[i], &sp, &why);
		if (r == 0)
			print_error("accepted: %s\n", v[i]);
		assert_true(r == E_INVALID || r == E_UNSUPPORTED);
		assert_non_null(why);
	}
}

static void
test_limits(void **state)
{
	char *text = xmalloc(3000);
	const char *why;
	struct spec *sp;

	(void)state;
	memset(text, 'h', 2999);
	memcpy(text, "80:", 3);
	memcpy(text + 2990, ":81", 4);
	assert_int_equal(spec_parse(SPEC_LOCAL, text, &sp, &why), E_INVALID);
	memset(text, 'p', 200);
	memcpy(text, "80:/", 4);
	text[200] = '\0';
	assert_int_equal(spec_parse(SPEC_LOCAL, text, &sp, &why), E_INVALID);
	free(text);
}

static void
test_text(void **state)
{
	struct strbuf b = {0};
	char v6[] = "::1", path[] = "/x";
	struct spec_end e = {.host = v6, .port = 80};

	(void)state;
	spec_end_text(&e, &b);
	assert_string_equal(b.s, "[::1]:80");
	strbuf_reset(&b);
	e = (struct spec_end){.path = path};
	spec_end_text(&e, &b);
	assert_string_equal(b.s, "/x");
	strbuf_reset(&b);
	e = (struct spec_end){.port = 5};
	spec_end_text(&e, &b);
	assert_string_equal(b.s, "localhost:5");
	strbuf_clear(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_forms),
	    cmocka_unit_test(test_refused),
	    cmocka_unit_test(test_limits),
	    cmocka_unit_test(test_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
