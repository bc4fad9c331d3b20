/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocking work (the disk) off the loop: a few threads that run one job each,
 * and tell the loop when it is done.
 *
 * Jobs wait in lanes, one for each sandbox, which have turns: whoever asks for
 * much waits for himself. A lane never has more than so many jobs running at a
 * time, so what hangs for ever (a network file system, FUSE) holds back its
 * own sandbox; and threads that hang are replaced, up to a bound.
 *
 * A thread acts with the user that its job names, for files: it takes that
 * user on before each job that names another than the last one did.
 */
#ifndef SBX_AGENT_WORK_H
#define SBX_AGENT_WORK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/actas.h"

struct loop;
struct work;
struct work_lane;

#define WORK_THREADS     4  /* as many as run while none hangs */
#define WORK_THREADS_MAX 32 /* and with those that do */
#define WORK_SELF        ACTAS_SELF

/* One thing to do; part of what it works on, zeroed. The pool's from
 * work_submit() until done. */
struct work_job {
	/* On a thread. */
	void (*fn)(struct work_job *j);
	/* On the loop, once, last. ran false: it never began; the pool was
	 * busy for too long, or its lane is closed. */
	void (*done)(struct work_job *j);
	/* On the loop, at most once: it began and takes too long. done still
	 * comes, if ever. NULL: it may take any time. */
	void (*late)(struct work_job *j);
	uid_t uid; /* whose files; WORK_SELF: the agent's own */
	bool slow; /* seconds are nothing: leaves room for others */
	bool ran;
	enum { WORK_IDLE, WORK_QUEUED, WORK_RUNS, WORK_OVER } state;
	struct work_lane *lane;
	struct work_job *next;
	uint64_t since_ms;
	struct work_job *after, *before; /* of those that can be late */
};

/* Part of its owner, who outlives its jobs. */
struct work_lane {
	struct work *work;
	struct work_job *first, **tail;
	struct work_job *last; /* runs when nothing else does any more */
	unsigned most;         /* jobs at a time */
	unsigned running, slow;
	bool closed;
	bool listed; /* among those that have something to do */
	struct work_lane *next;
};

/* late_ms: how long a job may wait, and how long it may take in all before
 * that is too long. */
struct work *work_new(struct loop *l, uint64_t late_ms);
/* Gives running and waiting jobs up to ms to end, done included. False: some
 * have not, and the pool must be left as it is. */
bool work_drain(struct work *w, uint64_t ms);
/* After work_drain(). NULL is fine. */
void work_free(struct work *w);
unsigned work_threads(struct work *w);

void work_lane_init(struct work_lane *lane, struct work *w, unsigned most);
/* Nothing new begins. Jobs that wait are given back (done, later), and so is
 * whatever is submitted from now on. last runs when the running ones are over;
 * it may be NULL. */
void work_lane_close(struct work_lane *lane, struct work_job *last);

/* fn(j) on a thread, then done(j) on the loop, which never happens before this
 * returns. What fn touches is its own until then. */
void work_submit(struct work_lane *lane, struct work_job *j);

#endif
