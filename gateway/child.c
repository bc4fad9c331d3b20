/* SPDX-License-Identifier: Apache-2.0 */
/* Starting our other programs; see the header. */
#include "config.h"

#include "gateway/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fdio.h"
#include "base/mem.h"

char *
child_find(const char *name)
{
	char self[4096], *slash, *path;
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n > 0) {
		self[n] = '\0';
		slash = strrchr(self, '/');
		if (slash != NULL) {
			*slash = '\0';
			path = xasprintf("%s/%s", self, name);
			if (access(path, X_OK) == 0)
				return path;
			free(path);
		}
	}
	return xstrdup(name);
}

char **
child_env(const char *const *names, size_t n)
{
	char **env = xcalloc(n + 1, sizeof(*env)), **to = env;

	for (size_t i = 0; i < n; i++)
		if (getenv(names[i]) != NULL)
			*to++ = xasprintf("%s=%s", names[i], getenv(names[i]));
	return env;
}

void
child_env_free(char **env)
{
	for (size_t i = 0; env[i] != NULL; i++)
		free(env[i]);
	free(env);
}

/* First out of the way of those that come to be there. */
static void
place_more(const struct child_spec *s)
{
	int fds[CHILD_MORE_MAX];

	for (unsigned i = 0; i < s->nmore; i++)
		fds[i] = fcntl(s->more[i], F_DUPFD_CLOEXEC, 64);
	for (unsigned i = 0; i < s->nmore; i++)
		(void)dup2(fds[i], CHILD_FD + 1 + (int)i);
}

static void
exec_child(const struct child_spec *s, pid_t parent, int err_fd)
{
	sigset_t none;
	int eno, fd = s->fd;

	for (int sig = 1; sig < NSIG; sig++)
		(void)signal(sig, SIG_DFL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)setpgid(0, 0);
	(void)prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (err_fd <= CHILD_FD + CHILD_MORE_MAX)
		err_fd = fcntl(err_fd, F_DUPFD_CLOEXEC, 64);
	if (fd > CHILD_FD && s->nmore != 0)
		fd = fcntl(fd, F_DUPFD_CLOEXEC, 64);
	place_more(s);
	if (fd == CHILD_FD)
		(void)fcntl(fd, F_SETFD, 0);
	else if (fd >= 0)
		(void)dup2(fd, CHILD_FD);
	if (getppid() == parent)
		(void)execvpe(s->path, s->argv, s->env);
	eno = errno;
	(void)!write(err_fd, &eno, sizeof(eno));
	_exit(127);
}

int
child_start(const struct child_spec *s, pid_t *pid_out)
{
	sigset_t all, old;
	int fds[2], eno = 0;
	pid_t pid, parent = getpid();

	if (pipe2(fds, O_CLOEXEC) != 0)
		return errno;
	(void)sigfillset(&all);
	(void)sigprocmask(SIG_BLOCK, &all, &old);
	pid = fork();
	if (pid == 0)
		exec_child(s, parent, fds[1]);
	eno = pid < 0 ? errno : 0;
	(void)sigprocmask(SIG_SETMASK, &old, NULL);
	fd_close(&fds[1]);
	if (pid > 0 && read(fds[0], &eno, sizeof(eno)) == sizeof(eno))
		(void)waitpid(pid, NULL, 0);
	else if (pid > 0)
		*pid_out = pid;
	fd_close(&fds[0]);
	return eno;
}
