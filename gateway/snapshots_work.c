/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots that something is done with: waiting, being written, being removed.
 * A file gets its name when it is whole and on disk, and only then its record
 * says READY; so whatever ends us, what is READY is whole.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "gateway/command.h"
#include "gateway/gwconf.h"
#include "gateway/jobs.h"
#include "gateway/launch.h"
#include "gateway/snaprun.h"
#include "gateway/snapshots_int.h"

#define RETRY_MS  1000
#define HELPER_MS 600000

/* --- telling ----------------------------------------------------------- */
void
snapshots_watch_add(struct snapshots *s, struct snapshots_watch *w,
		    const char *id)
{
	(void)snprintf(w->id, sizeof(w->id), "%s", id);
	w->next = s->watches;
	w->prevp = &s->watches;
	if (w->next != NULL)
		w->next->prevp = &w->next;
	s->watches = w;
}

void
snapshots_watch_del(struct snapshots_watch *w)
{
	if (w->prevp == NULL)
		return;
	*w->prevp = w->next;
	if (w->next != NULL)
		w->next->prevp = w->prevp;
	w->prevp = NULL;
}

static void
tell(struct snapshots *s, const char *id)
{
	struct snapshots_watch *w, mark = {.id = ""};

	/* The walk's own place in the list, as in jobs_tell.c. */
	for (w = s->watches; w != NULL; w = mark.next) {
		mark.next = w->next;
		mark.prevp = &w->next;
		if (mark.next != NULL)
			mark.next->prevp = &mark.next;
		w->next = &mark;
		if (strcmp(w->id, id) == 0)
			w->fn(w->arg);
		*mark.prevp = mark.next;
		if (mark.next != NULL)
			mark.next->prevp = mark.prevp;
	}
}

/* --- the list ---------------------------------------------------------- */
struct snapwork *
snapwork_new(struct snapshots *s, struct snapshot *sn,
	     enum snapwork_phase phase)
{
	struct snapwork *w = xcalloc(1, sizeof(*w));

	w->s = s;
	w->sn = *sn;
	memset(sn, 0, sizeof(*sn));
	w->phase = phase;
	w->next = s->work;
	w->prevp = &s->work;
	if (w->next != NULL)
		w->next->prevp = &w->next;
	s->work = w;
	s->nwork++;
	if (phase == SNAPWORK_QUEUED)
		task_post(jobs_loop(s->jobs), &s->pump);
	return w;
}

/* Of the job's files, and of its end. */
static void
let_go(struct snapwork *w)
{
	jobs_watch_del(&w->watch);
	if (w->kept)
		jobs_unkeep(w->s->jobs, w->sn.job);
	w->kept = false;
}

static void
work_free(struct snapwork *w)
{
	*w->prevp = w->next;
	if (w->next != NULL)
		w->next->prevp = w->prevp;
	w->s->nwork--;
	let_go(w);
	if (w->run != NULL)
		snaprun_cancel(w->run);
	if (w->helper != NULL)
		command_cancel(w->helper);
	snapshot_clear(&w->sn);
	loop_defer_free(jobs_loop(w->s->jobs), w, NULL);
}

struct snapwork *
snapwork_find(const struct snapshots *s, struct strv id)
{
	struct snapwork *w = s->work;

	while (w != NULL && !strv_eq(id, strv_of(w->sn.id)))
		w = w->next;
	return w;
}

/* --- storing ----------------------------------------------------------- */
/* w is gone afterwards if that was the end of it. */
static void
store(struct snapwork *w)
{
	struct snapshots *s = w->s;
	struct jobstore *db = jobs_store(s->jobs);
	char id[SNAPSHOT_ID_LEN + 1];
	int r = w->phase == SNAPWORK_GONE ? snapstore_delete(db, w->sn.id)
					  : snapstore_update(db, &w->sn);

	if (r == 0)
		r = jobs_commit(s->jobs);
	w->dirty = r != 0;
	if (r != 0) { /* said in the log; it stays true here meanwhile */
		if (!timer_running(&s->retry))
			timer_set(&s->retry, RETRY_MS);
		return;
	}
	memcpy(id, w->sn.id, sizeof(id));
	if (w->phase == SNAPWORK_OVER || w->phase == SNAPWORK_GONE)
		work_free(w);
	tell(s, id);
}

