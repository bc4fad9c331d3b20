/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Storing steps and telling them. All steps of one batch of the loop are one
 * transaction; when it is stored they are told, in order. What could not be
 * stored (a full disk) is tried again every second, and meanwhile true in
 * memory alone.
 */
#include "config.h"

#include "gateway/jobs.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "gateway/jobs_int.h"

#define RETRY_MS 1000

/* --- telling ----------------------------------------------------------- */
void
jobs_watch_add(struct jobs *js, struct jobs_watch *w, struct strv ns,
	       struct strv id)
{
	w->ns = xstrndup(ns.p, ns.len);
	memset(w->id, 0, sizeof(w->id));
	if (id.len == JOB_ID_LEN)
		memcpy(w->id, id.p, JOB_ID_LEN);
	w->next = js->watches;
	w->prevp = &js->watches;
	if (w->next != NULL)
		w->next->prevp = &w->next;
	js->watches = w;
}

void
jobs_watch_del(struct jobs_watch *w)
{
	if (w->prevp == NULL)
		return;
	*w->prevp = w->next;
	if (w->next != NULL)
		w->next->prevp = w->prevp;
	w->prevp = NULL;
	free(w->ns);
	w->ns = NULL;
}

static void
tell(struct jobs *js, const struct jobs_note *n)
{
	struct jobs_watch *w, mark = {0};

	/* The walk's own place in the list: whatever is added or removed
	 * meanwhile, it stays right. */
	for (w = js->watches; w != NULL; w = mark.next) {
		mark.next = w->next;
		mark.prevp = &w->next;
		if (mark.next != NULL)
			mark.next->prevp = &mark.next;
		w->next = &mark;
		if (w->ns != NULL && strcmp(w->ns, n->ns) == 0 &&
		    (w->id[0] == '\0' || strcmp(w->id, n->id) == 0))
			w->fn(n->id, &n->step, w->arg);
		*mark.prevp = mark.next;
		if (mark.next != NULL)
			mark.next->prevp = mark.prevp;
	}
}

static void
clear_notes(struct jobs_note *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(v[i].ns);
		free(v[i].message);
	}
}

void
jobs_note(struct jobs *js, const struct job *j, uint64_t seq)
{
	struct jobs_note *n;

	js->notes = xreallocarray(js->notes, js->nnotes + 1, sizeof(*n));
	n = &js->notes[js->nnotes++];
	memset(n, 0, sizeof(*n));
	memcpy(n->id, j->id, sizeof(n->id));
	n->ns = xstrdup(j->ns);
	n->message = j->message != NULL ? xstrdup(j->message) : NULL;
	n->step = (struct job_step){.seq = seq,
				    .state = j->state,
				    .reason = j->reason,
				    .message = n->message,
				    .at_ms = j->changed_ms,
				    .has_exit = j->has_exit,
				    .exit_code = j->exit_code};
	task_post(js->o.loop, &js->batch);
}

/* --- storing ----------------------------------------------------------- */
static void
store(struct live *l)
{
	struct jobs *js = l->js;
	uint64_t seq;

	if (jobstore_update(js->store, &l->job, &seq) == 0) {
		l->dirty = false;
		jobs_note(js, &l->job, seq);
		return;
	}
	l->dirty = true;
	if (!timer_running(&js->retry))
		timer_set(&js->retry, RETRY_MS);
	task_post(js->o.loop, &js->batch);
}

bool
jobs_step(struct live *l, enum job_event ev, int64_t at_ms,
	  const int *exit_code, const char *text)
{
	struct job *j = &l->job;

	if (!job_apply(j, ev, at_ms, exit_code, text))
		return false;
	if (job_final(j->state)) {
		l->js->totals.ended[j->reason]++;
		log_info(
		    "job.end",
		    "job=%s state=%s reason=%s exit_code=%d message=%s", j->id,
		    job_state_name(j->state), job_event_name(j->reason),
		    j->has_exit ? j->exit_code : -1, log_esc(strv_of(text)));
	} else {
		log_debug("job.step", "job=%s state=%s", j->id,
			  job_state_name(j->state));
	}
	store(l);
	return true;
}

static void
retry_cb(void *arg)
{
	struct jobs *js = arg;
	struct live *l;
	size_t pos = 0;

	while ((l = hash_next(js->live, &pos, NULL)) != NULL)
		if (l->dirty)
			store(l);
}

/* The transaction failed as a whole: none of its steps is stored. */
static void
put_back(struct jobs *js)
{
	for (size_t i = js->nstored; i < js->nnotes; i++) {
		struct live *l = hash_get(js->live, strv_of(js->notes[i].id));

		if (l != NULL)
			l->dirty = true;
	}
	clear_notes(js->notes + js->nstored, js->nnotes - js->nstored);
	js->nnotes = js->nstored;
	if (!timer_running(&js->retry))
		timer_set(&js->retry, RETRY_MS);
}

int
jobs_flush(struct jobs *js)
{
	int r = jobstore_commit(js->store);

	if (r != 0)
		put_back(js);
	js->nstored = js->nnotes;
	return r;
}

static void
drop_ended(struct jobs *js)
{
	struct live *l;
	size_t pos = 0;

	while ((l = hash_next(js->live, &pos, NULL)) != NULL) {
		if (l->dirty || l->launch != NULL || !job_final(l->job.state))
			continue;
		(void)hash_del(js->live, strv_of(l->job.id));
		jobs_live_free(l);
	}
}

static void
batch_cb(void *arg)
{
	struct jobs *js = arg;
	struct jobs_note *v;
	size_t n;

	(void)jobs_flush(js); /* said in the log; tried again */
	v = js->notes;
	n = js->nnotes;
	js->notes = NULL;
	js->nnotes = js->nstored = 0;
	drop_ended(js);
	for (size_t i = 0; i < n; i++)
		tell(js, &v[i]);
	clear_notes(v, n);
	free(v);
}

void
jobs_tell_init(struct jobs *js)
{
	task_init(&js->batch, batch_cb, js);
	timer_init(&js->retry, js->o.loop, retry_cb, js);
}

void
jobs_tell_clear(struct jobs *js)
{
	task_cancel(&js->batch);
	timer_clear(&js->retry);
	clear_notes(js->notes, js->nnotes);
	free(js->notes);
	js->notes = NULL;
	js->nnotes = js->nstored = 0;
}
