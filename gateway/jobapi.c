/* SPDX-License-Identifier: Apache-2.0 */
/* Making, listing, reading and changing jobs over HTTP. */
#include "config.h"

#include "gateway/jobapi.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "gateway/gwconf.h"
#include "gateway/jobapi_int.h"
#include "gateway/jobjson.h"
#include "gateway/names.h"
#include "gateway/snapapi.h"
#include "net/http1.h"

/* --- helpers ----------------------------------------------------------- */
struct jobs *
jobapi_service(const struct api_req *r)
{
	const struct jobapi *ja = r->arg;

	return ja->js;
}

static struct snapshots *
snapshots_of(const struct api_req *r)
{
	const struct jobapi *ja = r->arg;

	return ja->snapshots;
}

static void
not_found(struct api_req *r)
{
	api_error(r, 404, "job_not_found", "Job not found");
}

/* Whether who may do that in namespace param 0; else it is answered. */
bool
jobapi_may(struct api_req *r, bool change)
{
	struct strv ns = r->param[0];

	if (change && api_may_write(&r->who, ns))
		return true;
	if (!change && api_may_read(&r->who, ns))
		return true;
	if (api_may_read(&r->who, ns))
		api_error(r, 403, "forbidden",
			  "this token may read jobs, not change them");
	else
		api_error(r, 403, "forbidden",
			  "this token has no access to that namespace");
	return false;
}

int
jobapi_find(struct api_req *r, bool change, struct job *out)
{
	int res =
	    api_may_read(&r->who, r->param[0])
		? jobs_get(jobapi_service(r), r->param[0], r->param[1], out)
		: E_NOTFOUND;

	if (res == 0 && change && !jobapi_may(r, true)) {
		job_clear(out);
		return E_DENIED;
	}
	if (res == E_NOTFOUND)
		not_found(r);
	else if (res != 0)
		api_error(r, 503, "store", "jobs cannot be read now");
	return res;
}

void
jobapi_reply(struct api_req *r, const struct job *j)
{
	struct strbuf b = {0};

	jobjson_add(&b, j, jobs_conf(jobapi_service(r)), r->who.origin);
	strbuf_addc(&b, '\n');
	api_reply_json(r, 200, &b, NULL);
	strbuf_clear(&b);
}

bool
jobapi_stream_may(struct api_req *r)
{
	const struct jobapi *ja = r->arg;

	if (r->head->method == M_HEAD) { /* there is nothing to follow */
		if (jobapi_sse(r))
			httpd_end(r->rq);
		return false;
	}
	if (ja->draining) {
		api_error(r, 503, "draining", "the gateway is ending");
		return false;
	}
	if (ja->nstreams >= jobs_conf(ja->js)->jobs.max_streams) {
		api_error(r, 429, "too_many_streams",
			  "too many logs and events are followed already");
		return false;
	}
	return true;
}

void
jobapi_stream_add(struct jobapi *ja, struct jobapi_stream *s,
		  void (*end)(void *arg), void *arg)
{
	s->end = end;
	s->arg = arg;
	s->next = ja->streams;
	s->prevp = &ja->streams;
	if (s->next != NULL)
		s->next->prevp = &s->next;
	ja->streams = s;
	ja->nstreams++;
}

void
jobapi_stream_del(struct jobapi *ja, struct jobapi_stream *s)
{
	*s->prevp = s->next;
	if (s->next != NULL)
		s->next->prevp = s->prevp;
	ja->nstreams--;
}

void
jobapi_drain(struct jobapi *ja)
{
	struct jobapi_stream *s, *next;

	ja->draining = true;
	for (s = ja->streams; s != NULL; s = next) {
		next = s->next; /* `closed` comes later, not from end() */
		s->end(s->arg);
	}
}

bool
jobapi_sse(struct api_req *r)
{
	struct http_writer *w =
	    httpd_begin(r->rq, 200, STRV("OK"), BODY_UNTIL_CLOSE, 0, 256);

	http1_put(w, STRV("Content-Type"), STRV("text/event-stream"));
	http1_put(w, STRV("Cache-Control"), STRV("no-store"));
	http1_put(w, STRV("X-Accel-Buffering"), STRV("no"));
	return httpd_end_head(r->rq) == 0;
}

bool
jobapi_flag(const struct api_req *r, const char *name, bool deflt)
{
	struct strv v = api_query(r, name);

	if (strv_eq_nocase(v, STRV("true")) || strv_eq(v, STRV("1")) ||
	    strv_eq_nocase(v, STRV("yes")))
		return true;
	if (strv_eq_nocase(v, STRV("false")) || strv_eq(v, STRV("0")) ||
	    strv_eq_nocase(v, STRV("no")))
		return false;
	return deflt;
}

