/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small thread pool beside the loop; see the header. The lock guards lanes,
 * queues and counters; a job itself belongs to its thread while it runs.
 * Threads are made and joined by the loop alone.
 */
#include "config.h"

#include "agent/work.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <event2/event.h>

#include "agent/actas.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/loop.h"

#define WORK_STACK   (512U * 1024)
#define WORK_TICK_MS 200
#define WORK_IDLE_S  5 /* then a thread too many ends */

struct work_list {
	struct work_job *first, **tail;
};

struct work_thread {
	struct work *work;
	pthread_t id;
	bool used;
	bool left; /* it ends, and is to be joined */
};

struct work {
	struct loop *loop;
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct work_lane *lanes, **lanes_tail; /* that have jobs to start */
	struct work_list finished;
	unsigned idle, called; /* threads that wait; those told to look */
	unsigned slow;         /* jobs that run */
	unsigned nthreads;
	uint64_t ended; /* jobs, ever */
	bool stop;
	/* The loop's own: */
	struct work_thread threads[WORK_THREADS_MAX];
	unsigned njobs;
	struct work_job *oldest, *newest; /* of those that can be late */
	uint64_t late_ms, seen_ended;
	struct timer late, tick;
	int wake; /* eventfd: finished is not empty */
	struct event *ev;
};

/* --- queues ------------------------------------------------------------ */

static void
list_add(struct work_list *q, struct work_job *j)
{
	j->next = NULL;
	*q->tail = j;
	q->tail = &j->next;
}

static struct work_job *
list_take(struct work_list *q)
{
	struct work_job *j = q->first;

	if (j != NULL && (q->first = j->next) == NULL)
		q->tail = &q->first;
	return j;
}

static void
lane_add(struct work_lane *lane, struct work_job *j)
{
	j->next = NULL;
	*lane->tail = j;
	lane->tail = &j->next;
}

static void
lane_remove(struct work_lane *lane, struct work_job *j)
{
	struct work_job **p = &lane->first;

	while (*p != j)
		p = &(*p)->next;
	if ((*p = j->next) == NULL)
		lane->tail = p;
}

/* The first that may run. One place is always kept for those that are quick.
 */
static struct work_job *
lane_next(struct work_lane *lane)
{
	struct work_job *j;

	if (lane->running >= lane->most)
		return NULL;
	for (j = lane->first; j != NULL; j = j->next) {
		if (!j->slow || lane->most == 1 || lane->slow + 1 < lane->most)
			return j;
	}
	return lane->running == 0 ? lane->last : NULL;
}

/* Locked. Puts the lane at the end of the line if it has something to start. */
static void
lane_list(struct work_lane *lane)
{
	struct work *w = lane->work;

	if (lane->listed || lane_next(lane) == NULL)
		return;
	lane->listed = true;
	lane->next = NULL;
	*w->lanes_tail = lane;
	w->lanes_tail = &lane->next;
}

static struct work_lane *
work_next_lane(struct work *w)
{
	struct work_lane *lane = w->lanes;

	if (lane == NULL)
		return NULL;
	if ((w->lanes = lane->next) == NULL)
		w->lanes_tail = &w->lanes;
	lane->listed = false;
	return lane;
}

/* Locked. A job to run, of the lane whose turn it is. */
static struct work_job *
work_next(struct work *w)
{
	struct work_lane *lane;
	struct work_job *j = NULL;

	while (j == NULL && (lane = work_next_lane(w)) != NULL) {
		if ((j = lane_next(lane)) == NULL)
			continue;
		if (j == lane->last)
			lane->last = NULL;
		else
			lane_remove(lane, j);
		lane->running++;
		lane->slow += j->slow ? 1 : 0;
		w->slow += j->slow ? 1 : 0;
		j->state = WORK_RUNS;
		lane_list(lane);
	}
	return j;
}

/* --- threads ----------------------------------------------------------- */

/* Locked. Whether there are enough without this one. */
static bool
work_too_many(const struct work *w)
{
	return w->nthreads > WORK_THREADS + w->slow;
}

static void
work_run(struct work *w, struct work_job *j, struct actas *who)
{
	const uint64_t one = 1;
	struct work_lane *lane = j->lane;
	bool first;

	(void)pthread_mutex_unlock(&w->lock);
	j->ran = actas_become(who, j->uid);
	if (j->ran)
		j->fn(j);
	(void)pthread_mutex_lock(&w->lock);
	lane->running--;
	lane->slow -= j->slow ? 1 : 0;
	w->slow -= j->slow ? 1 : 0;
	w->ended++;
	j->state = WORK_OVER;
	first = w->finished.first == NULL;
	list_add(&w->finished, j);
	lane_list(lane);
	if (!first)
		return;
	(void)pthread_mutex_unlock(&w->lock);
	(void)!write(w->wake, &one, sizeof(one));
	(void)pthread_mutex_lock(&w->lock);
}

