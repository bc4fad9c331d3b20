/* SPDX-License-Identifier: Apache-2.0 */
/* Directories of local jobs: what is written into them, which ids they stand
 * for, and how they go. */
#include "config.h"

#include "gateway/launch_local_int.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "gateway/detach.h"
#include "gateway/launchconf.h"
#include "gateway/launchspec.h"

#define CLEAN_BATCH 64

/* --- files -------------------------------------------------------------- */

bool
launch_local_exists(const char *dir, const char *name)
{
	char *path = xasprintf("%s/%s", dir, name);
	bool yes = access(path, F_OK) == 0;

	free(path);
	return yes;
}

void
launch_local_unlink(const char *dir, const char *name)
{
	char *path = xasprintf("%s/%s", dir, name);

	(void)unlink(path);
	free(path);
}

/* --- user ids ---------------------------------------------------------- */

unsigned
launch_local_take_slot(struct local *l)
{
	if (geteuid() != 0)
		return LOCAL_NO_SLOT;
	for (unsigned i = 0; i < l->nslots; i++) {
		unsigned slot = (l->next_slot + i) % l->nslots;

		if (l->slots[slot] != 0)
			continue;
		l->slots[slot] = 1;
		l->next_slot = (slot + 1) % l->nslots;
		return slot;
	}
	return LOCAL_NO_SLOT;
}

unsigned
launch_local_read_slot(struct local *l, const char *dir)
{
	char *path = xasprintf("%s/slot", dir), *text = NULL;
	uint64_t n = LOCAL_NO_SLOT;
	size_t len;

	if (file_read(path, 32, &text, &len) != 0 || len == 0 ||
	    strv_parse_u64((struct strv){text, len - 1}, l->nslots - 1, true,
			   &n) != 0)
		n = LOCAL_NO_SLOT;
	free(text);
	free(path);
	if (n != LOCAL_NO_SLOT)
		l->slots[n] = 1;
	return (unsigned)n;
}

void
launch_local_free_slot(struct local *l, unsigned slot)
{
	if (slot != LOCAL_NO_SLOT)
		l->slots[slot] = 0;
}

/* --- writing ----------------------------------------------------------- */

static int
write_file(const char *dir, const char *name, struct strv text)
{
	char *path = xasprintf("%s/%s", dir, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), r;

	free(path);
	if (fd == -1)
		return err_from_errno(errno);
	r = fd_write_all(fd, text.p, text.len);
	(void)close(fd);
	return r;
}

int
launch_local_write(struct local_job *j, const struct launch_spec *spec)
{
	struct local *l = LOCAL(j->base.launcher);
	struct launchspec_place place = {
	    .conf = l->conf,
	    .outbound = l->outbound,
	    .slot = j->slot != LOCAL_NO_SLOT ? j->slot : 0,
	    .worker_uid = l->worker_uid,
	};
	struct strbuf b = {0};
	char slot[16], *layout;
	int r;

	if (j->slot != LOCAL_NO_SLOT)
		place.uid = (uid_t)(l->conf->uid_base +
				    (uint64_t)j->slot * LAUNCHCONF_UIDS);
	(void)snprintf(slot, sizeof(slot), "%u\n", j->slot);
	layout = launchspec_layout(spec, &place);
	launchspec_add(&b, spec, &place);
	r = j->slot == LOCAL_NO_SLOT
		? 0
		: write_file(j->dir, "slot", strv_of(slot));
	if (r == 0)
		r = write_file(j->dir, "layout", strv_of(layout));
	if (r == 0) /* the last one: what has it can be started */
		r = write_file(j->dir, "spec.json", (struct strv){b.s, b.len});
	mem_secure_zero(b.s, b.cap);
	strbuf_clear(&b);
	free(layout);
	return r;
}

/* --- cleaning ---------------------------------------------------------- */

struct batch {
	struct local *l;
	bool all;
	char *dirs[CLEAN_BATCH];
	size_t n;
};

/* In a process of its own: it may have to wait, and there may be much. */
static void
batch_run(struct batch *b)
{
	char job[] = "job", opt[] = "--clean", opt_all[] = "--all",
	     name[] = "sbx-agent";
	char *argv[CLEAN_BATCH + 6] = {name, job, opt};
	size_t at = 3;

	if (b->all)
		argv[at++] = opt_all;
	for (size_t i = 0; i < b->n; i++)
		argv[at++] = b->dirs[i];
	if (b->n > 0 && detach_start(b->l->agent, argv, NULL, 0) != 0)
		log_error("launch.clean", "program=%s error=\"%s\"",
			  log_esc(strv_of(b->l->agent)), strerror(errno));
	while (b->n > 0)
		free(b->dirs[--b->n]);
}

static void
batch_add(struct batch *b, const char *dir)
{
	if (b->n == CLEAN_BATCH)
		batch_run(b);
	b->dirs[b->n++] = xstrdup(dir);
}

void
launch_local_clean(struct local *l, const char *dir, bool all)
{
	struct batch b = {.l = l, .all = all};

	batch_add(&b, dir);
	batch_run(&b);
}

/* --- directories ------------------------------------------------------- */

void
launch_local_remove(struct launcher *base, const char *id)
{
	static const char *const names[] = {
	    "log",  "log.1", "exit.json", "agent.log", "agent.log.1",
	    "slot", "pid",   "layout",    "spec.json", "job.sock"};
	char *dir = launch_dir(base, id), *path;

	if (dir == NULL)
		return;
	launch_local_keep_forget(LOCAL(base), id);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		path = xasprintf("%s/%s", dir, names[i]);
		(void)unlink(path);
		free(path);
	}
	if (rmdir(dir) != 0 && errno != ENOENT)
		launch_local_clean(LOCAL(base), dir, true);
	free(dir);
}

void
launch_local_sweep(struct launcher *base, launch_known_cb known, void *arg)
{
	struct local *l = LOCAL(base);
	struct batch gone = {.l = l, .all = true}, dead = {.l = l};
	DIR *d = opendir(l->base.jobs_dir);
	struct dirent *de;

	while (d != NULL && (de = readdir(d)) != NULL) {
		char *dir = launch_dir(base, de->d_name);

		if (dir == NULL || launch_local_find(l, de->d_name) != NULL) {
			free(dir);
			continue;
		}
		if (!known(de->d_name, arg))
			batch_add(&gone, dir);
		else if (launch_local_exists(dir, "fs") &&
			 !launch_local_is_kept(l, de->d_name))
			batch_add(&dead, dir);
		free(dir);
	}
	if (d != NULL)
		(void)closedir(d);
	batch_run(&gone);
	batch_run(&dead);
}
