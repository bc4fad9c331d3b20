/* SPDX-License-Identifier: Apache-2.0 */
/* agent/rmtree: trees that were made to be hard to remove. */
#include "config.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/rmtree.h"
#include "base/err.h"

static char path[64];
static int top;

static int
setup(void **state)
{
	(void)state;
	(void)snprintf(path, sizeof(path), "/tmp/rmtree.XXXXXX");
	if (mkdtemp(path) == NULL)
		return -1;
	top = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return mkdirat(top, "t", 0700);
}

static int
teardown(void **state)
{
	(void)state;
	close(top);
	return rmdir(path); /* nothing may be left */
}

static void
put(int dir, const char *name)
{
	int fd = openat(dir, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	close(fd);
}

static void
test_many_kinds(void **state)
{
	char name[32];
	int t = openat(top, "t", O_RDONLY | O_CLOEXEC);

	(void)state;
	for (int i = 0; i < 300; i++) {
		(void)snprintf(name, sizeof(name), "f\n%d\xff", i);
		put(t, name);
	}
	assert_int_equal(mkfifoat(t, "fifo", 0600), 0);
	assert_int_equal(mkdirat(t, "d", 0700), 0);
	assert_int_equal(mkdirat(t, "d/e", 0700), 0);
	assert_int_equal(mkdirat(t, ".sbx-lifted-0", 0700), 0);
	assert_int_equal(symlinkat("d", t, "link"), 0);
	assert_int_equal(symlinkat("/nowhere", t, "d/dangling"), 0);
	close(t);
	assert_int_equal(rmtree(top, "t"), 0);
	assert_int_equal(rmtree(top, "t"), E_NOTFOUND);
}

/* What a symlink points to stays. */
static void
test_symlinks(void **state)
{
	(void)state;
	assert_int_equal(mkdirat(top, "kept", 0700), 0);
	put(top, "kept/file");
	assert_int_equal(symlinkat("../kept", top, "t/dir"), 0);
	assert_int_equal(symlinkat("../kept/file", top, "t/file"), 0);
	assert_int_equal(rmtree(top, "t"), 0);
	assert_int_equal(faccessat(top, "kept/file", F_OK, 0), 0);
	/* Nor is one removed, or followed, in the place of a directory. */
	assert_int_equal(symlinkat("kept", top, "t"), 0);
	assert_int_not_equal(rmtree(top, "t"), 0);
	assert_int_equal(faccessat(top, "kept/file", F_OK, 0), 0);
	assert_int_equal(unlinkat(top, "t", 0), 0);
	assert_int_equal(rmtree(top, "kept"), 0);
}

/* Deeper than descriptors and paths can be, and branching. */
static void
test_deep(void **state)
{
	struct rlimit old, few;
	int d = openat(top, "t", O_RDONLY | O_CLOEXEC), sub;

	(void)state;
	for (int i = 0; i < 3000; i++) {
		assert_int_equal(mkdirat(d, "d", 0700), 0);
		put(d, "f");
		assert_int_equal(mkdirat(d, "e", 0700), 0);
		sub = openat(d, "d", O_RDONLY | O_CLOEXEC);
		assert_true(sub >= 0);
		close(d);
		d = sub;
	}
	close(d);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	few = old;
	few.rlim_cur = 64;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	assert_int_equal(rmtree(top, "t"), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_many_kinds, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_symlinks, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_deep, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
