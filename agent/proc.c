/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running programs: from start to reaping. The end of a program is seen
 * through its pidfd; it is told to the owner when what the program wrote has
 * been told, or when descendants that hold its pipes had a little time more.
 */
#include "config.h"

#include "agent/proc_int.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <event2/event.h>

#include "agent/descend.h"
#include "agent/pty.h"
#include "base/err.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"

#ifndef P_PIDFD
#define P_PIDFD 3
#endif
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif

/* How long the end waits for descendants that hold the pipes: time for the
 * last stage of a pipeline to write, unnoticeable to whoever waits. */
#define PROC_DRAIN_MS 50

static void proc_check_cb(void *arg);
static void proc_exit_cb(evutil_socket_t fd, short what, void *arg);
static void proc_deadline_cb(void *arg);

struct proc_env *
proc_env_new(struct loop *l)
{
	struct proc_env *e = xcalloc(1, sizeof(*e));

	e->loop = l;
	e->spawner = spawner_new();
	e->scratch = xmalloc(PROC_READ_MAX);
	e->devnull = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (e->devnull == -1)
		log_fatal("proc.env", "reason=\"no /dev/null\" errno=%d",
			  errno);
	return e;
}

void
proc_env_free(struct proc_env *e)
{
	if (e == NULL)
		return;
	procio_sinks_free(e);
	spawner_free(e->spawner);
	fd_close(&e->devnull);
	free(e->scratch);
	free(e);
}

size_t
proc_env_count(const struct proc_env *e)
{
	return e->count;
}

/* --- start ------------------------------------------------------------- */

/* A pipe of which our end (0 or 1) does not block. */
static int
proc_pipe(int fds[2], int ours)
{
	if (pipe2(fds, O_CLOEXEC) != 0)
		return E_FULL;
	if (fcntl(fds[ours], F_SETFL, O_NONBLOCK) == 0)
		return 0;
	fd_close(&fds[0]);
	fd_close(&fds[1]);
	return E_SYS;
}

static void
proc_close_pipes(int pipes[3][2])
{
	for (int i = 0; i < 3; i++) {
		fd_close(&pipes[i][0]);
		fd_close(&pipes[i][1]);
	}
}

/* Its ends stand where pipes' would. */
static int
proc_open_tty(int pipes[3][2], const struct proc_options *o, uid_t owner,
	      struct spawn_error *err)
{
	if (pty_open(o->tty, owner, &pipes[1][0], &pipes[0][0]) != 0) {
		*err = (struct spawn_error){errno, "pseudo terminal"};
		return E_INVALID;
	}
	if (!o->want_stdin)
		return 0;
	pipes[0][1] = fcntl(pipes[1][0], F_DUPFD_CLOEXEC, 3);
	if (pipes[0][1] != -1)
		return 0;
	proc_close_pipes(pipes);
	return E_FULL;
}

static int
proc_open_pipes(int pipes[3][2], bool want_stdin)
{
	int r = want_stdin ? proc_pipe(pipes[0], 1) : 0;

	if (r == 0)
		r = proc_pipe(pipes[1], 0);
	if (r == 0)
		r = proc_pipe(pipes[2], 0);
	if (r != 0)
		proc_close_pipes(pipes);
	return r;
}

static void
proc_link(struct proc *p)
{
	struct proc_env *e = p->env;

	p->prevp = &e->procs;
	if ((p->next = e->procs) != NULL)
		p->next->prevp = &p->next;
	e->procs = p;
	e->count++;
}

static struct proc *
proc_new(struct proc_env *e, const struct spawn_child *child)
{
	struct proc *p = xcalloc(1, sizeof(*p));

	p->magic = PROC_MAGIC;
	p->env = e;
	p->pid = child->pid;
	p->inside = child->inside;
	p->pidfd = child->pidfd;
	p->started_us = loop_clock_us();
	task_init(&p->check, proc_check_cb, p);
	timer_init(&p->deadline, e->loop, proc_deadline_cb, p);
	(void)event_assign(&p->exit_ev, loop_base(e->loop), p->pidfd, EV_READ,
			   proc_exit_cb, p);
	(void)event_add(&p->exit_ev, NULL);
	proc_link(p);
	return p;
}

