/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for a job, and following all of a namespace. Events are read from
 * the history, so that one who was away goes on where it stopped, and one who
 * reads slowly costs no memory; being told of a step only says that there is
 * something to read.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "gateway/jobapi_int.h"
#include "gateway/jobjson.h"
#include "net/http1.h"
#include "net/loop.h"

/* --- ?wait= ------------------------------------------------------------ */
struct wait {
	struct api_req *r;
	struct jobapi_stream stream;
	struct jobs_watch watch;
	struct timer timer;
	bool running; /* until it runs, or has ended; else: has ended */
	bool done;
};

static bool
is_met(bool running, enum job_state s)
{
	return job_final(s) ||
	       (running && (s == JOB_RUNNING || s == JOB_PAUSED));
}

static void
wait_answer(struct wait *w)
{
	struct job j;

	if (w->done)
		return;
	w->done = true;
	jobs_watch_del(&w->watch);
	timer_stop(&w->timer);
	if (jobapi_find(w->r, false, &j) != 0)
		return;
	jobapi_reply(w->r, &j);
	job_clear(&j);
}

static void
wait_step(const char *id, const struct job_step *st, void *arg)
{
	struct wait *w = arg;

	(void)id;
	if (is_met(w->running, st->state))
		wait_answer(w);
}

static void
wait_over(void *arg)
{
	wait_answer(arg);
}

static void
wait_closed(struct httpd_req *rq, int err, void *arg)
{
	struct wait *w = arg;

	(void)rq;
	(void)err;
	jobs_watch_del(&w->watch);
	timer_clear(&w->timer);
	jobapi_stream_del(w->r->arg, &w->stream);
}

void
jobapi_wait(struct api_req *r, const struct job *j, struct strv what)
{
	static const struct httpd_req_cbs cbs = {.closed = wait_closed};
	struct jobapi *ja = r->arg;
	uint64_t ms;
	bool running = strv_eq(what, STRV("running"));
	struct wait *w;

	if (!running && !strv_eq(what, STRV("terminal"))) {
		api_error(r, 400, "bad_request",
			  "wait: must be running or terminal");
		return;
	}
	if (!api_timeout(r, &ms))
		return;
	if (is_met(running, j->state)) {
		jobapi_reply(r, j);
		return;
	}
	if (!jobapi_stream_may(r))
		return;
	w = httpd_alloc(r->rq, sizeof(*w));
	memset(w, 0, sizeof(*w));
	w->r = r;
	w->running = running;
	timer_init(&w->timer, jobs_loop(ja->js), wait_over, w);
	timer_set(&w->timer, ms);
	w->watch.fn = wait_step;
	w->watch.arg = w;
	jobs_watch_add(ja->js, &w->watch, strv_of(j->ns), strv_of(j->id));
	jobapi_stream_add(ja, &w->stream, wait_over, w);
	httpd_set_cbs(r->rq, &cbs, w);
}

/* --- /api/events ------------------------------------------------------- */
struct events {
	struct api_req *r;
	struct jobapi_stream stream;
	struct jobs_watch watch;
	struct task pump;
	struct timer quiet;
	struct strbuf out;
	char *ns;
	uint64_t last; /* seq of the last one that was sent */
	bool more;     /* there was no room for all */
	bool ended;    /* the response */
};

static bool
events_step(struct strv id, const struct job_step *st, void *arg)
{
	struct events *e = arg;

	if (e->out.len >= 65536) {
		e->more = true;
		return false;
	}
	strbuf_addf(&e->out, "id: %llu\nevent: job\ndata: ",
		    (unsigned long long)st->seq);
	jobjson_add_step(&e->out, id, e->ns, st);
	strbuf_adds(&e->out, "\n\n");
	e->last = st->seq;
	return true;
}

static void
events_pump(void *arg)
{
	struct events *e = arg;
	struct jobapi *ja = e->r->arg;

	if (e->ended || httpd_over_high(e->r->rq))
		return; /* drained() comes */
	e->more = false;
	strbuf_reset(&e->out);
	if (jobs_steps(ja->js, e->ns, strv_of(e->watch.id), e->last,
		       events_step, e) != 0) {
		httpd_abort(e->r->rq);
		return;
	}
	if (e->out.len == 0)
		return;
	httpd_write(e->r->rq, e->out.s, e->out.len);
	httpd_flush(e->r->rq);
	timer_set(&e->quiet, JOBAPI_KEEP_ALIVE_MS);
	if (e->more)
		task_post(jobs_loop(ja->js), &e->pump);
}