/* Locked. Until there may be something to do; false: for too long. */
static bool
work_wait(struct work *w)
{
	struct timespec until;
	int r = 0;

	w->idle++;
	if (work_too_many(w)) {
		(void)clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec += WORK_IDLE_S;
		r = pthread_cond_timedwait(&w->more, &w->lock, &until);
	} else {
		(void)pthread_cond_wait(&w->more, &w->lock);
	}
	w->idle--;
	if (w->called > 0)
		w->called--;
	return r != ETIMEDOUT || !work_too_many(w);
}

static void *
work_thread(void *arg)
{
	struct work_thread *t = arg;
	struct work *w = t->work;
	struct actas who = {.uid = WORK_SELF};
	struct work_job *j;
	bool stay = true;

	(void)pthread_mutex_lock(&w->lock);
	for (;;) {
		if ((j = work_next(w)) != NULL)
			work_run(w, j, &who);
		else if (w->stop || !stay)
			break;
		else
			stay = work_wait(w);
	}
	w->nthreads--;
	t->left = true;
	(void)pthread_mutex_unlock(&w->lock);
	return NULL;
}

/* Locked. Joins those that ended and finds a place for another. */
static struct work_thread *
work_place(struct work *w)
{
	struct work_thread *place = NULL;

	for (unsigned i = 0; i < WORK_THREADS_MAX; i++) {
		struct work_thread *t = &w->threads[i];

		if (t->used && t->left) {
			(void)pthread_join(t->id, NULL);
			t->used = false;
		}
		if (!t->used && place == NULL)
			place = t;
	}
	return place;
}

/* Locked. */
static void
work_grow(struct work *w)
{
	struct work_thread *t = work_place(w);
	sigset_t all, old;
	pthread_attr_t attr;

	if (t == NULL)
		return;
	t->work = w;
	t->left = false;
	(void)sigfillset(&all);
	(void)pthread_attr_init(&attr);
	(void)pthread_attr_setstacksize(&attr, WORK_STACK);
	(void)pthread_sigmask(SIG_BLOCK, &all, &old);
	t->used = pthread_create(&t->id, &attr, work_thread, t) == 0;
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	(void)pthread_attr_destroy(&attr);
	w->nthreads += t->used ? 1 : 0;
}

/* Locked. Something can be started: sees to it that somebody does. True: one
 * that waits, who is to be woken without the lock (or it would wait for that).
 */
static bool
work_wake(struct work *w)
{
	if (w->idle > w->called) {
		w->called++;
		return true;
	}
	if (w->nthreads < WORK_THREADS + w->slow) {
		work_grow(w);
	} else if (!timer_running(&w->tick)) {
		timer_set(&w->tick, WORK_TICK_MS);
	}
	return false;
}

/* Jobs wait. If none ended since the last look, all threads hang. */
static void
work_tick_cb(void *arg)
{
	struct work *w = arg;

	(void)pthread_mutex_lock(&w->lock);
	if (w->lanes != NULL) {
		if (w->idle <= w->called && w->ended == w->seen_ended)
			work_grow(w);
		timer_set(&w->tick, WORK_TICK_MS);
	}
	w->seen_ended = w->ended;
	(void)pthread_mutex_unlock(&w->lock);
}

/* --- the loop's side --------------------------------------------------- */

static void
work_watch(struct work *w, struct work_job *j)
{
	j->since_ms = loop_now_ms(w->loop);
	j->after = NULL;
	j->before = w->newest;
	if (w->newest != NULL)
		w->newest->after = j;
	else
		w->oldest = j;
	w->newest = j;
	if (!timer_running(&w->late))
		timer_set(&w->late, w->late_ms);
}

static void
work_unwatch(struct work *w, struct work_job *j)
{
	if (j->since_ms == 0)
		return;
	if (j->before != NULL)
		j->before->after = j->after;
	else
		w->oldest = j->after;
	if (j->after != NULL)
		j->after->before = j->before;
	else
		w->newest = j->before;
	j->since_ms = 0;
}

static void
work_over(struct work *w, struct work_job *j)
{
	work_unwatch(w, j);
	j->state = WORK_IDLE;
	w->njobs--;
	j->done(j);
}

static void
work_collect(struct work *w)
{
	struct work_list got = {NULL, &got.first};
	struct work_job *j;

	(void)pthread_mutex_lock(&w->lock);
	while ((j = list_take(&w->finished)) != NULL)
		list_add(&got, j);
	(void)pthread_mutex_unlock(&w->lock);
	while ((j = list_take(&got)) != NULL)
		work_over(w, j);
}

static void
work_done_cb(evutil_socket_t fd, short what, void *arg)
{
	uint64_t n;

	(void)what;
	(void)!read(fd, &n, sizeof(n));
	work_collect(arg);
}

/* Locked. j, which waits nowhere any more, is given back as not run. */
static void
work_give_back(struct work *w, struct work_job *j)
{
	const uint64_t one = 1;

	j->ran = false;
	j->state = WORK_OVER;
	list_add(&w->finished, j);
	(void)!write(w->wake, &one, sizeof(one));
}

