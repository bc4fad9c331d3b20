/* SPDX-License-Identifier: Apache-2.0 */
/* Lines as text and as JSON, what peers may put into them, files, and gates. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"

static struct strbuf seen;
static enum log_level seen_level;

static void
capture(enum log_level l, const char *line, size_t len, void *arg)
{
	assert_ptr_equal(arg, &seen);
	assert_int_equal(strlen(line), len);
	strbuf_reset(&seen);
	strbuf_add(&seen, line, len);
	seen_level = l;
}

static void
setup(enum log_level level, bool json)
{
	struct log_options o = {.level = level, .json = json};

	assert_int_equal(log_setup(&o), 0);
	log_set_hook(capture, &seen);
	strbuf_clear(&seen);
}

static int
teardown(void **state)
{
	struct log_options o = {.level = LOG_INFO};

	(void)state;
	log_set_hook(NULL, NULL);
	strbuf_clear(&seen);
	return log_setup(&o);
}

static void
test_text(void **state)
{
	struct log_options o = {
	    .level = LOG_INFO, .program = "sbx-test", .time = true};
	unsigned y, mo, d, h, mi, s, ms;
	int at = 0;

	(void)state;
	setup(LOG_INFO, false);
	errno = ENOENT;
	log_info("route.add", "sandbox=%s port=%u", "one", 80);
	assert_int_equal(errno, ENOENT);
	assert_string_equal(seen.s, "info route.add sandbox=one port=80");
	assert_int_equal(seen_level, LOG_INFO);
	log_warn("x", "a=\"%s\"", "one\ntwo\x1b[31m\x7f");
	assert_string_equal(seen.s, "warn x a=\"one\\x0atwo\\x1b[31m\\x7f\"");
	assert_int_equal(log_setup(&o), 0);
	log_error("y", "k=v");
	assert_int_equal(sscanf(seen.s, "%4u-%2u-%2uT%2u:%2u:%2u.%3uZ %n", &y,
				&mo, &d, &h, &mi, &s, &ms, &at),
			 7);
	assert_true(y >= 2024 && mo <= 12 && d <= 31 && h < 24);
	assert_string_equal(seen.s + at, "sbx-test error y k=v");
}

static void
test_levels(void **state)
{
	enum log_level l;

	(void)state;
	setup(LOG_WARN, false);
	log_info("no", "a=1");
	log_debug("no", "a=1");
	assert_null(seen.s);
	assert_true(log_enabled(LOG_ERROR));
	assert_true(log_enabled(LOG_WARN));
	assert_false(log_enabled(LOG_INFO));
	setup(LOG_TRACE, false);
	log_trace("yes", "a=1");
	assert_string_equal(seen.s, "trace yes a=1");
	assert_int_equal(log_level_parse(STRV("debug"), &l), 0);
	assert_int_equal(l, LOG_DEBUG);
	assert_int_equal(log_level_parse(STRV("Debug"), &l), E_INVALID);
	assert_int_equal(log_level_parse(STRV("debugs"), &l), E_INVALID);
	assert_int_equal(log_level_parse(STRV(""), &l), E_INVALID);
}

static void
test_json(void **state)
{
	static const struct {
		const char *text, *json;
	} cases[] = {
	    {"sandbox=one port=80", "\"sandbox\":\"one\",\"port\":80"},
	    {"a=-1.5 b=01 c=1. d=- e=.5 f=1e3 g=0",
	     "\"a\":-1.5,\"b\":\"01\",\"c\":\"1.\",\"d\":\"-\",\"e\":\".5\","
	     "\"f\":\"1e3\",\"g\":0"},
	    {"n=1234567890123456 ok=true",
	     "\"n\":\"1234567890123456\",\"ok\":\"true\""},
	    {"q=\"80\" e=\"\" f= g=\"a \\\"b\\\" \\\\ \\x41\"",
	     "\"q\":\"80\",\"e\":\"\",\"f\":\"\",\"g\":\"a \\\"b\\\" \\\\ A\""},
	    {"u=\"\\xc3\\xa9\\x0a\\xff\"",
	     "\"u\":\"\xc3\xa9\\u000a\xef\xbf\xbd\""},
	    {"ready  a=1 to serve", "\"a\":1,\"msg\":\"ready to serve\""},
	    {"=x \"y\" a=b=c", "\"a\":\"b=c\",\"msg\":\"=x \\\"y\\\"\""},
	    {"level=3 event=x", "\"_level\":3,\"_event\":\"x\""},
	    {"open=\"never closed", "\"open\":\"never closed\""},
	    {"tail=\"x\\", "\"tail\":\"x\\\\\""},
	    {"key", "\"msg\":\"key\""},
	};
	struct strbuf want = {0};

	(void)state;
	setup(LOG_INFO, true);
	log_info("none", "%s", "");
	assert_string_equal(seen.s, "{\"level\":\"info\",\"event\":\"none\"}");
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		log_warn("e", "%s", cases[i].text);
		strbuf_reset(&want);
		strbuf_addf(&want, "{\"level\":\"warn\",\"event\":\"e\",%s}",
			    cases[i].json);
		assert_string_equal(seen.s, want.s);
	}
	strbuf_clear(&want);
}

/* Whatever is logged, a line stays one line, complete, and not endless. */
static void
test_long(void **state)
{
	char *big = xmalloc(20001);

	(void)state;
	memset(big, '\n', 20000);
	big[20000] = '\0';
	for (int json = 0; json < 2; json++) {
		setup(LOG_INFO, json != 0);
		log_info("big", "a=\"%s\" b=1", big);
		assert_true(seen.len > 8000 && seen.len < 60000);
		assert_null(strchr(seen.s, '\n'));
		if (json)
			assert_string_equal(seen.s + seen.len - 5, "...\"}");
		else
			assert_string_equal(seen.s + seen.len - 3, "...");
	}
	free(big);
}

