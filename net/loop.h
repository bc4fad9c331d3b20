/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop: one libevent base, a clock read once per batch, work that
 * runs after the batch, deferred free, and lazy timers.
 *
 * The loop runs libevent one batch at a time (EVLOOP_ONCE). After each batch
 * it runs posted tasks, then frees what was handed to loop_defer_free(): so
 * nothing is ever freed inside its own callback stack.
 */
#ifndef SBX_NET_LOOP_H
#define SBX_NET_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/defs.h"

struct event;
struct event_base;
struct bufpool;
struct loop;

struct loop *loop_new(void);
/* Runs what is still deferred, then frees everything. NULL is fine. */
void loop_free(struct loop *l);
struct event_base *loop_base(struct loop *l);
struct bufpool *loop_bufpool(struct loop *l); /* the loop's buffer slabs */

/* Runs until loop_stop(). */
void loop_run(struct loop *l);
void loop_stop(struct loop *l);
/* Runs one batch (blocking when block and nothing is ready) with the tasks
 * and frees after it: for tests. */
void loop_once(struct loop *l, bool block);

/* Milliseconds on a monotonic clock, read once per batch (coarse, about
 * 4 ms): for deadlines. */
uint64_t loop_now_ms(struct loop *l);
/* Microseconds on the monotonic clock, read now: for measuring. */
uint64_t loop_clock_us(void);

/* Frees p with fn (free() when NULL) after the current batch. */
void loop_defer_free(struct loop *l, void *p, void (*fn)(void *));

/* A task runs once after the current batch; posting it again before it ran
 * changes nothing. Embedded in its owner; task_cancel() before freeing. */
struct task {
	struct task *next;
	struct task **prevp; /* NULL: not posted */
	void (*fn)(void *arg);
	void *arg;
};
void task_init(struct task *t, void (*fn)(void *), void *arg);
void task_post(struct loop *l, struct task *t);
void task_cancel(struct task *t);

/*
 * Lazy timers: moving a deadline later only stores a number; the libevent
 * timer below is touched when it must fire earlier, or when it fires too soon
 * and is put off. So a timer set once a request costs nothing in the steady
 * state.
 */
struct timer {
	struct loop *loop;
	struct event *ev;  /* made on the first timer_set */
	uint64_t due_ms;   /* 0: not running */
	uint64_t armed_ms; /* when ev will fire; 0: not armed */
	void (*fn)(void *arg);
	void *arg;
};
void timer_init(struct timer *t, struct loop *l, void (*fn)(void *), void *arg);
/* Fires once, ms from loop_now_ms() (0 is at once, after the batch). */
void timer_set(struct timer *t, uint64_t ms);
void timer_stop(struct timer *t); /* cheap: the event may stay armed */
bool timer_running(const struct timer *t);
void timer_clear(struct timer *t); /* frees the event; before freeing owner */

/* Something that ends with the loop because nobody else owns it (a stream that
 * finishes on its own): loop_free() calls fn first. Embedded in its object. */
struct loop_hook {
	struct loop_hook *next;
	struct loop_hook **prevp;
	void (*fn)(void *arg);
	void *arg;
};
void loop_hook_add(struct loop *l, struct loop_hook *h, void (*fn)(void *),
		   void *arg);
void loop_hook_del(struct loop_hook *h);

/* Calls fn(signo, arg) on the loop for each delivery of signo. */
void loop_on_signal(struct loop *l, int signo, void (*fn)(int, void *),
		    void *arg);

#endif
