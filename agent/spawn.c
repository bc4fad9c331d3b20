/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting programs. The child runs on a stack of its own in our memory, and we
 * wait for the end of a pipe that the kernel closes when the child has left
 * that memory (by execve or by its end). This is vfork with one difference: the
 * wait has a deadline. Between setresuid and execve the child has the sandbox's
 * uid, so the sandbox's other processes can stop it; with vfork that would stop
 * the whole agent.
 *
 * Both of us use the same thread-local errno meanwhile. So we, who wait, make
 * only system calls that do not fail.
 */
#include "config.h"

#include "agent/spawn.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/landlock.h"
#include "base/err.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "base/str.h"

#define SPAWN_STACK   (128 * 1024)
#define SPAWN_WAIT_MS 1000
#define SPAWN_LOOK_MS 5

#ifndef CLONE_PIDFD
#define CLONE_PIDFD 0x00001000
#endif
#ifndef P_PIDFD
#define P_PIDFD 3
#endif

/* The memory that a child borrows; given up (never freed) when one got stuck
 * in it. */
struct spawn_area {
	const struct spawn_spec *spec;
	char *const *paths; /* candidates for argv[0] */
	struct spawn_error err;
	char stack[];
};

struct spawner {
	struct spawn_area *area;
};

static struct spawn_area *
spawn_area_new(void)
{
	void *p = mmap(NULL, SPAWN_STACK, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

struct spawner *
spawner_new(void)
{
	return xcalloc(1, sizeof(struct spawner));
}

void
spawner_free(struct spawner *s)
{
	if (s == NULL)
		return;
	if (s->area != NULL)
		(void)munmap(s->area, SPAWN_STACK);
	free(s);
}

/* --- in the child ------------------------------------------------------ */

/* The address sanitizer knows nothing of this stack, and would put its house
 * in order (with mmap, under the limits set here) before each _exit. */
#define SPAWN_CHILD __attribute__((no_sanitize("address")))

SPAWN_CHILD static void SBX_NORETURN
child_fail(struct spawn_area *a, const char *step)
{
	a->err.eno = errno;
	a->err.step = step;
	_exit(127);
}

SPAWN_CHILD static void
child_fds(struct spawn_area *a)
{
	for (int i = 0; i < 3; i++) {
		if (dup2(a->spec->fds[i], i) == -1)
			child_fail(a, "dup2");
	}
}

/* Handlers of ours must not run here: they would write to the agent's memory,
 * at the order of whoever may signal this uid. */
SPAWN_CHILD static void
child_signals(void)
{
	static const int ours[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM, SIGCHLD,
				   SIGUSR1, SIGUSR2, SIGPIPE, SIGALRM};
	struct sigaction sa;

	memset(&sa, 0, sizeof(sa));
	sa.sa_handler = SIG_DFL;
	for (size_t i = 0; i < ARRAY_LEN(ours); i++)
		(void)sigaction(ours[i], &sa, NULL);
}

/* Raw calls: the library's would change every thread of the agent. */
SPAWN_CHILD static void
child_identity(struct spawn_area *a, const struct spawn_confine *c)
{
	for (unsigned i = 0; i < c->nlimits; i++) {
		if (setrlimit(c->limits[i].resource, &c->limits[i].limit) != 0)
			child_fail(a, "setrlimit");
	}
	if (c->uid == (uid_t)-1)
		return;
	if (syscall(SYS_setgroups, 0, NULL) != 0)
		child_fail(a, "setgroups");
	if (syscall(SYS_setresgid, c->gid, c->gid, c->gid) != 0)
		child_fail(a, "setresgid");
	if (syscall(SYS_setresuid, c->uid, c->uid, c->uid) != 0)
		child_fail(a, "setresuid");
}

SPAWN_CHILD static void
child_confine(struct spawn_area *a, const struct spawn_confine *c)
{
	/* After setresuid, which clears it: no sandbox outlives its agent. */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		child_fail(a, "no_new_privs");
	if (c->ruleset != -1 && landlock_enforce(c->ruleset) != 0)
		child_fail(a, "landlock");
}

SPAWN_CHILD static void
child_cwd(struct spawn_area *a)
{
	const struct spawn_spec *spec = a->spec;

	if (spec->home_fd != -1 && fchdir(spec->home_fd) != 0)
		child_fail(a, "chdir");
	if (spec->cwd != NULL && chdir(spec->cwd) != 0)
		child_fail(a, "chdir");
}

/* As execvp: the first that can be run, and permission trumps absence. */
SPAWN_CHILD static void
child_exec(struct spawn_area *a)
{
	int eno = ENOENT;

	for (char *const *p = a->paths; *p != NULL; p++) {
		(void)execve(*p, a->spec->argv, a->spec->envp);
		if (errno == EACCES)
			eno = EACCES;
		else if (errno != ENOENT && errno != ENOTDIR)
			child_fail(a, "execve");
	}
	errno = eno;
	child_fail(a, "execve");
}

SPAWN_CHILD static int
child_main(void *arg)
{
	struct spawn_area *a = arg;
	sigset_t none;

	child_signals();
	if (setsid() == -1)
		child_fail(a, "setsid");
	child_fds(a);
	if (a->spec->confine != NULL)
		child_identity(a, a->spec->confine);
	child_cwd(a);
	if (a->spec->confine != NULL)
		child_confine(a, a->spec->confine);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	child_exec(a);
	return 127;
}

/* --- in the agent ------------------------------------------------------ */

static const char *
spawn_env(char *const *envp, const char *name)
{
	size_t n = strlen(name);

	for (; *envp != NULL; envp++) {
		if (strncmp(*envp, name, n) == 0 && (*envp)[n] == '=')
			return *envp + n + 1;
	}
	return NULL;
}

/* The files that argv[0] may mean; free with spawn_paths_free(). */
static char **
spawn_paths(const struct spawn_spec *spec)
{
	const char *prog = spec->argv[0], *path = NULL;
	struct strv rest, dir;
	char **v;
	size_t n = 0, cap = 2;

	if (strchr(prog, '/') == NULL && *prog != '\0') {
		path = spawn_env(spec->envp, "PATH");
		if (path == NULL)
			path = "/usr/local/bin:/usr/bin:/bin";
		for (const char *p = path; *p != '\0'; p++)
			cap += *p == ':';
	}
	v = xcalloc(cap, sizeof(*v));
	rest = strv_of(path);
	if (path == NULL) {
		v[n++] = xstrdup(prog);
	} else {
		while (strv_cut(&rest, ':', &dir)) {
			if (dir.len == 0)
				dir = STRV(".");
			v[n++] = xasprintf("%.*s/%s", STRV_ARG(dir), prog);
		}
	}
	v[n] = NULL;
	return v;
}

static void
spawn_paths_free(char **v)
{
	for (size_t i = 0; v[i] != NULL; i++)
		free(v[i]);
	free(v);
}

/* What is of the sandbox's uid already can stop it. */
static bool
spawn_is_stopped(pid_t pid)
{
	siginfo_t si = {0};

	return syscall(SYS_waitid, P_PID, pid, &si,
		       WSTOPPED | WNOHANG | WNOWAIT, NULL) == 0 &&
	       si.si_pid == pid;
}

/* Waits until the child has left our memory, and so closed the pipe; false when
 * it did not in time, or was stopped. */
static bool
spawn_wait(int fd, pid_t pid)
{
	struct pollfd p = {.fd = fd};

	for (int ms = 0; ms < SPAWN_WAIT_MS; ms += SPAWN_LOOK_MS) {
		/* Not kept: the kernel writes what is left of it. */
		struct timespec ts = {.tv_nsec = SPAWN_LOOK_MS * 1000000};

		if (syscall(SYS_ppoll, &p, 1, &ts, NULL, 0) > 0)
			return true;
		if (spawn_is_stopped(pid))
			return false;
	}
	return false;
}

static int
spawn_clone(struct spawn_area *a, int *pidfd, pid_t *pid)
{
	const int flags = CLONE_VM | CLONE_PIDFD | SIGCHLD;
	char *top = (char *)a + SPAWN_STACK;
	sigset_t all, old;
	int gone[2], eno = 0;

	if (pipe2(gone, O_CLOEXEC) != 0)
		return E_SYS;
	(void)sigfillset(&all);
	(void)sigprocmask(SIG_BLOCK, &all, &old);
	*pid = clone(child_main, top, flags, a, pidfd);
	if (*pid == -1)
		eno = errno;
	(void)close(gone[1]);
	if (*pid != -1 && !spawn_wait(gone[0], *pid))
		eno = ETIMEDOUT;
	(void)close(gone[0]);
	(void)sigprocmask(SIG_SETMASK, &old, NULL);
	errno = eno;
	return eno == 0 ? 0 : eno == ETIMEDOUT ? E_TIMEOUT : E_SYS;
}

static void
spawn_reap(pid_t pid)
{
	while (waitpid(pid, NULL, 0) == -1 && errno == EINTR)
		;
}

int
spawn_start(struct spawner *s, const struct spawn_spec *spec, pid_t *pid,
	    int *pidfd, struct spawn_error *err)
{
	struct spawn_area *a = s->area;
	char **paths;
	int r, fd = -1, eno;
	pid_t child = -1;

	assert(spec->fds[0] > 2 && spec->fds[1] > 2 && spec->fds[2] > 2);
	if (a == NULL && (s->area = a = spawn_area_new()) == NULL)
		return E_SYS;
	paths = spawn_paths(spec);
	a->spec = spec;
	a->paths = paths;
	a->err.eno = 0;
	r = spawn_clone(a, &fd, &child);
	eno = errno;
	spawn_paths_free(paths);
	if (r == E_TIMEOUT) {
		(void)kill(child, SIGKILL);
		s->area = NULL;
	} else if (r == 0 && a->err.eno != 0) {
		*err = a->err;
		r = E_INVALID;
	}
	if (r != 0) {
		if (r != E_SYS)
			spawn_reap(child);
		fd_close(&fd);
		errno = eno;
		return r;
	}
	*pid = child;
	*pidfd = fd;
	return 0;
}
