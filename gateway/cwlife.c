/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at sandboxes and ending them. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "gateway/cwsnap.h"
#include "gateway/cwsvc_int.h"

#define PAGE_BYTES (4U << 20) /* a page ends early when it has so many */
#define GRACE_MAX  3600

#define BIT(s) (1U << (s))
#define LIVE                                                                   \
	(BIT(JOB_PENDING) | BIT(JOB_CREATING) | BIT(JOB_RUNNING) |             \
	 BIT(JOB_PAUSED) | BIT(JOB_TERMINATING))

void
cwlife_get(struct cwcall *c)
{
	struct job j;

	if (cwsvc_find(c, cwmsg_text(c->req, "sandbox_id"), &j) != 0)
		return;
	cwsvc_answer_sandbox(c, &j);
	job_clear(&j);
}

/* --- lists ------------------------------------------------------------- */

/* Which sandboxes are asked for; borrows from the request. */
struct wanted {
	struct job_query q;
	struct job_words tags;
	char *ns;
};

static void
wanted_init(struct wanted *w, const struct cwcall *c)
{
	size_t n = cwmsg_count(c->req, "tags");

	memset(w, 0, sizeof(*w));
	for (size_t i = 0; i < n; i++)
		jobspec_push_word(&w->tags,
				  strv_of(cwmsg_text_at(c->req, "tags", i)));
	w->ns = xstrndup(c->ns.p, c->ns.len);
	w->q.ns = w->ns;
	w->q.tags = &w->tags;
}

static void
wanted_clear(struct wanted *w)
{
	jobspec_clear_words(&w->tags);
	free(w->ns);
}

static bool
tags_ok(struct cwcall *c)
{
	if (cwmsg_count(c->req, "tags") <= JOBSPEC_TAGS_MAX)
		return true;
	cwcall_bad_field(c, "tags", "are more than %d", JOBSPEC_TAGS_MAX);
	return false;
}

struct page {
	struct cwcall *c;
	struct cwout *w;
	int64_t left;
	uint64_t last;
	bool more;
};

static bool
page_cb(const struct job *j, void *arg)
{
	struct page *p = arg;

	if (!jobspec_main(&j->spec))
		return true;
	if (p->left == 0 || p->c->buf.len > PAGE_BYTES) {
		p->more = true;
		return false;
	}
	cwout_open(p->w, "sandboxes");
	cwbox_add(p->w, j, jobs_conf(p->c->svc->o.jobs), p->c->who->origin);
	cwout_close(p->w);
	p->left--;
	p->last = j->seq;
	return true;
}

/* False: the call has failed. */
static bool
read_list(struct cwcall *c, struct wanted *w, int64_t *size)
{
	int64_t state = cwmsg_int(c->req, "state");

	if (cwmsg_count(c->req, "runner_ids") != 0) {
		cwsvc_unsupported(c, "runner_ids",
				  "there are no runners to choose from");
		return false;
	}
	if (cwmsg_count(c->req, "volume_ids") != 0) {
		cwsvc_unsupported(c, "volume_ids", "volumes are not supported");
		return false;
	}
	if (!cwsvc_page(c, size, &w->q.before))
		return false;
	if (state < 0 || state >= JOB_STATES) {
		cwcall_bad_field(c, "state", "is not a state");
		return false;
	}
	if (state != JOB_UNSPECIFIED)
		w->q.states = BIT(state);
	else if (cwmsg_int(c->req, "show_terminated") == 0)
		w->q.states = LIVE;
	return true;
}

void
cwlife_list(struct cwcall *c)
{
	struct page p = {.c = c};
	struct wanted w;
	int r;

	if (!tags_ok(c))
		return;
	wanted_init(&w, c);
	if (!read_list(c, &w, &p.left))
		goto out;
	p.w = cwcall_reply(c);
	cwout_list(p.w, "sandboxes");
	if ((r = jobs_list(c->svc->o.jobs, &w.q, page_cb, &p)) != 0) {
		cwsvc_store_failed(c, r);
		goto out;
	}
	cwsvc_next_page(p.w, p.more, p.last);
	cwcall_answer(c);
out:
	wanted_clear(&w);
}

/* --- ends -------------------------------------------------------------- */

