/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the local launcher share. */
#ifndef SBX_GATEWAY_LAUNCH_LOCAL_INT_H
#define SBX_GATEWAY_LAUNCH_LOCAL_INT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/defs.h"
#include "base/str.h"
#include "gateway/launch.h"
#include "net/loop.h"

struct gw_launch;
struct local_keep;
struct seqpkt;

enum local_state { WAITING, STARTING, RUNNING, OVER };

struct local_job {
	struct launch base;
	struct local_job *next, **prevp;
	enum local_state state;
	bool stopped; /* while it was WAITING */
	bool retried; /* job.sock was connected to once more */
	unsigned slot;
	char *dir;
	struct seqpkt *sp;
	struct task task;    /* see settle() */
	struct timer frozen; /* after a stop */
	uint64_t frozen_at;
};

struct local {
	struct launcher base;
	struct loop *loop;
	const struct gw_launch *conf;
	uid_t worker_uid;
	char *agent;
	char *outbound;
	struct local_job *jobs;
	struct local_keep *keeps;
	uint64_t starting;
	unsigned char *slots; /* 1: taken */
	unsigned nslots, next_slot;
};

#define LOCAL(p)      ((struct local *)(void *)(p))
#define JOB(p)        ((struct local_job *)(void *)(p))
#define LOCAL_NO_SLOT ((unsigned)-1)

struct local_job *launch_local_find(struct local *l, const char *id);
/* Sends it an order; false: it is not there, or does not listen. */
bool launch_local_order(struct local_job *j, const char *order);

/* launch_local_dir.c: directories of jobs, and the ids that they stand for. */
bool launch_local_exists(const char *dir, const char *name);
void launch_local_unlink(const char *dir, const char *name);
unsigned launch_local_take_slot(struct local *l); /* LOCAL_NO_SLOT: none */
/* Which one a job has, as an earlier process wrote it; taken from now on. */
unsigned launch_local_read_slot(struct local *l, const char *dir);
void launch_local_free_slot(struct local *l, unsigned slot);
/* spec.json and what goes with it. */
int launch_local_write(struct local_job *j,
		       const struct launch_spec *spec) SBX_MUST_CHECK;
/* Removes what a supervisor has left behind; all: the directory as well. In
 * another process. */
void launch_local_clean(struct local *l, const char *dir, bool all);
void launch_local_remove(struct launcher *base, const char *id);
void launch_local_sweep(struct launcher *base, launch_known_cb known,
			void *arg);

/* launch_local_pause.c: the freezer of a job's control group. */
int launch_local_pause(struct launch *base, bool pause,
		       const char **why) SBX_MUST_CHECK;
bool launch_local_paused(struct launch *base);

/* launch_local_keep.c: file systems that outlive their jobs. */
int launch_local_tree(struct launcher *base, const char *id,
		      struct launch_tree *out) SBX_MUST_CHECK;
int launch_local_keep(struct launcher *base, const char *id) SBX_MUST_CHECK;
void launch_local_unkeep(struct launcher *base, const char *id);
/* The job has ended: removes what is kept for nobody. */
void launch_local_keep_over(struct local_job *j);
/* Its slot is free, unless something of it is kept. */
void launch_local_keep_slot(struct local_job *j);
/* The directory goes. */
/* Whether somebody wants its files. */
bool launch_local_is_kept(struct local *l, const char *id);
void launch_local_keep_forget(struct local *l, const char *id);
void launch_local_keep_clear(struct local *l);

#endif
