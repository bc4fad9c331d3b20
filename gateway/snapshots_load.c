/* SPDX-License-Identifier: Apache-2.0 */
/* Taking up what an earlier gateway left: what it was doing has failed, or, at
 * the end of a job, which comes once only, is done again; what is READY must be
 * there, and other files are removed. */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "gateway/jobs.h"
#include "gateway/snapshots_int.h"

#define INTERRUPTED "interrupted: the gateway ended"

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

	if (sn->state == SNAPSHOT_CREATING) /* see snapshots_resume() */
		return sn->trigger == SNAPSHOT_ON_DELETE ? NULL : INTERRUPTED;
	if (sn->state != SNAPSHOT_READY)
		return NULL;
	if (fstatat(s->dir_fd, sn->file, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return "its file is gone";
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != sn->size)
		return "its file has another size";
	return NULL;
}

static int
set_failed(struct snapshots *s, struct snapshot *sn, const char *reason)
{
	log_warn("snapshot.failed", "snapshot=%s reason=%s", sn->id,
		 log_esc(strv_of(reason)));
	sn->state = SNAPSHOT_FAILED;
	free(sn->reason);
	sn->reason = xstrdup(reason);
	sn->size = 0;
	sn->sha256[0] = '\0';
	sn->completed_ms = sn->updated_ms = job_now_ms();
	return snapstore_update(jobs_store(s->jobs), sn);
}

static int
take_up(struct snapshots *s, struct snapshot *sn)
{
	const char *reason = judge(s, sn);

	if (sn->state == SNAPSHOT_DELETING) /* and the file, below */
		return snapstore_delete(jobs_store(s->jobs), sn->id);
	return reason != NULL ? set_failed(s, sn, reason) : 0;
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

int
snapshots_take_up(struct snapshots *s)
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

/* --- of jobs that end, or ended meanwhile ------------------------------ */
/* Whether the end of its job was really begun. */
static bool
is_ending(struct snapshots *s, const struct snapshot *sn, bool *over)
{
	struct job j;
	bool yes;

	if (jobs_get(s->jobs, strv_of(sn->ns), strv_of(sn->job), &j) != 0)
		return false;
	*over = job_final(j.state);
	yes = *over || j.state == JOB_TERMINATING;
	job_clear(&j);
	return yes;
}

static void
resume(struct snapshots *s, struct snapshot *sn)
{
	struct snapwork *w;
	bool over = false;

	if (!is_ending(s, sn, &over) || jobs_keep(s->jobs, sn->job) != 0) {
		(void)!set_failed(s, sn, INTERRUPTED); /* or the next time */
		return;
	}
	log_info("snapshot.resume", "snapshot=%s job=%s", sn->id, sn->job);
	w = snapwork_new(s, sn, over ? SNAPWORK_QUEUED : SNAPWORK_STOPPING);
	w->kept = true;
	if (!over)
		snapwork_await(w);
}

void
snapshots_resume(void *arg)
{
	const struct snapshot_query all = {.before = 0};
	struct snapshots *s = arg;
	struct found f = {.s = s};
	int r = snapstore_list(jobs_store(s->jobs), &all, found_cb, &f);

	for (size_t i = 0; i < f.n; i++) {
		if (r == 0 && f.v[i].state == SNAPSHOT_CREATING)
			resume(s, &f.v[i]);
		snapshot_clear(&f.v[i]);
	}
	free(f.v);
	if (jobs_commit(s->jobs) != 0)
		log_error("snapshot.resume", "error=store");
}
