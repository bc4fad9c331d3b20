/* SPDX-License-Identifier: Apache-2.0 */
/* The service of snapshots; see the header. */
#include "config.h"

#include "gateway/snapshots.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/token.h"
#include "gateway/child.h"
#include "gateway/gwconf.h"
#include "gateway/jobs.h"
#include "gateway/launch.h"
#include "gateway/snapcmd.h"
#include "gateway/snaprun.h"
#include "gateway/snapshots_int.h"
#include "gateway/snaptar.h"

#define REQUEST_ID_MAX 256
#define QUEUE_MAX      1000
#define COUNTED                                                                \
	(1U << SNAPSHOT_CREATING | 1U << SNAPSHOT_READY |                      \
	 1U << SNAPSHOT_DELETING)

/* --- life -------------------------------------------------------------- */
static int
open_dir(struct snapshots *s, char **msg)
{
	int r = dir_make(s->dir, 0700);

	if (r == 0) {
		s->dir_fd = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		r = s->dir_fd < 0 || fchmod(s->dir_fd, 0700) != 0
			? err_from_errno(errno)
			: 0;
	}
	if (r != 0)
		*msg = xasprintf("%s: %s", s->dir, err_text(r));
	return r;
}

static int
restore_cb(const char *ns, struct job_spec *js, char **why, void *arg)
{
	return snapshots_restore(arg, ns, js, why);
}

int
snapshots_new(const struct snapshots_options *o, struct snapshots **out,
	      char **msg)
{
	struct snapshots *s = xcalloc(1, sizeof(*s));
	int r;

	s->jobs = o->jobs;
	s->dir = xstrdup(o->dir);
	s->program = o->program != NULL ? xstrdup(o->program) : NULL;
	s->dir_fd = -1;
	snapwork_init(s);
	if ((r = open_dir(s, msg)) == 0 && (r = snapshots_take_up(s)) != 0)
		*msg = xasprintf("snapshots: %s", err_text(r));
	if (r != 0) {
		snapshots_free(s);
		return r;
	}
	jobs_set_restore(s->jobs, restore_cb, s);
	jobs_set_adopted(s->jobs, snapshots_resume, s);
	*out = s;
	return 0;
}

void
snapshots_free(struct snapshots *s)
{
	if (s == NULL)
		return;
	snapwork_clear(s);
	fd_close(&s->dir_fd);
	free(s->dir);
	free(s->program);
	free(s);
}

/* --- reading ----------------------------------------------------------- */
/* What is said of it where something is done with it. */
static void
overlay(const struct snapshots *s, struct snapshot *sn)
{
	const struct snapwork *w = snapwork_find(s, strv_of(sn->id));

	if (w == NULL)
		return;
	snapshot_clear(sn);
	snapshot_copy(sn, &w->sn);
	if (w->run != NULL) {
		sn->bytes = snaprun_counts(w->run)->bytes;
		sn->entries = snaprun_counts(w->run)->entries;
	}
}

int
snapshots_get(struct snapshots *s, struct strv ns, struct strv id,
	      struct snapshot *out)
{
	struct snapshot sn;
	int r;

	if ((r = snapstore_get(jobs_store(s->jobs), id, &sn)) != 0)
		return r;
	if (ns.p != NULL && !strv_eq(ns, strv_of(sn.ns))) {
		snapshot_clear(&sn);
		return E_NOTFOUND;
	}
	overlay(s, &sn);
	*out = sn;
	return 0;
}

struct listing {
	struct snapshots *s;
	bool (*fn)(const struct snapshot *sn, void *arg);
	void *arg;
};

static bool
list_cb(const struct snapshot *stored, void *arg)
{
	struct listing *li = arg;
	struct snapshot sn;
	bool more;

	snapshot_copy(&sn, stored);
	overlay(li->s, &sn);
	more = li->fn(&sn, li->arg);
	snapshot_clear(&sn);
	return more;
}

int
snapshots_list(struct snapshots *s, const struct snapshot_query *q,
	       bool (*fn)(const struct snapshot *sn, void *arg), void *arg)
{
	struct listing li = {s, fn, arg};

	return snapstore_list(jobs_store(s->jobs), q, list_cb, &li);
}

int
snapshots_open(struct snapshots *s, struct strv ns, struct strv id,
	       struct snapshot *out, int *fd)
{
	int r;

