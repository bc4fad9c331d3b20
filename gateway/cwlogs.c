/* SPDX-License-Identifier: Apache-2.0 */
/*
 * StreamLogs: what a sandbox's main command says, from its log. An offset is
 * one in all that it has said, with the ends of its lines; a file of the log
 * says where in that it begins. So a client that comes back gets what follows
 * what it had, also after a restart of the gateway.
 *
 * The log is read from its beginning: what is before the place to begin is
 * passed over. For the last lines it is read twice: the first time only where
 * each of them begins is noted.
 */
#include "config.h"

#include "gateway/cwlogs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "gateway/cwagent.h"
#include "gateway/cwschema.h"
#include "gateway/cwsvc_int.h"
#include "gateway/cwtime.h"
#include "gateway/jobs.h"
#include "gateway/logtail.h"
#include "net/loop.h"

#define PIECE       65536 /* of a file in one go */
#define ENTRY_MAX   32768 /* bytes of an entry */
#define LOOK_MS     20    /* while something comes */
#define LOOK_MAX_MS 200   /* while nothing does */
#define TAIL_MAX    1000000
#define STREAMS_MAX 256 /* of one namespace */

/* Where the last lines begin: a ring. */
struct marks {
	uint64_t *v;
	size_t want, room, n, next;
};

struct cwlogs {
	struct cwcall *c;
	char *dir;
	struct logtail *log;
	struct jobs_watch watch;
	struct task pump;
	struct timer look;
	uint64_t pause_ms;

	/* what is asked for */
	bool follow, stamps;
	bool resumes;     /* from `from`, which the client says */
	uint64_t from;    /* an offset: nothing before it is told */
	int64_t since_ms; /* 0: no matter when */

	bool counting; /* where to begin is being found out */
	struct marks marks;

	uint64_t at;    /* offset of what is read next */
	bool based;     /* the first line was seen */
	bool over;      /* the sandbox has ended */
	bool ended;     /* the call */
	bool within[2]; /* a line of that stream is not at its end */
	int64_t entry_ms;
	struct strbuf entry; /* what is to be told next */
};

/* --- the end ----------------------------------------------------------- */

static void
stop(struct cwlogs *s)
{
	s->ended = true;
	timer_stop(&s->look);
	task_cancel(&s->pump);
	jobs_watch_del(&s->watch);
}

static void
closed_cb(struct cwcall *c, enum cwerr_code code, void *arg)
{
	struct cwlogs *s = arg;

	(void)c;
	(void)code;
	stop(s);
	timer_clear(&s->look);
	logtail_free(s->log);
	free(s->marks.v);
	free(s->dir);
	strbuf_clear(&s->entry);
	free(s);
}

static const char *
session_of(const struct cwlogs *s, char text[JOB_ID_LEN + 4])
{
	/* How lines are written is a property of the session: a client that
	 * resumes does not say it again. */
	(void)snprintf(text, JOB_ID_LEN + 4, "%s%s", s->watch.id,
		       s->stamps ? "-t" : "");
	return text;
}

/* Errors of a log are told within the stream. */
static void
fail(struct cwlogs *s, const char *code, const char *text)
{
	struct cwout *w;

	if (s->ended)
		return;
	w = cwcall_reply(s->c);
	cwout_open(w, "error");
	cwout_text(w, "message", strv_of(text));
	cwout_text(w, "code", strv_of(code));
	cwout_close(w);
	cwcall_send(s->c);
	cwcall_end(s->c);
	stop(s);
}

/* --- telling ----------------------------------------------------------- */

static void
tell(struct cwlogs *s)
{
	char session[JOB_ID_LEN + 4];
	struct cwout *w;

	if (s->entry.len == 0)
		return;
	w = cwcall_reply(s->c);
	cwout_bytes(w, "data", (struct strv){s->entry.s, s->entry.len});
	cwout_time(w, "timestamp", s->entry_ms);
	cwout_text(w, "log_session_id", strv_of(session_of(s, session)));
	cwout_int(w, "next_log_offset", (int64_t)s->at);
	cwcall_send(s->c);
	strbuf_reset(&s->entry);
}

