/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Namespaces. Process 1 borrows our memory (agent/borrow.h) to set them up;
 * then it closes all its descriptors and waits for ever in one system call,
 * with all signals blocked and its children reaped by the kernel: three
 * instructions that touch no memory, so that it may go on sharing ours. It
 * costs no page, and no second program.
 *
 * A sandbox cannot reach it: it is root's, cannot be traced (PR_SET_DUMPABLE is
 * a property of our memory), and the kernel lets nobody inside signal it.
 */
#include "config.h"

#include "agent/ns.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <event2/event.h>

#include "agent/borrow.h"
#include "agent/homefs.h"
#include "agent/landlock.h"
#include "base/err.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/loop.h"

#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef P_PIDFD
#define P_PIDFD 3
#endif

#if defined(__x86_64__) || defined(__aarch64__)
#define NS_POSSIBLE true
#else
#define NS_POSSIBLE false
#endif

#define NS_INODES 65536
#define NS_KINDS  (CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS)

struct ns {
	pid_t pid;
	int fd;
	int flags;
	bool alive;
	struct event *ev;
	void (*ended)(void *arg);
	void *arg;
};

/* What process 1 needs while it makes itself ready. */
struct ns_job {
	const struct ns_spec *spec;
	char *tmp;    /* of the home */
	char shm[64]; /* options of its mount */
	int eno;
	const char *step;
};

BORROW_CHILD bool
ns_hides(const char *homes, const char *dir)
{
	size_t n = 0;

	while (dir[n] != '\0' && homes[n] == dir[n])
		n++;
	return dir[n] == '\0' && (homes[n] == '/' || homes[n] == '\0');
}

/* --- process 1 --------------------------------------------------------- */

BORROW_CHILD static void SBX_NORETURN
one_fail(struct ns_job *j, const char *step)
{
	j->eno = errno;
	j->step = step;
	_exit(1);
}

/* Closes all descriptors, which tells the agent that its memory (and this
 * stack) is its own again; so nothing here may touch memory. Never returns. */
BORROW_CHILD static void SBX_NORETURN
one_leave(void)
{
#if defined(__x86_64__)
	__asm__ volatile("xor %%edi, %%edi\n\t"
			 "mov $-1, %%esi\n\t"
			 "xor %%edx, %%edx\n\t"
			 "mov %0, %%eax\n\t"
			 "syscall\n"
			 "1:\n\t"
			 "xor %%edi, %%edi\n\t"
			 "xor %%esi, %%esi\n\t"
			 "xor %%edx, %%edx\n\t"
			 "xor %%r10d, %%r10d\n\t"
			 "mov %1, %%eax\n\t"
			 "syscall\n\t"
			 "jmp 1b"
			 :
			 : "i"(SYS_close_range), "i"(SYS_ppoll)
			 : "rax", "rdi", "rsi", "rdx", "r10", "rcx", "r11",
			   "memory");
#elif defined(__aarch64__)
	__asm__ volatile("mov x0, xzr\n\t"
			 "mov w1, #-1\n\t"
			 "mov x2, xzr\n\t"
			 "mov x8, %0\n\t"
			 "svc #0\n"
			 "1:\n\t"
			 "mov x0, xzr\n\t"
			 "mov x1, xzr\n\t"
			 "mov x2, xzr\n\t"
			 "mov x3, xzr\n\t"
			 "mov x8, %1\n\t"
			 "svc #0\n\t"
			 "b 1b"
			 :
			 : "i"(SYS_close_range), "i"(SYS_ppoll)
			 : "x0", "x1", "x2", "x3", "x8", "memory");
#endif
	_exit(1);
}

/* Landlock goes by inodes, and does not know the new mount's. */
BORROW_CHILD static void
one_allow(struct ns_job *j, const char *dir, bool all)
{
	const struct ns_spec *s = j->spec;
	int fd;

	if (s->ruleset == -1)
		return;
	fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd == -1 || landlock_add(s->ll, s->ruleset, fd, all) != 0)
		one_fail(j, "landlock");
	(void)close(fd);
}

/* The homes of others are not even there to be asked for: not each kernel lets
 * Landlock judge who connects to a socket in them. */
