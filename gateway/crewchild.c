/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker process does between fork() and its end. It inherits the
 * master's memory and descriptors. The memory is left alone: freeing the
 * master's loop here would take its descriptors out of the epoll set that
 * both processes still share. The descriptors that are not the worker's are
 * closed: above all listening sockets of its siblings, which would otherwise
 * collect connections that nobody accepts.
 */
#include "config.h"

#include "gateway/crewchild.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "gateway/state.h"
#include "gateway/worker.h"
#include "net/loop.h"

static void
reset_signals(void)
{
	/* A worker is told what to do through its channel; a Ctrl-C that
	 * reaches the whole process group is for the master to judge. */
	static const int ignored[] = {SIGINT,  SIGTERM, SIGHUP,
				      SIGUSR1, SIGUSR2, SIGPIPE};

	for (size_t i = 0; i < ARRAY_LEN(ignored); i++)
		(void)signal(ignored[i], SIG_IGN);
	(void)signal(SIGCHLD, SIG_DFL);
}

static bool
is_ours(const struct worker_options *o, int fd)
{
	if (fd <= STDERR_FILENO || fd == o->channel)
		return true;
	for (size_t i = 0; i < o->nlisteners; i++)
		if (o->listeners[i].fd == fd)
			return true;
	return false;
}

/* Logs, which are appended to, and devices stay. */
static bool
is_log(int fd, const struct stat *st)
{
	int flags = fcntl(fd, F_GETFL);

	return S_ISCHR(st->st_mode) ||
	       (S_ISREG(st->st_mode) && flags != -1 && (flags & O_APPEND) != 0);
}

static void
close_others(const struct worker_options *o)
{
	DIR *d = opendir("/proc/self/fd");
	struct dirent *e;
	struct stat st;

	if (d == NULL)
		log_fatal("worker.start", "error=\"%s\" path=/proc/self/fd",
			  strerror(errno));
	while ((e = readdir(d)) != NULL) {
		char *end;
		long fd = strtol(e->d_name, &end, 10);

		if (*end != '\0' || end == e->d_name || fd == dirfd(d) ||
		    is_ours(o, (int)fd) || fstat((int)fd, &st) != 0 ||
		    is_log((int)fd, &st))
			continue;
		(void)close((int)fd);
	}
	(void)closedir(d);
}

static void
exited(struct worker *w, void *arg)
{
	(void)w;
	loop_stop(arg);
}

int
crewchild_run(const struct worker_options *o, pid_t master,
	      const struct state_user *user, const sigset_t *mask)
{
	struct worker_options mine = *o;
	struct worker *w;
	int r;

	reset_signals();
	close_others(o);
	if ((r = state_drop(user)) != 0) {
		log_error("worker.user", "uid=%ld error=\"%s\"",
			  (long)user->uid, err_text(r));
		return 1;
	}
	/* After the change of user, which takes both back. */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)prctl(PR_SET_DUMPABLE, 0);
	/* Whoever takes it over shall not have set-uid programs either. */
	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (getppid() != master)
		return 1;
	(void)sigprocmask(SIG_SETMASK, mask, NULL);
	mine.loop = loop_new();
	mine.exited = exited;
	mine.arg = mine.loop;
	w = worker_start(&mine);
	loop_run(mine.loop);
	worker_free(w);
	loop_free(mine.loop);
	return 0;
}
