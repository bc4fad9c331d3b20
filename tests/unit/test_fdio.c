/* SPDX-License-Identifier: Apache-2.0 */
/* Files, secrets, directories and the pid file, in a directory of its own. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/mem.h"

static int
setup(void **state)
{
	char dir[] = "/tmp/sbx-test-fdio-XXXXXX";

	if (mkdtemp(dir) == NULL || chdir(dir) != 0)
		return -1;
	*state = xstrdup(dir);
	return 0;
}

static int
remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st;
	(void)kind;
	(void)ftw;
	return remove(path);
}

static int
teardown(void **state)
{
	int r = chdir("/");

	r |= nftw(*state, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	free(*state);
	return r;
}

static void
put(const char *path, const char *text, size_t n)
{
	assert_int_equal(file_write_atomic(path, text, n, 0600), 0);
}

static void
test_fds(void **state)
{
	int p[2];

	(void)state;
	assert_int_equal(pipe(p), 0);
	assert_int_equal(fd_set_nonblock(p[0]), 0);
	assert_true((fcntl(p[0], F_GETFL) & O_NONBLOCK) != 0);
	assert_int_equal(fd_set_cloexec(p[0], true), 0);
	assert_int_equal(fcntl(p[0], F_GETFD), FD_CLOEXEC);
	assert_int_equal(fd_set_cloexec(p[0], false), 0);
	assert_int_equal(fcntl(p[0], F_GETFD), 0);
	fd_close(&p[0]);
	assert_int_equal(p[0], -1);
	fd_close(&p[0]);
	fd_close(&p[1]);
	assert_int_equal(fd_set_nonblock(-1), E_SYS);
}

static void
test_read(void **state)
{
	char *s = NULL;
	size_t n = 42;

	(void)state;
	assert_int_equal(file_read("none", 10, &s, &n), E_NOTFOUND);
	assert_int_equal(file_read(".", 10, &s, &n), E_INVALID);
	put("f", "a\0bcd", 5);
	assert_int_equal(file_read("f", 4, &s, &n), E_LIMIT);
	assert_null(s);
	assert_int_equal(n, 42);
	assert_int_equal(file_read("f", 5, &s, &n), 0);
	assert_int_equal(n, 5);
	assert_memory_equal(s, "a\0bcd", 6);
	free(s);
	put("f", "", 0);
	assert_int_equal(file_read("f", 0, &s, &n), 0);
	assert_int_equal(n, 0);
	assert_string_equal(s, "");
	free(s);
}

/* Files in /proc say that they are empty: size is only a hint. */
static void
test_read_sizeless(void **state)
{
	char *s;
	size_t n;

	(void)state;
	assert_int_equal(file_read("/proc/self/status", 1 << 20, &s, &n), 0);
	assert_int_equal(strncmp(s, "Name:", 5), 0);
	assert_int_equal(strlen(s), n);
	free(s);
	assert_int_equal(file_read("/proc/self/status", 100, &s, &n), E_LIMIT);
	assert_int_equal(file_read("/dev/zero", 100000, &s, &n), E_LIMIT);
}

static void
test_secret(void **state)
{
	static const struct {
		const char *in;
		size_t n;
		const char *out; /* NULL: E_INVALID */
	} cases[] = {{"tok", 3, "tok"},     {"tok\n", 4, "tok"},
		     {"tok\r\n", 5, "tok"}, {" t k ", 5, " t k "},
		     {"", 0, NULL},         {"\n", 1, NULL},
		     {"a\nb", 3, NULL},     {"a\n\n", 3, NULL},
		     {"a\0b", 3, NULL},     {"\r\n", 2, NULL}};
	char *s;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		put("secret", cases[i].in, cases[i].n);
		s = NULL;
		if (cases[i].out == NULL) {
			assert_int_equal(file_read_secret("secret", &s),
					 E_INVALID);
			assert_null(s);
			continue;
		}
		assert_int_equal(file_read_secret("secret", &s), 0);
		assert_string_equal(s, cases[i].out);
		mem_free_secret(s);
	}
	assert_int_equal(file_read_secret("/dev/zero", &s), E_LIMIT);
	assert_int_equal(file_read_secret("none", &s), E_NOTFOUND);
}

