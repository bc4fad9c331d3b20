/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames on a stream socket between the agent and an interpreter that it
 * started (runner.py): a length of four bytes, big-endian, of what follows; a
 * byte that says what it is; a text. The other side is not trusted: what it
 * sends is bounded, one frame at a time.
 */
#ifndef SBX_AGENT_FRAMES_H
#define SBX_AGENT_FRAMES_H

#include <stddef.h>

#include "base/defs.h"
#include "base/str.h"

#define FRAMES_MAX     (8U << 20) /* of one that comes in, with its type */
#define FRAMES_FDS_MAX 160        /* descriptors that came and wait */

struct frames;
struct loop;

struct frames_cbs {
	/* body is valid during the call. None comes between frames_pause()
	 * and frames_resume(). */
	void (*frame)(struct frames *f, char type, struct strv body, void *arg);
	/* The other side ended, or said what is no frame. Only frames_close()
	 * is left. */
	void (*closed)(struct frames *f, void *arg);
};

/* Takes fd, which does not block. *held is kept up to date: bytes in memory
 * that came in; when it would exceed held_max, the link is closed. */
struct frames *frames_take_fd(struct loop *l, int fd, size_t *held,
			      size_t held_max, const struct frames_cbs *cbs,
			      void *arg);
void frames_close(struct frames *f); /* NULL is fine; defers the free */
/* Queues one. What is queued is the caller's to bound. */
void frames_send(struct frames *f, char type, struct strv body);
/* The next descriptor that came with frames (SCM_RIGHTS), the caller's; -1:
 * none. */
int frames_fd(struct frames *f);
void frames_pause(struct frames *f);
void frames_resume(struct frames *f); /* calls back after the batch */
/* Reads what has come and hands it out, paused or not: at the end. */
void frames_drain(struct frames *f);

#endif
