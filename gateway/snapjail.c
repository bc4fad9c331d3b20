/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See the header. CAP_SYS_ADMIN has to stay, since the overlay file system's
 * own attributes (trusted.overlay.*) are for nobody else; what it could be
 * used for otherwise is refused by a filter of system calls.
 */
#include "config.h"

#include "gateway/snapjail.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#include "base/fdio.h"
#include "gateway/snaptar.h"

#define MEMORY_MAX (1ULL << 30)

/* --- capabilities ------------------------------------------------------ */
#define BIT(cap) (1U << (cap))

static int
keep_caps(bool write)
{
	struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct d[2] = {{0, 0, 0}, {0, 0, 0}};

	d[0].permitted = BIT(CAP_DAC_READ_SEARCH) | BIT(CAP_SYS_ADMIN);
	if (write)
		d[0].permitted |= BIT(CAP_CHOWN) | BIT(CAP_FOWNER) |
				  BIT(CAP_FSETID) | BIT(CAP_DAC_OVERRIDE) |
				  BIT(CAP_SETFCAP);
	d[0].effective = d[0].permitted;
	return (int)syscall(SYS_capset, &h, d);
}

/* --- system calls ------------------------------------------------------ */
#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#else
#define ARCH 0
#endif
#define X32 0x40000000U /* x86-64's second set of numbers */

#define LOAD(field)                                                            \
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define END(how) BPF_STMT(BPF_RET | BPF_K, (how))
#define NO_CALL(number)                                                        \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1),                   \
	    END(SECCOMP_RET_ERRNO | EPERM)

/* Files that are looked up by name are all that is left: no new processes, no
 * programs, no mounts and namespaces, no handles, no sockets, nobody else. */
static const struct sock_filter filter[] = {
    LOAD(arch),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0),
    END(SECCOMP_RET_KILL_PROCESS),
    LOAD(nr),
    BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32, 0, 1),
    END(SECCOMP_RET_KILL_PROCESS),
    NO_CALL(SYS_execve),
    NO_CALL(SYS_execveat),
    NO_CALL(SYS_clone),
    NO_CALL(435 /* clone3 */),
    NO_CALL(SYS_unshare),
    NO_CALL(SYS_setns),
    NO_CALL(SYS_mount),
    NO_CALL(SYS_umount2),
    NO_CALL(SYS_pivot_root),
    NO_CALL(SYS_chroot),
    NO_CALL(428 /* open_tree */),
    NO_CALL(429 /* move_mount */),
    NO_CALL(430 /* fsopen */),
    NO_CALL(432 /* fsmount */),
    NO_CALL(442 /* mount_setattr */),
    NO_CALL(SYS_open_by_handle_at),
    NO_CALL(SYS_ptrace),
    NO_CALL(SYS_process_vm_readv),
    NO_CALL(SYS_process_vm_writev),
    NO_CALL(434 /* pidfd_open */),
    NO_CALL(438 /* pidfd_getfd */),
    NO_CALL(SYS_bpf),
    NO_CALL(SYS_perf_event_open),
    NO_CALL(SYS_userfaultfd),
    NO_CALL(425 /* io_uring_setup */),
    NO_CALL(SYS_socket),
    NO_CALL(SYS_connect),
    NO_CALL(SYS_swapon),
    NO_CALL(SYS_swapoff),
    NO_CALL(SYS_sethostname),
    NO_CALL(SYS_setdomainname),
    NO_CALL(SYS_quotactl),
    NO_CALL(SYS_keyctl),
    NO_CALL(SYS_add_key),
    NO_CALL(SYS_syslog),
    NO_CALL(SYS_kill),
    NO_CALL(SYS_fanotify_init),
    END(SECCOMP_RET_ALLOW),
};

static int
filter_calls(void)
{
	const struct sock_fprog prog = {
	    .len = ARRAY_LEN(filter),
	    .filter = (struct sock_filter *)(uintptr_t)filter};
	const unsigned action = SECCOMP_RET_ERRNO;

	if (ARCH == 0 ||
	    syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) != 0)
		return 0; /* one wall less */
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog);
}

/* --- all of it --------------------------------------------------------- */
static int
write_map(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), r;

	if (fd < 0)
		return -1;
	r = fd_write_all(fd, text, strlen(text));
	(void)close(fd);
	return r;
}

static int
become_root(void)
{
	char uids[32], gids[32];
	pid_t parent = getppid();

	(void)snprintf(uids, sizeof(uids), "0 %lu 1", (unsigned long)geteuid());
	(void)snprintf(gids, sizeof(gids), "0 %lu 1", (unsigned long)getegid());
	/* Our own files in /proc are root's as long as we are not. */
	(void)prctl(PR_SET_DUMPABLE, 1);
	if (unshare(CLONE_NEWUSER) != 0 ||
	    write_map("/proc/self/setgroups", "deny") != 0 ||
	    write_map("/proc/self/uid_map", uids) != 0 ||
	    write_map("/proc/self/gid_map", gids) != 0)
		return -1;
	(void)prctl(PR_SET_DUMPABLE, 0);
	/* The kernel forgets it when capabilities come. */
	(void)prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() == parent)
		return 0;
	errno = ESRCH;
	return -1;
}

static int
bound(int what, uint64_t value)
{
	struct rlimit l;

	if (getrlimit((__rlimit_resource_t)what, &l) != 0)
		return -1;
	if (l.rlim_max == RLIM_INFINITY || value < l.rlim_max)
		l.rlim_max = value;
	l.rlim_cur = l.rlim_max;
	return setrlimit((__rlimit_resource_t)what, &l);
}

static int
set_bounds(uint64_t file_max)
{
	if (bound(RLIMIT_CORE, 0) != 0 ||
	    bound(RLIMIT_NOFILE, SNAPTAR_DEPTH + 64) != 0)
		return -1;
#ifndef SBX_SANITIZE
	if (bound(RLIMIT_AS, MEMORY_MAX) != 0)
		return -1;
#endif
	(void)signal(SIGXFSZ, SIG_IGN);
	return file_max != 0 ? bound(RLIMIT_FSIZE, file_max) : 0;
}

int
snapjail_enter(int tree_fd, bool write, uint64_t file_max, const char **step)
{
	*step = "user namespace";
	if (geteuid() != 0 && become_root() != 0)
		return -1;
	*step = "chroot";
	if (fchdir(tree_fd) != 0 || chroot(".") != 0 || chdir("/") != 0)
		return -1;
	*step = "limits";
	if (set_bounds(file_max) != 0)
		return -1;
	*step = "capabilities";
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    keep_caps(write) != 0)
		return -1;
	*step = "filter of system calls";
	return filter_calls();
}
