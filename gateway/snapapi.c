/* SPDX-License-Identifier: Apache-2.0 */
/* Making, listing, reading and deleting snapshots over HTTP. */
#include "config.h"

#include "gateway/snapapi.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "gateway/api.h"
#include "gateway/gwconf.h"
#include "gateway/jobjson.h"
#include "gateway/jobs.h"
#include "gateway/snapapi_int.h"
#include "gateway/snapshots.h"
#include "net/loop.h"

/* --- JSON -------------------------------------------------------------- */
static void
add_number(struct strbuf *b, const char *key, uint64_t v)
{
	strbuf_addf(b, ",\"%s\":%llu", key, (unsigned long long)v);
}

static void
add_snapshot(struct strbuf *b, const struct snapshot *sn)
{
	strbuf_addf(b, "{\"id\":\"%s\",\"job\":\"%s\"", sn->id, sn->job);
	jobjson_add_text(b, "namespace", sn->ns);
	jobjson_add_text(b, "user", sn->user);
	jobjson_add_text(b, "state", snapshot_state_name(sn->state));
	jobjson_add_text(b, "reason", sn->reason);
	jobjson_add_text(b, "trigger", snapshot_trigger_name(sn->trigger));
	jobjson_add_text(b, "volume", sn->volume);
	jobjson_add_text(b, "requestId", sn->request_id);
	jobjson_add_text(b, "dockerImage", sn->image);
	add_number(b, "size", sn->size);
	jobjson_add_text(b, "sha256",
			 sn->sha256[0] != '\0' ? sn->sha256 : NULL);
	add_number(b, "bytes", sn->bytes);
	add_number(b, "entries", sn->entries);
	add_number(b, "changed", sn->changed);
	add_number(b, "skipped", sn->skipped);
	jobjson_add_time(b, "createdAt", sn->created_ms);
	jobjson_add_time(b, "completedAt", sn->completed_ms);
	jobjson_add_time(b, "updatedAt", sn->updated_ms);
	strbuf_addc(b, '}');
}

static void
reply(struct api_req *r, unsigned status, const struct snapshot *sn)
{
	struct strbuf b = {0};

	add_snapshot(&b, sn);
	strbuf_addc(&b, '\n');
	api_reply_json(r, status, &b, NULL);
	strbuf_clear(&b);
}

/* --- helpers ----------------------------------------------------------- */
static struct snapshots *
service(const struct api_req *r)
{
	const struct snapapi *sa = r->arg;

	return sa->snapshots;
}

static void
not_found(struct api_req *r)
{
	api_error(r, 404, "snapshot_not_found", "Snapshot not found");
}

static void
failed(struct api_req *r, int err, const char *why)
{
	static const struct {
		int err;
		unsigned status;
		const char *code;
	} table[] = {{E_NOTFOUND, 404, "job_not_found"},
		     {E_INVALID, 400, "bad_request"},
		     {E_BUSY, 409, "not_running"},
		     {E_CANCELLED, 409, "not_running"},
		     {E_UNSUPPORTED, 501, "unsupported"},
		     {E_LIMIT, 429, "too_many_snapshots"},
		     {E_FULL, 507, "store"}};

	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		if (table[i].err == err) {
			api_error(r, table[i].status, table[i].code, "%s", why);
			return;
		}
	api_error(r, 503, "store", "%s", why);
}

int
snapapi_find(struct api_req *r, struct snapshot *out)
{
	struct strv ns;
	int res;

	if ((res = snapshots_get(service(r), STRV_NULL, r->param[0], out)) ==
	    0) {
		ns = strv_of(out->ns);
		if (api_may_read(&r->who, ns))
			return 0;
		snapshot_clear(out);
		res = E_NOTFOUND;
	}
	if (res == E_NOTFOUND)
		not_found(r);
	else
		api_error(r, 503, "store", "snapshots cannot be read now");
	return res;
}

/* --- ?wait=ready ------------------------------------------------------- */
struct wait {
	struct api_req *r;
	struct snapapi_wait link;
	struct snapshots_watch watch;
	struct timer timer;
	bool done;
};

static void
wait_answer(void *arg)
{
	struct wait *w = arg;
	struct snapshot sn;

	if (w->done)
		return;
	w->done = true;
	snapshots_watch_del(&w->watch);
	timer_stop(&w->timer);
	if (snapshots_get(service(w->r), strv_of(w->link.ns),
			  strv_of(w->watch.id), &sn) != 0) {
		not_found(w->r);
		return;
	}
	reply(w->r, 200, &sn);
	snapshot_clear(&sn);
}

static void
wait_told(void *arg)
{
	struct wait *w = arg;
	struct snapshot sn;
	bool over = true;

	if (snapshots_get(service(w->r), strv_of(w->link.ns),
			  strv_of(w->watch.id), &sn) == 0) {
		over = sn.state != SNAPSHOT_CREATING;
		snapshot_clear(&sn);
	}
	if (over)
		wait_answer(w);
}