/* --- making one -------------------------------------------------------- */
static void
create_failed(struct api_req *r, int err, const char *why)
{
	switch (err) {
	case E_INVALID:
		api_error(r, 400, "bad_request", "%s", why);
		break;
	case E_LIMIT:
		api_error(r, 429, "too_many_jobs", "%s", why);
		break;
	case E_NOTFOUND:
		api_error(r, 404, "snapshot_not_found", "%s", why);
		break;
	case E_BUSY:
		api_error(r, 409, "not_ready", "%s", why);
		break;
	default:
		api_error(r, err == E_FULL ? 507 : 503, "store", "%s", why);
		break;
	}
}

static void
created(struct api_req *r, const struct job *j, const struct strbuf *ignored)
{
	struct strbuf b = {0};

	jobjson_add(&b, j, jobs_conf(jobapi_service(r)), r->who.origin);
	if (ignored->len != 0) {
		b.len--; /* the closing brace */
		strbuf_adds(&b, ",\"ignoredFields\":");
		strbuf_add_json(&b, (struct strv){ignored->s, ignored->len});
		strbuf_addc(&b, '}');
	}
	strbuf_addc(&b, '\n');
	api_reply_json(r, 200, &b, NULL);
	strbuf_clear(&b);
}

static void
create_body(struct api_req *r, const struct json *root)
{
	struct strbuf why = {0}, ignored = {0};
	struct job_spec spec = {0};
	struct job j;
	bool existed;
	char *ns, *user, *text = NULL;
	int res;

	if (jobspec_parse(root, false, &spec, &ignored, &why) != 0) {
		api_error(r, 400, "bad_request", "%s", why.s);
		strbuf_clear(&why);
		strbuf_clear(&ignored);
		return;
	}
	ns = xstrndup(r->param[0].p, r->param[0].len);
	user = xstrndup(r->who.name.p, r->who.name.len);
	res = jobs_create(jobapi_service(r), ns, user, &spec, &j, &existed,
			  &text);
	if (res == 0) {
		created(r, &j, &ignored);
		job_clear(&j);
	} else {
		create_failed(r, res, text);
	}
	jobspec_clear(&spec);
	strbuf_clear(&why);
	strbuf_clear(&ignored);
	free(text);
	free(ns);
	free(user);
}

static void
create_cb(struct api_req *r)
{
	if (!jobapi_may(r, true))
		return;
	if (!names_ok(r->param[0])) { /* an admin may name any */
		api_error(r, 400, "bad_request",
			  "the namespace is not a possible name");
		return;
	}
	api_body_json(r, 0, create_body);
}

/* --- one job ----------------------------------------------------------- */
static void
get_cb(struct api_req *r)
{
	struct strv wait = api_query(r, "wait");
	struct job j;

	if (jobapi_find(r, false, &j) != 0)
		return;
	if (wait.p != NULL)
		jobapi_wait(r, &j, wait);
	else
		jobapi_reply(r, &j);
	job_clear(&j);
}

/* Who wanted one must not lose what was to be in it to a slip. */
static int
wants_snapshot(struct api_req *r, bool *wanted)
{
	*wanted = jobapi_flag(r, "snapshot", false);
	if (*wanted || api_query(r, "snapshot").p == NULL ||
	    !jobapi_flag(r, "snapshot", true))
		return 0;
	api_error(r, 400, "bad_request", "snapshot: must be 1 or 0");
	return E_INVALID;
}

static void
cancel_cb(struct api_req *r)
{
	struct strv grace = api_query(r, "grace");
	uint64_t ms = JOBS_GRACE;
	bool snapshot;
	struct job j;

	if (wants_snapshot(r, &snapshot) != 0)
		return;
	if (grace.p != NULL &&
	    (strv_parse_duration(grace, &ms) != 0 || ms > 3600 * 1000)) {
		api_error(r, 400, "bad_request",
			  "grace: must be a duration, at most 1h");
		return;
	}
	if (jobapi_find(r, true, &j) != 0)
		return;
	job_clear(&j);
	if (snapshot) {
		snapapi_cancel(r, snapshots_of(r), ms);
		return;
	}
	if (jobs_stop(jobapi_service(r), r->param[0], r->param[1], r->who.name,
		      ms) != 0) {
		api_error(r, 503, "store", "the job cannot be canceled now");
		return;
	}
	if (jobapi_find(r, true, &j) != 0)
		return;
	jobapi_reply(r, &j);
	job_clear(&j);
}