static void
retry_cb(void *arg)
{
	struct snapshots *s = arg;
	struct snapwork *w, *next;

	for (w = s->work; w != NULL; w = next) {
		next = w->next;
		if (w->dirty)
			store(w);
	}
}

static void
set_state(struct snapwork *w, enum snapshot_state state, const char *reason)
{
	struct snapshot *sn = &w->sn;

	sn->state = state;
	free(sn->reason);
	sn->reason = reason != NULL ? xstrdup(reason) : NULL;
	sn->updated_ms = job_now_ms();
	if (state == SNAPSHOT_READY || state == SNAPSHOT_FAILED)
		sn->completed_ms = sn->updated_ms;
	log_info("snapshot.state",
		 "snapshot=%s job=%s state=%s size=%llu reason=%s", sn->id,
		 sn->job, snapshot_state_name(state),
		 (unsigned long long)sn->size,
		 log_esc(strv_of(reason != NULL ? reason : "")));
}

/* --- writing ----------------------------------------------------------- */
char *
snapwork_part(const struct snapshot *sn)
{
	return xasprintf("%s.part", sn->file);
}

static void
fail(struct snapwork *w, const char *why)
{
	char *part = snapwork_part(&w->sn);

	(void)unlinkat(w->s->dir_fd, part, 0);
	if (w->phase == SNAPWORK_NAMING)
		(void)unlinkat(w->s->dir_fd, w->sn.file, 0);
	free(part);
	let_go(w);
	w->phase = SNAPWORK_OVER;
	set_state(w, SNAPSHOT_FAILED, why);
	store(w);
}

static void
synced_cb(int status, const char *out, const char *err, void *arg)
{
	struct snapwork *w = arg;

	(void)out;
	w->helper = NULL;
	if (status != 0) {
		fail(w, *err != '\0' ? err : "its directory cannot be synced");
		return;
	}
	w->phase = SNAPWORK_OVER;
	w->sn.size = w->size;
	memcpy(w->sn.sha256, w->sha256, sizeof(w->sn.sha256));
	set_state(w, SNAPSHOT_READY, NULL);
	store(w); /* and only then the job's files are let go */
}

/* It is whole, and its bytes are on disk; now its name. By a process: it may
 * take as long as others write, and this one is not to wait. */
static int
publish(struct snapwork *w)
{
	char name[] = "sync", end[] = "--";
	char *argv[] = {name, end, w->s->dir, NULL};
	char *part = snapwork_part(&w->sn);
	int fd = w->s->dir_fd, r = -1;
	struct stat st;

	if (fstatat(fd, part, &st, AT_SYMLINK_NOFOLLOW) == 0)
		r = renameat(fd, part, fd, w->sn.file);
	free(part);
	if (r != 0)
		return -1;
	w->size = (uint64_t)st.st_size;
	w->phase = SNAPWORK_NAMING;
	w->helper =
	    command_start(jobs_loop(w->s->jobs), argv, HELPER_MS, synced_cb, w);
	return 0;
}

/* Whether what was read was all there until the end. */
static bool
still_there(const struct snapwork *w)
{
	struct launch_tree t;

	if (jobs_tree(w->s->jobs, w->sn.job, &t) != 0)
		return false;
	free(t.dir);
	return true;
}

static void
copied_cb(const struct snaprun_end *e, void *arg)
{
	struct snapwork *w = arg;
	struct snapshots *s = w->s;

	w->run = NULL;
	s->ncopying--;
	task_post(jobs_loop(s->jobs), &s->pump);
	w->sn.bytes = e->n.bytes;
	w->sn.entries = e->n.entries;
	w->sn.changed = e->n.changed;
	w->sn.skipped = e->n.skipped;
	memcpy(w->sha256, e->sha256, sizeof(w->sha256));
	if (!still_there(w))
		fail(w, "the job ended before all was read");
	else if (e->err != 0)
		fail(w, e->why);
	else if (publish(w) != 0)
		fail(w, strerror(errno));
}

static void
start_copy(struct snapwork *w, const struct launch_tree *t, int tree_fd,
	   int out_fd)
{
	struct snapshots *s = w->s;
	const struct gw_snapshots *conf = &jobs_conf(s->jobs)->snapshots;
	const struct snaprun_spec spec = {.program = s->program,
					  .archive_fd = out_fd,
					  .tree_fd = tree_fd,
					  .volume = w->sn.volume,
					  .uid = t->base,
					  .uids = t->ids,
					  .max_bytes = conf->max_bytes,
					  .max_entries = conf->max_files};

	w->phase = SNAPWORK_COPYING;
	s->ncopying++;
	w->run = snaprun_start(jobs_loop(s->jobs), &spec, copied_cb, w);
}