static void
events_told(const char *id, const struct job_step *st, void *arg)
{
	struct events *e = arg;
	struct jobapi *ja = e->r->arg;

	(void)id;
	(void)st;
	task_post(jobs_loop(ja->js), &e->pump);
}

static void
events_quiet(void *arg)
{
	struct events *e = arg;
	static const char text[] = ": keep-alive\n\n";

	httpd_write(e->r->rq, text, sizeof(text) - 1);
	httpd_flush(e->r->rq);
	timer_set(&e->quiet, JOBAPI_KEEP_ALIVE_MS);
}

static void
events_drained(struct httpd_req *rq, void *arg)
{
	(void)rq;
	events_pump(arg);
}

static void
events_closed(struct httpd_req *rq, int err, void *arg)
{
	struct events *e = arg;

	(void)rq;
	(void)err;
	jobs_watch_del(&e->watch);
	task_cancel(&e->pump);
	timer_clear(&e->quiet);
	strbuf_clear(&e->out);
	free(e->ns);
	jobapi_stream_del(e->r->arg, &e->stream);
}

static void
events_end(void *arg)
{
	struct events *e = arg;

	if (e->ended)
		return;
	e->ended = true;
	timer_stop(&e->quiet);
	jobs_watch_del(&e->watch);
	task_cancel(&e->pump);
	httpd_end(e->r->rq);
}

/* Who was here before says where it stopped, as browsers do by themselves. */
static int
events_from(struct api_req *r, uint64_t *last)
{
	struct strv v = http1_find(r->head, STRV("Last-Event-ID"));
	struct jobapi *ja = r->arg;

	if (v.p == NULL)
		v = api_query(r, "last_event_id");
	if (v.p == NULL || v.len == 0) {
		*last = jobs_last_step(ja->js);
		return 0;
	}
	if (strv_parse_u64(v, INT64_MAX, false, last) == 0) {
		/* Of a database that is gone: its numbers begin anew. */
		if (*last > jobs_last_step(ja->js))
			*last = jobs_last_step(ja->js);
		return 0;
	}
	api_error(r, 400, "bad_request", "Last-Event-ID: is not one of ours");
	return E_INVALID;
}

void
jobapi_events(struct api_req *r)
{
	static const struct httpd_req_cbs cbs = {.drained = events_drained,
						 .closed = events_closed};
	struct strv ns = api_query(r, "namespace"), id = api_query(r, "job");
	struct jobapi *ja = r->arg;
	uint64_t last;
	struct events *e;
	char hello[64];
	int n;

	if (ns.p == NULL)
		ns = r->who.ns[0];
	if (!api_may_read(&r->who, ns)) {
		api_error(r, 403, "forbidden",
			  "this token has no access to that namespace");
		return;
	}
	if (id.p != NULL && !job_id_ok(id)) {
		api_error(r, 400, "bad_request", "job: is not a job's id");
		return;
	}
	if (events_from(r, &last) != 0 || !jobapi_stream_may(r))
		return;
	e = httpd_alloc(r->rq, sizeof(*e));
	memset(e, 0, sizeof(*e));
	e->r = r;
	e->ns = xstrndup(ns.p, ns.len);
	e->last = last;
	task_init(&e->pump, events_pump, e);
	timer_init(&e->quiet, jobs_loop(ja->js), events_quiet, e);
	timer_set(&e->quiet, JOBAPI_KEEP_ALIVE_MS);
	e->watch.fn = events_told;
	e->watch.arg = e;
	jobs_watch_add(ja->js, &e->watch, ns, id);
	jobapi_stream_add(ja, &e->stream, events_end, e);
	httpd_set_cbs(r->rq, &cbs, e);
	if (!jobapi_sse(r))
		return;
	/* So that who saw nothing yet knows where to go on, too. */
	n = snprintf(hello, sizeof(hello), "id: %llu\n: hello\n\n",
		     (unsigned long long)last);
	httpd_write(r->rq, hello, (size_t)n);
	httpd_flush(r->rq);
	task_post(jobs_loop(ja->js), &e->pump);
}