static void
test_write_atomic(void **state)
{
	struct stat st;
	char *s;

	(void)state;
	assert_int_equal(file_write_atomic("w", "one", 3, 0640), 0);
	assert_int_equal(stat("w", &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_int_equal(file_write_atomic("w", "two!", 4, 0600), 0);
	assert_int_equal(file_read("w", 10, &s, NULL), 0);
	assert_string_equal(s, "two!");
	free(s);
	assert_int_equal(file_write_atomic("no/dir", "x", 1, 0600), E_NOTFOUND);
	/* A directory cannot be replaced; nothing is left beside it. */
	assert_int_equal(dir_make("d/sub", 0700), 0);
	assert_int_not_equal(file_write_atomic("d", "x", 1, 0600), 0);
	assert_int_equal(rmdir("d/sub"), 0);
	assert_int_equal(rmdir("d"), 0);
	assert_int_equal(unlink("w"), 0);
}

static void
test_dir_make(void **state)
{
	struct stat st;

	(void)state;
	assert_int_equal(dir_make("a/b//c/", 0750), 0);
	assert_int_equal(stat("a/b/c", &st), 0);
	assert_true(S_ISDIR(st.st_mode));
	assert_int_equal(dir_make("a/b/c", 0750), 0);
	assert_int_equal(dir_make("/", 0750), 0);
	assert_int_equal(dir_make("", 0750), E_INVALID);
	put("a/file", "x", 1);
	assert_int_equal(dir_make("a/file", 0750), E_EXISTS);
	assert_int_equal(dir_make("a/file/x", 0750), E_EXISTS);
	assert_int_equal(symlink("b", "a/link"), 0);
	assert_int_equal(dir_make("a/link/d", 0750), 0);
	assert_int_equal(stat("a/b/d", &st), 0);
}

static void
test_write_all(void **state)
{
	const size_t n = 300000; /* more than a pipe holds: short writes */
	char *out = xmalloc(n);
	int p[2], status;
	pid_t pid;

	(void)state;
	memset(out, 'x', n);
	assert_int_equal(pipe(p), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		size_t got = 0;
		ssize_t r;

		close(p[1]);
		while ((r = read(p[0], out, 1000)) > 0)
			got += (size_t)r;
		_exit(got == n ? 0 : 1);
	}
	close(p[0]);
	assert_int_equal(fd_write_all(p[1], out, n), 0);
	close(p[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	free(out);
}

/* Lets a child try; what it got comes back as its exit status. */
static int
try_in_child(pid_t expect)
{
	pid_t pid = fork(), holder = -1;
	int fd = -1, status;

	assert_true(pid >= 0);
	if (pid == 0) {
		int r = pidfile_lock("pid", &holder, &fd);

		if (r == E_BUSY)
			_exit(holder == expect && fd == -1 ? 1 : 2);
		_exit(r == 0 ? 0 : 3);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void
test_pidfile(void **state)
{
	char *s, *want = xasprintf("%ld\n", (long)getpid());
	struct stat st;
	int fd = -1;

	(void)state;
	put("pid", "99999999 stale and longer\n", 26);
	assert_int_equal(pidfile_lock("pid", NULL, &fd), 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(stat("pid", &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(try_in_child(getpid()), 1);
	fd_close(&fd);
	assert_int_equal(try_in_child(0), 0); /* and it died with its lock */
	assert_int_equal(pidfile_lock("pid", NULL, &fd), 0);
	/* Reading the file closes a descriptor of it, which drops a POSIX
	 * lock: hence only at the end. */
	assert_int_equal(file_read("pid", 100, &s, NULL), 0);
	assert_string_equal(s, want);
	free(s);
	free(want);
	fd_close(&fd);
	assert_int_equal(pidfile_lock("no/pid", NULL, &fd), E_NOTFOUND);
	assert_int_equal(symlink("pid", "link"), 0);
	assert_int_equal(pidfile_lock("link", NULL, &fd), E_INVALID);
}

static void
test_limit(void **state)
{
	struct rlimit rl, old;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	rl = old;
	rl.rlim_cur = 64;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &rl), 0);
	assert_int_equal(fd_raise_limit(100), 100);
	assert_int_equal(fd_raise_limit(50), 100); /* never down */
	assert_int_equal(fd_raise_limit(UINT64_MAX), old.rlim_max);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_fds),
	    cmocka_unit_test(test_read),
	    cmocka_unit_test(test_read_sizeless),
	    cmocka_unit_test(test_secret),
	    cmocka_unit_test(test_write_atomic),
	    cmocka_unit_test(test_dir_make),
	    cmocka_unit_test(test_write_all),
	    cmocka_unit_test(test_pidfile),
	    cmocka_unit_test(test_limit),
	};

	return cmocka_run_group_tests_name("fdio", tests, setup, teardown);
}
