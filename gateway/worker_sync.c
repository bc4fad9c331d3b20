/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the replica holds all that existed a moment ago: asked of the master
 * ("sync"), one question for everybody who waits.
 */
#include "config.h"

#include "gateway/worker_int.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "net/seqpkt.h"

#define SYNC_MS 1000

struct worker_wait {
	struct worker *w;
	struct worker_wait *next;
	uint64_t need; /* the synced number that will do */
	uint64_t due_ms;
	void (*fn)(int err, void *arg);
	void *arg;
};

static void
sync_send(struct worker *w)
{
	if (w->channel != NULL &&
	    seqpkt_sendf(w->channel, -1, "sync %llu",
			 (unsigned long long)(w->sync_sent + 1)) == 0)
		w->sync_sent++;
}

/* Takes the waiters off whose number has come, or whose time has. Their
 * functions may start new waits. */
static void
sync_settle(struct worker *w)
{
	struct worker_wait *h;
	uint64_t now = loop_now_ms(w->o.loop);
	int err;

	while ((h = w->waits) != NULL) {
		if (h->need <= w->sync_done)
			err = 0;
		else if (h->due_ms <= now || w->channel == NULL)
			err = E_TIMEOUT;
		else
			break;
		w->waits = h->next;
		if (w->waits == NULL)
			w->waits_end = &w->waits;
		if (h->fn != NULL)
			h->fn(err, h->arg);
		free(h);
	}
	if (w->waits != NULL && w->waits->need > w->sync_sent)
		sync_send(w);
	if (w->waits != NULL)
		timer_set(&w->sync_timer, w->waits->due_ms - now);
	else
		timer_stop(&w->sync_timer);
}

static void
sync_timer_cb(void *arg)
{
	sync_settle(arg);
}

static void
sync_task_cb(void *arg)
{
	sync_settle(arg);
}

struct worker_wait *
worker_sync(struct worker *w, void (*fn)(int err, void *arg), void *arg)
{
	struct worker_wait *h = xcalloc(1, sizeof(*h));

	h->w = w;
	h->fn = fn;
	h->arg = arg;
	h->due_ms = loop_now_ms(w->o.loop) + SYNC_MS;
	/* A question that is under way was asked before our caller's request
	 * came in and does not count for it; the next one does, is asked when
	 * that is answered, and serves everybody who came meanwhile. */
	h->need = w->sync_sent + 1;
	if (w->sync_sent == w->sync_done)
		sync_send(w);
	*w->waits_end = h;
	w->waits_end = &h->next;
	timer_set(&w->sync_timer,
		  w->waits->due_ms > loop_now_ms(w->o.loop)
		      ? w->waits->due_ms - loop_now_ms(w->o.loop)
		      : 0);
	return h;
}

void
worker_sync_cancel(struct worker_wait *h)
{
	h->fn = NULL; /* freed when its turn comes: the list stays in order */
}

void
worker_sync_init(struct worker *w)
{
	w->waits_end = &w->waits;
	timer_init(&w->sync_timer, w->o.loop, sync_timer_cb, w);
	task_init(&w->sync_task, sync_task_cb, w);
}

void
worker_sync_clear(struct worker *w)
{
	struct worker_wait *h;

	while ((h = w->waits) != NULL) { /* their owners are told */
		w->waits = h->next;
		if (h->fn != NULL)
			h->fn(E_CANCELLED, h->arg);
		free(h);
	}
	w->waits_end = &w->waits;
}

void
worker_synced(struct worker *w, struct strv number)
{
	uint64_t n;

	if (strv_parse_u64(number, w->sync_sent, true, &n) == 0 &&
	    n > w->sync_done)
		w->sync_done = n;
	sync_settle(w);
}