static void
test_esc(void **state)
{
	char big[300];
	const char *first, *s;

	(void)state;
	first = log_esc(STRV("a \"b\\\n\xff\x7f"));
	assert_string_equal(first, "\"a \\\"b\\\\\\x0a\\xff\\x7f\"");
	memset(big, '\x01', sizeof(big));
	s = log_esc((struct strv){big, 256});
	assert_int_equal(strlen(s), 2 + 4 * 256);
	s = log_esc((struct strv){big, 257});
	assert_int_equal(strlen(s), 2 + 4 * 256 + 3);
	assert_string_equal(s + strlen(s) - 4, "...\"");
	assert_string_equal(log_esc(STRV_NULL), "\"\"");
	for (int i = 0; i < 4; i++)
		(void)log_esc(STRV("other"));
	assert_string_equal(first, "\"a \\\"b\\\\\\x0a\\xff\\x7f\"");
}

static void
test_file(void **state)
{
	char dir[] = "/tmp/sbx-test-log-XXXXXX", *text;
	char *path, *old;
	struct log_options o = {.level = LOG_INFO};

	(void)state;
	assert_non_null(mkdtemp(dir));
	path = xasprintf("%s/log", dir);
	old = xasprintf("%s/log.1", dir);
	log_set_hook(NULL, NULL);
	o.path = path;
	assert_int_equal(log_setup(&o), 0);
	log_info("one", "a=1");
	assert_int_equal(rename(path, old), 0);
	log_info("two", "a=2");
	log_reopen();
	log_info("three", "a=3");
	o.path = "/nonexistent/dir/log";
	o.level = LOG_ERROR;
	assert_int_equal(log_setup(&o), E_SYS);
	assert_int_equal(errno, ENOENT);
	log_info("four", "a=4"); /* still the old file and level */
	assert_int_equal(file_read(old, 4096, &text, NULL), 0);
	assert_string_equal(text, "info one a=1\ninfo two a=2\n");
	free(text);
	assert_int_equal(file_read(path, 4096, &text, NULL), 0);
	assert_string_equal(text, "info three a=3\ninfo four a=4\n");
	free(text);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(unlink(old), 0);
	assert_int_equal(rmdir(dir), 0);
	free(path);
	free(old);
}

static void
test_fatal(void **state)
{
	char text[128];
	int p[2], status;
	ssize_t n;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(p), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(p[1], STDERR_FILENO);
		log_fatal("stop", "why=\"%s\"", "no reason");
	}
	close(p[1]);
	n = read(p[0], text, sizeof(text) - 1);
	assert_true(n > 0);
	text[n] = '\0';
	close(p[0]);
	assert_string_equal(text, "error stop why=\"no reason\"\n");
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

static void
test_gate(void **state)
{
	struct log_gate g = {0};
	unsigned passed, held = 99;

	(void)state;
	do { /* again, should a second end in the middle */
		g = (struct log_gate){0};
		passed = 0;
		for (int i = 0; i < 10; i++) {
			if (log_gate_pass(&g, 3, &held)) {
				assert_int_equal(held, 0);
				passed++;
			}
		}
	} while (passed > 3);
	assert_int_equal(passed, 3);
	g.second--; /* the second is over */
	assert_true(log_gate_pass(&g, 3, &held));
	assert_int_equal(held, 7);
	assert_true(log_gate_pass(&g, 3, &held));
	assert_int_equal(held, 0);
	assert_false(log_gate_pass(&g, 0, NULL));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_teardown(test_text, teardown),
	    cmocka_unit_test_teardown(test_levels, teardown),
	    cmocka_unit_test_teardown(test_json, teardown),
	    cmocka_unit_test_teardown(test_long, teardown),
	    cmocka_unit_test_teardown(test_esc, teardown),
	    cmocka_unit_test_teardown(test_file, teardown),
	    cmocka_unit_test_teardown(test_fatal, teardown),
	    cmocka_unit_test_teardown(test_gate, teardown),
	};

	return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
