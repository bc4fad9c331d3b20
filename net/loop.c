/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop. libevent waits and dispatches; this file adds what its
 * users rely on: nothing posted or freed during a batch is run or released
 * before the batch is over, a task posted by a task waits for the next round
 * (so no chain of tasks can starve the sockets), and timers whose deadline
 * only ever moves later cost nothing.
 */
#include "config.h"

#include "net/loop.h"

#include <assert.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include <event2/event.h>

#include "base/log.h"
#include "base/mem.h"
#include "net/buf.h"

#define LOOP_SLABS_KEPT 64 /* 1 MiB of free slabs at most */
#define LOOP_WAIT_FLAGS (EVLOOP_ONCE | EVLOOP_NO_EXIT_ON_EMPTY)

struct deferred {
	void *p;
	void (*fn)(void *);
};

struct loop_signal {
	struct loop_signal *next;
	struct event *ev;
	void (*fn)(int, void *);
	void *arg;
};

struct loop {
	struct event_base *base;
	struct bufpool *pool;
	struct task *tasks; /* newest first */
	struct deferred *dead;
	size_t ndead;
	size_t dead_cap;
	struct loop_signal *signals;
	struct loop_hook *hooks;
	uint64_t now_ms; /* 0: not read in this batch */
	bool stop;
};

static void
loop_log_cb(int severity, const char *msg)
{
	struct strv v = strv_of(msg);

	if (severity == EVENT_LOG_DEBUG)
		log_trace("libevent", "text=%s", log_esc(v));
	else
		log_emit(severity == EVENT_LOG_ERR ? LOG_ERROR : LOG_WARN,
			 "libevent", "text=%s", log_esc(v));
}

static struct event_base *
loop_base_new(void)
{
	struct event_config *cfg;
	struct event_base *base = NULL;

	/* One thread per loop, and no timerfd: coarse timers will do. The
	 * epoll change list stays off: it defers EPOLL_CTL_DEL until after
	 * close(2), when a child that has not reached execve yet may still
	 * hold the description and keep it in the set. */
	if ((cfg = event_config_new()) != NULL) {
		(void)event_config_set_flag(cfg, EVENT_BASE_FLAG_NOLOCK);
		(void)event_config_set_flag(cfg, EVENT_BASE_FLAG_IGNORE_ENV);
		base = event_base_new_with_config(cfg);
		event_config_free(cfg);
	}
	if (base == NULL)
		log_fatal("loop.new", "reason=\"no event base\"");
	return base;
}

struct loop *
loop_new(void)
{
	struct loop *l = xcalloc(1, sizeof(*l));

	event_set_log_callback(loop_log_cb);
	l->base = loop_base_new();
	l->pool = bufpool_new(LOOP_SLABS_KEPT);
	/* Streams use writev(2), which works for pipes too but knows no
	 * MSG_NOSIGNAL: a peer that left must be an EPIPE, not a death. */
	(void)signal(SIGPIPE, SIG_IGN);
	return l;
}

static void
loop_reap(struct loop *l)
{
	struct deferred d;

	/* A free function may defer more; that is reaped here as well. */
	while (l->ndead > 0) {
		d = l->dead[--l->ndead];
		d.fn(d.p);
	}
}

void
loop_free(struct loop *l)
{
	struct loop_signal *s;
	struct loop_hook *h;

	if (l == NULL)
		return;
	while ((h = l->hooks) != NULL) {
		loop_hook_del(h);
		h->fn(h->arg);
	}
	loop_reap(l);
	while ((s = l->signals) != NULL) {
		l->signals = s->next;
		event_free(s->ev);
		free(s);
	}
	bufpool_free(l->pool);
	event_base_free(l->base);
	free(l->dead);
	free(l);
}

struct event_base *
loop_base(struct loop *l)
{
	return l->base;
}

struct bufpool *
loop_bufpool(struct loop *l)
{
	return l->pool;
}

/* Takes the posted tasks off the loop, oldest first. They hang on *head, so
 * task_cancel() works on those that wait there, too. */
static void
loop_take_tasks(struct loop *l, struct task **head)
{
	struct task *t;

	*head = NULL;
	while ((t = l->tasks) != NULL) {
		l->tasks = t->next;
		t->next = *head;
		if (t->next != NULL)
			t->next->prevp = &t->next;
		t->prevp = head;
		*head = t;
	}
}

static void
loop_run_tasks(struct loop *l)
{
	struct task *head, *t;

	if (l->tasks == NULL)
		return;
	loop_take_tasks(l, &head);
	while ((t = head) != NULL) {
		task_cancel(t);
		t->fn(t->arg);
	}
}

void
loop_once(struct loop *l, bool block)
{
	int flags = LOOP_WAIT_FLAGS;

	if (!block || l->tasks != NULL)
		flags |= EVLOOP_NONBLOCK;
	l->now_ms = 0;
	(void)event_base_loop(l->base, flags);
	loop_run_tasks(l);
	loop_reap(l);
}

void
loop_run(struct loop *l)
{
	l->stop = false;
	while (!l->stop)
		loop_once(l, true);
}