static void
begin(struct snapwork *w)
{
	struct launch_tree t;
	char *part = NULL;
	int tree_fd = -1, out_fd = -1;

	if (jobs_tree(w->s->jobs, w->sn.job, &t) != 0) {
		fail(w, "the job ended before its files were read");
		return;
	}
	tree_fd = open(t.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	part = snapwork_part(&w->sn);
	if (tree_fd >= 0)
		out_fd = openat(
		    w->s->dir_fd, part,
		    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (out_fd < 0)
		fail(w, strerror(errno));
	else
		start_copy(w, &t, tree_fd, out_fd);
	fd_close(&tree_fd);
	fd_close(&out_fd);
	free(part);
	free(t.dir);
}

/* The list begins with the youngest. */
static struct snapwork *
oldest_queued(struct snapshots *s)
{
	struct snapwork *found = NULL;

	for (struct snapwork *w = s->work; w != NULL; w = w->next)
		if (w->phase == SNAPWORK_QUEUED)
			found = w;
	return found;
}

static void
pump_cb(void *arg)
{
	struct snapshots *s = arg;
	struct snapwork *w;

	while (s->ncopying < jobs_conf(s->jobs)->snapshots.concurrent &&
	       (w = oldest_queued(s)) != NULL)
		begin(w);
}

static void
job_step_cb(const char *id, const struct job_step *st, void *arg)
{
	struct snapwork *w = arg;

	(void)id;
	if (!job_final(st->state))
		return;
	jobs_watch_del(&w->watch);
	w->phase = SNAPWORK_QUEUED;
	task_post(jobs_loop(w->s->jobs), &w->s->pump);
}

void
snapwork_await(struct snapwork *w)
{
	w->watch.fn = job_step_cb;
	w->watch.arg = w;
	jobs_watch_add(w->s->jobs, &w->watch, strv_of(w->sn.ns),
		       strv_of(w->sn.job));
}

/* --- removing ---------------------------------------------------------- */
static void
removed_cb(int status, const char *out, const char *err, void *arg)
{
	struct snapwork *w = arg;

	(void)out;
	w->helper = NULL;
	if (status != 0)
		log_error("snapshot.remove", "snapshot=%s error=%s", w->sn.id,
			  log_esc(strv_of(err)));
	w->phase = SNAPWORK_GONE;
	store(w);
}

/* By a process: it may take a while, and this one is not to wait. */
static void
start_removing(struct snapwork *w)
{
	char name[] = "rm", force[] = "-f", end[] = "--";
	char *file = xasprintf("%s/%s", w->s->dir, w->sn.file);
	char *part = xasprintf("%s.part", file);
	char *argv[] = {name, force, end, file, part, NULL};

	w->helper = command_start(jobs_loop(w->s->jobs), argv, HELPER_MS,
				  removed_cb, w);
	free(file);
	free(part);
}

void
snapwork_remove(struct snapwork *w)
{
	struct snapshots *s = w->s;

	if (w->phase == SNAPWORK_REMOVING || w->phase == SNAPWORK_GONE)
		return;
	if (w->run != NULL) {
		snaprun_cancel(w->run);
		w->run = NULL;
		s->ncopying--;
		task_post(jobs_loop(s->jobs), &s->pump);
	}
	if (w->helper != NULL) {
		command_cancel(w->helper);
		w->helper = NULL;
	}
	let_go(w);
	w->phase = SNAPWORK_REMOVING;
	set_state(w, SNAPSHOT_DELETING, NULL);
	start_removing(w);
	store(w); /* when it cannot be stored now, the end of it will be */
}

/* --- life -------------------------------------------------------------- */
void
snapwork_init(struct snapshots *s)
{
	task_init(&s->pump, pump_cb, s);
	timer_init(&s->retry, jobs_loop(s->jobs), retry_cb, s);
}

void
snapwork_clear(struct snapshots *s)
{
	task_cancel(&s->pump);
	timer_clear(&s->retry);
	while (s->work != NULL)
		work_free(s->work);
	while (s->watches != NULL)
		snapshots_watch_del(s->watches);
}
