/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pipes of a running program. Output is read only as fast as its reader
 * takes it; when the program has ended, what is in the pipes at that moment is
 * owed to the reader, whoever else still holds them.
 */
#include "config.h"

#include "agent/proc_int.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <event2/event.h>

#include "base/fdio.h"
#include "base/mem.h"

#define PROCIO_IOV   16
#define PROCIO_SINKS 4096
/* After the end of the program, at most so many reads in one go. */
#define PROCIO_BURST 4

/* A pipe that only descendants of an ended program write to. Closing it would
 * kill a server that somebody started with "server &" at its next log line. */
struct procio_sink {
	struct procio_sink *next;
	struct procio_sink **prevp;
	struct proc_env *env;
	int fd;
	struct event ev;
};

static void
procio_sink_close(struct procio_sink *s)
{
	*s->prevp = s->next;
	if (s->next != NULL)
		s->next->prevp = s->prevp;
	s->env->nsinks--;
	(void)event_del(&s->ev);
	fd_close(&s->fd);
	loop_defer_free(s->env->loop, s, NULL);
}

static void
procio_sink_cb(evutil_socket_t fd, short what, void *arg)
{
	struct procio_sink *s = arg;
	ssize_t n = read(fd, s->env->scratch, PROC_READ_MAX);

	(void)what;
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		procio_sink_close(s);
}

static void
procio_sink(struct proc_env *e, int fd)
{
	struct procio_sink *s;

	if (e->nsinks >= PROCIO_SINKS) {
		(void)close(fd);
		return;
	}
	s = xcalloc(1, sizeof(*s));
	s->env = e;
	s->fd = fd;
	s->prevp = &e->sinks;
	if ((s->next = e->sinks) != NULL)
		s->next->prevp = &s->next;
	e->sinks = s;
	e->nsinks++;
	(void)event_assign(&s->ev, loop_base(e->loop), fd, EV_READ | EV_PERSIST,
			   procio_sink_cb, s);
	(void)event_add(&s->ev, NULL);
}

void
procio_sinks_free(struct proc_env *e)
{
	while (e->sinks != NULL)
		procio_sink_close(e->sinks);
}

/* --- output ------------------------------------------------------------ */

static void
procio_set(struct proc_pipe *pp, bool on)
{
	if (pp->on == on)
		return;
	pp->on = on;
	if (on)
		(void)event_add(&pp->ev, NULL);
	else
		(void)event_del(&pp->ev);
}

static void
procio_eof_one(struct proc_pipe *pp)
{
	procio_set(pp, false);
	fd_close(&pp->fd);
	pp->owed = 0;
	task_post(pp->p->env->loop, &pp->p->check);
}

/* One read; true when there may be more at once. */
static bool
procio_read(struct proc_pipe *pp)
{
	struct proc *p = pp->p;
	char *buf = p->env->scratch;
	ssize_t n;

	do
		n = read(pp->fd, buf, PROC_READ_MAX);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN) {
		if (p->tty && pp->owed > 0) {
			pp->owed = 0;
			task_post(p->env->loop, &p->check);
		}
		return false;
	}
	if (n <= 0) { /* a terminal ends with EIO */
		procio_eof_one(pp);
		return false;
	}
	if (p->reaped || pp->owed > 0) {
		pp->owed -= pp->owed < (size_t)n ? pp->owed : (size_t)n;
		task_post(p->env->loop, &p->check);
	}
	if (p->cbs != NULL)
		p->cbs->output(p, (unsigned)(pp - p->out), buf, (size_t)n,
			       p->arg);
	return true;
}

static void
procio_read_cb(evutil_socket_t fd, short what, void *arg)
{
	struct proc_pipe *pp = arg;

	(void)fd;
	(void)what;
	assert(pp->p->magic == PROC_MAGIC);
	(void)procio_read(pp);
}

void
procio_want(struct proc *p)
{
	for (unsigned i = 0; i < 2; i++) {
		if (p->out[i].fd != -1)
			procio_set(&p->out[i], !p->paused);
	}
}

