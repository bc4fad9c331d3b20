/* SPDX-License-Identifier: Apache-2.0 */
/* What run.c (start, end, orders) and runkeep.c (output that is kept, and its
 * readers) share; private. */
#ifndef SBX_AGENT_RUN_INT_H
#define SBX_AGENT_RUN_INT_H

#include "agent/ring.h"
#include "agent/run.h"
#include "net/loop.h"

#define RUN_GRACE_MS 2000 /* from TERM to KILL */

struct run {
	struct run_set *set;
	struct run *next, *prev;
	char id[24];
	char *cmd;
	char *tag;
	uint64_t started_ms;
	bool background;
	bool base64;
	bool ended;
	bool released; /* a foreground one without its starter */
	pid_t pid;
	pid_t inside; /* what the sandbox's processes know it by */
	struct proc *proc;
	struct proc_exit exit;
	struct ring *ring; /* NULL: a foreground one without exec_id */
	const struct run_cbs *cbs;
	void *arg;
	struct run_reader *readers; /* the newest first */
	struct task wake;
	/* Bytes that began a character, not in the ring yet. */
	struct {
		char hold[4];
		unsigned n;
	} part[2];
	/* With an exec_id: */
	char *exec_id; /* NULL: none */
	struct run_digest digest;
	bool lasts;         /* it is not stopped when nobody reads it */
	uint64_t lost_pos;  /* where its last viewer was */
	struct timer timer; /* till it is stopped, then till it is forgotten */
};

void run_forget(struct run *r);

/* runkeep.c */
void runkeep_init(struct run *r, const struct run_spec *spec);
void runkeep_add(struct run *r, unsigned stream, const char *data, size_t n);
void runkeep_end(struct run *r);
/* Somebody views it (run_reader.views). */
bool runkeep_viewed(const struct run *r);
/* Tells readers that it is gone, and remembers its exec_id. */
void runkeep_drop(struct run *r);
void runkeep_clear(struct run_set *s);

#endif