/* The text of r from byte `skip` on. */
static void
add_text(struct cwlogs *s, const struct logtail_record *r, uint64_t skip)
{
	size_t before = s->entry.len, n;

	strbuf_add_unjson(&s->entry, r->text);
	if (!r->part)
		strbuf_addc(&s->entry, '\n');
	if (skip == 0)
		return;
	n = s->entry.len - before - (size_t)skip;
	memmove(s->entry.s + before, s->entry.s + before + skip, n);
	s->entry.len = before + n;
}

static void
tell_record(struct cwlogs *s, const struct logtail_record *r, uint64_t skip)
{
	if (r->ms != s->entry_ms || s->entry.len >= ENTRY_MAX)
		tell(s);
	s->entry_ms = r->ms;
	if (s->stamps && skip == 0 && !s->within[r->err]) {
		cwtime_add(&s->entry, r->ms / 1000,
			   (uint32_t)(r->ms % 1000) * 1000000);
		strbuf_addc(&s->entry, ' ');
	}
	add_text(s, r, skip);
}

/* --- counting ---------------------------------------------------------- */

static void
mark(struct marks *m, uint64_t at)
{
	if (m->want == 0)
		return;
	if (m->n == m->room && m->room < m->want) {
		m->room = m->room == 0 ? 64 : m->room * 2;
		if (m->room > m->want)
			m->room = m->want;
		m->v = xreallocarray(m->v, m->room, sizeof(*m->v));
		m->next = m->n;
	}
	m->v[m->next] = at;
	m->next = (m->next + 1) % m->room;
	if (m->n < m->room)
		m->n++;
}

/* Where the oldest of them begins. */
static uint64_t
oldest(const struct cwlogs *s)
{
	const struct marks *m = &s->marks;

	if (m->n == 0)
		return s->at;
	return m->v[m->n < m->room ? 0 : m->next];
}

static void
begin_reading(struct cwlogs *s)
{
	logtail_free(s->log);
	s->log = logtail_new(s->dir, LOGTAIL_ALL);
	s->at = 0;
	s->based = false;
	memset(s->within, 0, sizeof(s->within));
}

static void
counted(struct cwlogs *s)
{
	s->counting = false;
	s->from = oldest(s);
	free(s->marks.v);
	memset(&s->marks, 0, sizeof(s->marks));
	begin_reading(s);
}

/* --- reading ----------------------------------------------------------- */

static void
take_record(struct cwlogs *s, const struct logtail_record *r)
{
	uint64_t end = s->at + str_json_len(r->text) + !r->part;
	uint64_t skip = s->from > s->at ? s->from - s->at : 0;

	if (s->counting) {
		if (!s->within[r->err] && r->ms >= s->since_ms)
			mark(&s->marks, s->at);
	} else if (s->at + skip < end && r->ms >= s->since_ms) {
		tell_record(s, r, skip);
	}
	s->within[r->err] = r->part;
	s->at = end;
}

/* A file begins. */
static void
take_base(struct cwlogs *s, uint64_t at)
{
	bool lost = s->based ? at != s->at : s->resumes && s->from < at;

	/* While it is counted that does not matter: it is read once more. */
	if (lost && !s->counting)
		fail(s, "REPLAY_GAP",
		     s->based ? "part of the log is gone: it grew faster than "
				"it was read"
			      : "what follows that offset is not kept any "
				"more");
	s->at = at;
}

static void
line_cb(struct strv line, bool gap, void *arg)
{
	struct cwlogs *s = arg;
	struct logtail_record r;
	uint64_t at;

	if (s->ended)
		return;
	/* A gap is seen at what the next file says that it begins with. */
	if (gap)
		return;
	if (logtail_base(line, &at))
		take_base(s, at);
	else if (logtail_parse(line, &r) && !r.about)
		take_record(s, &r);
	s->based = true;
}

/* Nothing to read now: the end, or later. */
static void
pause_or_end(struct cwlogs *s)
{
	if (s->counting) {
		counted(s);
		task_post(s->c->loop, &s->pump);
	} else if (s->resumes && s->from > s->at) {
		fail(s, "INVALID_RESUME_OFFSET",
		     "the log is not that long: this offset was never told");
	} else if (s->over || !s->follow) {
		cwcall_end(s->c);
		stop(s);
	} else {
		timer_set(&s->look, s->pause_ms);
		if ((s->pause_ms *= 2) > LOOK_MAX_MS)
			s->pause_ms = LOOK_MAX_MS;
	}
}

