/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a job's log: from the beginning, from near its end, across rotation,
 * while it grows; and what a record of it becomes. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fdio.h"
#include "base/mem.h"
#include "gateway/logtail.h"

static char dir[40];
static struct strbuf seen;

static int
setup(void **state)
{
	(void)state;
	(void)snprintf(dir, sizeof(dir), "/tmp/sbx-logtail-XXXXXX");
	return mkdtemp(dir) != NULL ? 0 : -1;
}

static char *
path(const char *name)
{
	return xasprintf("%s/%s", dir, name);
}

static void
rm(const char *name)
{
	char *p = path(name);

	(void)unlink(p);
	free(p);
}

static int
teardown(void **state)
{
	(void)state;
	rm("log");
	rm("log.1");
	rm("log.2");
	strbuf_clear(&seen);
	return rmdir(dir);
}

static void
append(const char *name, const char *text)
{
	char *p = path(name);
	int fd = open(p, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
	(void)close(fd);
	free(p);
}

static void
rotate(void)
{
	char *a = path("log"), *b = path("log.1");

	assert_int_equal(rename(a, b), 0);
	free(a);
	free(b);
}

static void
see(struct strv line, bool gap, void *arg)
{
	(void)arg;
	if (gap)
		strbuf_adds(&seen, "GAP,");
	else
		strbuf_addf(&seen, "%.*s,", STRV_ARG(line));
}

static void
expect(struct logtail *l, const char *want)
{
	while (logtail_read(l, 16, see, NULL) != 0)
		;
	assert_string_equal(seen.s != NULL ? seen.s : "", want);
	strbuf_clear(&seen);
}

static void
growing(void **state)
{
	struct logtail *l = logtail_new(dir, LOGTAIL_ALL);

	(void)state;
	expect(l, "");
	append("log", "one\ntw");
	expect(l, "one,");
	append("log", "o\nthree\nfour and a good deal longer than a piece\n");
	expect(l, "two,three,four and a good deal longer than a piece,");
	expect(l, "");
	rotate();
	expect(l, "");
	append("log.1", "late\n"); /* between its last look and the rename */
	append("log", "five\n");
	expect(l, "late,five,");
	logtail_free(l);
}

static void
both_files(void **state)
{
	static const struct {
		uint64_t tail;
		const char *want;
	} rows[] = {{LOGTAIL_ALL, "a,b,c,d,"},
		    {4, "a,b,c,d,"},
		    {9, "a,b,c,d,"},
		    {3, "b,c,d,"},
		    {2, "c,d,"},
		    {1, "d,"},
		    {0, ""}};

	(void)state;
	append("log.1", "a\nb\n");
	append("log", "c\nd\n");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct logtail *l = logtail_new(dir, rows[i].tail);

		expect(l, rows[i].want);
		append("log", "");
		logtail_free(l);
	}
}

static void
tail_follows(void **state)
{
	struct logtail *l = logtail_new(dir, 1);

	(void)state;
	append("log", "a\nb\nunfini");
	expect(l, "b,");
	append("log", "shed\n");
	expect(l, "unfinished,");
	logtail_free(l);
}

/* Two rotations while nobody read. */
static void
too_slow(void **state)
{
	struct logtail *l = logtail_new(dir, LOGTAIL_ALL);

	(void)state;
	append("log", "a\n");
	expect(l, "a,");
	append("log", "b\n");
	rotate();
	append("log", "lost\n");
	rotate();
	append("log", "c\n");
	rotate();
	append("log", "d\n");
	expect(l, "b,GAP,c,d,");
	logtail_free(l);
}

static void
no_line(void **state)
{
	struct strbuf b = {0};
	struct logtail *l = logtail_new(dir, LOGTAIL_ALL);

	(void)state;
	for (int i = 0; i < 300 * 1024; i++)
		strbuf_addc(&b, 'x');
	strbuf_adds(&b, "\nnext\n");
	append("log", b.s);
	while (logtail_read(l, 65536, see, NULL) != 0)
		;
	assert_non_null(strstr(seen.s, "GAP,"));
	assert_true(seen.len > 11 &&
		    strcmp(seen.s + seen.len - 5, "next,") == 0);
	logtail_free(l);
	strbuf_clear(&b);
}