int
proc_start(struct proc_env *e, struct spawn_spec *spec,
	   const struct proc_options *o, const struct proc_cbs *cbs, void *arg,
	   struct proc **out, struct spawn_error *err)
{
	int pipes[3][2] = {{-1, -1}, {-1, -1}, {-1, -1}};
	struct spawn_child child;
	struct proc *p;
	int r;

	spec->tty = o->tty != NULL;
	if (spec->tty)
		r = proc_open_tty(pipes, o,
				  spec->confine != NULL ? spec->confine->uid
							: (uid_t)-1,
				  err);
	else
		r = proc_open_pipes(pipes, o->want_stdin);
	if (r != 0)
		return r;
	spec->fds[0] = pipes[0][0] != -1 ? pipes[0][0]
		       : o->in_fd != 0   ? o->in_fd
					 : e->devnull;
	spec->fds[1] = spec->tty ? pipes[0][0] : pipes[1][1];
	spec->fds[2] = spec->tty ? pipes[0][0] : pipes[2][1];
	r = spawn_start(e->spawner, spec, &child, err);
	if (r != 0) {
		proc_close_pipes(pipes);
		return r;
	}
	fd_close(&pipes[0][0]);
	fd_close(&pipes[1][1]);
	fd_close(&pipes[2][1]);
	p = proc_new(e, &child);
	p->cbs = cbs;
	p->arg = arg;
	p->tty = spec->tty;
	procio_init(p, pipes[0][1], pipes[1][0], pipes[2][0]);
	if (o->timeout_ms != 0)
		timer_set(&p->deadline, o->timeout_ms);
	*out = p;
	return 0;
}

struct proc *
proc_adopt(struct proc_env *e, const struct spawn_child *child,
	   const int out[2], const struct proc_cbs *cbs, void *arg)
{
	struct proc *p = proc_new(e, child);

	p->adopted = true;
	p->cbs = cbs;
	p->arg = arg;
	procio_init(p, -1, out[0], out[1]);
	return p;
}

/* --- end --------------------------------------------------------------- */

/* To its group. One that is not our child could be gone, and its number
 * somebody else's. */
static int
proc_kill(struct proc *p, int sig)
{
	if (p->adopted &&
	    syscall(SYS_pidfd_send_signal, p->pidfd, 0, NULL, 0) != 0)
		return -1;
	return kill(-p->pid, sig);
}

/* At its end: a shell at a terminal has made groups of its own. */
static void
proc_kill_all(struct proc *p, int sig)
{
	if (p->tty)
		(void)descend_session(p->pid, sig);
	(void)proc_kill(p, sig);
}

static void
proc_destroy(struct proc *p)
{
	struct proc_env *e = p->env;

	procio_clear(p);
	task_cancel(&p->check);
	timer_clear(&p->deadline);
	(void)event_del(&p->exit_ev);
	fd_close(&p->pidfd);
	p->magic = 0;
	loop_defer_free(e->loop, p, NULL);
}

static void
proc_tell(struct proc *p)
{
	if (!p->told && procio_settled(p) && (p->drain_over || procio_eof(p))) {
		p->told = true;
		timer_stop(&p->deadline);
		p->cbs->exited(p, &p->result, p->arg);
	}
	if (p->cbs != NULL && p->told && !p->closed_told && procio_eof(p)) {
		p->closed_told = true;
		if (p->cbs->closed != NULL)
			p->cbs->closed(p, p->arg);
	}
}

static void
proc_check_cb(void *arg)
{
	struct proc *p = arg;

	assert(p->magic == PROC_MAGIC);
	if (p->syncing && p->cbs != NULL && procio_settled(p)) {
		p->syncing = false;
		p->cbs->synced(p, p->arg);
	}
	if (p->reaped && p->tty && !procio_settled(p))
		procio_drain(p);
	if (p->reaped && p->cbs != NULL)
		proc_tell(p);
}

