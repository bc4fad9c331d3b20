/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Children in our memory. We wait for the end of a pipe that the kernel closes
 * when the child has left that memory. This is vfork with one difference: the
 * wait has a deadline. Between setresuid and execve the child has the sandbox's
 * uid, so the sandbox's other processes can stop it; with vfork that would stop
 * the whole agent.
 *
 * Both of us use the same thread-local errno meanwhile. So we, who wait, make
 * only system calls that do not fail.
 */
#include "config.h"

#include "agent/borrow.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/mem.h"

#define BORROW_STACK   (128 * 1024)
#define BORROW_WAIT_MS 1000
#define BORROW_LOOK_MS 5

#ifndef CLONE_PIDFD
#define CLONE_PIDFD 0x00001000
#endif

struct borrow {
	char *stack; /* given up (never freed) when a child got stuck on it */
};

struct borrow *
borrow_new(void)
{
	return xcalloc(1, sizeof(struct borrow));
}

void
borrow_free(struct borrow *b)
{
	if (b == NULL)
		return;
	if (b->stack != NULL)
		(void)munmap(b->stack, BORROW_STACK);
	free(b);
}

static int
borrow_stack(struct borrow *b)
{
	void *p;

	if (b->stack != NULL)
		return 0;
	p = mmap(NULL, BORROW_STACK, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (p == MAP_FAILED)
		return E_SYS;
	b->stack = p;
	return 0;
}

/* What is of the sandbox's uid already can stop it. */
static bool
borrow_is_stopped(pid_t pid)
{
	siginfo_t si = {0};

	return syscall(SYS_waitid, P_PID, pid, &si,
		       WSTOPPED | WNOHANG | WNOWAIT, NULL) == 0 &&
	       si.si_pid == pid;
}

/* Waits until the child has left our memory, and so closed the pipe; false when
 * it did not in time, or was stopped. */
static bool
borrow_wait(int fd, pid_t pid)
{
	struct pollfd p = {.fd = fd};

	for (int ms = 0; ms < BORROW_WAIT_MS; ms += BORROW_LOOK_MS) {
		/* Not kept: the kernel writes what is left of it. */
		struct timespec ts = {.tv_nsec = BORROW_LOOK_MS * 1000000};

		if (syscall(SYS_ppoll, &p, 1, &ts, NULL, 0) > 0)
			return true;
		if (borrow_is_stopped(pid))
			return false;
	}
	return false;
}

static void
borrow_reap(pid_t pid)
{
	while (waitpid(pid, NULL, 0) == -1 && errno == EINTR)
		;
}

int
borrow_start(struct borrow *b, int flags, int (*fn)(void *), void *arg,
	     pid_t *pid, int *pidfd)
{
	sigset_t all, old;
	int gone[2], eno = 0, fd = -1, r = 0;
	pid_t child;

	if (borrow_stack(b) != 0 || pipe2(gone, O_CLOEXEC) != 0)
		return E_SYS;
	(void)sigfillset(&all);
	(void)sigprocmask(SIG_BLOCK, &all, &old);
	child = clone(fn, b->stack + BORROW_STACK,
		      flags | CLONE_VM | CLONE_PIDFD | SIGCHLD, arg, &fd);
	if (child == -1) {
		eno = errno;
		r = E_SYS;
	}
	(void)close(gone[1]);
	if (r == 0 && !borrow_wait(gone[0], child)) {
		(void)kill(child, SIGKILL);
		borrow_reap(child);
		fd_close(&fd);
		b->stack = NULL;
		r = E_TIMEOUT;
	}
	(void)close(gone[0]);
	(void)sigprocmask(SIG_SETMASK, &old, NULL);
	errno = eno;
	if (r == 0) {
		*pid = child;
		*pidfd = fd;
	}
	return r;
}
