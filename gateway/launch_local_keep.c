/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File systems of local jobs that somebody wants to read. The file `keep` in a
 * job's directory is the supervisor's word that it leaves `fs/` there at its
 * end; who wants it is known to this process alone, so that what nobody wants
 * any more (after a restart) is found and removed.
 */
#include "config.h"

#include "gateway/launch_local_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/mem.h"

struct local_keep {
	struct local_keep *next;
	char id[LAUNCH_ID_LEN + 1];
	unsigned wanted; /* how many times */
	unsigned slot;   /* of a job that has ended: still its own */
};

static struct local_keep **
find(struct local *l, const char *id)
{
	struct local_keep **kp = &l->keeps;

	while (*kp != NULL && strcmp((*kp)->id, id) != 0)
		kp = &(*kp)->next;
	return kp;
}

static void
forget(struct local *l, struct local_keep **kp)
{
	struct local_keep *k = *kp;

	launch_local_free_slot(l, k->slot);
	*kp = k->next;
	free(k);
}

static bool
is_live(const struct local_job *j)
{
	return j != NULL && j->state != WAITING && j->state != OVER;
}

/* Of a job that has ended: wanted by an earlier gateway, and still there. */
static bool
was_kept(const struct launcher *base, const char *id)
{
	char *dir = launch_dir(base, id);
	bool yes = dir != NULL && launch_local_exists(dir, "keep") &&
		   launch_local_exists(dir, "exit.json") &&
		   launch_local_exists(dir, "fs");

	free(dir);
	return yes;
}

bool
launch_local_is_kept(struct local *l, const char *id)
{
	return *find(l, id) != NULL;
}

static struct local_keep *
keep_new(struct local *l, const char *id)
{
	struct local_keep *k = xcalloc(1, sizeof(*k));

	(void)snprintf(k->id, sizeof(k->id), "%s", id);
	k->slot = LOCAL_NO_SLOT;
	k->next = l->keeps;
	l->keeps = k;
	return k;
}

int
launch_local_keep(struct launcher *base, const char *id)
{
	struct local *l = LOCAL(base);
	struct local_job *j = launch_local_find(l, id);
	struct local_keep *k = *find(l, id);
	char *dir;

	if (k == NULL && is_live(j)) {
		if (!launch_local_order(j, "keep"))
			return E_NOTFOUND;
		k = keep_new(l, id);
	} else if (k == NULL) {
		if (!was_kept(base, id))
			return E_NOTFOUND;
		k = keep_new(l, id);
		dir = launch_dir(base, id);
		if (j == NULL) /* else it is the job's until that is over */
			k->slot = launch_local_read_slot(l, dir);
		free(dir);
	}
	k->wanted++;
	return 0;
}

void
launch_local_unkeep(struct launcher *base, const char *id)
{
	struct local *l = LOCAL(base);
	struct local_job *j = launch_local_find(l, id);
	struct local_keep **kp = find(l, id);
	char *dir;

	if (*kp == NULL || --(*kp)->wanted > 0)
		return;
	forget(l, kp);
	if (is_live(j)) {
		(void)launch_local_order(j, "unkeep");
		return;
	}
	dir = launch_dir(base, id);
	launch_local_clean(l, dir, false);
	free(dir);
}

void
launch_local_keep_over(struct local_job *j)
{
	struct local *l = LOCAL(j->base.launcher);
	struct local_keep **kp = find(l, j->base.id);

	if (launch_local_exists(j->dir, "keep")) {
		if (*kp == NULL)
			launch_local_clean(l, j->dir, false);
	} else if (*kp != NULL) { /* it had ended before it was told */
		forget(l, kp);
	}
}

void
launch_local_keep_slot(struct local_job *j)
{
	struct local *l = LOCAL(j->base.launcher);
	struct local_keep *k = *find(l, j->base.id);

	if (k != NULL)
		k->slot = j->slot;
	else
		launch_local_free_slot(l, j->slot);
}

void
launch_local_keep_forget(struct local *l, const char *id)
{
	struct local_keep **kp = find(l, id);

	if (*kp != NULL)
		forget(l, kp);
}

void
launch_local_keep_clear(struct local *l)
{
	while (l->keeps != NULL)
		forget(l, &l->keeps);
}

/* "UID UIDS ROOTFS", as launchspec_layout() wrote it. */
static int
read_layout(const char *dir, uid_t *base, unsigned *ids)
{
	char *path = xasprintf("%s/layout", dir), *text = NULL;
	struct strv rest, uid, uids;
	uint64_t first = 0, n = 0;
	size_t len;
	int r;

	if ((r = file_read(path, 8192, &text, &len)) == 0) {
		rest = (struct strv){text, len};
		(void)strv_cut(&rest, ' ', &uid);
		(void)strv_cut(&rest, ' ', &uids);
		if (strv_parse_u64(uid, UINT32_MAX, true, &first) != 0 ||
		    strv_parse_u64(uids, UINT32_MAX, true, &n) != 0)
			r = E_INVALID;
	}
	free(text);
	free(path);
	if (r != 0)
		return r;
	*base = n != 0 ? (uid_t)first : geteuid();
	*ids = n != 0 ? (unsigned)n : 1;
	return 0;
}

/* exit.json comes before the files go. */
static bool
is_there(struct local *l, const char *id, const char *dir)
{
	if (!launch_local_exists(dir, "fs"))
		return false;
	if (*find(l, id) != NULL && launch_local_exists(dir, "keep"))
		return true;
	return is_live(launch_local_find(l, id)) &&
	       !launch_local_exists(dir, "exit.json");
}

int
launch_local_tree(struct launcher *base, const char *id,
		  struct launch_tree *out)
{
	static const char *const parts[] = {
	    "upper", "data/root", "data/home", "data/tmp", "data/vartmp", NULL};
	char *dir = launch_dir(base, id);
	uid_t first;
	unsigned n;
	int r = E_NOTFOUND;

	if (dir != NULL && is_there(LOCAL(base), id, dir))
		r = read_layout(dir, &first, &n);
	if (r == 0)
		*out = (struct launch_tree){.dir = xasprintf("%s/fs", dir),
					    .parts = parts,
					    .base = first,
					    .ids = n};
	free(dir);
	return r;
}