static void
proc_ended(struct proc *p, int code, int status)
{
	p->reaped = true;
	p->result.code = code == CLD_EXITED ? status : -1;
	p->result.signal = code == CLD_EXITED ? 0 : status;
	p->result.timed_out = p->timed_out;
	p->result.duration_ms = (loop_clock_us() - p->started_us) / 1000;
	*p->prevp = p->next;
	if (p->next != NULL)
		p->next->prevp = p->prevp;
	p->env->count--;
	(void)event_del(&p->exit_ev);
	if (p->cbs == NULL) {
		proc_destroy(p);
		return;
	}
	timer_set(&p->deadline, PROC_DRAIN_MS);
	procio_drain(p);
	if (p->cbs != NULL) /* its owner may have given it up meanwhile */
		task_post(p->env->loop, &p->check);
}

static void
proc_exit_cb(evutil_socket_t fd, short what, void *arg)
{
	struct proc *p = arg;
	siginfo_t si = {0};
	int r;

	(void)what;
	assert(p->magic == PROC_MAGIC);
	/* Whoever was only just forked by a shell ignored TERM as that did. Not
	 * reaped yet, it keeps its session's number from strangers. */
	if (p->tty && p->stopping)
		proc_kill_all(p, SIGKILL);
	do
		r = waitid((idtype_t)P_PIDFD, (id_t)fd, &si, WEXITED | WNOHANG);
	while (r != 0 && errno == EINTR);
	if (r == 0 && si.si_pid == 0)
		(void)event_add(&p->exit_ev, NULL);
	else if (r == 0)
		proc_ended(p, si.si_code, si.si_status);
	else if (p->adopted) /* not our child: nobody says */
		proc_ended(p, CLD_EXITED, -1);
	else /* somebody else reaped it: how it ended is lost */
		proc_ended(p, CLD_KILLED, SIGKILL);
}

void
proc_env_reap(struct proc_env *e)
{
	siginfo_t si = {0};
	struct proc *p;

	/* Looks first, because a program of ours is reaped through its own
	 * pidfd, in its own time; it shows up here only until then. */
	while (waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	       si.si_pid != 0) {
		for (p = e->procs; p != NULL && p->pid != si.si_pid;)
			p = p->next;
		if (p != NULL)
			proc_exit_cb(p->pidfd, 0, p);
		else if (waitpid(si.si_pid, NULL, WNOHANG) <= 0)
			break;
		si.si_pid = 0;
	}
}

static void
proc_deadline_cb(void *arg)
{
	struct proc *p = arg;

	assert(p->magic == PROC_MAGIC);
	if (p->reaped) {
		p->drain_over = true;
		task_post(p->env->loop, &p->check);
		return;
	}
	if (!p->stopping)
		p->timed_out = true;
	proc_kill_all(p, SIGKILL);
}

void
proc_free(struct proc *p)
{
	if (p == NULL)
		return;
	p->cbs = NULL;
	task_cancel(&p->check);
	if (p->reaped) {
		proc_destroy(p);
		return;
	}
	proc_kill_all(p, SIGKILL);
	procio_clear(p); /* the rest when its end is seen */
}

pid_t
proc_pid(const struct proc *p)
{
	return p->pid;
}

pid_t
proc_inside(const struct proc *p)
{
	return p->inside;
}

bool
proc_running(const struct proc *p)
{
	return !p->reaped;
}

int
proc_signal(struct proc *p, int sig)
{
	if (p->reaped)
		return E_NOTFOUND;
	if (proc_kill(p, sig) != 0)
		return err_from_errno(errno);
	return 0;
}

void
proc_stop(struct proc *p, uint64_t grace_ms)
{
	if (p->reaped || p->stopping)
		return;
	p->stopping = true;
	proc_kill_all(p, SIGTERM);
	if (p->tty) /* SIGHUP, which shells heed */
		procio_clear(p);
	timer_set(&p->deadline, grace_ms);
}

void
proc_sync(struct proc *p)
{
	p->syncing = true;
	procio_drain(p);
	task_post(p->env->loop, &p->check);
}

void
proc_pause(struct proc *p)
{
	if (!p->paused) {
		p->paused = true;
		procio_want(p);
	}
}

void
proc_resume(struct proc *p)
{
	if (p->paused) {
		p->paused = false;
		procio_want(p);
		if (p->reaped && p->tty) /* no event tells of nothing */
			task_post(p->env->loop, &p->check);
	}
}

void
proc_resize(struct proc *p, const struct pty_size *size)
{
	if (p->tty && p->out[0].fd != -1)
		pty_resize(p->out[0].fd, size);
}