/* The oldest is late: out of its queue, or its owner is told. */
static void
work_late_job(struct work *w, struct work_job *j)
{
	bool runs;

	work_unwatch(w, j);
	(void)pthread_mutex_lock(&w->lock);
	if (j->state == WORK_QUEUED) {
		lane_remove(j->lane, j);
		work_give_back(w, j);
	}
	runs = j->state == WORK_RUNS;
	(void)pthread_mutex_unlock(&w->lock);
	if (runs)
		j->late(j);
}

static void
work_late_cb(void *arg)
{
	struct work *w = arg;
	uint64_t now = loop_now_ms(w->loop);

	while (w->oldest != NULL && now - w->oldest->since_ms >= w->late_ms)
		work_late_job(w, w->oldest);
	if (w->oldest != NULL)
		timer_set(&w->late, w->oldest->since_ms + w->late_ms - now);
}

struct work *
work_new(struct loop *l, uint64_t late_ms)
{
	struct work *w = xcalloc(1, sizeof(*w));

	w->loop = l;
	w->late_ms = late_ms;
	(void)pthread_mutex_init(&w->lock, NULL);
	(void)pthread_cond_init(&w->more, NULL);
	w->lanes_tail = &w->lanes;
	w->finished.tail = &w->finished.first;
	timer_init(&w->late, l, work_late_cb, w);
	timer_init(&w->tick, l, work_tick_cb, w);
	w->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->wake == -1)
		log_fatal("work.new", "errno=%d", errno);
	w->ev = event_new(loop_base(l), w->wake, EV_READ | EV_PERSIST,
			  work_done_cb, w);
	if (w->ev == NULL || event_add(w->ev, NULL) != 0)
		log_fatal("work.new", "reason=\"no event\"");
	return w;
}

bool
work_drain(struct work *w, uint64_t ms)
{
	struct pollfd p = {.fd = w->wake, .events = POLLIN};
	uint64_t end = loop_clock_us() / 1000 + ms, now;

	work_collect(w);
	while (w->njobs > 0) {
		now = loop_clock_us() / 1000;
		if (now >= end)
			return false;
		if (poll(&p, 1, (int)(end - now)) > 0)
			work_done_cb(w->wake, EV_READ, w);
	}
	return true;
}

void
work_free(struct work *w)
{
	if (w == NULL)
		return;
	assert(w->njobs == 0);
	(void)pthread_mutex_lock(&w->lock);
	w->stop = true;
	(void)pthread_cond_broadcast(&w->more);
	(void)pthread_mutex_unlock(&w->lock);
	for (unsigned i = 0; i < WORK_THREADS_MAX; i++) {
		if (w->threads[i].used)
			(void)pthread_join(w->threads[i].id, NULL);
	}
	timer_clear(&w->late);
	timer_clear(&w->tick);
	event_free(w->ev);
	(void)close(w->wake);
	(void)pthread_cond_destroy(&w->more);
	(void)pthread_mutex_destroy(&w->lock);
	free(w);
}

unsigned
work_threads(struct work *w)
{
	unsigned n;

	(void)pthread_mutex_lock(&w->lock);
	n = w->nthreads;
	(void)pthread_mutex_unlock(&w->lock);
	return n;
}

/* --- lanes and jobs ---------------------------------------------------- */

void
work_lane_init(struct work_lane *lane, struct work *w, unsigned most)
{
	*lane = (struct work_lane){.work = w, .most = most};
	lane->tail = &lane->first;
}

void
work_lane_close(struct work_lane *lane, struct work_job *last)
{
	struct work *w = lane->work;
	struct work_job *j;
	bool wake = false;

	(void)pthread_mutex_lock(&w->lock);
	lane->closed = true;
	while ((j = lane->first) != NULL) {
		lane_remove(lane, j);
		work_give_back(w, j);
	}
	if (last != NULL) {
		w->njobs++;
		last->lane = lane;
		last->state = WORK_QUEUED;
		last->since_ms = 0;
		lane->last = last;
		lane_list(lane);
		wake = lane->listed && work_wake(w);
	}
	(void)pthread_mutex_unlock(&w->lock);
	if (wake)
		(void)pthread_cond_signal(&w->more);
}

void
work_submit(struct work_lane *lane, struct work_job *j)
{
	struct work *w = lane->work;
	bool wake = false;

	assert(j->state == WORK_IDLE);
	w->njobs++;
	j->lane = lane;
	j->since_ms = 0;
	if (j->late != NULL)
		work_watch(w, j);
	(void)pthread_mutex_lock(&w->lock);
	if (lane->closed) {
		work_give_back(w, j);
	} else {
		j->state = WORK_QUEUED;
		lane_add(lane, j);
		lane_list(lane);
		wake = lane->listed && work_wake(w);
	}
	(void)pthread_mutex_unlock(&w->lock);
	if (wake)
		(void)pthread_cond_signal(&w->more);
}