static void
pause_or_resume(struct api_req *r, bool pause)
{
	char *why = NULL;
	struct job j;
	int res;

	if (jobapi_find(r, true, &j) != 0)
		return;
	job_clear(&j);
	res = jobs_pause(jobapi_service(r), r->param[0], r->param[1],
			 r->who.name, pause, &why);
	if (res == E_BUSY) {
		api_error(r, 409, "conflict", "%s", why);
	} else if (res != 0) {
		api_error(r, 503, "store", "jobs cannot be read now");
	} else if (jobapi_find(r, true, &j) == 0) {
		jobapi_reply(r, &j);
		job_clear(&j);
	}
	free(why);
}

static void
pause_cb(struct api_req *r)
{
	pause_or_resume(r, true);
}

static void
resume_cb(struct api_req *r)
{
	pause_or_resume(r, false);
}

static void
labels_body(struct api_req *r, const struct json *root)
{
	const struct json *v = json_get(root, "labels");
	struct job_pairs labels = {0};
	struct strbuf why = {0};
	struct job j;

	if (v == NULL)
		api_error(r, 400, "bad_request", "labels: is missing");
	else if (jobspec_parse_labels(v, &labels, &why) != 0)
		api_error(r, 400, "bad_request", "%s", why.s);
	else if (jobs_set_labels(jobapi_service(r), r->param[0], r->param[1],
				 &labels) != 0)
		api_error(r, 503, "store", "the labels cannot be stored now");
	else if (jobapi_find(r, true, &j) == 0) {
		jobapi_reply(r, &j);
		job_clear(&j);
	}
	strbuf_clear(&why);
}

static void
labels_cb(struct api_req *r)
{
	struct job j;

	if (jobapi_find(r, true, &j) != 0)
		return;
	job_clear(&j);
	api_body_json(r, 65536, labels_body);
}

/* --- what happened to it ----------------------------------------------- */
struct history {
	struct strbuf out;
	const char *ns, *sep;
};

static bool
history_step(struct strv id, const struct job_step *st, void *arg)
{
	struct history *h = arg;

	strbuf_adds(&h->out, h->sep);
	jobjson_add_step(&h->out, id, h->ns, st);
	h->sep = ",";
	return true;
}

static void
history_cb(struct api_req *r)
{
	struct history h = {.sep = ""};
	struct job j;

	if (jobapi_find(r, false, &j) != 0)
		return;
	h.ns = j.ns;
	strbuf_addc(&h.out, '[');
	if (jobs_steps(jobapi_service(r), j.ns, strv_of(j.id), 0, history_step,
		       &h) != 0) {
		api_error(r, 503, "store", "jobs cannot be read now");
	} else {
		strbuf_adds(&h.out, "]\n");
		api_reply_json(r, 200, &h.out, NULL);
	}
	strbuf_clear(&h.out);
	job_clear(&j);
}

static void
hardware_cb(struct api_req *r)
{
	struct strbuf b = {0};

	jobjson_add_hardware(&b, jobs_conf(jobapi_service(r)));
	strbuf_addc(&b, '\n');
	api_reply_json(r, 200, &b, NULL);
	strbuf_clear(&b);
}

/* --- routes ------------------------------------------------------------ */
struct jobapi *
jobapi_new(struct api *a, struct jobs *js, struct snapshots *snapshots)
{
	static const struct {
		const char *method, *pattern;
		api_handler *fn;
	} routes[] = {{"GET", "/api/jobs/hardware", hardware_cb},
		      {"POST", "/api/jobs/:ns", create_cb},
		      {"GET", "/api/jobs/:ns", jobapi_list},
		      {"GET", "/api/jobs/:ns/:id", get_cb},
		      {"POST", "/api/jobs/:ns/:id/cancel", cancel_cb},
		      {"POST", "/api/jobs/:ns/:id/pause", pause_cb},
		      {"POST", "/api/jobs/:ns/:id/resume", resume_cb},
		      {"PUT", "/api/jobs/:ns/:id/labels", labels_cb},
		      {"GET", "/api/jobs/:ns/:id/logs", jobapi_logs},
		      {"GET", "/api/jobs/:ns/:id/history", history_cb},
		      {"GET", "/api/events", jobapi_events}};
	struct jobapi *ja = xcalloc(1, sizeof(*ja));

	ja->js = js;
	ja->snapshots = snapshots;
	for (size_t i = 0; i < ARRAY_LEN(routes); i++)
		if (api_route(a, routes[i].method, routes[i].pattern,
			      routes[i].fn, ja) != 0)
			log_error("jobs.route", "pattern=%s error=taken",
				  routes[i].pattern);
	return ja;
}

void
jobapi_free(struct jobapi *ja)
{
	free(ja);
}
