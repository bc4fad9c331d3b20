/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two vforks: the outer child ends at once, so that the inner one belongs to
 * process 1. Nothing of our memory is copied, which makes it cheap however
 * large we are; between vfork and execve there are system calls only.
 */
#include "config.h"

#include "gateway/detach.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fdio.h"
#include "gateway/child.h"

#ifdef SBX_SANITIZE
#define vfork fork /* a vfork in a vfork ends a sanitized parent */
#endif

#define FDS_MAX 4
#define HIGH    64 /* where descriptors are out of the way of 3, 4, ... */

struct plan {
	const char *path;
	char *const *argv;
	char **env;
	int fds[FDS_MAX];
	unsigned nfds;
	int err; /* told when execve fails */
};

static void
reset_signals(void)
{
	struct sigaction sa = {.sa_handler = SIG_DFL};
	sigset_t none;

	for (int s = 1; s < NSIG; s++)
		(void)sigaction(s, &sa, NULL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static void SBX_NORETURN
become(const struct plan *p)
{
	int null, eno;

	reset_signals();
	(void)setsid();
	(void)!chdir("/");
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int i = 0; i < 3; i++)
		(void)dup2(null, i);
	for (unsigned i = 0; i < p->nfds; i++)
		(void)dup2(p->fds[i], 3 + (int)i);
	(void)execvpe(p->path, p->argv, p->env);
	eno = errno;
	(void)!write(p->err, &eno, sizeof(eno));
	_exit(127);
}

static void SBX_NORETURN
outer(const struct plan *p)
{
	/* NOLINTNEXTLINE(clang-analyzer-security.insecureAPI.vfork): above */
	pid_t pid = vfork();

	if (pid == 0)
		become(p); /* NOLINT(clang-analyzer-unix.Vfork) */
	_exit(pid < 0 ? 1 : 0);
}

static int
run(const struct plan *p)
{
	sigset_t all, old;
	pid_t pid;
	int status, eno;

	(void)sigfillset(&all);
	(void)sigprocmask(SIG_BLOCK, &all, &old);
	/* NOLINTNEXTLINE(clang-analyzer-security.insecureAPI.vfork): above */
	pid = vfork();
	if (pid == 0)
		outer(p); /* NOLINT(clang-analyzer-unix.Vfork) */
	eno = errno;
	(void)sigprocmask(SIG_SETMASK, &old, NULL);
	errno = eno;
	if (pid < 0)
		return -1;
	while (waitpid(pid, &status, 0) == -1 && errno == EINTR)
		;
	errno = EAGAIN;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

int
detach_start(const char *path, char *const *argv, const int *fds, unsigned nfds)
{
	static const char *const passed[] = {"PATH", "LANG", "TZ"};
	struct plan p = {.path = path, .argv = argv, .nfds = nfds};
	int pipe_fds[2], r = -1, eno = 0;

	if (pipe2(pipe_fds, O_CLOEXEC) != 0)
		return -1;
	for (unsigned i = 0; i < FDS_MAX; i++)
		p.fds[i] = i < nfds ? fcntl(fds[i], F_DUPFD_CLOEXEC, HIGH) : -1;
	p.err = fcntl(pipe_fds[1], F_DUPFD_CLOEXEC, HIGH);
	fd_close(&pipe_fds[1]);
	p.env = child_env(passed, ARRAY_LEN(passed));
	if (p.err != -1)
		r = run(&p);
	if (r != 0)
		eno = errno;
	fd_close(&p.err);
	for (unsigned i = 0; i < FDS_MAX; i++)
		fd_close(&p.fds[i]);
	if (r == 0 && read(pipe_fds[0], &eno, sizeof(eno)) == sizeof(eno))
		r = -1;
	fd_close(&pipe_fds[0]);
	child_env_free(p.env);
	errno = eno;
	return r;
}
