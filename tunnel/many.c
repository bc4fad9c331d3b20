/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process for each tunnel, so that one cannot stall or take down another.
 * Signals are waited for, not handled: there is nothing else to do here.
 */
#include "config.h"

#include "tunnel/many.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"

#define MANY_PAUSE_S 5 /* before one that ended is started again */

struct child {
	pid_t pid; /* 0: not running */
	time_t again;
};

static time_t
now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec;
}

static void
child_start(struct child *c, size_t i, int (*fn)(size_t, void *), void *arg,
	    const sigset_t *old)
{
	pid_t parent = getpid();

	c->again = now_s() + MANY_PAUSE_S;
	c->pid = fork();
	if (c->pid > 0)
		return;
	if (c->pid < 0) {
		log_error("tunnels.fork", "errno=%d", errno);
		c->pid = 0;
		return;
	}
	(void)prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(255);
	sigprocmask(SIG_SETMASK, old, NULL);
	_exit(fn(i, arg));
}

static void
children_reap(struct child *v, size_t n)
{
	pid_t pid;

	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
		for (size_t i = 0; i < n; i++)
			if (v[i].pid == pid) {
				v[i].pid = 0;
				v[i].again = now_s() + MANY_PAUSE_S;
			}
}

static void
children_end(struct child *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (v[i].pid > 0)
			kill(v[i].pid, SIGTERM);
	for (size_t i = 0; i < n; i++)
		if (v[i].pid > 0)
			(void)waitpid(v[i].pid, NULL, 0);
}

void
many_run(size_t n, int (*fn)(size_t i, void *arg), void *arg)
{
	const struct timespec tick = {1, 0};
	struct child *v = xcalloc(n, sizeof(*v));
	sigset_t set, old;
	int sig;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, &old);
	do {
		children_reap(v, n);
		for (size_t i = 0; i < n; i++)
			if (v[i].pid == 0 && now_s() >= v[i].again)
				child_start(&v[i], i, fn, arg, &old);
		sig = sigtimedwait(&set, NULL, &tick);
	} while (sig < 0 || sig == SIGCHLD);
	children_end(v, n);
	free(v);
	sigprocmask(SIG_SETMASK, &old, NULL);
}