BORROW_CHILD static void
one_home(struct ns_job *j)
{
	const struct ns_spec *s = j->spec;
	int fs = s->home_fs;

	if (s->home == NULL)
		return;
	if (fs == -1 && (fs = homefs_clone(s->home)) == -1)
		one_fail(j, "home");
	if (mount("homes", s->homes, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
		  "mode=0711,size=4k,nr_inodes=4") != 0)
		one_fail(j, "homes");
	if (mkdir(s->home, 0700) != 0 || homefs_put(fs, s->home) != 0)
		one_fail(j, "home");
}

BORROW_CHILD static void
one_tmp(struct ns_job *j, const char *dir)
{
	if (j->tmp == NULL || ns_hides(j->spec->homes, dir) ||
	    access(dir, F_OK) != 0)
		return;
	if (mount(j->tmp, dir, NULL, MS_BIND, NULL) != 0)
		one_fail(j, dir);
	one_allow(j, dir, true);
}

BORROW_CHILD static void
one_mounts(struct ns_job *j)
{
	/* What others unmount goes here too; nothing of ours gets out. */
	if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) != 0)
		one_fail(j, "mount");
	if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC,
		  NULL) != 0)
		one_fail(j, "/proc");
	one_allow(j, "/proc", false);
	one_home(j);
	if (access("/dev/shm", F_OK) == 0 &&
	    !ns_hides(j->spec->homes, "/dev/shm")) {
		if (mount("shm", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV,
			  j->shm) != 0)
			one_fail(j, "/dev/shm");
		one_allow(j, "/dev/shm", true);
	}
	one_tmp(j, "/tmp");
	one_tmp(j, "/var/tmp");
}

BORROW_CHILD static void
one_network(struct ns_job *j)
{
	struct ifreq ifr;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	memset(&ifr, 0, sizeof(ifr));
	memcpy(ifr.ifr_name, "lo", 3);
	ifr.ifr_flags = IFF_UP | IFF_RUNNING;
	if (fd == -1 || ioctl(fd, SIOCSIFFLAGS, &ifr) != 0)
		one_fail(j, "loopback");
	(void)close(fd);
}

BORROW_CHILD static int
one_main(void *arg)
{
	struct ns_job *j = arg;
	struct sigaction sa;

	memset(&sa, 0, sizeof(sa));
	sa.sa_handler = SIG_IGN; /* the kernel reaps */
	if (sigaction(SIGCHLD, &sa, NULL) != 0)
		one_fail(j, "sigaction");
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	(void)prctl(PR_SET_NAME, "sbx-init", 0, 0, 0);
	if (setsid() == -1)
		one_fail(j, "setsid");
	one_mounts(j);
	if (j->spec->network)
		one_network(j);
	if (chdir("/") != 0)
		one_fail(j, "chdir");
	one_leave();
}

/* --- in the agent ------------------------------------------------------ */

static void
ns_exit_cb(evutil_socket_t fd, short what, void *arg)
{
	siginfo_t si = {0};
	struct ns *n = arg;

	(void)what;
	/* Another answer than "not yet" means that it was reaped elsewhere. */
	if (waitid((idtype_t)P_PIDFD, (id_t)fd, &si, WEXITED | WNOHANG) == 0 &&
	    si.si_pid == 0)
		return;
	(void)event_del(n->ev);
	n->alive = false;
	if (n->ended != NULL)
		n->ended(n->arg);
}

