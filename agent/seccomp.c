/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A filter for system calls, in the kernel's own (classic BPF) instructions.
 * Each entry has a reason; what a uid, Landlock or a missing capability forbids
 * already is not repeated here:
 *
 * - io_uring does file and socket operations that Landlock's hooks and this
 *   filter would judge by the calls, and is the largest source of kernel holes.
 * - Keyrings belong to a uid and outlive its processes: the next sandbox with
 *   that uid would find the last one's keys.
 * - A user namespace gives all capabilities inside, and so the kernel's code
 *   for root to whoever wants to attack it. clone3 takes its flags in memory,
 *   which no filter can see; the C library then uses clone.
 * - bpf, perf_event_open and userfaultfd observe or stop the kernel at work.
 * - The kernel's log tells of the machine and of other sandboxes.
 * - Sockets other than unix, IP and netlink: AF_VSOCK reaches the hypervisor
 *   past every rule of the network, the rest (AF_ALG, AF_PACKET, ...) is
 *   seldom used code. Connecting to a named or an abstract unix socket cannot
 *   be judged here, because the address is in memory: homes are closed, and
 *   Landlock and namespaces do the rest.
 * - Programs of other architectures (32 bit on 64): their calls have other
 *   numbers.
 */
#include "config.h"

#include "agent/seccomp.h"

#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#ifndef SYS_clone3
#define SYS_clone3 435
#endif
#ifndef SYS_io_uring_setup
#define SYS_io_uring_setup    425
#define SYS_io_uring_enter    426
#define SYS_io_uring_register 427
#endif

#if defined(__x86_64__)
#define SECCOMP_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define SECCOMP_ARCH AUDIT_ARCH_AARCH64
#else
#define SECCOMP_ARCH 0
#endif
#define SECCOMP_X32 0x40000000U /* x86-64's second set of numbers */

#define LOAD(field)                                                            \
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
/* Numbers that fit into an int are in the low half; both of our architectures
 * have that first. */
#define LOAD_ARG(i)                                                            \
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS,                                     \
		 offsetof(struct seccomp_data, args[i]))
#define REFUSE(err) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (err))
#define ALLOW       BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
/* The next n instructions are for that value; else they are skipped. */
#define WHEN(value, n)       BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, (n))
#define WHEN_BITS(mask, n)   BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (mask), 0, (n))
#define NO_CALL(number, err) WHEN(number, 1), REFUSE(err)
#define KNOWN_ARCHITECTURE                                                     \
	LOAD(arch), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SECCOMP_ARCH, 1, 0),   \
	    REFUSE(ENOSYS), LOAD(nr),                                          \
	    BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, SECCOMP_X32, 0, 1),            \
	    REFUSE(ENOSYS)

static const struct sock_filter seccomp_common[] = {
    KNOWN_ARCHITECTURE,
    NO_CALL(SYS_io_uring_setup, ENOSYS),
    NO_CALL(SYS_io_uring_enter, ENOSYS),
    NO_CALL(SYS_io_uring_register, ENOSYS),
    NO_CALL(SYS_add_key, ENOSYS),
    NO_CALL(SYS_request_key, ENOSYS),
    NO_CALL(SYS_keyctl, ENOSYS),
    NO_CALL(SYS_userfaultfd, ENOSYS),
    NO_CALL(SYS_perf_event_open, EACCES),
    NO_CALL(SYS_bpf, EPERM),
    NO_CALL(SYS_syslog, EPERM),
    WHEN(SYS_socketpair, 4),
    LOAD_ARG(0),
    WHEN(AF_UNIX, 1),
    ALLOW,
    REFUSE(EAFNOSUPPORT),
    WHEN(SYS_socket, 10),
    LOAD_ARG(0),
    WHEN(AF_UNIX, 1),
    ALLOW,
    WHEN(AF_INET, 1),
    ALLOW,
    WHEN(AF_INET6, 1),
    ALLOW,
    WHEN(AF_NETLINK, 1),
    ALLOW,
    REFUSE(EAFNOSUPPORT),
    ALLOW,
};

static const struct sock_filter seccomp_userns[] = {
    KNOWN_ARCHITECTURE,
    NO_CALL(SYS_clone3, ENOSYS),
    WHEN(SYS_unshare, 4),
    LOAD_ARG(0),
    WHEN_BITS(CLONE_NEWUSER, 1),
    REFUSE(EPERM),
    ALLOW,
    WHEN(SYS_clone, 4),
    LOAD_ARG(0),
    WHEN_BITS(CLONE_NEWUSER, 1),
    REFUSE(EPERM),
    ALLOW,
    ALLOW,
};

bool
seccomp_available(void)
{
	const unsigned action = SECCOMP_RET_ERRNO;

	return SECCOMP_ARCH != 0 &&
	       syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

static int
seccomp_install(const struct sock_filter *code, size_t n)
{
	const struct sock_fprog prog = {
	    .len = (unsigned short)n,
	    .filter = (struct sock_filter *)(uintptr_t)code,
	};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return -1;
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog);
}

int
seccomp_no_userns(void)
{
	return seccomp_install(seccomp_userns, ARRAY_LEN(seccomp_userns));
}

int
seccomp_restrict(bool userns)
{
	if (seccomp_install(seccomp_common, ARRAY_LEN(seccomp_common)) != 0)
		return -1;
	return userns ? seccomp_no_userns() : 0;
}
