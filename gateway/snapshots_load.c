/* SPDX-License-Identifier: Apache-2.0 */
/* Taking up what an earlier gateway left: what it was doing has failed, what is
 * READY must be there, and other files are removed. */
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
