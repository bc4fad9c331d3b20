/* SPDX-License-Identifier: Apache-2.0 */
/* See the header. It dies with its parent, the supervisor. */
#include "config.h"

#include "agent/jobprep.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"

static void SBX_NORETURN
run(const struct jobdef *s, const char *fs, int errors)
{
	char *env[] = {
	    xasprintf("SBX_FS=%s", fs),
	    xasprintf("SBX_FS_UID=%lu", (unsigned long)s->uid),
	    xasprintf("SBX_FS_UIDS=%u", s->uids),
	    xasprintf("SBX_FS_ROOTFS=%s", s->rootfs != NULL ? s->rootfs : ""),
	    NULL};
	sigset_t none;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)signal(SIGPIPE, SIG_DFL);
	if (dup2(errors, 1) != -1 && dup2(errors, 2) != -1 && chdir(fs) == 0)
		(void)execve(s->prepare[0], s->prepare, env);
	(void)dprintf(errors, "%s: %s", s->prepare[0], strerror(errno));
	_exit(127);
}

pid_t
jobprep_start(const struct jobdef *s, const char *fs, int *errors)
{
	int fd = memfd_create("errors", MFD_CLOEXEC);
	pid_t pid;

	if (fd == -1)
		return -1;
	pid = fork();
	if (pid == 0)
		run(s, fs, fd);
	*errors = fd;
	return pid;
}

void
jobprep_why(int errors, int status, char *text, size_t size)
{
	off_t end = lseek(errors, 0, SEEK_END),
	      from = end > (off_t)size - 1 ? end - (off_t)size + 1 : 0;
	ssize_t n = pread(errors, text, size - 1, from);
	char *line;

	while (n > 0 && text[n - 1] == '\n')
		n--;
	if (n <= 0) {
		(void)snprintf(text, size, "the file system: %s %d",
			       WIFSIGNALED(status) ? "signal" : "exit code",
			       WIFSIGNALED(status) ? WTERMSIG(status)
						   : WEXITSTATUS(status));
		return;
	}
	text[n] = '\0';
	if ((line = strrchr(text, '\n')) != NULL)
		memmove(text, line + 1, strlen(line));
}
