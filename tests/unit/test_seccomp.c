/* SPDX-License-Identifier: Apache-2.0 */
/* agent/seccomp: what is refused, how, and what is not. */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/seccomp.h"

static void *
thread_main(void *arg)
{
	return arg;
}

#define TRY(n, expr)                                                           \
	do {                                                                   \
		errno = 0;                                                     \
		if (!(expr))                                                   \
			_exit(n);                                              \
	} while (0)

static void
common_calls(void)
{
	TRY(2, syscall(SYS_io_uring_setup, 1, NULL) == -1 && errno == ENOSYS);
	TRY(3, syscall(SYS_keyctl, 0, -4, 1) == -1 && errno == ENOSYS);
	TRY(4, syscall(SYS_add_key, "user", "x", "y", 1, -4) == -1 &&
		   errno == ENOSYS);
	TRY(5, syscall(SYS_userfaultfd, 0) == -1 && errno == ENOSYS);
	TRY(6, syscall(SYS_bpf, 0, NULL, 0) == -1 && errno == EPERM);
	TRY(7, syscall(SYS_perf_event_open, NULL, 0, 0, 0, 0) == -1 &&
		   errno == EACCES);
	TRY(8, syscall(SYS_syslog, 10, NULL, 0) == -1 && errno == EPERM);
	for (int family = 0; family < 64; family++) {
		int fd = socket(family, SOCK_DGRAM, 0);

		if (family == AF_UNIX || family == AF_INET)
			TRY(9, fd >= 0);
		else if (family != AF_INET6 && family != AF_NETLINK)
			TRY(10, fd == -1);
		if (fd >= 0)
			(void)close(fd);
	}
	TRY(11,
	    socket(AF_VSOCK, SOCK_STREAM, 0) == -1 && errno == EAFNOSUPPORT);
}

static void
ordinary_calls(void)
{
	int sv[2];
	pthread_t t;
	void *got;
	pid_t pid;

	TRY(20, socketpair(AF_UNIX, SOCK_STREAM, 0, sv) == 0);
	TRY(21, pthread_create(&t, NULL, thread_main, sv) == 0);
	TRY(22, pthread_join(t, &got) == 0 && got == sv);
	TRY(23, (pid = fork()) != -1);
	if (pid == 0)
		_exit(0);
	TRY(24, waitpid(pid, NULL, 0) == pid);
	TRY(25, system("exit 3") == 3 << 8);
	TRY(26, unshare(CLONE_FILES) == 0);
}

static void
userns_calls(void)
{
	TRY(30, unshare(CLONE_NEWUSER) == -1 && errno == EPERM);
	TRY(31, syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0) == -1 &&
		    errno == EPERM);
	TRY(32, syscall(435, NULL, 0) == -1 && errno == ENOSYS);
}

static void
run(void (*restrict_it)(void), void (*a)(void), void (*b)(void))
{
	pid_t pid;
	int status;

	if (!seccomp_available())
		skip();
	(void)fflush(NULL);
	pid = fork();
	assert_int_not_equal(pid, -1);
	if (pid == 0) {
		restrict_it();
		a();
		b();
		ordinary_calls();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void
nothing(void)
{
}

static void
restrict_some(void)
{
	TRY(1, seccomp_restrict(false) == 0);
	/* clone3 is still there. */
	TRY(1, syscall(435, NULL, 0) == -1 && errno != ENOSYS);
}

static void
restrict_all(void)
{
	TRY(1, seccomp_restrict(true) == 0);
}

static void
restrict_userns(void)
{
	TRY(1, seccomp_no_userns() == 0);
}

static void
test_common(void **state)
{
	(void)state;
	run(restrict_some, common_calls, nothing);
}

static void
test_all(void **state)
{
	(void)state;
	run(restrict_all, common_calls, userns_calls);
}

static void
test_userns(void **state)
{
	(void)state;
	run(restrict_userns, userns_calls, nothing);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_common),
	    cmocka_unit_test(test_all),
	    cmocka_unit_test(test_userns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
