/* SPDX-License-Identifier: Apache-2.0 */
/* A small thread pool beside the loop; see the header. */
#include "config.h"

#include "agent/work.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <event2/event.h>

#include "base/log.h"
#include "base/mem.h"
#include "net/loop.h"

#define WORK_THREADS_MAX 8

struct job {
	struct job *next;
	void (*fn)(void *);
	void (*done)(void *);
	void *arg;
};

struct jobs {
	struct job *first, **tail;
};

struct work {
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct jobs todo, finished;
	bool stop;
	int wake; /* eventfd: finished is not empty */
	struct event *ev;
	pthread_t threads[WORK_THREADS_MAX];
	unsigned nthreads;
};

static void
jobs_add(struct jobs *q, struct job *j)
{
	j->next = NULL;
	*q->tail = j;
	q->tail = &j->next;
}

static struct job *
jobs_take(struct jobs *q)
{
	struct job *j = q->first;

	if (j != NULL && (q->first = j->next) == NULL)
		q->tail = &q->first;
	return j;
}

static void *
work_thread(void *arg)
{
	const uint64_t one = 1;
	struct work *w = arg;
	struct job *j;

	(void)pthread_mutex_lock(&w->lock);
	while (!w->stop) {
		if ((j = jobs_take(&w->todo)) == NULL) {
			(void)pthread_cond_wait(&w->more, &w->lock);
			continue;
		}
		(void)pthread_mutex_unlock(&w->lock);
		j->fn(j->arg);
		(void)pthread_mutex_lock(&w->lock);
		jobs_add(&w->finished, j);
		(void)!write(w->wake, &one, sizeof(one));
	}
	(void)pthread_mutex_unlock(&w->lock);
	return NULL;
}

static void
work_done_cb(evutil_socket_t fd, short what, void *arg)
{
	struct work *w = arg;
	struct job *j;
	uint64_t n;

	(void)what;
	(void)!read(fd, &n, sizeof(n));
	for (;;) {
		(void)pthread_mutex_lock(&w->lock);
		j = jobs_take(&w->finished);
		(void)pthread_mutex_unlock(&w->lock);
		if (j == NULL)
			return;
		j->done(j->arg);
		free(j);
	}
}

struct work *
work_new(struct loop *l, unsigned threads)
{
	struct work *w = xcalloc(1, sizeof(*w));
	sigset_t all, old;

	(void)pthread_mutex_init(&w->lock, NULL);
	(void)pthread_cond_init(&w->more, NULL);
	w->todo.tail = &w->todo.first;
	w->finished.tail = &w->finished.first;
	w->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->wake == -1)
		log_fatal("work.new", "errno=%d", errno);
	w->ev = event_new(loop_base(l), w->wake, EV_READ | EV_PERSIST,
			  work_done_cb, w);
	if (w->ev == NULL || event_add(w->ev, NULL) != 0)
		log_fatal("work.new", "reason=\"no event\"");
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_BLOCK, &all, &old);
	while (w->nthreads < threads && w->nthreads < WORK_THREADS_MAX &&
	       pthread_create(&w->threads[w->nthreads], NULL, work_thread, w) ==
		   0)
		w->nthreads++;
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (w->nthreads == 0)
		log_fatal("work.new", "reason=\"no thread\"");
	return w;
}

static void
jobs_drop(struct jobs *q)
{
	struct job *j;

	while ((j = jobs_take(q)) != NULL)
		free(j);
}

void
work_free(struct work *w)
{
	if (w == NULL)
		return;
	(void)pthread_mutex_lock(&w->lock);
	w->stop = true;
	(void)pthread_cond_broadcast(&w->more);
	(void)pthread_mutex_unlock(&w->lock);
	for (unsigned i = 0; i < w->nthreads; i++)
		(void)pthread_join(w->threads[i], NULL);
	jobs_drop(&w->todo);
	jobs_drop(&w->finished);
	event_free(w->ev);
	(void)close(w->wake);
	(void)pthread_cond_destroy(&w->more);
	(void)pthread_mutex_destroy(&w->lock);
	free(w);
}

void
work_submit(struct work *w, void (*fn)(void *), void (*done)(void *), void *arg)
{
	struct job *j = xcalloc(1, sizeof(*j));

	j->fn = fn;
	j->done = done;
	j->arg = arg;
	(void)pthread_mutex_lock(&w->lock);
	jobs_add(&w->todo, j);
	(void)pthread_cond_signal(&w->more);
	(void)pthread_mutex_unlock(&w->lock);
}
