/* SPDX-License-Identifier: Apache-2.0 */
/* agent/landlock: every version of the interface up to the kernel's. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <netinet/in.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/landlock.h"
#include "base/err.h"

static char home[64], outside[64];

static int
setup(void **state)
{
	(void)state;
	(void)snprintf(home, sizeof(home), "/tmp/landlock.XXXXXX");
	(void)snprintf(outside, sizeof(outside), "/tmp/landlock.XXXXXX");
	return mkdtemp(home) != NULL && mkdtemp(outside) != NULL ? 0 : -1;
}

static int
teardown(void **state)
{
	char cmd[160];

	(void)state;
	(void)snprintf(cmd, sizeof(cmd), "rm -rf %s %s", home, outside);
	return system(cmd);
}

static bool
can_create(const char *dir)
{
	char path[128];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/f", dir);
	fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static bool
can_open(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static bool
can_bind(void)
{
	struct sockaddr_in in = {.sin_family = AF_INET};
	int s = socket(AF_INET, SOCK_STREAM, 0);

	return bind(s, (struct sockaddr *)(void *)&in, sizeof(in)) == 0;
}

/* In a child, confined: the number of the first thing that is wrong. */
static int
try_it(int abi)
{
	int n = 1;

#define WANT(x)                                                                \
	do {                                                                   \
		if (!(x))                                                      \
			return n;                                              \
		n++;                                                           \
	} while (0)
	WANT(can_create(home));
	WANT(!can_create(outside) && errno == EACCES);
	WANT(!can_open(outside, O_RDONLY));
	WANT(can_open("/etc/passwd", O_RDONLY));
	WANT(!can_open("/etc/passwd", O_RDWR));
	WANT(can_open("/usr", O_RDONLY));
	WANT(can_open("/dev/null", O_RDWR));
	WANT(!can_open("/dev", O_RDONLY));
	WANT(!can_open("/tmp", O_RDONLY));
	WANT(!can_open("/", O_RDONLY));
	WANT(can_open("/proc/self/status", O_RDONLY));
	WANT(!can_open("/proc/self/oom_score_adj", O_WRONLY));
	WANT(can_bind() == (abi < 4));
#undef WANT
	return 0;
}

static int
confined(struct landlock *ll, int abi)
{
	int fd = open(home, O_PATH | O_CLOEXEC), ruleset = -1, status;
	pid_t pid;

	assert_int_equal(landlock_ruleset(ll, fd, false, &ruleset), 0);
	assert_true(fcntl(ruleset, F_GETFD) & FD_CLOEXEC);
	pid = fork();
	if (pid == 0) {
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
		    landlock_enforce(ruleset) != 0)
			_exit(100);
		_exit(try_it(abi));
	}
	close(ruleset);
	close(fd);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void
test_each_abi(void **state)
{
	int kernel = landlock_abi();

	(void)state;
	if (kernel == 0)
		skip();
	for (int abi = 1; abi <= kernel; abi++) {
		struct landlock *ll = landlock_new(abi);

		assert_int_equal(landlock_effective_abi(ll), abi);
		assert_int_equal(confined(ll, abi), 0);
		landlock_free(ll);
	}
}

static void
test_never_above_kernel(void **state)
{
	struct landlock *ll = landlock_new(1000);

	(void)state;
	assert_int_equal(landlock_effective_abi(ll), landlock_abi());
	landlock_free(ll);
}

static void
test_none(void **state)
{
	struct landlock *ll = landlock_new(0);
	int fd = -1;

	(void)state;
	assert_int_equal(landlock_ruleset(ll, 0, false, &fd), E_UNSUPPORTED);
	assert_int_equal(fd, -1);
	landlock_free(ll);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_each_abi, setup, teardown),
	    cmocka_unit_test(test_never_above_kernel),
	    cmocka_unit_test(test_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
