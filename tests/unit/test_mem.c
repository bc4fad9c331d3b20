/* SPDX-License-Identifier: Apache-2.0 */
/* The allocators, and what happens when there is nothing left. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"

static void
test_basics(void **state)
{
	char *p, *q;

	(void)state;
	p = xmalloc(0);
	assert_non_null(p);
	free(p);
	p = xcalloc(3, 5);
	for (int i = 0; i < 15; i++)
		assert_int_equal(p[i], 0);
	p = xreallocarray(p, 4, 10);
	memset(p, 'x', 40);
	p[39] = '\0';
	q = xstrdup(p);
	assert_string_equal(p, q);
	free(q);
	q = xstrndup(p, 3);
	assert_string_equal(q, "xxx");
	free(q);
	q = xstrndup("ab", 30);
	assert_string_equal(q, "ab");
	free(q);
	q = xstrndup(NULL, 0);
	assert_string_equal(q, "");
	free(q);
	q = xmemdup(p, 4);
	assert_memory_equal(p, q, 4);
	free(q);
	free(xmemdup(NULL, 0));
	q = xasprintf("%s-%d", "n", 5);
	assert_string_equal(q, "n-5");
	free(q);
	free(p);
	free(xcalloc(0, 9));
	free(xrealloc(NULL, 0));
}

static void
test_zero(void **state)
{
	char s[] = "secret";

	(void)state;
	mem_secure_zero(s, sizeof(s) - 1);
	assert_memory_equal(s, "\0\0\0\0\0\0", 6);
	mem_secure_zero(NULL, 0);
	mem_free_secret(xstrdup("secret"));
	mem_free_secret(NULL);
}

/* Exit status and stderr of a child that runs fn. */
static int
run_child(void (*fn)(void), char *text, size_t room)
{
	int p[2], status;
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe(p), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(p[1], STDERR_FILENO);
		close(p[0]);
		close(p[1]);
		fn();
		_exit(0);
	}
	close(p[1]);
	n = read(p[0], text, room - 1);
	assert_true(n >= 0);
	text[n] = '\0';
	close(p[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void
overflow(void)
{
	free(xreallocarray(NULL, SIZE_MAX / 2, 3));
}

static void
test_exhausted(void **state)
{
	char text[512];

	(void)state;
	assert_int_equal(run_child(overflow, text, sizeof(text)), 1);
	assert_non_null(strstr(text, "error mem.exhausted"));
	assert_int_equal(text[strlen(text) - 1], '\n');
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_basics),
	    cmocka_unit_test(test_zero),
	    cmocka_unit_test(test_exhausted),
	};

	return cmocka_run_group_tests_name("mem", tests, NULL, NULL);
}
