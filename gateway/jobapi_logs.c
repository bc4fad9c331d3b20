/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job's log as the Hub streams it: what there is, then what comes, and the
 * end when the job has ended and all was said. What the client does not take
 * is not read; nothing is kept but one piece of the file.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "gateway/jobapi_int.h"
#include "gateway/logtail.h"
#include "net/http1.h"
#include "net/loop.h"

#define PIECE        65536
#define LOOK_MS      20  /* while something comes */
#define LOOK_MAX_MS  200 /* while nothing does */
#define TAIL_MAX     1000000
#define GAP_TEXT     "part of the log is gone: it grew faster than it was read"
#define OUT_KEEP_CAP (512U * 1024)

struct logs {
	struct api_req *r;
	struct jobapi_stream stream;
	struct logtail *log;
	struct logtail_time time;
	struct jobs_watch watch;
	struct task pump;
	struct timer look;
	struct strbuf out;
	uint64_t pause_ms, quiet_ms;
	bool follow, over;
	bool ended; /* the response */
};

static void
line_cb(struct strv line, bool gap, void *arg)
{
	struct logs *s = arg;

	if (!gap) {
		(void)logtail_add_sse(&s->out, line, &s->time);
		return;
	}
	strbuf_adds(&s->out, "data: {\"timestamp\":\"");
	job_add_time(&s->out, job_now_ms());
	strbuf_adds(&s->out, "\",\"data\":\"" GAP_TEXT "\"}\n\n");
}

static void
send_out(struct logs *s)
{
	if (s->out.len == 0)
		return;
	httpd_write(s->r->rq, s->out.s, s->out.len);
	httpd_flush(s->r->rq);
	if (s->out.cap > OUT_KEEP_CAP)
		strbuf_clear(&s->out);
	else
		strbuf_reset(&s->out);
}

static void
end(void *arg)
{
	struct logs *s = arg;

	if (s->ended)
		return;
	s->ended = true;
	timer_stop(&s->look);
	jobs_watch_del(&s->watch);
	httpd_end(s->r->rq);
}

/* Nothing to read now: the end, or later. */
static void
pause_or_end(struct logs *s)
{
	if (s->over || !s->follow) {
		end(s);
		return;
	}
	s->quiet_ms += s->pause_ms;
	if (s->quiet_ms >= JOBAPI_KEEP_ALIVE_MS) {
		s->quiet_ms = 0;
		strbuf_adds(&s->out, ": keep-alive\n\n");
		send_out(s);
	}
	timer_set(&s->look, s->pause_ms);
	s->pause_ms =
	    s->pause_ms * 2 < LOOK_MAX_MS ? s->pause_ms * 2 : LOOK_MAX_MS;
}

static void
pump_cb(void *arg)
{
	struct logs *s = arg;
	struct jobapi *ja = s->r->arg;

	if (s->ended || httpd_over_high(s->r->rq))
		return; /* drained() comes */
	if (logtail_read(s->log, PIECE, line_cb, s) == 0) {
		pause_or_end(s);
		return;
	}
	s->quiet_ms = 0;
	s->pause_ms = LOOK_MS;
	send_out(s);
	if (!httpd_over_high(s->r->rq))
		task_post(jobs_loop(ja->js), &s->pump);
}

static void
told(const char *id, const struct job_step *st, void *arg)
{
	struct logs *s = arg;
	struct jobapi *ja = s->r->arg;

	(void)id;
	if (!job_final(st->state))
		return;
	s->over = true;
	task_post(jobs_loop(ja->js), &s->pump);
}

static void
drained(struct httpd_req *rq, void *arg)
{
	(void)rq;
	pump_cb(arg);
}

static void
closed(struct httpd_req *rq, int err, void *arg)
{
	struct logs *s = arg;

	(void)rq;
	(void)err;
	jobs_watch_del(&s->watch);
	task_cancel(&s->pump);
	timer_clear(&s->look);
	logtail_free(s->log);
	strbuf_clear(&s->out);
	jobapi_stream_del(s->r->arg, &s->stream);
}

static void
begin(struct api_req *r, const struct job *j, uint64_t tail)
{
	static const struct httpd_req_cbs cbs = {.drained = drained,
						 .closed = closed};
	struct jobapi *ja = r->arg;
	struct logs *s = httpd_alloc(r->rq, sizeof(*s));
	char *dir = jobs_dir(ja->js, j->id);

	memset(s, 0, sizeof(*s));
	s->r = r;
	s->log = logtail_new(dir, tail);
	s->follow = jobapi_flag(r, "follow", true);
	s->over = job_final(j->state);
	s->pause_ms = LOOK_MS;
	free(dir);
	task_init(&s->pump, pump_cb, s);
	timer_init(&s->look, jobs_loop(ja->js), pump_cb, s);
	s->watch.fn = told;
	s->watch.arg = s;
	jobs_watch_add(ja->js, &s->watch, strv_of(j->ns), strv_of(j->id));
	jobapi_stream_add(ja, &s->stream, end, s);
	httpd_set_cbs(r->rq, &cbs, s);
	if (!jobapi_sse(r))
		return;
	httpd_flush(r->rq);
	task_post(jobs_loop(ja->js), &s->pump);
}

void
jobapi_logs(struct api_req *r)
{
	struct strv v = api_query(r, "tail");
	uint64_t tail = LOGTAIL_ALL;
	struct job j;

	if (v.p != NULL && strv_parse_u64(v, TAIL_MAX, false, &tail) != 0) {
		api_error(r, 400, "bad_request",
			  "tail: must be a number of lines, at most %d",
			  TAIL_MAX);
		return;
	}
	if (jobapi_find(r, false, &j) != 0)
		return;
	if (jobapi_stream_may(r))
		begin(r, &j, tail);
	job_clear(&j);
}
