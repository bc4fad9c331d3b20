/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The methods of snapshots. A volume is what its clients take snapshots of; a
 * sandbox without volumes has one of all that it wrote.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "gateway/cwsvc_int.h"
#include "gateway/cwsnap.h"
#include "gateway/snapshots.h"

/* --- what is said of one ----------------------------------------------- */

static void
add_time(struct cwout *w, const char *name, int64_t ms)
{
	if (ms > 0)
		cwout_time(w, name, ms);
}

static void
add_text(struct cwout *w, const char *name, const char *text)
{
	if (text != NULL)
		cwout_text(w, name, strv_of(text));
}

/* The numbers of states and triggers are ours already. */
static void
add_snapshot(struct cwout *w, const struct snapshot *sn)
{
	cwout_text(w, "file_system_snapshot_id", strv_of(sn->id));
	cwout_int(w, "state", sn->state);
	add_text(w, "state_reason", sn->reason);
	cwout_int(w, "size_bytes", (int64_t)sn->size);
	cwout_text(w, "source_sandbox_id", strv_of(sn->job));
	cwout_int(w, "trigger", sn->trigger);
	add_time(w, "create_time", sn->created_ms);
	add_time(w, "complete_time", sn->completed_ms);
	add_text(w, "source_volume_name", sn->volume);
	add_time(w, "updated_at", sn->updated_ms);
	add_text(w, "request_id", sn->request_id);
}

static void
answer(struct cwcall *c, struct snapshot *sn)
{
	add_snapshot(cwcall_reply(c), sn);
	cwcall_answer(c);
	snapshot_clear(sn);
}

static void
not_found(struct cwcall *c, const char *id)
{
	cwcall_fail(c, CW_NOT_FOUND, CWERR_FSS_NOT_FOUND,
		    "snapshot \"%.64s\" was not found", id);
}

static bool
is_on(struct cwcall *c)
{
	if (c->svc->o.snapshots != NULL)
		return true;
	cwcall_fail(c, CW_UNIMPLEMENTED, CWERR_FSS_NOT_SUPPORTED,
		    "there are no snapshots here");
	return false;
}

/* --- making one -------------------------------------------------------- */

static void
create_failed(struct cwcall *c, int err, const char *id, const char *why)
{
	switch (err) {
	case E_NOTFOUND:
		cwsvc_not_found(c, id);
		break;
	case E_INVALID:
		cwcall_fail(c, CW_INVALID_ARGUMENT, CWERR_INVALID_REQUEST, "%s",
			    why);
		break;
	case E_BUSY:
	case E_CANCELLED:
		cwcall_fail(c, CW_FAILED_PRECONDITION, CWERR_FSS_CREATE_FAILED,
			    "%s", why);
		break;
	case E_UNSUPPORTED:
		cwcall_fail(c, CW_UNIMPLEMENTED, CWERR_FSS_NOT_SUPPORTED, "%s",
			    why);
		break;
	case E_LIMIT:
		cwcall_fail(c, CW_RESOURCE_EXHAUSTED, CWERR_FSS_QUOTA, "%s",
			    why);
		break;
	default:
		cwcall_fail(c, CW_UNAVAILABLE, CWERR_BACKEND_UNAVAILABLE, "%s",
			    why != NULL ? why : err_text(err));
		break;
	}
}

/* The one that is named, or the only one there is; p NULL: there is none.
 * False: the call has failed. */
static bool
pick_volume(struct cwcall *c, const struct job *j, struct strv *out)
{
	const char *name = cwmsg_text(c->req, "scratch_volume_name");
	size_t n = 0;

	*out = STRV_NULL;
	if (name[0] != '\0') {
		*out = strv_of(name);
		if (jobspec_scratch(&j->spec, *out) != NULL)
			return true;
		cwcall_bad_field(c, "scratch_volume_name",
				 "the sandbox has no such scratch volume");
		return false;
	}
	for (size_t i = 0; i < j->spec.nvolumes; i++)
		if (jobspec_is_scratch(&j->spec.volumes[i])) {
			*out = strv_of(j->spec.volumes[i].source);
			n++;
		}
	if (n <= 1)
		return true;
	cwcall_bad_field(c, "scratch_volume_name",
			 "is missing: the sandbox has several");
	return false;
}

static struct strv
request_id(const struct cwcall *c)
{
	struct strv id = cwmsg_view(c->req, "request_id");

	return id.len != 0 ? id : STRV_NULL;
}

void
cwsnap_create(struct cwcall *c)
{
	const char *id = cwmsg_text(c->req, "sandbox_id");
	struct snapshot_ask ask = {.ns = c->ns,
				   .user = c->who->name,
				   .job = strv_of(id),
				   .request_id = request_id(c),
				   .trigger = SNAPSHOT_MANUAL};
	struct snapshot sn;
	struct job j;
	char *why = NULL;
	bool existed;
	int r;

	if (!is_on(c) || cwsvc_find(c, id, &j) != 0)
		return;
	if (!pick_volume(c, &j, &ask.volume)) {
		job_clear(&j);
		return;
	}
	r = snapshots_create(c->svc->o.snapshots, &ask, &sn, &existed, &why);
	if (r == 0)
		answer(c, &sn);
	else
		create_failed(c, r, id, why);
	free(why);
	job_clear(&j);
}