/* Nothing but plain files is read, wherever a link may lead. */
static void
links(void **state)
{
	struct logtail *l = logtail_new(dir, LOGTAIL_ALL);
	char *a = path("log.2"), *b = path("log");

	(void)state;
	append("log.2", "secret\n");
	assert_int_equal(symlink(a, b), 0);
	expect(l, "");
	(void)unlink(b);
	assert_int_equal(mkfifo(b, 0600), 0);
	expect(l, "");
	logtail_free(l);
	free(a);
	free(b);
}

static void
records(void **state)
{
	static const struct {
		const char *line, *want; /* NULL: refused */
	} rows[] = {
	    {"{\"t\":1795233113123,\"s\":\"stdout\",\"d\":\"a \\\"b\\\"\"}",
	     "data: {\"timestamp\":\"2026-11-21T03:51:53.123Z\","
	     "\"data\":\"a \\\"b\\\"\"}\n\n"},
	    {"{\"t\":1795233113001,\"s\":\"system\",\"d\":\"no \"}",
	     "data: {\"timestamp\":\"2026-11-21T03:51:53.001Z\","
	     "\"data\":\"===== no \"}\n\n"},
	    {"{\"t\":0,\"s\":\"stderr\",\"d\":\"x\"}",
	     "data: {\"timestamp\":\"1970-01-01T00:00:00.000Z\","
	     "\"data\":\"x\"}\n\n"},
	    {"{\"t\":0,\"s\":\"stdout\",\"p\":1,\"d\":\"\"}",
	     "data: {\"timestamp\":\"1970-01-01T00:00:00.000Z\","
	     "\"data\":\"\"}\n\n"},
	    {"", NULL},
	    {"{}", NULL},
	    {"{\"at\":12}", NULL},
	    {"{\"t\":1,\"s\":\"stdout\",\"q\":1,\"d\":\"x\"}", NULL},
	    {"{\"t\":,\"s\":\"stdout\",\"d\":\"x\"}", NULL},
	    {"{\"t\":-1,\"s\":\"stdout\",\"d\":\"x\"}", NULL},
	    {"{\"t\":1,\"s\":\"stdout\",\"d\":\"}", NULL},
	    {"{\"t\":1,\"s\":7,\"d\":\"x\"}", NULL},
	    {"{\"t\":1,\"d\":\"x\"}", NULL},
	    {"{\"t\":1,\"s\":\"stdout\",\"d\":\"x\"", NULL}};
	struct logtail_time t = {0};
	struct strbuf b = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		bool ok = logtail_add_sse(&b, strv_of(rows[i].line), &t);

		assert_int_equal(ok, rows[i].want != NULL);
		if (ok)
			assert_string_equal(b.s, rows[i].want);
		else
			assert_int_equal(b.len, 0);
		strbuf_clear(&b);
	}
}

static void
parts_and_bases(void **state)
{
	struct logtail_record r;
	uint64_t at = 7;

	(void)state;
	assert_true(logtail_parse(
	    STRV("{\"t\":5,\"s\":\"stderr\",\"p\":1,\"d\":\"a\\n\"}"), &r));
	assert_true(r.part && !r.about && r.ms == 5);
	assert_true(strv_eq(r.text, STRV("a\\n")));
	assert_true(
	    logtail_parse(STRV("{\"t\":5,\"s\":\"system\",\"d\":\"\"}"), &r));
	assert_true(!r.part && r.about && r.text.len == 0);
	assert_true(logtail_base(STRV("{\"at\":1234567890123}"), &at));
	assert_int_equal(at, 1234567890123);
	assert_false(logtail_base(STRV("{\"at\":-1}"), &at));
	assert_false(logtail_base(STRV("{\"at\":1"), &at));
	assert_false(logtail_base(STRV("{\"t\":1}"), &at));
}

/* What a file begins with is not one of the last lines. */
static void
base_is_no_line(void **state)
{
	static const struct {
		uint64_t tail;
		const char *want;
	} rows[] = {{LOGTAIL_ALL, "{\"at\":2},a,b,{\"at\":6},c,"},
		    {4, "{\"at\":2},a,b,{\"at\":6},c,"},
		    {3, "a,b,{\"at\":6},c,"},
		    {2, "b,{\"at\":6},c,"},
		    {1, "c,"}};

	(void)state;
	append("log.1", "{\"at\":2}\na\nb\n");
	append("log", "{\"at\":6}\nc\n");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct logtail *l = logtail_new(dir, rows[i].tail);

		expect(l, rows[i].want);
		logtail_free(l);
	}
}

int
main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
	    T(growing),  T(both_files),      T(tail_follows),
	    T(too_slow), T(no_line),         T(links),
	    T(records),  T(parts_and_bases), T(base_is_no_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
