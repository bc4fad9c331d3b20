/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host mode: many sandboxes on one machine, their birth and their end. Whoever
 * needs to know of both registers an observer. Knows nothing of how it is
 * reached.
 */
#ifndef SBX_AGENT_HOST_H
#define SBX_AGENT_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/sandbox.h"
#include "base/defs.h"
#include "base/str.h"

struct baseenv;
struct host;
struct proc_env;
struct walls;
struct work;

struct host_options {
	const char *homes;
	unsigned capacity; /* 0: as many as there are uids */
	bool best_effort;  /* take what isolation this machine gives */
	uid_t uid_first;   /* to uid_last: the sandboxes' */
	uid_t uid_last;
	const char *uid_lock;
	const char *cgroup;         /* see cgroup_look() */
	const struct baseenv *base; /* of all commands; borrowed */
	uint64_t resume_ms;         /* see run_place */
};

/* Makes ready: takes the homes directory (one agent each) and clears away what
 * an earlier agent left there. *why (malloc'ed) on failure. */
int host_new(struct loop *l, struct proc_env *procs, struct work *w,
	     const struct host_options *o, struct host **out,
	     char **why) SBX_MUST_CHECK;
/* Every sandbox must be gone. */
void host_free(struct host *h);

/* "full", "uid", "landlock" or "none". */
const char *host_isolation(const struct host *h);
/* What keeps sandboxes apart beside that. */
const struct walls *host_walls(const struct host *h);
size_t host_count(const struct host *h); /* live ones */
/* True when host_create would give E_FULL. */
bool host_full(const struct host *h);

/* Called when a sandbox is made, or is not: then sb is NULL, and eno why;
 * ETIMEDOUT: the disk does not answer. */
struct host_maker {
	void (*done)(struct host_maker *m, struct sandbox *sb, int eno);
};
/* Makes one; m->done comes later. E_FULL: capacity; E_UNSUPPORTED: this
 * machine cannot; with *why (malloc'ed): it does not come. */
int host_create(struct host *h, const struct sandbox_spec *spec,
		struct host_maker *m, char **why) SBX_MUST_CHECK;
/* Live ones only. */
struct sandbox *host_find(struct host *h, struct strv id);
struct sandbox *host_next(struct host *h, struct sandbox *after);

/* Called when a sandbox is gone: no process, no home. */
struct host_waiter {
	struct host_waiter *next;
	void (*done)(struct host_waiter *w);
};
/* Ends it: nobody finds it any more, its processes are killed at once, then
 * its home is removed. reason: "deleted", "idle", "exited",
 * "killed". w may be NULL. */
void host_delete(struct host *h, struct sandbox *sb, const char *reason,
		 struct host_waiter *w);
/* Has any of the live ones a process? For those with users of their own. */
bool host_any_process(const struct host *h);
/* True while sandboxes exist, begin or end. */
bool host_busy(const struct host *h);

struct host_observer {
	struct host_observer *next;
	struct host_observer **prevp;
	void (*created)(struct host_observer *o, const struct sandbox *sb);
	void (*gone)(struct host_observer *o, const struct sandbox *sb,
		     const char *reason);
};
void host_observe(struct host *h, struct host_observer *o);
void host_unobserve(struct host_observer *o);

#endif
