/* SPDX-License-Identifier: Apache-2.0 */
/* Layers; see the header. */
#include "config.h"

#include "agent/layer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/rmtree.h"
#include "agent/work.h"
#include "base/err.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "net/loop.h"

#define REMOVALS 20 /* tries: its last user may be dying still */

struct layer {
	struct work_job job;
	struct work_lane *lane;
	struct layer *below;
	unsigned refs;
	char name[40]; /* in JOBROOT_HOMES */
};

struct layer *
layer_new(struct work_lane *lane, unsigned id, struct layer *below)
{
	struct layer *l = xcalloc(1, sizeof(*l));

	l->lane = lane;
	(void)snprintf(l->name, sizeof(l->name), LAYER_NAME "/%u", id);
	l->refs = 1;
	l->below = below;
	if (below != NULL)
		below->refs++;
	return l;
}

static void
layer_remove(struct work_job *j)
{
	static const struct timespec pause = {.tv_nsec = 50000000};
	struct layer *l = (struct layer *)(void *)j;
	int dir = open(JOBROOT_HOMES, O_PATH | O_DIRECTORY | O_CLOEXEC);

	for (int i = 0; i < REMOVALS && rmtree(dir, l->name) == E_SYS; i++)
		(void)nanosleep(&pause, NULL);
	fd_close(&dir);
}

static void
layer_removed(struct work_job *j)
{
	free(j);
}

void
layer_release(struct layer *l)
{
	struct layer *below;

	for (; l != NULL && --l->refs == 0; l = below) {
		below = l->below;
		l->job.fn = layer_remove;
		l->job.done = layer_removed;
		l->job.uid = WORK_SELF;
		l->job.slow = true;
		work_submit(l->lane, &l->job);
	}
}

bool
layer_place(struct work_lane *lane, bool fresh)
{
	char path[64];
	struct layer *old;

	if (mkdir(LAYER_DIR, 0700) == 0)
		return true;
	if (errno != EEXIST || !fresh)
		return errno == EEXIST;
	old = layer_new(lane, 0, NULL);
	(void)snprintf(old->name, sizeof(old->name), LAYER_NAME ".%llu",
		       (unsigned long long)loop_clock_us());
	(void)snprintf(path, sizeof(path), JOBROOT_HOMES "/%s", old->name);
	if (rename(LAYER_DIR, path) == 0)
		layer_release(old);
	else
		free(old);
	return mkdir(LAYER_DIR, 0700) == 0;
}