	if ((r = snapshots_get(s, ns, id, out)) != 0)
		return r;
	if (out->state != SNAPSHOT_READY)
		return E_BUSY;
	*fd = openat(s->dir_fd, out->file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (*fd >= 0)
		return 0;
	r = err_from_errno(errno);
	snapshot_clear(out);
	return r == E_NOTFOUND ? E_SYS : r;
}

/* --- making ------------------------------------------------------------ */
struct count {
	struct snapshots *s;
	uint64_t n, keep; /* FAILED ones: what is beyond keep goes */
	struct snapshot *old;
	size_t nold;
};

static bool
count_cb(const struct snapshot *sn, void *arg)
{
	struct count *c = arg;

	if ((1U << sn->state & COUNTED) != 0) {
		c->n++;
	} else if (c->keep > 0) {
		c->keep--;
	} else if (snapwork_find(c->s, strv_of(sn->id)) == NULL) {
		c->old = xreallocarray(c->old, c->nold + 1, sizeof(*c->old));
		snapshot_copy(&c->old[c->nold++], sn);
	}
	return true;
}

/* Forgets the oldest of the FAILED ones, and says whether there is room. */
static int
check_room(struct snapshots *s, struct strv ns, char **why)
{
	uint64_t max = jobs_conf(s->jobs)->snapshots.max_count;
	const struct snapshot_query q = {.ns = ns};
	struct count c = {.s = s, .keep = max};
	int r = snapstore_list(jobs_store(s->jobs), &q, count_cb, &c);

	for (size_t i = 0; i < c.nold; i++) {
		if (r == 0)
			r = snapstore_delete(jobs_store(s->jobs), c.old[i].id);
		snapshot_clear(&c.old[i]);
	}
	free(c.old);
	if (r != 0)
		*why = xstrdup("snapshots cannot be counted now");
	else if (c.n >= max)
		*why = xasprintf("too many snapshots: this namespace has %llu",
				 (unsigned long long)c.n);
	else if (s->nwork >= QUEUE_MAX)
		*why = xstrdup("too many snapshots are being made");
	else
		return 0;
	return r != 0 ? r : E_LIMIT;
}

static bool
request_id_ok(struct strv id)
{
	for (size_t i = 0; i < id.len; i++)
		if ((unsigned char)id.p[i] < ' ')
			return false;
	return id.len > 0 && id.len <= REQUEST_ID_MAX;
}

/* ending: one that is being ended is fine, too. */
static int
check_job(struct snapshots *s, const struct snapshot_ask *ask, bool ending,
	  struct job *j, char **why)
{
	struct launch_tree t;
	int r;

	if ((r = jobs_get(s->jobs, ask->ns, ask->job, j)) != 0) {
		*why = xstrdup(r == E_NOTFOUND ? "there is no such job"
					       : "jobs cannot be read now");
		return r;
	}
	if (j->state == JOB_PENDING || j->state == JOB_CREATING) {
		*why = xstrdup("the job has not started yet");
		r = E_BUSY;
	} else if (j->state != JOB_RUNNING && j->state != JOB_PAUSED &&
		   !(ending && j->state == JOB_TERMINATING)) {
		*why = xstrdup("the job has ended, and its files are gone; a "
			       "snapshot is made of a job that runs");
		r = E_CANCELLED;
	} else if (ask->volume.p != NULL &&
		   jobspec_scratch(&j->spec, ask->volume) == NULL) {
		*why = xstrdup("volume: the job has no such scratch volume");
		r = E_INVALID;
	} else if ((r = jobs_tree(s->jobs, j->id, &t)) == 0) {
		free(t.dir);
		return 0;
	} else {
		*why = xstrdup(r == E_UNSUPPORTED
				   ? "the files of this job are not on the "
				     "gateway's machine"
				   : "the job has ended");
		r = r == E_UNSUPPORTED ? r : E_CANCELLED;
	}
	job_clear(j);
	return r;
}

static char *
dup_view(struct strv v)
{
	return v.p != NULL ? xstrndup(v.p, v.len) : NULL;
}

static int
insert(struct snapshots *s, const struct snapshot_ask *ask, const struct job *j,
       struct snapshot *sn, char **why)
{
	int r;

	memset(sn, 0, sizeof(*sn));
	token_hex(sn->id, SNAPSHOT_ID_LEN / 2);
	memcpy(sn->job, j->id, sizeof(sn->job));
	sn->ns = dup_view(ask->ns);
	sn->user = xstrndup(ask->user.p, ask->user.len);
	sn->request_id = dup_view(ask->request_id);
	sn->volume = dup_view(ask->volume);
	sn->trigger = ask->trigger;
	sn->state = SNAPSHOT_CREATING;
	sn->image = j->spec.image != NULL ? xstrdup(j->spec.image) : NULL;
	sn->file = xasprintf("%s%s", sn->id, snaptar_suffix());
	sn->created_ms = sn->updated_ms = job_now_ms();
	r = snapstore_insert(jobs_store(s->jobs), sn);
	if (r == 0)
		r = jobs_commit(s->jobs);
	if (r != 0) {
		*why = xasprintf("the snapshot could not be stored: %s",
				 err_text(r));
		snapshot_clear(sn);
	}
	return r;
}

/* Else a job would be ended for a snapshot that was made long before. */
static bool
is_same(const struct snapshot_ask *ask, const struct snapshot *sn)
{
	return strv_eq(ask->job, strv_of(sn->job)) &&
	       strv_eq(ask->volume, strv_of(sn->volume)) &&
	       ask->trigger == sn->trigger;
}

static int
find_request(struct snapshots *s, const struct snapshot_ask *ask,
	     struct snapshot *out, char **why)
{
	char *ns, *id;
	int r;

