/* SPDX-License-Identifier: Apache-2.0 */
/* agent/cgroup: finding the place, and what is written there; against texts and
 * directories that look like the kernel's. */
#include "config.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/cgroup.h"
#include "agent/rmtree.h"
#include "base/err.h"
#include "base/fdio.h"
#include "base/mem.h"

/* --- where ------------------------------------------------------------- */

#define V1 "30 29 0:24 / /sys/fs/cgroup/memory rw - cgroup none rw,memory\n"

static void
expect_dir(const char *self, const char *mounts, const char *want,
	   bool want_top)
{
	bool top = !want_top;
	char *dir = cgroup_own_dir(self, mounts, &top);

	if (want == NULL) {
		assert_null(dir);
		return;
	}
	assert_non_null(dir);
	assert_string_equal(dir, want);
	assert_int_equal(top, want_top);
	free(dir);
}

static void
test_where(void **state)
{
	(void)state;
	/* A systemd unit. */
	expect_dir("0::/system.slice/sbx.service\n",
		   V1
		   "35 29 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 "
		   "cgroup2 rw\n",
		   "/sys/fs/cgroup/system.slice/sbx.service", false);
	/* A container with a cgroup namespace. */
	expect_dir("0::/\n",
		   "35 29 0:30 / /sys/fs/cgroup ro - cgroup2 cgroup rw",
		   "/sys/fs/cgroup", true);
	/* One without: the mount begins at its group. */
	expect_dir("0::/docker/abc\n",
		   "35 29 0:30 /docker/abc /sys/fs/cgroup ro - cgroup2 x rw\n",
		   "/sys/fs/cgroup", true);
	expect_dir("0::/docker/abc/leaf\n",
		   "35 29 0:30 /docker/abc /sys/fs/cgroup ro - cgroup2 x rw\n",
		   "/sys/fs/cgroup/leaf", false);
	/* Mixed, version 1 first. */
	expect_dir("9:name=systemd:/\n4:memory:/x\n0::/y\n",
		   V1 "36 29 0:31 / /sys/fs/cgroup/unified rw - cgroup2 c rw\n",
		   "/sys/fs/cgroup/unified/y", false);
}

static void
test_nowhere(void **state)
{
	(void)state;
	expect_dir("4:memory:/x\n", V1, NULL, false);
	expect_dir("0::/x\n", V1, NULL, false);
	expect_dir("", "", NULL, false);
	expect_dir("0::/dock\n",
		   "35 29 0:30 /docker /sys/fs/cgroup ro - cgroup2 x rw\n",
		   NULL, false);
	expect_dir("0::/docker2\n",
		   "35 29 0:30 /docker /sys/fs/cgroup ro - cgroup2 x rw\n",
		   NULL, false);
	/* Short and odd lines are passed over or give nothing. */
	expect_dir("0::/x\n", "35 - cgroup2 x\n", NULL, false);
}

/* --- a directory like the kernel's ------------------------------------- */

struct place {
	char dir[64];
};

static void
put(const char *dir, const char *name, const char *text)
{
	char *path = xasprintf("%s/%s", dir, name);
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
	free(path);
}

static void
expect_text(const char *dir, const char *name, const char *want)
{
	char *path = xasprintf("%s/%s", dir, name), *text = NULL;

	assert_int_equal(file_read(path, 4096, &text, NULL), 0);
	assert_string_equal(text, want);
	free(text);
	free(path);
}

/* Valgrind has no clone3, without which no group is of use. */
static void
need_clone3(void)
{
	if (getenv("SBX_VALGRIND") != NULL)
		skip();
}

static int
setup(void **state)
{
	static struct place pl;
	char *group;

	strcpy(pl.dir, "/tmp/sbx-cgroup-XXXXXX");
	if (mkdtemp(pl.dir) == NULL)
		return -1;
	put(pl.dir, "cgroup.controllers",
	    "cpuset cpu io memory hugetlb pids\n");
	put(pl.dir, "cgroup.subtree_control", "");
	group = xasprintf("%s/sbx-one", pl.dir);
	if (mkdir(group, 0755) != 0)
		return -1;
	put(group, "memory.max", "");
	put(group, "pids.max", "");
	put(group, "cgroup.kill", "");
	free(group);
	*state = &pl;
	return 0;
}

static int
teardown(void **state)
{
	struct place *pl = *state;

	return rmtree(AT_FDCWD, pl->dir);
}

static void
test_look(void **state)
{
	struct place *pl = *state;
	struct cgroup_place p;
	char *why = NULL, *gone;

	need_clone3();
	assert_int_equal(cgroup_look(pl->dir, &p, &why), 0);
	assert_true(p.memory && p.pids && p.cpu && !p.ours);
	cgroup_place_clear(&p);
	assert_int_equal(cgroup_look("off", &p, &why), E_UNSUPPORTED);
	free(why);
	gone = xasprintf("%s/none", pl->dir);
	assert_int_equal(cgroup_look(gone, &p, &why), E_UNSUPPORTED);
	assert_non_null(strstr(why, "none/cgroup.controllers"));
	free(why);
	free(gone);
	put(pl->dir, "cgroup.controllers", "hugetlb memoryx\n");
	assert_int_equal(cgroup_look(pl->dir, &p, &why), 0);
	assert_false(p.memory || p.pids || p.cpu);
	cgroup_place_clear(&p);
}

static void
test_groups(void **state)
{
	struct place *pl = *state;
	struct cgroup *cg = NULL, *other = NULL;
	char *group, *why = NULL;
	int fd = -1;

	need_clone3();
	group = xasprintf("%s/sbx-one", pl->dir);
	assert_int_equal(cgroup_open(pl->dir, &cg, &why), 0);
	assert_string_equal(cgroup_where(cg)->dir, pl->dir);
	/* Its leftover was killed, and would have been removed. */
	expect_text(group, "cgroup.kill", "1");
	/* One write each; a plain file keeps the rest of the longer ones. */
	expect_text(pl->dir, "cgroup.subtree_control", "+cpusry");
	/* One agent each. */
	assert_int_equal(cgroup_open(pl->dir, &other, &why), E_BUSY);
	assert_non_null(strstr(why, "another agent"));
	free(why);
	assert_int_equal(cgroup_make(cg, "one", 64 << 20, 40, &fd, &why), 0);
	expect_text(group, "memory.max", "67108864");
	expect_text(group, "pids.max", "40");
	assert_int_equal(cgroup_kill(fd), 0);
	fd_close(&fd);
	/* No such files: said, and nothing is left. */
	assert_int_equal(cgroup_make(cg, "two", 1, 1, &fd, &why), E_SYS);
	assert_non_null(strstr(why, "memory.max"));
	assert_int_equal(fd, -1);
	free(why);
	assert_int_equal(cgroup_remove(cg, "two"), 0);
	cgroup_free(cg);
	free(group);
}

static void
test_busy(void **state)
{
	struct place *pl = *state;
	struct cgroup *cg = NULL;
	char *why = NULL, *path;

	need_clone3();
	path = xasprintf("%s/cgroup.subtree_control", pl->dir);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(cgroup_open(pl->dir, &cg, &why), E_UNSUPPORTED);
	assert_non_null(strstr(why, "+memory"));
	assert_null(cg);
	free(why);
	free(path);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_where),
	    cmocka_unit_test(test_nowhere),
	    cmocka_unit_test_setup_teardown(test_look, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_groups, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_busy, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