void
procio_drain(struct proc *p)
{
	int n;

	for (unsigned i = 0; i < 2; i++) {
		if (p->out[i].fd != -1 && p->tty)
			p->out[i].owed = SIZE_MAX;
		else if (p->out[i].fd != -1 &&
			 ioctl(p->out[i].fd, FIONREAD, &n) == 0)
			p->out[i].owed = (size_t)n;
	}
	for (unsigned i = 0; i < 2; i++) {
		int burst = PROCIO_BURST;

		while (burst-- > 0 && p->out[i].fd != -1 && !p->paused &&
		       p->cbs != NULL)
			if (!procio_read(&p->out[i]))
				break;
	}
}

bool
procio_settled(const struct proc *p)
{
	return p->out[0].owed == 0 && p->out[1].owed == 0;
}

bool
procio_eof(const struct proc *p)
{
	return p->out[0].fd == -1 && p->out[1].fd == -1;
}

/* --- input ------------------------------------------------------------- */

static void
procio_in_set(struct proc *p, bool on)
{
	if (p->in.on == on)
		return;
	p->in.on = on;
	if (on)
		(void)event_add(&p->in.ev, NULL);
	else
		(void)event_del(&p->in.ev);
}

static void
procio_in_close(struct proc *p)
{
	if (p->in.fd == -1)
		return;
	procio_in_set(p, false);
	fd_close(&p->in.fd);
	bufq_clear(&p->in.q);
}

/* Writes what the pipe takes; false when it is broken. */
static bool
procio_in_write(struct proc *p)
{
	struct iovec iov[PROCIO_IOV];
	size_t total;
	ssize_t n;
	int k;

	while (p->in.q.len > 0) {
		k = bufq_iovec(&p->in.q, iov, PROCIO_IOV, &total);
		n = writev(p->in.fd, iov, k);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN;
		bufq_drain(&p->in.q, (size_t)n);
		if ((size_t)n < total)
			break;
	}
	return true;
}

static void
procio_in_push(struct proc *p)
{
	bool ok = procio_in_write(p);

	if (!ok || (p->in.q.len == 0 && p->in.end))
		procio_in_close(p);
	else
		procio_in_set(p, p->in.q.len > 0);
}

static void
procio_in_cb(evutil_socket_t fd, short what, void *arg)
{
	struct proc *p = arg;

	(void)fd;
	(void)what;
	assert(p->magic == PROC_MAGIC);
	procio_in_push(p);
	if (p->in.q.len == 0 && p->in.owed) {
		p->in.owed = false;
		if (p->cbs != NULL && p->cbs->stdin_drained != NULL)
			p->cbs->stdin_drained(p, p->arg);
	}
}

struct bufq *
proc_stdin(struct proc *p)
{
	return p->in.fd == -1 || p->in.end ? NULL : &p->in.q;
}

void
proc_stdin_flush(struct proc *p)
{
	if (p->in.fd == -1)
		return;
	if (!p->in.on)
		procio_in_push(p);
	p->in.owed = p->in.q.len > 0;
}

void
proc_stdin_end(struct proc *p)
{
	p->in.end = true;
	proc_stdin_flush(p);
}

/* --- all of them ------------------------------------------------------- */

static void
procio_init_out(struct proc *p, unsigned i, int fd)
{
	struct proc_pipe *pp = &p->out[i];

	pp->p = p;
	pp->fd = fd;
	(void)event_assign(&pp->ev, loop_base(p->env->loop), fd,
			   EV_READ | EV_PERSIST, procio_read_cb, pp);
}

void
procio_init(struct proc *p, int in, int out, int err)
{
	procio_init_out(p, 0, out);
	procio_init_out(p, 1, err);
	p->in.fd = in;
	bufq_init(&p->in.q, loop_bufpool(p->env->loop));
	if (in != -1)
		(void)event_assign(&p->in.ev, loop_base(p->env->loop), in,
				   EV_WRITE | EV_PERSIST, procio_in_cb, p);
	procio_want(p);
}

void
procio_clear(struct proc *p)
{
	procio_in_close(p);
	for (unsigned i = 0; i < 2; i++) {
		struct proc_pipe *pp = &p->out[i];

		if (pp->fd == -1)
			continue;
		procio_set(pp, false);
		if (p->tty)
			(void)close(pp->fd);
		else
			procio_sink(p->env, pp->fd);
		pp->fd = -1;
		pp->owed = 0;
	}
}
