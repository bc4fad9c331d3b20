/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output that is kept, and those who read it. What is text gets into the ring
 * by whole characters, so that the two streams never cut each other's: then
 * every position that a reader is told is one where another may begin.
 *
 * A command with an exec_id fills at most half of its ring beyond what its
 * newest viewer has taken; the other half is there for a viewer who comes back
 * because bytes on their way to it were lost.
 */
#include "config.h"

#include "agent/run_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/utf8.h"

#define RUNKEEP_GONE_LO 64

static void runkeep_timer_cb(void *arg);
static void runkeep_wake_cb(void *arg);

void
runkeep_init(struct run *r, const struct run_spec *spec)
{
	struct loop *l = r->set->place.loop;

	task_init(&r->wake, runkeep_wake_cb, r);
	timer_init(&r->timer, l, runkeep_timer_cb, r);
	if (spec->background || spec->exec_id != NULL)
		r->ring = ring_new();
	if (spec->exec_id != NULL) {
		r->exec_id = xstrdup(spec->exec_id);
		r->digest = spec->digest;
		r->lasts = spec->detach;
	}
}

/* --- flow -------------------------------------------------------------- */

static struct run_reader *
runkeep_viewer(const struct run *r)
{
	struct run_reader *rd = r->readers;

	while (rd != NULL && !rd->views)
		rd = rd->next;
	return rd;
}

bool
runkeep_viewed(const struct run *r)
{
	return runkeep_viewer(r) != NULL;
}

/* Whether the command is to wait for who reads it. */
static bool
runkeep_ahead(const struct run *r)
{
	const struct run_reader *rd = runkeep_viewer(r);
	uint64_t pos = rd != NULL ? rd->pos : r->lost_pos;

	if (rd == NULL && r->lasts)
		return false;
	return ring_end(r->ring) > pos + ring_bound(r->ring) / 2;
}

static void
runkeep_flow(struct run *r)
{
	if (r->exec_id != NULL && !r->ended && r->proc != NULL)
		run_pause(r, runkeep_ahead(r));
}

/* --- readers ----------------------------------------------------------- */

void
run_reader_start(struct run_reader *rd, struct run *r)
{
	rd->run = r;
	rd->prevp = &r->readers;
	if ((rd->next = r->readers) != NULL)
		rd->next->prevp = &rd->next;
	r->readers = rd;
	if (rd->views && !r->ended) {
		timer_stop(&r->timer);
		runkeep_flow(r);
	}
}

void
run_reader_moved(struct run_reader *rd)
{
	if (rd->run != NULL && rd->views)
		runkeep_flow(rd->run);
}

/* Its last viewer has left, or was lost. */
static void
runkeep_lost(struct run *r, uint64_t pos)
{
	r->lost_pos = pos;
	runkeep_flow(r);
	if (!r->lasts)
		timer_set(&r->timer, r->set->place.resume_ms);
}

void
run_reader_stop(struct run_reader *rd)
{
	struct run *r = rd->run;

	if (rd->prevp == NULL)
		return;
	*rd->prevp = rd->next;
	if (rd->next != NULL)
		rd->next->prevp = rd->prevp;
	rd->prevp = NULL;
	rd->next = NULL;
	rd->run = NULL;
	if (!rd->views || r->exec_id == NULL || r->ended)
		return;
	if (runkeep_viewer(r) == NULL)
		runkeep_lost(r, rd->pos);
	else
		runkeep_flow(r);
}

/* A reader may stop itself, or end up gone, when it is woken; others not. */
static void
runkeep_wake_cb(void *arg)
{
	struct run *r = arg;
	struct run_reader *next;

	for (struct run_reader *rd = r->readers; rd != NULL; rd = next) {
		next = rd->next;
		rd->wake(rd);
	}
}

static void
runkeep_wake(struct run *r)
{
	if (r->readers != NULL)
		task_post(r->set->place.loop, &r->wake);
}

static void
runkeep_timer_cb(void *arg)
{
	struct run *r = arg;

	if (r->ended && runkeep_viewed(r)) {
		timer_set(&r->timer, r->set->place.resume_ms);
		return;
	}
	if (r->ended) {
		run_forget(r);
		return;
	}
	r->lasts = true; /* nobody is waited for any more */
	runkeep_flow(r);
	proc_stop(r->proc, RUN_GRACE_MS);
}

