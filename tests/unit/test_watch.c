/* SPDX-License-Identifier: Apache-2.0 */
/* A changed file is noticed, whichever way it was changed. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fdio.h"
#include "base/mem.h"
#include "gateway/watch.h"
#include "tests/unit/net_help.h"

struct fixture {
	struct loop *l;
	struct watch *w;
	char dir[32];
	bool told;
	unsigned n;
};

static void
told_cb(void *arg)
{
	struct fixture *f = arg;

	f->told = true;
	f->n++;
}

static int
setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));

	(void)strcpy(f->dir, "/tmp/sbx-watch-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	assert_int_equal(chdir(f->dir), 0);
	f->l = loop_new();
	f->w = watch_new(f->l, 20, told_cb, f);
	*state = f;
	return 0;
}

static int
teardown(void **state)
{
	struct fixture *f = *state;
	char *cmd = xasprintf("rm -rf %s", f->dir);

	watch_free(f->w);
	loop_free(f->l);
	assert_int_equal(chdir("/"), 0);
	assert_int_equal(system(cmd), 0); /* NOLINT: a path of our own */
	free(cmd);
	free(f);
	return 0;
}

static void
put(const char *path, const char *text)
{
	FILE *o = fopen(path, "w");

	assert_non_null(o);
	assert_int_not_equal(fputs(text, o), EOF);
	assert_int_equal(fclose(o), 0);
}

static void
add(struct fixture *f, const char *name)
{
	char *path = xasprintf("%s/%s", f->dir, name);

	watch_add(f->w, path);
	free(path);
}

static void
expect_told(struct fixture *f)
{
	help_wait(f->l, help_true, &f->told);
	f->told = false;
}

static void
test_written(void **state)
{
	struct fixture *f = *state;

	put("a", "1");
	add(f, "a");
	add(f, "later");
	put("other", "x");
	help_pass(f->l, 60);
	assert_false(f->told);
	put("a", "22");
	expect_told(f);
	put("new", "333");
	assert_int_equal(rename("new", "a"), 0);
	expect_told(f);
	put("later", "1");
	expect_told(f);
	assert_int_equal(unlink("later"), 0);
	expect_told(f);
	assert_int_equal(f->n, 4);
}

/* Several changes in a row are told once, when they are over. */
static void
test_settles(void **state)
{
	struct fixture *f = *state;

	put("a", "1");
	put("b", "1");
	add(f, "a");
	add(f, "b");
	put("a", "22");
	help_settle(f->l);
	put("b", "22");
	expect_told(f);
	help_pass(f->l, 60);
	assert_int_equal(f->n, 1);
}

/* certbot: a link to a file elsewhere; Kubernetes: by a link to a directory. */
static void
test_links(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(mkdir("archive", 0755), 0);
	assert_int_equal(mkdir("live", 0755), 0);
	put("archive/c1", "1");
	put("archive/c2", "22");
	assert_int_equal(symlink("../archive/c1", "live/cert"), 0);
	add(f, "live/cert");
	assert_int_equal(symlink("../archive/c2", "live/tmp"), 0);
	assert_int_equal(rename("live/tmp", "live/cert"), 0);
	expect_told(f);
	put("archive/c2", "333"); /* where it leads to now */
	expect_told(f);

	assert_int_equal(mkdir("v1", 0755), 0);
	assert_int_equal(mkdir("v2", 0755), 0);
	put("v1/key", "1");
	put("v2/key", "22");
	assert_int_equal(symlink("v1", "data"), 0);
	assert_int_equal(mkdir("pod", 0755), 0);
	assert_int_equal(symlink("../data/key", "pod/key"), 0);
	add(f, "pod/key");
	assert_int_equal(symlink("v2", "data2"), 0);
	assert_int_equal(rename("data2", "data"), 0);
	expect_told(f);
	put("v2/key", "333");
	expect_told(f);
}

/* Links that lead nowhere or in circles do no harm. */
static void
test_odd_links(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(symlink("loop", "loop"), 0);
	assert_int_equal(symlink("/nowhere/at/all", "gone"), 0);
	add(f, "loop");
	add(f, "gone");
	add(f, "no/such/dir/file");
	watch_add(f->w, "relative");
	watch_add(f->w, "/");
	assert_int_equal(unlink("gone"), 0);
	put("gone", "1");
	expect_told(f);
	watch_clear(f->w);
	put("gone", "22");
	help_pass(f->l, 60);
	assert_false(f->told);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_written, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_settles, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_links, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_odd_links, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