static void
pump_cb(void *arg)
{
	struct cwlogs *s = arg;

	if (s->ended || cwcall_over_high(s->c))
		return; /* writable() comes */
	if (logtail_read(s->log, PIECE, line_cb, s) == 0) {
		pause_or_end(s);
		return;
	}
	s->pause_ms = LOOK_MS;
	if (s->ended)
		return;
	tell(s);
	if (!cwcall_over_high(s->c))
		task_post(s->c->loop, &s->pump);
}

static void
writable_cb(struct cwcall *c, void *arg)
{
	(void)c;
	pump_cb(arg);
}

static void
step_cb(const char *id, const struct job_step *st, void *arg)
{
	struct cwlogs *s = arg;

	(void)id;
	if (!job_final(st->state))
		return;
	s->over = true;
	task_post(s->c->loop, &s->pump);
}

/* --- the request ------------------------------------------------------- */

/* False: the call has failed. */
static bool
read_window(struct cwlogs *s)
{
	const struct cwmsg *m = s->c->req;
	int64_t tail = cwmsg_int(m, "tail_lines");

	s->stamps = cwmsg_int(m, "timestamps") != 0;
	s->since_ms = cwmsg_time_ms(m, "since_time");
	if (tail < 0 || tail > TAIL_MAX) {
		cwcall_bad_field(s->c, "tail_lines",
				 "must be 0 (all of them) to %d", TAIL_MAX);
		return false;
	}
	s->marks.want = (size_t)tail;
	s->counting = tail > 0;
	return true;
}

/* False: it has ended. */
static bool
read_session(struct cwlogs *s, const char *id)
{
	const char *session = cwmsg_text(s->c->req, "resume_log_session_id");
	size_t n = strlen(id);

	if (strncmp(session, id, n) != 0 ||
	    (session[n] != '\0' && strcmp(session + n, "-t") != 0)) {
		fail(s, "SESSION_NOT_FOUND",
		     "that session is not one of this sandbox's log");
		return false;
	}
	s->stamps = session[n] != '\0';
	s->resumes = true;
	s->from = (uint64_t)cwmsg_int(s->c->req, "resume_log_offset");
	return true;
}

static void
begin(struct cwcall *c, const struct job *j)
{
	static const struct cwcall_cbs cbs = {.writable = writable_cb,
					      .closed = closed_cb};
	struct jobs *js = c->svc->o.jobs;
	struct cwlogs *s = xcalloc(1, sizeof(*s));

	s->c = c;
	s->dir = jobs_dir(js, j->id);
	s->follow = cwmsg_int(c->req, "follow") != 0;
	s->over = job_final(j->state);
	s->pause_ms = LOOK_MS;
	task_init(&s->pump, pump_cb, s);
	timer_init(&s->look, c->loop, pump_cb, s);
	s->watch.fn = step_cb;
	s->watch.arg = s;
	jobs_watch_add(js, &s->watch, strv_of(j->ns), strv_of(j->id));
	cwcall_set_cbs(c, &cbs, s);
	begin_reading(s);
	if (cwmsg_view(c->req, "resume_log_session_id").len > 0
		? read_session(s, j->id)
		: read_window(s))
		task_post(c->loop, &s->pump);
}

/* This one and the others of its namespace. */
static unsigned
streams(const struct cwcall *c)
{
	unsigned n = 0;

	for (const struct cwcall *o = c->svc->calls; o != NULL; o = o->next)
		n += o->method == c->method && strv_eq(o->ns, c->ns);
	return n;
}

void
cwlogs_stream(struct cwcall *c)
{
	struct job j;

	if (cwsvc_find(c, cwmsg_text(c->req, "sandbox_id"), &j) != 0)
		return;
	if (streams(c) > STREAMS_MAX)
		cwcall_fail(c, CW_RESOURCE_EXHAUSTED, NULL,
			    "too many logs are being read");
	else if (cwagent_container(c, &j, cwmsg_text(c->req, "container")) == 0)
		begin(c, &j);
	job_clear(&j);
}