void
loop_stop(struct loop *l)
{
	l->stop = true;
}

uint64_t
loop_now_ms(struct loop *l)
{
	struct timespec ts;

	if (l->now_ms == 0) {
		(void)clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
		l->now_ms =
		    (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
	}
	return l->now_ms;
}

uint64_t
loop_clock_us(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

void
loop_defer_free(struct loop *l, void *p, void (*fn)(void *))
{
	if (l->ndead == l->dead_cap) {
		l->dead_cap = l->dead_cap == 0 ? 32 : l->dead_cap * 2;
		l->dead = xreallocarray(l->dead, l->dead_cap, sizeof(*l->dead));
	}
	l->dead[l->ndead].p = p;
	l->dead[l->ndead].fn = fn != NULL ? fn : free;
	l->ndead++;
}

/* --- tasks ------------------------------------------------------------- */

void
task_init(struct task *t, void (*fn)(void *), void *arg)
{
	t->next = NULL;
	t->prevp = NULL;
	t->fn = fn;
	t->arg = arg;
}

void
task_post(struct loop *l, struct task *t)
{
	if (t->prevp != NULL)
		return;
	t->next = l->tasks;
	if (t->next != NULL)
		t->next->prevp = &t->next;
	t->prevp = &l->tasks;
	l->tasks = t;
}

void
task_cancel(struct task *t)
{
	if (t->prevp == NULL)
		return;
	*t->prevp = t->next;
	if (t->next != NULL)
		t->next->prevp = t->prevp;
	t->next = NULL;
	t->prevp = NULL;
}

void
loop_hook_add(struct loop *l, struct loop_hook *h, void (*fn)(void *),
	      void *arg)
{
	h->fn = fn;
	h->arg = arg;
	h->next = l->hooks;
	if (h->next != NULL)
		h->next->prevp = &h->next;
	h->prevp = &l->hooks;
	l->hooks = h;
}

void
loop_hook_del(struct loop_hook *h)
{
	if (h->prevp == NULL)
		return;
	*h->prevp = h->next;
	if (h->next != NULL)
		h->next->prevp = h->prevp;
	h->prevp = NULL;
}

/* --- timers ------------------------------------------------------------ */

static void
timer_arm(struct timer *t, uint64_t ms)
{
	struct timeval tv;

	tv.tv_sec = (time_t)(ms / 1000);
	tv.tv_usec = (suseconds_t)(ms % 1000 * 1000);
	t->armed_ms = t->due_ms;
	if (event_add(t->ev, &tv) != 0)
		log_fatal("timer.set", "reason=\"cannot add a timer\"");
}

static void
timer_fire_cb(evutil_socket_t fd, short what, void *arg)
{
	struct timer *t = arg;
	uint64_t now = loop_now_ms(t->loop);

	(void)fd;
	(void)what;
	t->armed_ms = 0;
	if (t->due_ms == 0)
		return;
	if (now < t->due_ms) { /* it was put off meanwhile */
		timer_arm(t, t->due_ms - now);
		return;
	}
	t->due_ms = 0;
	t->fn(t->arg);
}

void
timer_init(struct timer *t, struct loop *l, void (*fn)(void *), void *arg)
{
	t->loop = l;
	t->ev = NULL;
	t->due_ms = 0;
	t->armed_ms = 0;
	t->fn = fn;
	t->arg = arg;
}

void
timer_set(struct timer *t, uint64_t ms)
{
	uint64_t now = loop_now_ms(t->loop);

	if (__builtin_add_overflow(now, ms, &t->due_ms))
		t->due_ms = UINT64_MAX;
	if (t->armed_ms != 0 && t->armed_ms <= t->due_ms)
		return;
	if (t->ev == NULL) {
		t->ev = event_new(t->loop->base, -1, 0, timer_fire_cb, t);
		if (t->ev == NULL)
			log_fatal("timer.set", "reason=\"out of memory\"");
	}
	/* libevent refuses absurd waits; a century is one. */
	timer_arm(t, ms > UINT32_MAX ? UINT32_MAX : ms);
}

void
timer_stop(struct timer *t)
{
	t->due_ms = 0;
}

bool
timer_running(const struct timer *t)
{
	return t->due_ms != 0;
}

void
timer_clear(struct timer *t)
{
	if (t->ev != NULL)
		event_free(t->ev);
	t->ev = NULL;
	t->due_ms = 0;
	t->armed_ms = 0;
}

/* --- signals ----------------------------------------------------------- */

static void
loop_signal_cb(evutil_socket_t signo, short what, void *arg)
{
	struct loop_signal *s = arg;

	(void)what;
	s->fn((int)signo, s->arg);
}

void
loop_on_signal(struct loop *l, int signo, void (*fn)(int, void *), void *arg)
{
	struct loop_signal *s = xcalloc(1, sizeof(*s));

	s->fn = fn;
	s->arg = arg;
	s->ev = evsignal_new(l->base, signo, loop_signal_cb, s);
	if (s->ev == NULL || event_add(s->ev, NULL) != 0)
		log_fatal("loop.signal", "signal=%d", signo);
	s->next = l->signals;
	l->signals = s;
}