/* --- output ------------------------------------------------------------ */

static void
runkeep_put(struct run *r, unsigned stream, const char *data, size_t n)
{
	struct run_set *s = r->set;
	size_t before = ring_memory(r->ring);

	if (s->log_mem >= RUN_LOG_MEM)
		ring_limit(r->ring, RUN_LOG_LEAST);
	ring_add(r->ring, stream, data, n);
	s->log_mem += ring_memory(r->ring) - before;
}

/* What was held back goes in, and of data all but the beginning of a character
 * at its end. */
static void
runkeep_text(struct run *r, unsigned stream, const char *data, size_t n)
{
	char *hold = r->part[stream].hold, few[8];
	unsigned held = r->part[stream].n;
	size_t tail;

	if (held > 0 && n < 3) {
		/* Together they are few; what they end in may begin in the
		 * held ones. */
		memcpy(few, hold, held);
		memcpy(few + held, data, n);
		data = few;
		n += held;
		held = 0;
	}
	tail = utf8_tail((struct strv){data, n});
	if (held > 0)
		runkeep_put(r, stream, hold, held);
	runkeep_put(r, stream, data, n - tail);
	memcpy(hold, data + n - tail, tail);
	r->part[stream].n = (unsigned)tail;
}

void
runkeep_add(struct run *r, unsigned stream, const char *data, size_t n)
{
	if (r->base64)
		runkeep_put(r, stream, data, n);
	else
		runkeep_text(r, stream, data, n);
	runkeep_flow(r);
	runkeep_wake(r);
}

void
runkeep_end(struct run *r)
{
	for (unsigned i = 0; i < 2; i++) {
		runkeep_put(r, i, r->part[i].hold, r->part[i].n);
		r->part[i].n = 0;
	}
	if (r->exec_id != NULL)
		timer_set(&r->timer, r->set->place.resume_ms * RUN_KEPT_TIMES);
	runkeep_wake(r);
}

/* --- exec_id ----------------------------------------------------------- */

struct run *
run_exec_find(struct run_set *s, struct strv exec_id)
{
	for (struct run *r = s->last; r != NULL; r = r->prev) {
		if (r->exec_id != NULL && strv_eq(strv_of(r->exec_id), exec_id))
			return r;
	}
	return NULL;
}

bool
run_exec_gone(const struct run_set *s, struct strv exec_id)
{
	uint64_t h = hash_bytes(exec_id.p, exec_id.len);

	for (size_t i = 0; i < s->ngone; i++) {
		if (s->gone[i] == h)
			return true;
	}
	return false;
}

bool
run_exec_same(const struct run *r, struct run_digest d)
{
	return r->digest.hash == d.hash && r->digest.len == d.len;
}

static void
runkeep_remember(struct run_set *s, const char *exec_id)
{
	uint64_t h = hash_bytes(exec_id, strlen(exec_id));

	if (s->ngone == RUN_EXEC_GONE) { /* the oldest one's place */
		s->gone[s->gone_at] = h;
		s->gone_at = (s->gone_at + 1) % RUN_EXEC_GONE;
		return;
	}
	if (s->ngone == 0 ||
	    (s->ngone >= RUNKEEP_GONE_LO && (s->ngone & (s->ngone - 1)) == 0)) {
		size_t n = s->ngone == 0 ? RUNKEEP_GONE_LO : 2 * s->ngone;

		s->gone = xrealloc(s->gone, n * sizeof(*s->gone));
	}
	s->gone[s->ngone++] = h;
}

/* --- end --------------------------------------------------------------- */

void
runkeep_drop(struct run *r)
{
	struct run_reader *rd;

	while ((rd = r->readers) != NULL) {
		if (r->ended) { /* it may not have heard of that yet */
			rd->wake(rd);
			if (r->readers != rd)
				continue;
		}
		run_reader_stop(rd);
		rd->wake(rd);
	}
	timer_clear(&r->timer);
	if (r->exec_id != NULL)
		runkeep_remember(r->set, r->exec_id);
}

void
runkeep_clear(struct run_set *s)
{
	free(s->gone);
	s->gone = NULL;
	s->ngone = s->gone_at = 0;
}
