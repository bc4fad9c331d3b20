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
#include <stdint.h>
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

#ifndef SYS_clone3
#define SYS_clone3 435
#endif
#define BORROW_INTO_CGROUP 0x200000000ULL

/* As the kernel has it; our own, so that old headers do. */
struct borrow_clone {
	uint64_t flags, pidfd, child_tid, parent_tid, exit_signal;
	uint64_t stack, stack_size, tls, set_tid, set_tid_size, cgroup;
};

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

/* clone3(2), which no library wraps: the child begins on an empty stack, so it
 * can only call. -1 with errno. */
static pid_t
borrow_clone3(const struct borrow_clone *c, int (*fn)(void *), void *arg)
{
#if defined(__x86_64__)
	register long r __asm__("rax") = SYS_clone3;
	register const void *a0 __asm__("rdi") = c;
	register size_t a1 __asm__("rsi") = sizeof(*c);
	register int (*f)(void *) __asm__("r12") = fn;
	register void *x __asm__("r13") = arg;

	__asm__ volatile("syscall\n\t"
			 "test %%rax, %%rax\n\t"
			 "jnz 1f\n\t"
			 "xor %%ebp, %%ebp\n\t"
			 "mov %%r13, %%rdi\n\t"
			 "call *%%r12\n\t"
			 "mov %%eax, %%edi\n\t"
			 "mov %[exit], %%eax\n\t"
			 "syscall\n"
			 "1:"
			 : "+r"(r)
			 : "r"(a0), "r"(a1), "r"(f),
			   "r"(x), [exit] "i"(SYS_exit)
			 : "rcx", "r11", "memory");
#elif defined(__aarch64__)
	register long r __asm__("x0") = (long)c;
	register size_t a1 __asm__("x1") = sizeof(*c);
	register long nr __asm__("x8") = SYS_clone3;
	register int (*f)(void *) __asm__("x19") = fn;
	register void *x __asm__("x20") = arg;

	__asm__ volatile("svc #0\n\t"
			 "cbnz x0, 1f\n\t"
			 "mov x29, xzr\n\t"
			 "mov x0, x20\n\t"
			 "blr x19\n\t"
			 "mov x8, %[exit]\n\t"
			 "svc #0\n"
			 "1:"
			 : "+r"(r), "+r"(nr)
			 : "r"(a1), "r"(f), "r"(x), [exit] "i"(SYS_exit)
			 : "memory");
#else
	long r = -ENOSYS;

	(void)c;
	(void)fn;
	(void)arg;
#endif
	if (r >= 0)
		return (pid_t)r;
	errno = (int)-r;
	return -1;
}

static pid_t
borrow_clone(struct borrow *b, int flags, int cgroup, int (*fn)(void *),
	     void *arg, int *pidfd)
{
	struct borrow_clone c = {
	    .flags = (uint64_t)(unsigned)flags | BORROW_INTO_CGROUP,
	    .pidfd = (uintptr_t)pidfd,
	    .exit_signal = SIGCHLD,
	    .stack = (uintptr_t)b->stack,
	    .stack_size = BORROW_STACK,
	    .cgroup = (uint64_t)cgroup,
	};

	if (cgroup != -1)
		return borrow_clone3(&c, fn, arg);
	return clone(fn, b->stack + BORROW_STACK, flags | SIGCHLD, arg, pidfd);
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
borrow_start(struct borrow *b, int flags, int cgroup, int (*fn)(void *),
	     void *arg, pid_t *pid, int *pidfd)
{
	sigset_t all, old;
	int gone[2], eno = 0, fd = -1, r = 0;
	pid_t child;

	if (borrow_stack(b) != 0 || pipe2(gone, O_CLOEXEC) != 0)
		return E_SYS;
	(void)sigfillset(&all);
	(void)sigprocmask(SIG_BLOCK, &all, &old);
	child = borrow_clone(b, flags | CLONE_VM | CLONE_PIDFD, cgroup, fn, arg,
			     &fd);
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
