/* SPDX-License-Identifier: Apache-2.0 */
/* Starting programs, in children that borrow our memory until execve. */
#include "config.h"

#include "agent/spawn.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/borrow.h"
#include "agent/landlock.h"
#include "agent/ns.h"
#include "agent/seccomp.h"
#include "base/err.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"

struct spawner {
	struct borrow *borrow;
	int pid_ns; /* our own, to come back to; -1: not there */
};

/* What the child is given, and what it says. */
struct spawn_job {
	const struct spawn_spec *spec;
	char *const *paths; /* candidates for argv[0] */
	pid_t inside;
	struct spawn_error err;
};

struct spawner *
spawner_new(void)
{
	struct spawner *s = xcalloc(1, sizeof(*s));

	s->borrow = borrow_new();
	s->pid_ns = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
	return s;
}

void
spawner_free(struct spawner *s)
{
	if (s == NULL)
		return;
	borrow_free(s->borrow);
	fd_close(&s->pid_ns);
	free(s);
}

/* --- in the child ------------------------------------------------------ */

BORROW_CHILD static void SBX_NORETURN
child_fail(struct spawn_job *a, const char *step)
{
	a->err.eno = errno;
	a->err.step = step;
	_exit(127);
}

BORROW_CHILD static void
child_fds(struct spawn_job *a)
{
	for (int i = 0; i < 3; i++) {
		if (dup2(a->spec->fds[i], i) == -1)
			child_fail(a, "dup2");
	}
	if (a->spec->tty && ioctl(0, TIOCSCTTY, 0) != 0)
		child_fail(a, "terminal");
}

/* Handlers of ours must not run here: they would write to the agent's memory,
 * at the order of whoever may signal this uid. */
BORROW_CHILD static void
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

/* Among the sandbox's other processes; the pid namespace was ours to choose. */
BORROW_CHILD static void
child_enter(struct spawn_job *a, const struct spawn_confine *c)
{
	if (c->ns != NULL && setns(ns_fd(c->ns), ns_flags(c->ns)) != 0)
		child_fail(a, "setns");
}

/* Raw calls: the library's would change every thread of the agent. */
BORROW_CHILD static void
child_identity(struct spawn_job *a, const struct spawn_confine *c)
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

BORROW_CHILD static void
child_confine(struct spawn_job *a, const struct spawn_confine *c)
{
	/* After setresuid, which clears it: no sandbox outlives its agent. */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		child_fail(a, "no_new_privs");
	if (c->no_userns && seccomp_no_userns() != 0)
		child_fail(a, "seccomp");
	if (c->ruleset != -1 && landlock_enforce(c->ruleset) != 0)
		child_fail(a, "landlock");
}

BORROW_CHILD static void
child_cwd(struct spawn_job *a)
{
	const struct spawn_spec *spec = a->spec;

	/* Through a handle of ours it would be outside the sandbox's mounts. */
	if (spec->confine != NULL && spec->confine->ns != NULL) {
		if (chdir(spec->confine->home) != 0)
			child_fail(a, "chdir");
	} else if (spec->home_fd != -1 && fchdir(spec->home_fd) != 0) {
		child_fail(a, "chdir");
	}
	if (spec->cwd != NULL && chdir(spec->cwd) != 0)
		child_fail(a, "chdir");
}

/* As execvp: the first that can be run, and permission trumps absence. */
BORROW_CHILD static void
child_exec(struct spawn_job *a)
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

BORROW_CHILD static int
child_main(void *arg)
{
	struct spawn_job *a = arg;
	sigset_t none;

	child_signals();
	if (setsid() == -1)
		child_fail(a, "setsid");
	a->inside = (pid_t)syscall(SYS_getpid);
	child_fds(a);
	if (a->spec->confine != NULL) {
		child_enter(a, a->spec->confine);
		child_identity(a, a->spec->confine);
	}
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

/* Children are put into that namespace from now on; NULL: into ours. */
static int
spawn_pid_ns(struct spawner *s, const struct ns *ns)
{
	if (setns(ns != NULL ? ns_fd(ns) : s->pid_ns, CLONE_NEWPID) == 0)
		return 0;
	if (ns == NULL)
		log_fatal("spawn", "reason=\"cannot leave a namespace\"");
	return E_SYS;
}

static void
spawn_reap(pid_t pid)
{
	while (waitpid(pid, NULL, 0) == -1 && errno == EINTR)
		;
}

static int
spawn_child(struct spawner *s, struct spawn_job *j, struct spawn_child *out)
{
	const struct spawn_confine *c = j->spec->confine;
	const struct ns *ns = c != NULL ? c->ns : NULL;
	int r, eno;

	if (ns != NULL && (r = spawn_pid_ns(s, ns)) != 0)
		return r;
	r = borrow_start(s->borrow, 0, c != NULL ? c->cgroup : -1, child_main,
			 j, &out->pid, &out->pidfd);
	eno = errno;
	if (ns != NULL)
		(void)spawn_pid_ns(s, NULL);
	errno = eno;
	return r;
}

int
spawn_start(struct spawner *s, const struct spawn_spec *spec,
	    struct spawn_child *out, struct spawn_error *err)
{
	struct spawn_child child = {-1, -1, -1};
	const struct spawn_confine *c = spec->confine;
	struct spawn_job j = {.spec = spec};
	char **paths;
	int r, eno;

	if (c != NULL && c->make != NULL && c->make(c->arg, err) != 0)
		return E_INVALID;
	assert(spec->fds[0] > 2 && spec->fds[1] > 2 && spec->fds[2] > 2);
	j.paths = paths = spawn_paths(spec);
	r = spawn_child(s, &j, &child);
	eno = errno;
	spawn_paths_free(paths);
	if (r == 0 && j.err.step != NULL) {
		*err = j.err;
		spawn_reap(child.pid);
		fd_close(&child.pidfd);
		r = E_INVALID;
	}
	errno = eno;
	if (r != 0)
		return r;
	child.inside = j.inside;
	*out = child;
	return 0;
}
