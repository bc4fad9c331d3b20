/* SPDX-License-Identifier: Apache-2.0 */
/* Connecting to a socket file on a thread; see the header. */
#include "config.h"

#include "agent/reach.h"

#include <stdlib.h>

#include "agent/sandbox.h"
#include "agent/work.h"
#include "base/err.h"
#include "base/fdio.h"
#include "base/mem.h"

struct reach {
	struct work_job job;
	struct sandbox *sb; /* its lane ends before it does */
	uint16_t port;
	int err, fd;
	void (*done)(int err, int fd, void *arg); /* NULL: nobody waits */
	void *arg;
};

static void
reach_job(struct work_job *j)
{
	struct reach *x = CONTAINER_OF(j, struct reach, job);

	x->err = sandbox_connect_wait(x->sb, x->port, &x->fd);
}

static void
reach_done(struct work_job *j)
{
	struct reach *x = CONTAINER_OF(j, struct reach, job);

	if (!j->ran)
		x->err = E_TIMEOUT;
	if (x->sb->state != SANDBOX_LIVE)
		x->err = E_NOTFOUND;
	if (x->done == NULL || x->err != 0)
		fd_close(&x->fd);
	if (x->done != NULL)
		x->done(x->err, x->fd, x->arg);
	free(x);
}

static void
reach_late(struct work_job *j)
{
	struct reach *x = CONTAINER_OF(j, struct reach, job);
	void (*done)(int, int, void *) = x->done;

	x->done = NULL;
	if (done != NULL)
		done(E_TIMEOUT, -1, x->arg);
}

struct reach *
reach_start(struct sandbox *sb, uint16_t port,
	    void (*done)(int err, int fd, void *arg), void *arg)
{
	struct reach *x = xcalloc(1, sizeof(*x));

	x->sb = sb;
	x->port = port;
	x->fd = -1;
	x->done = done;
	x->arg = arg;
	x->job.fn = reach_job;
	x->job.done = reach_done;
	x->job.late = reach_late;
	x->job.uid = WORK_SELF;
	work_submit(&sb->files, &x->job);
	return x;
}

void
reach_cancel(struct reach *x)
{
	if (x != NULL)
		x->done = NULL; /* freed when its job is over */
}