	if (ask->request_id.p == NULL)
		return E_NOTFOUND;
	if (!request_id_ok(ask->request_id)) {
		*why = xasprintf("requestId: must be of 1 to %d printable "
				 "characters",
				 REQUEST_ID_MAX);
		return E_INVALID;
	}
	ns = dup_view(ask->ns);
	id = dup_view(ask->request_id);
	r = snapstore_by_request(jobs_store(s->jobs), ns, id, out);
	free(ns);
	free(id);
	if (r == 0 && !is_same(ask, out)) {
		*why = xstrdup("requestId: was used for another snapshot");
		snapshot_clear(out);
		return E_INVALID;
	}
	if (r == 0)
		overlay(s, out);
	else if (r != E_NOTFOUND)
		*why = xstrdup("snapshots cannot be read now");
	return r;
}

/* The record is made, and the job's files are ours to read. */
static int
make(struct snapshots *s, const struct snapshot_ask *ask, const struct job *j,
     enum snapwork_phase phase, struct snapwork **out, char **why)
{
	struct snapshot sn;
	struct snapwork *w;
	int r;

	if ((r = check_room(s, ask->ns, why)) != 0)
		return r;
	if (jobs_keep(s->jobs, j->id) != 0) {
		*why = xstrdup("the job has ended");
		return E_CANCELLED;
	}
	if ((r = insert(s, ask, j, &sn, why)) != 0) {
		jobs_unkeep(s->jobs, j->id);
		return r;
	}
	log_info("snapshot.create", "snapshot=%s job=%s namespace=%s user=%s",
		 sn.id, sn.job, log_esc(ask->ns), log_esc(ask->user));
	w = snapwork_new(s, &sn, phase);
	w->kept = true;
	*out = w;
	return 0;
}

int
snapshots_create(struct snapshots *s, const struct snapshot_ask *ask,
		 struct snapshot *out, bool *existed, char **why)
{
	struct snapwork *w;
	struct job j;
	int r;

	*existed = true;
	if ((r = find_request(s, ask, out, why)) != E_NOTFOUND)
		return r;
	*existed = false;
	if ((r = check_job(s, ask, false, &j, why)) != 0)
		return r;
	if ((r = make(s, ask, &j, SNAPWORK_QUEUED, &w, why)) == 0)
		snapshot_copy(out, &w->sn);
	job_clear(&j);
	return r;
}

/* --- at the end of a job ----------------------------------------------- */
struct last {
	struct strv volume;
	struct snapshot sn;
};

static bool
last_cb(const struct snapshot *sn, void *arg)
{
	struct last *l = arg;

	if (sn->trigger != SNAPSHOT_ON_DELETE || sn->state == SNAPSHOT_FAILED ||
	    sn->state == SNAPSHOT_DELETING ||
	    !strv_eq(l->volume, strv_of(sn->volume)))
		return true;
	snapshot_copy(&l->sn, sn);
	return false;
}

static int
find_last(struct snapshots *s, const struct snapshot_ask *ask,
	  struct snapshot *out)
{
	const struct snapshot_query q = {.ns = ask->ns, .job = ask->job};
	struct last l = {.volume = ask->volume};
	int r = snapshots_list(s, &q, last_cb, &l);

	if (r == 0 && l.sn.seq == 0)
		return E_NOTFOUND;
	if (r == 0)
		*out = l.sn;
	return r;
}

static int
stop_job(struct snapshots *s, const struct snapshot_ask *ask, uint64_t grace_ms,
	 struct snapshot *out, char **why)
{
	int r = jobs_stop(s->jobs, ask->ns, ask->job, ask->user, grace_ms);

