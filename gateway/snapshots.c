/* SPDX-License-Identifier: Apache-2.0 */
/* The service of snapshots; see the header. */
#include "config.h"

#include "gateway/snapshots.h"

#include <dirent.h>
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
#include "gateway/gwconf.h"
#include "gateway/jobs.h"
#include "gateway/launch.h"
#include "gateway/snaprun.h"
#include "gateway/snapshots_int.h"
#include "gateway/snaptar.h"

#define REQUEST_ID_MAX 256
#define QUEUE_MAX      1000
#define COUNTED                                                                \
	(1U << SNAPSHOT_CREATING | 1U << SNAPSHOT_READY |                      \
	 1U << SNAPSHOT_DELETING)

/* --- after a restart --------------------------------------------------- */
struct found {
	struct snapshots *s;
	struct snapshot *v;
	size_t n;
};

static bool
found_cb(const struct snapshot *sn, void *arg)
{
	struct found *f = arg;

	f->v = xreallocarray(f->v, f->n + 1, sizeof(*f->v));
	snapshot_copy(&f->v[f->n++], sn);
	return true;
}

/* What it is from now on; reason NULL: as it was. */
static const char *
judge(struct snapshots *s, struct snapshot *sn)
{
	struct stat st;

	if (sn->state == SNAPSHOT_CREATING)
		return "interrupted: the gateway ended";
	if (sn->state != SNAPSHOT_READY)
		return NULL;
	if (fstatat(s->dir_fd, sn->file, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return "its file is gone";
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != sn->size)
		return "its file has another size";
	return NULL;
}

static int
take_up(struct snapshots *s, struct snapshot *sn)
{
	struct jobstore *db = jobs_store(s->jobs);
	const char *reason = judge(s, sn);

	if (sn->state == SNAPSHOT_DELETING)
		return snapstore_delete(db, sn->id); /* and the file, below */
	if (reason == NULL)
		return 0;
	log_warn("snapshot.failed", "snapshot=%s reason=%s", sn->id,
		 log_esc(strv_of(reason)));
	sn->state = SNAPSHOT_FAILED;
	free(sn->reason);
	sn->reason = xstrdup(reason);
	sn->size = 0;
	sn->completed_ms = sn->updated_ms = job_now_ms();
	return snapstore_update(db, sn);
}

/* Whether a file of the directory belongs to one that is READY. */
static bool
is_wanted(const struct found *f, const char *name)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->v[i].state == SNAPSHOT_READY &&
		    strcmp(f->v[i].file, name) == 0)
			return true;
	return false;
}

static bool
is_ours(const char *name)
{
	return strlen(name) > SNAPSHOT_ID_LEN + 4 &&
	       job_id_ok((struct strv){name, SNAPSHOT_ID_LEN}) &&
	       strncmp(name + SNAPSHOT_ID_LEN, ".tar", 4) == 0;
}

static void
sweep(struct snapshots *s, const struct found *f)
{
	DIR *d = opendir(s->dir);
	struct dirent *de;

	while (d != NULL && (de = readdir(d)) != NULL) {
		if (!is_ours(de->d_name) || is_wanted(f, de->d_name))
			continue;
		log_info("snapshot.sweep", "file=%s", de->d_name);
		if (unlinkat(s->dir_fd, de->d_name, 0) != 0)
			log_error("snapshot.sweep", "file=%s error=\"%s\"",
				  de->d_name, strerror(errno));
	}
	if (d != NULL)
		(void)closedir(d);
}

static int
take_up_all(struct snapshots *s)
{
	const struct snapshot_query all = {.before = 0};
	struct found f = {.s = s};
	int r = snapstore_list(jobs_store(s->jobs), &all, found_cb, &f);

	for (size_t i = 0; r == 0 && i < f.n; i++)
		r = take_up(s, &f.v[i]);
	if (r == 0)
		r = jobs_commit(s->jobs);
	if (r == 0)
		sweep(s, &f);
	for (size_t i = 0; i < f.n; i++)
		snapshot_clear(&f.v[i]);
	free(f.v);
	return r;
}

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
	if ((r = open_dir(s, msg)) == 0 && (r = take_up_all(s)) != 0)
		*msg = xasprintf("snapshots: %s", err_text(r));
	if (r != 0) {
		snapshots_free(s);
		return r;
	}
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

static int
check_job(struct snapshots *s, const struct snapshot_ask *ask, struct job *j,
	  char **why)
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
	} else if (j->state != JOB_RUNNING && j->state != JOB_PAUSED) {
		*why = xstrdup("the job has ended, and its files are gone; a "
			       "snapshot is made of a job that runs");
		r = E_CANCELLED;
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
	if (r == 0 && !strv_eq(ask->job, strv_of(out->job))) {
		*why = xstrdup("requestId: was used for another job");
		snapshot_clear(out);
		return E_INVALID;
	}
	if (r == 0)
		overlay(s, out);
	else if (r != E_NOTFOUND)
		*why = xstrdup("snapshots cannot be read now");
	return r;
}

int
snapshots_create(struct snapshots *s, const struct snapshot_ask *ask,
		 struct snapshot *out, bool *existed, char **why)
{
	struct snapshot sn;
	struct job j;
	int r;

	*existed = true;
	if ((r = find_request(s, ask, out, why)) != E_NOTFOUND)
		return r;
	*existed = false;
	if ((r = check_job(s, ask, &j, why)) != 0)
		return r;
	if ((r = check_room(s, ask->ns, why)) == 0)
		r = insert(s, ask, &j, &sn, why);
	job_clear(&j);
	if (r != 0)
		return r;
	log_info("snapshot.create", "snapshot=%s job=%s namespace=%s user=%s",
		 sn.id, sn.job, log_esc(ask->ns), log_esc(ask->user));
	snapshot_copy(out, &sn);
	(void)snapwork_new(s, &sn, SNAPWORK_QUEUED);
	return 0;
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
