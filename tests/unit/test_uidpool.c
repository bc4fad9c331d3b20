/* SPDX-License-Identifier: Apache-2.0 */
/* agent/uidpool, agent/uidkill: leases, their lock, and killing by uid. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/uidkill.h"
#include "agent/uidpool.h"
#include "base/err.h"

/* Outside of what agents use, and different in each run. */
#define FIRST (3000000000U + 16U * (unsigned)getpid())

static uid_t
lease(struct uidpool *p)
{
	uid_t uid = 0;

	assert_int_equal(uidpool_lease(p, &uid), 0);
	return uid;
}

static void
test_in_turn(void **state)
{
	struct uidpool *p;
	uid_t uid;

	(void)state;
	assert_int_equal(uidpool_new(FIRST, FIRST + 2, NULL, &p), 0);
	assert_int_equal(lease(p), FIRST);
	assert_int_equal(lease(p), FIRST + 1);
	uidpool_return(p, FIRST);
	/* Used again as late as possible. */
	assert_int_equal(lease(p), FIRST + 2);
	assert_int_equal(lease(p), FIRST);
	assert_int_equal(uidpool_leased(p), 3);
	assert_int_equal(uidpool_lease(p, &uid), E_FULL);
	uidpool_return(p, FIRST + 1);
	assert_int_equal(lease(p), FIRST + 1);
	uidpool_free(p);
}

static void
test_two_agents(void **state)
{
	char path[] = "/tmp/uidpool.XXXXXX";
	struct uidpool *a, *b;
	uid_t uid;

	(void)state;
	close(mkstemp(path));
	assert_int_equal(uidpool_new(FIRST, FIRST + 1, path, &a), 0);
	assert_int_equal(uidpool_new(FIRST, FIRST + 1, path, &b), 0);
	assert_int_equal(lease(a), FIRST);
	assert_int_equal(lease(b), FIRST + 1);
	assert_int_equal(uidpool_lease(a, &uid), E_FULL);
	uidpool_return(b, FIRST + 1);
	assert_int_equal(lease(a), FIRST + 1);
	/* The kernel lets go when an agent dies. */
	uidpool_free(a);
	assert_int_equal(lease(b), FIRST);
	/* One that was another's, to clear up after it. */
	assert_int_equal(uidpool_new(FIRST, FIRST + 1, path, &a), 0);
	assert_int_equal(uidpool_claim(a, FIRST), E_BUSY);
	assert_int_equal(uidpool_claim(a, FIRST + 1), 0);
	assert_int_equal(uidpool_claim(a, FIRST + 1), E_BUSY);
	assert_int_equal(uidpool_claim(a, FIRST + 2), E_INVALID);
	assert_int_equal(uidpool_claim(a, FIRST - 1), E_INVALID);
	assert_int_equal(uidpool_claim(a, 0), E_INVALID);
	uidpool_return(a, FIRST + 1);
	assert_int_equal(lease(a), FIRST + 1);
	uidpool_free(a);
	uidpool_free(b);
	unlink(path);
}

/* A process of that uid; it tells when it has it, then sleeps. */
static pid_t
child_of(uid_t uid, unsigned more)
{
	int fds[2];
	pid_t pid;
	char c;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (setresuid(uid, uid, uid) != 0)
			_exit(1);
		while (more-- > 0) {
			if (fork() == 0)
				for (;;)
					pause();
		}
		if (write(fds[1], "k", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(fds[1]);
	assert_int_equal(read(fds[0], &c, 1), 1);
	close(fds[0]);
	return pid;
}

static void
test_passes_over_used(void **state)
{
	struct uidpool *p;
	pid_t pid;

	(void)state;
	if (getuid() != 0)
		skip();
	pid = child_of(FIRST, 0);
	assert_true(uidkill_alive(FIRST));
	assert_int_equal(uidpool_new(FIRST, FIRST + 1, NULL, &p), 0);
	assert_int_equal(lease(p), FIRST + 1);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	assert_false(uidkill_alive(FIRST));
	assert_int_equal(lease(p), FIRST);
	uidpool_free(p);
}

static void
test_kill_all(void **state)
{
	pid_t pid, other;
	int status;

	(void)state;
	if (getuid() != 0)
		skip();
	pid = child_of(FIRST, 4);
	other = child_of(FIRST + 1, 0);
	assert_int_equal(uidkill(FIRST + 2, FIRST, -1, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	for (int i = 0; i < 4; i++) { /* its orphans */
		pid = waitpid(-1, &status, 0);
		assert_true(pid > 0 && pid != other);
		assert_true(WIFSIGNALED(status));
	}
	assert_false(uidkill_alive(FIRST));
	/* Nobody else was hit, and we are who we were. */
	assert_int_equal(waitpid(other, &status, WNOHANG), 0);
	assert_int_equal(getuid(), 0);
	assert_int_equal(geteuid(), 0);
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
}

static void
test_kill_others_denied(void **state)
{
	pid_t other;
	int status;

	(void)state;
	if (getuid() != 0)
		skip();
	other = child_of(FIRST + 1, 0);
	assert_int_equal(uidkill(FIRST + 2, FIRST, other, SIGKILL), E_DENIED);
	assert_int_equal(waitpid(other, &status, WNOHANG), 0);
	assert_int_equal(uidkill(FIRST + 2, 0, other, SIGKILL), E_DENIED);
	assert_int_equal(uidkill(0, FIRST, other, SIGKILL), E_DENIED);
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_in_turn),
	    cmocka_unit_test(test_two_agents),
	    cmocka_unit_test(test_passes_over_used),
	    cmocka_unit_test(test_kill_all),
	    cmocka_unit_test(test_kill_others_denied),
	};

	/* The orphans of a test's child are reaped here. */
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
