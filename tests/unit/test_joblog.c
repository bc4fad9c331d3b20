/* SPDX-License-Identifier: Apache-2.0 */
/* agent/joblog: what the files of a job's log say. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/joblog.h"
#include "base/fdio.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"

struct env {
	char dir[40];
	int dirfd;
	struct joblog *log;
	struct strbuf text; /* of all records of a file but "system" */
	uint64_t at;        /* as the file's first line says; 0: it does not */
	unsigned lines;
};

static int
setup(void **state)
{
	struct env *e = xcalloc(1, sizeof(*e));

	(void)snprintf(e->dir, sizeof(e->dir), "/tmp/sbx-joblog-XXXXXX");
	assert_non_null(mkdtemp(e->dir));
	e->dirfd = open(e->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = e;
	return 0;
}

static int
teardown(void **state)
{
	struct env *e = *state;

	joblog_close(e->log);
	(void)unlinkat(e->dirfd, "log", 0);
	(void)unlinkat(e->dirfd, "log.1", 0);
	(void)close(e->dirfd);
	assert_int_equal(rmdir(e->dir), 0);
	strbuf_clear(&e->text);
	free(e);
	return 0;
}

static void
add_line(struct env *e, struct strv line)
{
	struct json_doc *doc;
	const struct json *v;
	const char *s;
	uint64_t n = 0;

	assert_int_equal(json_parse(line, &doc, NULL), 0);
	v = json_root(doc);
	if (json_get(v, "at") != NULL) {
		assert_int_equal(e->lines, 0);
		assert_int_equal(json_u64(json_get(v, "at"), 1ULL << 40, &n),
				 0);
		e->at = n;
	} else if (strcmp(json_string(json_get(v, "s")), "system") != 0) {
		s = json_string(json_get(v, "d"));
		strbuf_adds(&e->text, s);
		if (json_get(v, "p") == NULL)
			strbuf_addc(&e->text, '\n');
	}
	e->lines++;
	json_doc_free(doc);
}

static void
read_log(struct env *e, const char *name)
{
	char *path = xasprintf("%s/%s", e->dir, name), *text;
	struct strv rest, line;
	size_t n;

	strbuf_clear(&e->text);
	e->at = e->lines = 0;
	assert_int_equal(file_read(path, 1U << 24, &text, &n), 0);
	rest = (struct strv){text, n};
	while (strv_cut(&rest, '\n', &line) && rest.p != NULL)
		add_line(e, line);
	free(text);
	free(path);
}

static void
say(struct env *e, const char *text)
{
	joblog_add(e->log, JOBLOG_STDOUT, text, strlen(text));
}

static void
test_lines(void **state)
{
	struct env *e = *state;

	assert_int_equal(joblog_open(e->dirfd, "log", 0, &e->log), 0);
	say(e, "one\ntw");
	say(e, "o\n\nthr");
	joblog_add(e->log, JOBLOG_STDERR, "err\n", 4);
	joblog_say(e->log, "about it");
	joblog_close(e->log);
	e->log = NULL;
	read_log(e, "log");
	assert_string_equal(e->text.s, "one\ntwo\n\nerr\nthr");
	assert_int_equal(e->lines, 6);
	assert_int_equal(e->at, 0);
}

/* A line that is too long comes in parts that are no lines. */
static void
test_long_line(void **state)
{
	struct env *e = *state;
	size_t n = 3 * JOBLOG_LINE + 17;
	char *p = xmalloc(n + 2);

	assert_int_equal(joblog_open(e->dirfd, "log", 0, &e->log), 0);
	memset(p, 'x', n);
	memcpy(p + JOBLOG_LINE - 1, "\xc3\xa4", 2); /* at the first cut */
	p[n] = '\n';
	p[n + 1] = '\0';
	for (size_t i = 0; i <= n; i += 1000)
		joblog_add(e->log, JOBLOG_STDOUT, p + i,
			   n + 1 - i < 1000 ? n + 1 - i : 1000);
	joblog_add(e->log, JOBLOG_STDOUT, p, n + 1); /* at once */
	read_log(e, "log");
	assert_int_equal(e->text.len, 2 * (n + 1));
	assert_memory_equal(e->text.s, p, n + 1);
	assert_memory_equal(e->text.s + n + 1, p, n + 1);
	free(p);
}

/* Each file says what was before it. */
static void
test_rotation(void **state)
{
	struct env *e = *state;
	struct strbuf all = {0};
	char line[80];
	uint64_t at;
	size_t n;

	assert_int_equal(joblog_open(e->dirfd, "log", 4096, &e->log), 0);
	for (int i = 0; i < 500; i++) {
		(void)snprintf(
		    line, sizeof(line),
		    i % 7 == 0 ? "line %d \xff\t\n" : "line %d \xc3\xa4\n", i);
		say(e, line);
		if (i % 50 == 0)
			joblog_say(e->log, "not counted");
		/* as it is told */
		(void)snprintf(line, sizeof(line),
			       i % 7 == 0 ? "line %d \xef\xbf\xbd\t\n"
					  : "line %d \xc3\xa4\n",
			       i);
		strbuf_adds(&all, line);
	}
	read_log(e, "log.1");
	assert_true(e->at > 0);
	at = e->at;
	n = e->text.len;
	assert_memory_equal(e->text.s, all.s + at, n);
	read_log(e, "log");
	assert_int_equal(e->at, at + n);
	assert_int_equal(e->at + e->text.len, all.len);
	assert_memory_equal(e->text.s, all.s + e->at, e->text.len);
	strbuf_clear(&all);
}

int
main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
	    T(test_lines),
	    T(test_long_line),
	    T(test_rotation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
