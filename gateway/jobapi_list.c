/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of jobs, a page at a time. */
#include "config.h"

#include "gateway/jobapi_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "gateway/jobjson.h"

#define PAGE_BYTES (4U << 20) /* a page ends early when it has so many */
#define LABELS_MAX 16

struct page {
	struct api_req *r;
	struct strbuf out;
	const char *sep;
	uint64_t left, last;
	bool more;
};

/* What a list is asked for. */
struct listing {
	struct job_query q;
	struct job_pairs labels;
	struct job_words tags;
	uint64_t limit;
};

static int
parse_label(struct api_req *r, struct strv v, struct job_pairs *labels)
{
	struct strv key;

	if (labels->n == LABELS_MAX) {
		api_error(r, 400, "bad_request", "label: more than %d",
			  LABELS_MAX);
		return E_INVALID;
	}
	(void)strv_cut(&v, '=', &key);
	if (key.len == 0 || v.p == NULL) {
		api_error(r, 400, "bad_request", "label: must be key=value");
		return E_INVALID;
	}
	jobspec_push(labels, key, v);
	return 0;
}

static int
bad_param(struct api_req *r, struct strv name, const char *what)
{
	api_error(r, 400, "bad_request", "%.*s: %s", STRV_ARG(name), what);
	return E_INVALID;
}

static int
parse_param(struct api_req *r, struct strv name, struct strv v,
	    struct listing *li)
{
	struct job_query *q = &li->q;
	enum job_stage stage;
	enum job_state state;

	if (strv_eq(name, STRV("stage"))) {
		if (job_stage_parse(v, &stage) != 0)
			return bad_param(r, name,
					 "must be SCHEDULING, RUNNING, "
					 "COMPLETED, CANCELED, ERROR or "
					 "DELETED");
		q->stages |= 1U << stage;
	} else if (strv_eq(name, STRV("state"))) {
		if (job_state_parse(v, &state) != 0)
			return bad_param(r, name, "is not a state of jobs");
		q->states |= 1U << state;
	} else if (strv_eq(name, STRV("label"))) {
		return parse_label(r, v, &li->labels);
	} else if (strv_eq(name, STRV("tag"))) {
		if (li->tags.n == JOBSPEC_TAGS_MAX)
			return bad_param(r, name, "too many of them");
		jobspec_push_word(&li->tags, v);
	} else if (strv_eq(name, STRV("limit"))) {
		if (strv_parse_u64(v, API_PAGE_MAX, false, &li->limit) != 0 ||
		    li->limit == 0)
			return bad_param(r, name, "must be from 1 to 1000");
	} else if (strv_eq(name, STRV("cursor"))) {
		if (strv_parse_u64(v, INT64_MAX, true, &q->before) != 0 ||
		    q->before == 0)
			return bad_param(r, name, "is not one of ours");
	}
	return 0;
}

static bool
page_cb(const struct job *j, void *arg)
{
	struct page *p = arg;

	if (p->left == 0 || p->out.len > PAGE_BYTES) {
		p->more = true;
		return false;
	}
	strbuf_adds(&p->out, p->sep);
	jobjson_add(&p->out, j, jobs_conf(jobapi_service(p->r)),
		    p->r->who.origin);
	p->sep = ",\n";
	p->left--;
	p->last = j->seq;
	return true;
}

/* The same request, as it was sent, for what comes after the last one. */
static char *
next_link(const struct page *p)
{
	struct strv rest = p->r->query, one;
	struct strbuf b = {0};
	const char *sep = "?";

	if (!p->more || p->r->who.origin.len == 0)
		return NULL;
	strbuf_addf(&b, "Link: <%.*s%.*s", STRV_ARG(p->r->who.origin),
		    STRV_ARG(p->r->path));
	while (strv_cut(&rest, '&', &one)) {
		if (one.len == 0 || strv_starts(one, STRV("cursor=")))
			continue;
		strbuf_addf(&b, "%s%.*s", sep, STRV_ARG(one));
		sep = "&";
	}
	strbuf_addf(&b, "%scursor=%llu>; rel=\"next\"\r\n", sep,
		    (unsigned long long)p->last);
	return strbuf_take(&b);
}

void
jobapi_list(struct api_req *r)
{
	struct listing li = {.limit = API_PAGE_DEFAULT};
	struct page p = {.r = r, .sep = ""};
	struct strv name, value;
	size_t pos = 0;
	char *ns = NULL, *link;

	if (!jobapi_may(r, false))
		return;
	while (api_query_next(r, &pos, &name, &value))
		if (parse_param(r, name, value, &li) != 0)
			goto out;
	li.q.labels = &li.labels;
	li.q.tags = &li.tags;
	p.left = li.limit;
	li.q.ns = ns = xstrndup(r->param[0].p, r->param[0].len);
	strbuf_addc(&p.out, '[');
	if (jobs_list(jobapi_service(r), &li.q, page_cb, &p) != 0) {
		api_error(r, 503, "store", "jobs cannot be read now");
		goto out;
	}
	strbuf_adds(&p.out, "]\n");
	link = next_link(&p);
	api_reply_json(r, 200, &p.out, link);
	free(link);
out:
	strbuf_clear(&p.out);
	jobspec_clear_pairs(&li.labels);
	jobspec_clear_words(&li.tags);
	free(ns);
}