static void
wait_closed(struct httpd_req *rq, int err, void *arg)
{
	struct wait *w = arg;

	(void)rq;
	(void)err;
	snapshots_watch_del(&w->watch);
	timer_clear(&w->timer);
	free(w->link.ns);
	*w->link.prevp = w->link.next;
	if (w->link.next != NULL)
		w->link.next->prevp = w->link.prevp;
	w->link.sa->nwaits--;
}

static bool
wait_may(struct api_req *r)
{
	const struct snapapi *sa = r->arg;

	if (sa->draining)
		api_error(r, 503, "draining", "the gateway is ending");
	else if (sa->nwaits >= jobs_conf(sa->jobs)->jobs.max_streams)
		api_error(r, 429, "too_many_streams",
			  "too many answers are waited for already");
	else
		return true;
	return false;
}

static void
wait_begin(struct api_req *r, const struct snapshot *sn, uint64_t ms)
{
	static const struct httpd_req_cbs cbs = {.closed = wait_closed};
	struct snapapi *sa = r->arg;
	struct wait *w;

	if (!wait_may(r))
		return;
	w = httpd_alloc(r->rq, sizeof(*w));
	memset(w, 0, sizeof(*w));
	w->r = r;
	w->link = (struct snapapi_wait){.next = sa->waits,
					.prevp = &sa->waits,
					.sa = sa,
					.ns = xstrdup(sn->ns),
					.end = wait_answer,
					.arg = w};
	if (w->link.next != NULL)
		w->link.next->prevp = &w->link.next;
	sa->waits = &w->link;
	sa->nwaits++;
	timer_init(&w->timer, jobs_loop(sa->jobs), wait_answer, w);
	timer_set(&w->timer, ms);
	w->watch.fn = wait_told;
	w->watch.arg = w;
	snapshots_watch_add(sa->snapshots, &w->watch, sn->id);
	httpd_set_cbs(r->rq, &cbs, w);
}

/* Answers now, or when it is no longer being made if that is asked for. */
static void
answer(struct api_req *r, unsigned status, const struct snapshot *sn)
{
	struct strv wait = api_query(r, "wait");
	uint64_t ms;

	if (wait.p != NULL && !strv_eq(wait, STRV("ready")))
		api_error(r, 400, "bad_request", "wait: must be ready");
	else if (!api_timeout(r, &ms))
		return;
	else if (wait.p != NULL && sn->state == SNAPSHOT_CREATING)
		wait_begin(r, sn, ms);
	else
		reply(r, status, sn);
}

/* --- making one -------------------------------------------------------- */
/* false: it was answered. */
static bool
read_text(struct api_req *r, const struct json *root, const char *name,
	  struct strv *out)
{
	const struct json *v = json_get(root, name);

	if (v == NULL || json_type(v) == JSON_NULL)
		return true;
	if (json_string(v) == NULL) {
		api_error(r, 400, "bad_request", "%s: must be a string", name);
		return false;
	}
	*out = strv_of(json_string(v));
	return true;
}

static void
create_body(struct api_req *r, const struct json *root)
{
	struct snapshot_ask ask = {.ns = r->param[0],
				   .user = r->who.name,
				   .job = r->param[1],
				   .trigger = SNAPSHOT_MANUAL};
	struct snapshot sn;
	char *why = NULL;
	bool existed;
	int res;

	if (!read_text(r, root, "requestId", &ask.request_id) ||
	    !read_text(r, root, "volume", &ask.volume))
		return;
	res = snapshots_create(service(r), &ask, &sn, &existed, &why);
	if (res == 0) {
		answer(r, 200, &sn);
		snapshot_clear(&sn);
	} else {
		failed(r, res, why);
	}
	free(why);
}

void
snapapi_cancel(struct api_req *r, struct snapshots *s, uint64_t grace_ms)
{
	const struct snapshot_ask ask = {.ns = r->param[0],
					 .user = r->who.name,
					 .job = r->param[1],
					 .request_id =
					     api_query(r, "requestId"),
					 .volume = api_query(r, "volume")};
	struct snapshot sn;
	char *why = NULL;
	bool existed;
	int res = snapshots_stop(s, &ask, grace_ms, &sn, &existed, &why);

	if (res == 0) {
		reply(r, 200, &sn);
		snapshot_clear(&sn);
	} else {
		failed(r, res, why);
	}
	free(why);
}

static void
create_cb(struct api_req *r)
{
	struct strv ns = r->param[0];

	if (!api_may_read(&r->who, ns))
		api_error(r, 404, "job_not_found", "Job not found");
	else if (!api_may_write(&r->who, ns))
		api_error(r, 403, "forbidden",
			  "this token may read snapshots, not make them");
	else
		api_body_json(r, 65536, create_body);
}