/* --- at the end of a sandbox ------------------------------------------- */

static bool
volumes_ok(struct cwcall *c, const struct job *j)
{
	size_t n = cwmsg_count(c->req, "snapshot_volumes");

	if (cwmsg_int(c->req, "allow_missing") != 0) {
		cwcall_bad_field(c, "allow_missing",
				 "not together with snapshot_volumes");
		return false;
	}
	for (size_t i = 0; i < n; i++) {
		const char *name = cwmsg_text_at(c->req, "snapshot_volumes", i);

		if (jobspec_scratch(&j->spec, strv_of(name)) == NULL) {
			cwcall_bad_field(c, "snapshot_volumes",
					 "the sandbox has no scratch volume "
					 "\"%.64s\"",
					 name);
			return false;
		}
	}
	return true;
}

/* The first one by the id of the request, others by more than that. */
static char *
request_of(const struct cwcall *c, size_t i, const char *volume)
{
	struct strv id = request_id(c);

	if (id.p == NULL)
		return NULL;
	return i == 0 ? xstrdup(id.p) : xasprintf("%s:%s", id.p, volume);
}

bool
cwsnap_stop(struct cwcall *c, const struct job *j, uint64_t grace_ms,
	    struct job_words *ids)
{
	size_t n = cwmsg_count(c->req, "snapshot_volumes");

	if (!is_on(c) || !volumes_ok(c, j))
		return false;
	for (size_t i = 0; i < n; i++) {
		const char *name = cwmsg_text_at(c->req, "snapshot_volumes", i);
		char *request = request_of(c, i, name), *why = NULL;
		struct snapshot_ask ask = {.ns = c->ns,
					   .user = c->who->name,
					   .job = strv_of(j->id),
					   .volume = strv_of(name)};
		struct snapshot sn;
		bool existed;
		int r;

		if (request != NULL)
			ask.request_id = strv_of(request);
		r = snapshots_stop(c->svc->o.snapshots, &ask, grace_ms, &sn,
				   &existed, &why);
		if (r == 0) {
			jobspec_push_word(ids, strv_of(sn.id));
			snapshot_clear(&sn);
		} else {
			create_failed(c, r, j->id, why);
		}
		free(request);
		free(why);
		if (r != 0)
			return false;
	}
	return true;
}

/* --- looking at them --------------------------------------------------- */

/* What a client has deleted is gone for it. */
static int
find(struct cwcall *c, const char *id, struct snapshot *out)
{
	int r = snapshots_get(c->svc->o.snapshots, c->ns, strv_of(id), out);

	if (r != 0 || out->state != SNAPSHOT_DELETING)
		return r;
	snapshot_clear(out);
	return E_NOTFOUND;
}

void
cwsnap_get(struct cwcall *c)
{
	const char *id = cwmsg_text(c->req, "file_system_snapshot_id");
	struct snapshot sn;
	int r;

	if (!is_on(c))
		return;
	r = find(c, id, &sn);
	if (r == 0)
		answer(c, &sn);
	else if (r == E_NOTFOUND)
		not_found(c, id);
	else
		cwsvc_store_failed(c, r);
}

struct page {
	struct cwout *w;
	int64_t left;
	uint64_t last;
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
	cwout_open(p->w, "file_system_snapshots");
	add_snapshot(p->w, sn);
	cwout_close(p->w);
	p->left--;
	p->last = sn->seq;
	return true;
}

void
cwsnap_list(struct cwcall *c)
{
	struct strv of = cwmsg_view(c->req, "source_sandbox_id");
	struct snapshot_query q = {.ns = c->ns};
	struct page p;
	int r;

	memset(&p, 0, sizeof(p));
	if (!is_on(c) || !cwsvc_page(c, &p.left, &q.before))
		return;
	if (of.len != 0)
		q.job = of;
	p.w = cwcall_reply(c);
	cwout_list(p.w, "file_system_snapshots");
	r = snapshots_list(c->svc->o.snapshots, &q, page_cb, &p);
	if (r != 0) {
		cwsvc_store_failed(c, r);
		return;
	}
	cwsvc_next_page(p.w, p.more, p.last);
	cwcall_answer(c);
}

void
cwsnap_delete(struct cwcall *c)
{
	const char *id = cwmsg_text(c->req, "file_system_snapshot_id");
	struct snapshot sn;
	int r;

	if (!is_on(c))
		return;
	if ((r = find(c, id, &sn)) == 0) {
		snapshot_clear(&sn);
		r = snapshots_delete(c->svc->o.snapshots, c->ns, strv_of(id),
				     &sn);
	}
	if (r == 0) {
		answer(c, &sn);
	} else if (r != E_NOTFOUND) {
		cwsvc_store_failed(c, r);
	} else if (cwmsg_int(c->req, "allow_missing") != 0) {
		(void)cwcall_reply(c);
		cwcall_answer(c);
	} else {
		not_found(c, id);
	}
}
