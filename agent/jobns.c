/* SPDX-License-Identifier: Apache-2.0 */
/* Namespaces; see the header. */
#include "config.h"

#include "agent/jobns.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fdio.h"

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

pid_t
jobns_fork(int flags)
{
	if (flags == 0)
		return fork();
	/* With a NULL stack this is fork(), whatever order the other
	 * arguments have on this machine: they are all zero. */
	return (pid_t)syscall(SYS_clone, (unsigned long)(flags | SIGCHLD), NULL,
			      NULL, NULL, NULL);
}

static int
put_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), r, eno;

	if (fd == -1)
		return -1;
	r = write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
	eno = errno;
	fd_close(&fd);
	errno = eno;
	return r;
}

static int
put_proc(pid_t pid, const char *name, const char *text)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%ld/%s", (long)pid, name);
	return put_text(path, text);
}

/* A child that does nothing but exist in namespaces of its own. */
static pid_t
sleeper(int flags, int *pipe_fd)
{
	int fds[2];
	char c;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) != 0)
		return -1;
	pid = jobns_fork(flags);
	if (pid == 0) {
		(void)close(fds[1]);
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		(void)!read(fds[0], &c, 1);
		_exit(0);
	}
	(void)close(fds[0]);
	if (pid < 0)
		(void)close(fds[1]);
	else
		*pipe_fd = fds[1];
	return pid;
}

static void
wake(pid_t pid, int pipe_fd)
{
	int eno = errno;

	(void)close(pipe_fd);
	while (waitpid(pid, NULL, 0) == -1 && errno == EINTR)
		;
	errno = eno;
}

int
jobns_user(uid_t first, unsigned n, int *fd)
{
	char map[64], path[64];
	int p, ns = -1;
	pid_t pid = sleeper(CLONE_NEWUSER, &p);

	if (pid < 0)
		return -1;
	(void)snprintf(map, sizeof(map), "0 %lu %u\n", (unsigned long)first, n);
	(void)snprintf(path, sizeof(path), "/proc/%ld/ns/user", (long)pid);
	if (put_proc(pid, "uid_map", map) == 0 &&
	    put_proc(pid, "gid_map", map) == 0)
		ns = open(path, O_RDONLY | O_CLOEXEC);
	wake(pid, p);
	if (ns == -1)
		return -1;
	*fd = ns;
	return 0;
}

int
jobns_user_self(void)
{
	unsigned long uid = geteuid(), gid = getegid();
	char map[64];
	int r;

	if (unshare(CLONE_NEWUSER) != 0)
		return -1;
	/* Otherwise these files are not ours. */
	(void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	(void)snprintf(map, sizeof(map), "0 %lu 1\n", uid);
	r = put_text("/proc/self/uid_map", map);
	if (r == 0)
		r = put_text("/proc/self/setgroups", "deny");
	(void)snprintf(map, sizeof(map), "0 %lu 1\n", gid);
	if (r == 0)
		r = put_text("/proc/self/gid_map", map);
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	return r;
}

/* --- network ----------------------------------------------------------- */

static int
loopback_up(void)
{
	struct ifreq ifr;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), r, eno;

	if (fd == -1)
		return -1;
	memset(&ifr, 0, sizeof(ifr));
	(void)snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "lo");
	ifr.ifr_flags = IFF_UP | IFF_RUNNING;
	r = ioctl(fd, SIOCSIFFLAGS, &ifr);
	eno = errno;
	fd_close(&fd);
	errno = eno;
	return r;
}

/* A namespace belongs to the user namespace of whoever makes it, and who has
 * entered one of those does not get back: so a child makes it. */
static int
net_of(int userns)
{
	int fds[2], pidfd = -1, r = -1, status, eno;
	char c = 0;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
		return -1;
	if ((pid = fork()) == 0) {
		(void)close(fds[0]);
		if (setns(userns, CLONE_NEWUSER) != 0 ||
		    unshare(CLONE_NEWNET) != 0)
			_exit(errno);
		(void)!write(fds[1], &c, 1);
		(void)!read(fds[1], &c, 1);
		_exit(0);
	}
	(void)close(fds[1]);
	/* By its pid and not through /proc, which shows other numbers. */
	if (pid > 0 && read(fds[0], &c, 1) == 1 &&
	    (pidfd = (int)syscall(SYS_pidfd_open, pid, 0)) != -1)
		r = setns(pidfd, CLONE_NEWNET);
	eno = errno;
	(void)close(fds[0]);
	if (pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
	    WEXITSTATUS(status) != 0)
		eno = WEXITSTATUS(status);
	fd_close(&pidfd);
	errno = eno;
	return r;
}

int
jobns_net(int userns)
{
	if ((userns == -1 ? unshare(CLONE_NEWNET) : net_of(userns)) != 0)
		return -1;
	/* Ports are the job's own, all of them; and so is ping. */
	(void)put_text("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
	(void)put_text("/proc/sys/net/ipv4/ping_group_range", "0 2147483647");
	return loopback_up();
}

/* --- identity ---------------------------------------------------------- */

int
jobns_enter_user(int userns)
{
	if (setns(userns, CLONE_NEWUSER) != 0 || setgroups(0, NULL) != 0 ||
	    setresgid(0, 0, 0) != 0)
		return -1;
	return setresuid(0, 0, 0);
}

void
jobns_bound_caps(void)
{
	static const int kept[] = {
	    CAP_CHOWN,   CAP_DAC_OVERRIDE, CAP_FOWNER,  CAP_FSETID,
	    CAP_KILL,    CAP_SETGID,       CAP_SETUID,  CAP_SETPCAP,
	    CAP_SETFCAP, CAP_SYS_CHROOT,   CAP_NET_RAW, CAP_NET_BIND_SERVICE};
	uint64_t keep = 0;

	for (size_t i = 0; i < ARRAY_LEN(kept); i++)
		keep |= 1ULL << kept[i];
	for (int c = 0; c < 64; c++)
		if ((keep >> c & 1) == 0 &&
		    prctl(PR_CAPBSET_DROP, c, 0, 0, 0) != 0 && errno == EINVAL)
			break; /* the kernel's last one was c - 1 */
}

/* --- descriptors ------------------------------------------------------- */

static int
compare_fds(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

void
jobns_close_but(int *keep, size_t n)
{
	unsigned from = 3;

	qsort(keep, n, sizeof(*keep), compare_fds);
	for (size_t i = 0; i < n; i++) {
		if (keep[i] < 3)
			continue;
		if ((unsigned)keep[i] > from)
			(void)syscall(SYS_close_range, from,
				      (unsigned)keep[i] - 1, 0U);
		from = (unsigned)keep[i] + 1;
	}
	(void)syscall(SYS_close_range, from, ~0U, 0U);
}