/* --- lists ------------------------------------------------------------- */
struct page {
	struct strbuf out;
	const char *sep;
	uint64_t left, last;
	bool more;
};

static bool
page_cb(const struct snapshot *sn, void *arg)
{
	struct page *p = arg;

	if (p->left == 0) {
		p->more = true;
		return false;
	}
	strbuf_adds(&p->out, p->sep);
	add_snapshot(&p->out, sn);
	p->sep = ",\n";
	p->left--;
	p->last = sn->seq;
	return true;
}

static bool
list_params(struct api_req *r, struct snapshot_query *q, uint64_t *limit)
{
	struct strv v = api_query(r, "limit");

	if (v.p != NULL &&
	    (strv_parse_u64(v, API_PAGE_MAX, false, limit) != 0 ||
	     *limit == 0)) {
		api_error(r, 400, "bad_request", "limit: must be from 1 to %d",
			  API_PAGE_MAX);
		return false;
	}
	v = api_query(r, "cursor");
	if (v.p != NULL &&
	    (strv_parse_u64(v, INT64_MAX, true, &q->before) != 0 ||
	     q->before == 0)) {
		api_error(r, 400, "bad_request", "cursor: is not one of ours");
		return false;
	}
	q->job = api_query(r, "job");
	if (q->job.p != NULL && !job_id_ok(q->job)) {
		api_error(r, 400, "bad_request", "job: is not a job's id");
		return false;
	}
	q->ns = api_query(r, "namespace");
	if (q->ns.p == NULL)
		q->ns = r->who.ns[0];
	if (api_may_read(&r->who, q->ns))
		return true;
	api_error(r, 403, "forbidden",
		  "this token has no access to that namespace");
	return false;
}

static void
list_cb(struct api_req *r)
{
	struct snapshot_query q = {.before = 0};
	struct page p = {.sep = "", .left = API_PAGE_DEFAULT};

	if (!list_params(r, &q, &p.left))
		return;
	strbuf_adds(&p.out, "{\"snapshots\":[");
	if (snapshots_list(service(r), &q, page_cb, &p) != 0) {
		api_error(r, 503, "store", "snapshots cannot be read now");
	} else {
		strbuf_adds(&p.out, "],\"nextCursor\":");
		if (p.more)
			strbuf_addf(&p.out, "\"%llu\"}\n",
				    (unsigned long long)p.last);
		else
			strbuf_adds(&p.out, "null}\n");
		api_reply_json(r, 200, &p.out, NULL);
	}
	strbuf_clear(&p.out);
}

/* --- one --------------------------------------------------------------- */
static void
get_cb(struct api_req *r)
{
	struct snapshot sn;

	if (snapapi_find(r, &sn) != 0)
		return;
	answer(r, 200, &sn);
	snapshot_clear(&sn);
}

static void
delete_cb(struct api_req *r)
{
	struct snapshot sn, now;

	if (snapapi_find(r, &sn) != 0)
		return;
	if (!api_may_write(&r->who, strv_of(sn.ns))) {
		api_error(r, 403, "forbidden",
			  "this token may read snapshots, not delete them");
	} else if (snapshots_delete(service(r), strv_of(sn.ns), r->param[0],
				    &now) == 0) {
		reply(r, 200, &now);
		snapshot_clear(&now);
	} else {
		api_error(r, 503, "store", "snapshots cannot be read now");
	}
	snapshot_clear(&sn);
}

/* --- routes ------------------------------------------------------------ */
struct snapapi *
snapapi_new(struct api *a, struct jobs *js, struct snapshots *s)
{
	static const struct {
		const char *method, *pattern;
		api_handler *fn;
	} routes[] = {{"POST", "/api/jobs/:ns/:id/snapshots", create_cb},
		      {"GET", "/api/snapshots", list_cb},
		      {"GET", "/api/snapshots/:id", get_cb},
		      {"DELETE", "/api/snapshots/:id", delete_cb},
		      {"GET", "/api/snapshots/:id/content", snapapi_content}};
	struct snapapi *sa = xcalloc(1, sizeof(*sa));

	sa->jobs = js;
	sa->snapshots = s;
	for (size_t i = 0; i < ARRAY_LEN(routes); i++)
		if (api_route(a, routes[i].method, routes[i].pattern,
			      routes[i].fn, sa) != 0)
			log_error("snapshots.route", "pattern=%s error=taken",
				  routes[i].pattern);
	return sa;
}

void
snapapi_drain(struct snapapi *sa)
{
	struct snapapi_wait *w, *next;

	sa->draining = true;
	for (w = sa->waits; w != NULL; w = next) {
		next = w->next; /* `closed` comes later, not from end() */
		w->end(w->arg);
	}
}

void
snapapi_free(struct snapapi *sa)
{
	free(sa);
}
