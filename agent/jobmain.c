/* SPDX-License-Identifier: Apache-2.0 */
/* The child between fork() and execve(); see the header. Which step failed
 * goes back through a pipe that execve() closes. */
#include "config.h"

#include "agent/jobmain.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/jobns.h"
#include "agent/jobroot.h"
#include "base/err.h"
#include "base/fdio.h"
#include "base/mem.h"

#define PATH_DEFAULT                                                           \
	"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* --- environment ------------------------------------------------------- */

static void
put_default(char **env, size_t *n, char *var)
{
	size_t len = (size_t)(strchr(var, '=') - var) + 1;

	for (size_t i = 0; i < *n; i++)
		if (strncmp(env[i], var, len) == 0) {
			free(var);
			return;
		}
	env[(*n)++] = var;
}

static bool
is_ours(const char *var, enum jobmain_what what)
{
	static const char *const ours[] = {
	    "SBX_LISTEN=", "SBX_PORT=", "SBX_CONTROL=", "SBX_CONTROL_UID=",
	    "SBX_SOCKET_MODE=", "SBX_HOMES=", "SBX_UIDS=", "SBX_HOST_MODE=",
	    "SBX_READY_FD=", "SBX_ISOLATION=",
	    /* Of an agent beside a command, which is not the command's: */
	    "SBX_TOKEN=", "SBX_IDLE_TIMEOUT=", "SBX_CAPACITY="};
	size_t n = ARRAY_LEN(ours) - (what == JOBMAIN_AGENT ? 3 : 0);

	for (size_t i = 0; i < n; i++)
		if (strncmp(var, ours[i], strlen(ours[i])) == 0)
			return true;
	return false;
}

static void
put_agent(const struct jobmain *m, char **env, size_t *n)
{
	const struct jobinit *o = m->o;
	const struct jobdef *s = o->spec;

	env[(*n)++] = xasprintf("SBX_LISTEN=fd:%d", JOBINIT_LISTEN);
	env[(*n)++] = xasprintf("SBX_CONTROL=fd:%d", JOBINIT_CONTROL);
	env[(*n)++] = xasprintf("SBX_READY_FD=%d", JOBINIT_READY);
	if (s->mode != JOBDEF_HOST)
		return;
	env[(*n)++] = xstrdup("SBX_HOST_MODE=1");
	env[(*n)++] = m->new_mounts
			  ? xstrdup("SBX_HOMES=" JOBROOT_HOMES)
			  : xasprintf("SBX_HOMES=%s/data/homes", o->fs);
	if (s->best_effort)
		env[(*n)++] = xstrdup("SBX_ISOLATION=best-effort");
	if (o->userns == -1 && s->slice_last != 0)
		env[(*n)++] =
		    xasprintf("SBX_UIDS=%lu-%lu", (unsigned long)s->slice,
			      (unsigned long)s->slice_last);
}

static char **
make_env(const struct jobmain *m, enum jobmain_what what)
{
	const struct jobdef *s = m->o->spec;
	bool plain = s->mode == JOBDEF_COMMAND;
	size_t n = 0, max = 16;
	char **env;

	for (size_t i = 0; s->env[i] != NULL; i++)
		max++;
	env = xcalloc(max, sizeof(*env));
	for (size_t i = 0; s->env[i] != NULL; i++)
		if (plain || !is_ours(s->env[i], what))
			env[n++] = s->env[i];
	put_default(env, &n, xstrdup("PATH=" PATH_DEFAULT));
	put_default(env, &n,
		    m->new_mounts ? xstrdup("HOME=" JOBROOT_HOME)
				  : xasprintf("HOME=%s/data/root", m->o->fs));
	put_default(env, &n, xstrdup("LANG=C.UTF-8"));
	if (what == JOBMAIN_AGENT)
		put_agent(m, env, &n);
	return env;
}

/* --- descriptors and rights -------------------------------------------- */

static void SBX_NORETURN
child_fail(int err_fd, const char *step)
{
	char text[256];

	(void)snprintf(text, sizeof(text), "%s: %s", step, strerror(errno));
	(void)!write(err_fd, text, strlen(text));
	_exit(127);
}

/* Each of from[] becomes 0, 1, 2, ... None of them is below n. */
static int
place_fds(int *from, int n)
{
	for (int i = 0; i < n; i++) {
		if (from[i] == -1)
			continue;
		from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, 16);
		if (from[i] == -1)
			return -1;
	}
	for (int i = 0; i < n; i++)
		if (from[i] != -1 && dup2(from[i], i) == -1)
			return -1;
	return 0;
}

