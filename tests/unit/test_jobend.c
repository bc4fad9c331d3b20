/* SPDX-License-Identifier: Apache-2.0 */
/* How a job is said to have ended, and what a control group says of it. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/jobend.h"
#include "agent/jobgroup.h"

static void
conclude(void **state)
{
	static const struct {
		const char *reason;
		int code, sig;
		const char *message, *why;
		bool starved;
		const char *want, *text;
	} rows[] = {
	    {"exited", 3, 0, "", NULL, false, "exited", ""},
	    {"exited", -1, 11, "", NULL, false, "exited",
	     "killed by signal 11 (Segmentation fault)"},
	    {"exited", -1, 9, "", NULL, false, "exited",
	     "killed by signal 9 (Killed)"},
	    {"exited", -1, 9, "", NULL, true, "oom",
	     "out of memory: the limit is 64 MiB"},
	    /* a shell whose command it was */
	    {"exited", 137, 0, "", NULL, true, "oom",
	     "out of memory: the limit is 64 MiB"},
	    {"lost", -1, 0, "its agent was killed", NULL, true, "oom",
	     "out of memory: the limit is 64 MiB"},
	    {"lost", -1, 0, "its agent was killed", NULL, false, "lost",
	     "its agent was killed"},
	    /* something in it was, and it went on */
	    {"exited", 0, 0, "", NULL, true, "exited",
	     "out of memory: the limit is 64 MiB"},
	    {"exited", -1, 15, "", NULL, true, "exited",
	     "out of memory: the limit is 64 MiB"},
	    {"exited", -1, 9, "", "stopped", true, "stopped",
	     "out of memory: the limit is 64 MiB"},
	    {"exited", 0, 0, "", "stopped", false, "stopped", ""},
	    {"exited", -1, 9, "", "timeout", false, "timeout",
	     "timed out after 7 s"},
	    {"unstarted", -1, 0, "/x: no", "stopped", false, "unstarted",
	     "/x: no"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct jobend_facts f = {.why = rows[i].why,
					       .starved = rows[i].starved,
					       .memory = 64U << 20,
					       .timeout_ms = 7500};
		struct jobend e = {.reason = rows[i].reason,
				   .code = rows[i].code,
				   .signal = rows[i].sig};

		(void)snprintf(e.message, sizeof(e.message), "%s",
			       rows[i].message);
		jobend_conclude(&e, &f);
		assert_string_equal(e.reason, rows[i].want);
		assert_string_equal(e.message, rows[i].text);
		assert_int_equal(e.code, rows[i].code);
		assert_int_equal(e.signal, rows[i].sig);
	}
}

static void
put(int dir, const char *name, const char *text)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	(void)close(fd);
}

/* A directory that looks like a control group. */
static void
group(void **state)
{
	char path[] = "/tmp/sbx-jobend.XXXXXX", c;
	int dir, fd;

	(void)state;
	assert_non_null(mkdtemp(path));
	assert_true((dir = open(path, O_RDONLY | O_DIRECTORY)) >= 0);
	assert_false(jobgroup_starved(dir)); /* no memory controller */
	put(dir, "memory.events",
	    "low 0\nhigh 0\nmax 12\noom 3\noom_kill 0\noom_group_kill 4\n");
	assert_false(jobgroup_starved(dir));
	put(dir, "memory.events",
	    "low 0\nhigh 0\nmax 12\noom 3\noom_kill 10\noom_group_kill 0\n");
	assert_true(jobgroup_starved(dir));
	(void)unlinkat(dir, "memory.events", 0);
	jobgroup_thaw(dir); /* no such file: nothing happens */
	put(dir, "cgroup.freeze", "1");
	jobgroup_thaw(dir);
	fd = openat(dir, "cgroup.freeze", O_RDONLY);
	assert_int_equal(read(fd, &c, 1), 1);
	assert_int_equal(c, '0');
	(void)close(fd);
	(void)unlinkat(dir, "cgroup.freeze", 0);
	(void)close(dir);
	assert_int_equal(rmdir(path), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(conclude),
	    cmocka_unit_test(group),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