	if (r != 0) {
		snapshot_clear(out);
		*why = xstrdup("the job cannot be stopped now");
	}
	return r;
}

int
snapshots_stop(struct snapshots *s, const struct snapshot_ask *given,
	       uint64_t grace_ms, struct snapshot *out, bool *existed,
	       char **why)
{
	struct snapshot_ask ask = *given;
	struct snapwork *w;
	struct job j;
	int r;

	ask.trigger = SNAPSHOT_ON_DELETE;
	*existed = true;
	if ((r = find_request(s, &ask, out, why)) == E_NOTFOUND)
		r = find_last(s, &ask, out);
	if (r == 0) /* again, and perhaps sooner */
		return stop_job(s, &ask, grace_ms, out, why);
	*existed = false;
	if (r != E_NOTFOUND || (r = check_job(s, &ask, true, &j, why)) != 0)
		return r;
	if ((r = make(s, &ask, &j, SNAPWORK_STOPPING, &w, why)) == 0) {
		snapwork_await(w);
		snapshot_copy(out, &w->sn);
		r = stop_job(s, &ask, grace_ms, out, why);
	}
	job_clear(&j);
	return r;
}

/* --- into a job -------------------------------------------------------- */
/* The scratch volume that a snapshot of one goes into. */
static const char *
volume_into(const struct snapshot *sn, const struct job_spec *js)
{
	return js->restore_volume != NULL ? js->restore_volume : sn->volume;
}

static int
check_fit(const struct snapshot *sn, struct job_spec *js, char **why)
{
	if (sn->volume != NULL) { /* whatever it is beside that */
		const char *into = volume_into(sn, js);

		if (jobspec_scratch(js, strv_of(into)) != NULL)
			return 0;
		*why = xasprintf("restoreSnapshot: is to fill the scratch "
				 "volume %.64s, which the job has not",
				 into);
		return E_INVALID;
	}
	if (js->image == NULL && js->space == NULL && sn->image != NULL)
		js->image = xstrdup(sn->image);
	if ((js->image == NULL) == (sn->image == NULL) &&
	    (js->image == NULL || strcmp(js->image, sn->image) == 0))
		return 0;
	*why = xasprintf("dockerImage: the snapshot is of a job with %s%s",
			 sn->image != NULL ? "the image " : "none",
			 sn->image != NULL ? sn->image : "");
	return E_INVALID;
}

static void
push_number(struct job_words *w, uint64_t n)
{
	char text[STR_U64_MAX];

	jobspec_push_word(w, (struct strv){text, str_put_u64(text, n)});
}

/* What the job's supervisor is to run. What one may hold now may be less than
 * it was then. */
static void
set_prepare(struct snapshots *s, const struct snapshot *sn, struct job_spec *js)
{
	struct job_words *words = &js->prepare;
	const struct gw_snapshots *conf = &jobs_conf(s->jobs)->snapshots;
	char *program = s->program != NULL ? xstrdup(s->program)
					   : child_find("sbx-gateway");
	char *file = xasprintf("%s/%s", s->dir, sn->file);

	jobspec_clear_words(words);
	jobspec_push_word(words, strv_of(program));
	jobspec_push_word(words, STRV(SNAPCMD_RESTORE));
	jobspec_push_word(words, strv_of(file));
	push_number(words,
		    sn->bytes > conf->max_bytes ? sn->bytes : conf->max_bytes);
	push_number(words, sn->entries > conf->max_files ? sn->entries
							 : conf->max_files);
	if (sn->volume != NULL &&
	    strcmp(sn->volume, volume_into(sn, js)) != 0) {
		jobspec_push_word(words, strv_of(sn->volume));
		jobspec_push_word(words, strv_of(volume_into(sn, js)));
	}
	if (sn->sha256[0] != '\0') /* an earlier gateway had none */
		jobspec_push_word(words, strv_of(sn->sha256));
	free(program);
	free(file);
}

int
snapshots_restore(struct snapshots *s, const char *ns, struct job_spec *js,
		  char **why)
{
	struct snapshot sn;
	int r = snapshots_get(s, strv_of(ns), strv_of(js->restore), &sn);

	if (r != 0) {
		*why = xstrdup(r == E_NOTFOUND
				   ? "restoreSnapshot: there is no such "
				     "snapshot"
				   : "snapshots cannot be read now");
		return r;
	}
	if (sn.state != SNAPSHOT_READY) {
		*why = xasprintf("restoreSnapshot: the snapshot is %s",
				 snapshot_state_name(sn.state));
		r = E_BUSY;
	} else if ((r = check_fit(&sn, js, why)) == 0) {
		set_prepare(s, &sn, js);
	}
	snapshot_clear(&sn);
	return r;
}

/* --- deleting ---------------------------------------------------------- */
int
snapshots_delete(struct snapshots *s, struct strv ns, struct strv id,
		 struct snapshot *out)
{
	struct snapwork *w;
	struct snapshot sn;
	int r;

	if ((r = snapshots_get(s, ns, id, &sn)) != 0)
		return r;
	if ((w = snapwork_find(s, id)) == NULL)
		w = snapwork_new(s, &sn, SNAPWORK_OVER);
	else
		snapshot_clear(&sn);
	snapwork_remove(w);
	if (out != NULL)
		snapshot_copy(out, &w->sn);
	return 0;
}