static void
become_user(const struct jobmain *m, int err_fd)
{
	const struct jobdef *s = m->o->spec;

	if (!m->own_userns && s->uids != 0 && s->mode != JOBDEF_HOST &&
	    geteuid() == 0 &&
	    (setgroups(0, NULL) != 0 ||
	     setresgid(s->uid, s->uid, s->uid) != 0 ||
	     setresuid(s->uid, s->uid, s->uid) != 0))
		child_fail(err_fd, "user");
	/* The job has its uid for itself: this bounds all of its processes. */
	if (s->pids != 0 && s->mode != JOBDEF_HOST &&
	    setrlimit(RLIMIT_NPROC, &(struct rlimit){s->pids, s->pids}) != 0)
		child_fail(err_fd, "limit of processes");
	if (s->mode != JOBDEF_HOST)
		jobns_bound_caps();
	/* Without an image there is no set-uid program that could help. */
	if (s->rootfs == NULL && s->mode != JOBDEF_HOST)
		(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
}

/* --- files ------------------------------------------------------------- */

static int
make_dirs(const char *path)
{
	char *part = xstrdup(path);
	int r = 0;

	for (char *p = strchr(part + 1, '/'); r == 0 && p != NULL;
	     p = strchr(p + 1, '/')) {
		*p = '\0';
		if (mkdir(part, 0755) != 0 && errno != EEXIST)
			r = -1;
		*p = '/';
	}
	free(part);
	return r;
}

/* O_NONBLOCK: a FIFO that an image has there is not waited for. */
static int
write_file(const struct jobdef_file *f)
{
	int fd, r;

	if (make_dirs(f->path) != 0)
		return -1;
	fd = open(f->path,
		  O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | O_CLOEXEC, 0600);
	if (fd == -1)
		return -1;
	r = fd_write_all(fd, f->content.s, f->content.len) == 0 &&
		    fchmod(fd, f->mode) == 0
		? 0
		: -1;
	return close(fd) == 0 ? r : -1;
}

static void SBX_NORETURN
write_files(const struct jobmain *m, int err_fd)
{
	const struct jobdef *s = m->o->spec;

	errno = ENOTSUP;
	if (!m->new_mounts) /* they would be this machine's */
		child_fail(err_fd, "files without a mount namespace");
	for (size_t i = 0; i < s->nfiles; i++)
		if (write_file(&s->files[i]) != 0)
			child_fail(err_fd, s->files[i].path);
	_exit(0);
}

/* --- start ------------------------------------------------------------- */

static void
enter_dir(const struct jobmain *m, enum jobmain_what what, int err_fd)
{
	const char *cwd = m->o->spec->cwd;
	char *home;

	if (what == JOBMAIN_COMMAND && cwd != NULL) {
		if (chdir(cwd) != 0)
			child_fail(err_fd, cwd);
		return;
	}
	home = m->new_mounts ? xstrdup(JOBROOT_HOME)
			     : xasprintf("%s/data/root", m->o->fs);
	if (chdir(home) != 0 && chdir("/") != 0)
		child_fail(err_fd, "chdir");
	free(home);
}

static void SBX_NORETURN
child_run(const struct jobmain *m, enum jobmain_what what, char **env,
	  int err_fd)
{
	const struct jobinit *o = m->o;
	bool agent = what == JOBMAIN_AGENT,
	     apart = agent && jobdef_beside(o->spec);
	int fds[] = {-1,
		     apart ? o->agent_out : o->out[0],
		     apart ? o->agent_out : o->out[1],
		     o->listen_fd,
		     o->control_fd,
		     o->ready_fd};
	static char name[] = "sbx-agent";
	char *agent_argv[] = {name, NULL};
	sigset_t none;
	int err = fcntl(err_fd, F_DUPFD_CLOEXEC, 32),
	    exe = fcntl(o->exe, F_DUPFD_CLOEXEC, 32);

	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)setsid();
	if (place_fds(fds, agent ? (int)ARRAY_LEN(fds) : 3) != 0)
		child_fail(err, "descriptors");
	become_user(m, err);
	(void)umask(022);
	if (what == JOBMAIN_FILES)
		write_files(m, err);
	enter_dir(m, what, err);
	if (agent) {
		(void)fexecve(exe, agent_argv, env);
		child_fail(err, "sbx-agent");
	}
	environ = env;
	(void)execvp(o->spec->argv[0], o->spec->argv);
	child_fail(err, o->spec->argv[0]);
}

int
jobmain_start(const struct jobmain *m, enum jobmain_what what, pid_t *pid,
	      char *why, size_t size)
{
	char **env = make_env(m, what);
	int fds[2];
	ssize_t n;

	if (pipe2(fds, O_CLOEXEC) != 0 || (*pid = fork()) == -1) {
		(void)snprintf(why, size, "fork: %s", strerror(errno));
		return E_SYS;
	}
	if (*pid == 0)
		child_run(m, what, env, fds[1]);
	fd_close(&fds[1]);
	n = read(fds[0], why, size - 1);
	fd_close(&fds[0]);
	if (what == JOBMAIN_FILES)
		(void)waitpid(*pid, NULL, 0);
	if (n <= 0)
		return 0;
	why[n] = '\0';
	return E_SYS;
}