static int
ns_start(struct borrow *b, const struct ns_spec *spec, struct ns *n, char **why)
{
	struct ns_job j = {.spec = spec};
	int flags = NS_KINDS | (spec->network ? CLONE_NEWNET : 0), r;

	/* Of no descriptor: is it there? */
	if (!NS_POSSIBLE || syscall(SYS_close_range, ~0U, ~0U, 0) != 0) {
		*why = xstrdup("not with this kernel or machine");
		return E_UNSUPPORTED;
	}
	if (spec->home != NULL)
		j.tmp = xasprintf("%s/.tmp", spec->home);
	(void)snprintf(j.shm, sizeof(j.shm), "mode=1777,size=%llu,nr_inodes=%d",
		       (unsigned long long)spec->shm_bytes, NS_INODES);
	r = borrow_start(b, flags | CLONE_NEWPID, -1, one_main, &j, &n->pid,
			 &n->fd);
	if (r != 0) {
		*why = xasprintf("clone: %s",
				 r == E_SYS ? strerror(errno) : err_text(r));
	} else if (j.step != NULL) {
		*why = xasprintf("%s: %s", j.step, strerror(j.eno));
		(void)waitpid(n->pid, NULL, 0);
		fd_close(&n->fd);
		r = E_UNSUPPORTED;
	}
	free(j.tmp);
	n->flags = flags;
	n->alive = r == 0;
	return r == 0 ? 0 : E_UNSUPPORTED;
}

int
ns_new(struct loop *l, struct borrow *b, const struct ns_spec *spec,
       struct ns **out, char **why)
{
	struct ns *n = xcalloc(1, sizeof(*n));
	int r;

	n->fd = -1;
	n->ended = spec->ended;
	n->arg = spec->arg;
	if ((r = ns_start(b, spec, n, why)) != 0) {
		free(n);
		return r;
	}
	n->ev =
	    event_new(loop_base(l), n->fd, EV_READ | EV_PERSIST, ns_exit_cb, n);
	if (n->ev == NULL || event_add(n->ev, NULL) != 0)
		log_fatal("ns.new", "reason=\"no event\"");
	*out = n;
	return 0;
}

void
ns_kill(struct ns *n)
{
	if (n->alive)
		(void)syscall(SYS_pidfd_send_signal, n->fd, SIGKILL, NULL, 0);
}

bool
ns_alive(const struct ns *n)
{
	return n->alive;
}

void
ns_free(struct ns *n)
{
	if (n == NULL)
		return;
	ns_kill(n);
	if (n->ev != NULL)
		event_free(n->ev);
	fd_close(&n->fd);
	free(n);
}

int
ns_fd(const struct ns *n)
{
	return n->fd;
}

int
ns_flags(const struct ns *n)
{
	return n->flags;
}

/* Enters, as commands will, and looks whether the root is still ours. */
struct ns_visit {
	const struct ns *ns;
	dev_t dev;
	ino_t ino;
	int eno;
	bool elsewhere;
};

BORROW_CHILD static int
visit_main(void *arg)
{
	struct ns_visit *v = arg;
	struct stat sb;

	if (setns(v->ns->fd, v->ns->flags) != 0)
		v->eno = errno;
	else
		v->elsewhere = stat("/", &sb) != 0 || sb.st_dev != v->dev ||
			       sb.st_ino != v->ino;
	_exit(0);
}

static int
ns_visit(struct borrow *b, const struct ns *n, char **why)
{
	struct ns_visit v = {.ns = n};
	struct stat sb = {0};
	int fd, r;
	pid_t pid;

	if (stat("/", &sb) != 0)
		v.eno = errno;
	v.dev = sb.st_dev;
	v.ino = sb.st_ino;
	if ((r = borrow_start(b, 0, -1, visit_main, &v, &pid, &fd)) != 0) {
		*why = xstrdup(err_text(r));
		return E_UNSUPPORTED;
	}
	(void)waitpid(pid, NULL, 0);
	fd_close(&fd);
	if (v.eno != 0)
		*why = xasprintf("setns: %s", strerror(v.eno));
	else if (v.elsewhere)
		*why = xstrdup("the agent was started with chroot");
	return v.eno != 0 || v.elsewhere ? E_UNSUPPORTED : 0;
}

int
ns_try(char **why)
{
	const struct ns_spec spec = {
	    .homes = "/", .ruleset = -1, .home_fs = -1};
	struct borrow *b = borrow_new();
	struct ns n = {.fd = -1};
	int r = ns_start(b, &spec, &n, why);

	if (r == 0) {
		r = ns_visit(b, &n, why);
		ns_kill(&n);
		(void)waitpid(n.pid, NULL, 0);
		fd_close(&n.fd);
	}
	borrow_free(b);
	return r;
}