/* False: the call has failed. */
static bool
delete_ok(struct cwcall *c)
{
	int64_t grace = cwmsg_int(c->req, "grace_period_seconds");

	if (grace < 0 || grace > GRACE_MAX) {
		cwcall_bad_field(c, "grace_period_seconds",
				 "must be from 0 to %d", GRACE_MAX);
		return false;
	}
	return true;
}

/* Once more after it was told to end, to say how it is now. */
static void
answer_deleted(struct cwcall *c, const char *id, const struct job_words *snaps)
{
	struct cwout *w;
	struct job j;

	if (cwsvc_find(c, id, &j) != 0)
		return;
	w = cwcall_reply(c);
	cwout_open(w, "sandbox");
	cwbox_add(w, &j, jobs_conf(c->svc->o.jobs), c->who->origin);
	cwout_close(w);
	cwout_list(w, "file_system_snapshot_ids");
	for (size_t i = 0; i < snaps->n; i++)
		cwout_text(w, "file_system_snapshot_ids", strv_of(snaps->v[i]));
	cwcall_answer(c);
	job_clear(&j);
}

/* False: the call has failed. */
static bool
end_one(struct cwcall *c, const struct job *j, struct job_words *snaps)
{
	uint64_t grace_ms =
	    (uint64_t)cwmsg_int(c->req, "grace_period_seconds") * 1000;
	int r;

	if (cwmsg_count(c->req, "snapshot_volumes") != 0)
		return cwsnap_stop(c, j, grace_ms, snaps);
	r = jobs_stop(c->svc->o.jobs, c->ns, strv_of(j->id), c->who->name,
		      grace_ms);
	if (r != 0)
		cwsvc_store_failed(c, r);
	return r == 0;
}

/* Also twice, and while it starts. */
void
cwlife_delete(struct cwcall *c)
{
	const char *id = cwmsg_text(c->req, "sandbox_id");
	struct job_words snaps = {0};
	struct job j;

	if (!delete_ok(c))
		return;
	if (cwmsg_int(c->req, "allow_missing") != 0 &&
	    cwmsg_count(c->req, "snapshot_volumes") == 0 &&
	    !cwsvc_is_there(c, id)) {
		(void)cwcall_reply(c);
		cwcall_answer(c);
		return;
	}
	if (cwsvc_find(c, id, &j) != 0)
		return;
	if (end_one(c, &j, &snaps))
		answer_deleted(c, id, &snaps);
	jobspec_clear_words(&snaps);
	job_clear(&j);
}

struct purge {
	char (*ids)[JOB_ID_LEN + 1];
	size_t n, room;
};

static bool
purge_cb(const struct job *j, void *arg)
{
	struct purge *p = arg;

	if (!jobspec_main(&j->spec))
		return true;
	if (p->n == p->room) {
		p->room = p->room != 0 ? 2 * p->room : 16;
		p->ids = xreallocarray(p->ids, p->room, sizeof(*p->ids));
	}
	memcpy(p->ids[p->n++], j->id, sizeof(*p->ids));
	return true;
}

static void
end_all(struct cwcall *c, const struct purge *p)
{
	bool dry = cwmsg_int(c->req, "dry_run") != 0;
	int64_t ended = 0;
	struct cwout *w = cwcall_reply(c);

	cwout_list(w, "failed_sandbox_ids");
	cwout_list(w, "retryable_failed_sandbox_ids");
	for (size_t i = 0; i < p->n; i++) {
		struct strv id = strv_of(p->ids[i]);

		if (dry ||
		    jobs_stop(c->svc->o.jobs, c->ns, id, c->who->name, 0) == 0)
			ended++;
		else
			cwout_text(w, "retryable_failed_sandbox_ids", id);
	}
	cwout_int(w, "purge_count", ended);
	cwcall_answer(c);
}

/* All that run, with these tags: at once. */
void
cwlife_purge(struct cwcall *c)
{
	struct purge p = {0};
	struct wanted w;
	bool all = cwmsg_int(c->req, "purge_all") != 0;
	size_t ntags = cwmsg_count(c->req, "tags");
	int r;

	if (!tags_ok(c))
		return;
	if (all == (ntags > 0)) {
		cwcall_bad_field(c, "tags", "either tags or purge_all");
		return;
	}
	wanted_init(&w, c);
	w.q.states = LIVE;
	r = jobs_list(c->svc->o.jobs, &w.q, purge_cb, &p);
	wanted_clear(&w);
	if (r != 0)
		cwsvc_store_failed(c, r);
	else
		end_all(c, &p);
	free(p.ids);
}
