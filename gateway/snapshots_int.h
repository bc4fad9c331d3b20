/* SPDX-License-Identifier: Apache-2.0 */
/* What snapshots.c (the service) and snapshots_work.c (what is under way)
 * share. */
#ifndef SBX_GATEWAY_SNAPSHOTS_INT_H
#define SBX_GATEWAY_SNAPSHOTS_INT_H

#include "gateway/jobs.h"
#include "gateway/snapshots.h"
#include "net/loop.h"

struct command;
struct snaprun;

enum snapwork_phase {
	SNAPWORK_STOPPING, /* the job ends first */
	SNAPWORK_QUEUED,   /* its turn will come */
	SNAPWORK_COPYING,  /* run is there */
	SNAPWORK_NAMING,   /* its name becomes durable */
	SNAPWORK_OVER,     /* READY or FAILED, and not stored yet */
	SNAPWORK_REMOVING, /* its file */
	SNAPWORK_GONE      /* the record is to go */
};

/* A snapshot that something is done with; what is said of it here wins over
 * the database. */
struct snapwork {
	struct snapshots *s;
	struct snapwork *next, **prevp;
	struct snapshot sn;
	enum snapwork_phase phase;
	struct jobs_watch watch; /* while STOPPING */
	bool kept;               /* its files, for us: jobs_unkeep() is due */
	struct snaprun *run;
	struct command *helper; /* that syncs or removes */
	/* Of the archive; in sn when it is READY. */
	uint64_t size;
	char sha256[SNAPSHOT_SHA_LEN + 1];
	bool dirty; /* the database does not have it so */
};

struct snapshots {
	struct jobs *jobs;
	char *dir, *program;
	int dir_fd;
	struct snapwork *work; /* the youngest first */
	size_t nwork, ncopying;
	struct snapshots_watch *watches;
	struct task pump;
	struct timer retry;
};

/* snapshots_load.c: once, at the start. */
int snapshots_take_up(struct snapshots *s) SBX_MUST_CHECK;
/* Afterwards, when jobs have been found again; arg is the snapshots. */
void snapshots_resume(void *arg);
/* *sn is moved from. */
struct snapwork *snapwork_new(struct snapshots *s, struct snapshot *sn,
			      enum snapwork_phase phase);
struct snapwork *snapwork_find(const struct snapshots *s, struct strv id);
/* Its turn comes when the job has ended. */
void snapwork_await(struct snapwork *w);
/* Ends what is done with it and begins removing its file. */
void snapwork_remove(struct snapwork *w);
void snapwork_init(struct snapshots *s);
void snapwork_clear(struct snapshots *s);
/* The file of a snapshot while it is written; malloc'ed. */
char *snapwork_part(const struct snapshot *sn);

#endif
