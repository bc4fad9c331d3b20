/* SPDX-License-Identifier: Apache-2.0 */
/* What jobs.c (the service), jobs_run.c (what runs) and jobs_tell.c (storing
 * and telling steps) share. */
#ifndef SBX_GATEWAY_JOBS_INT_H
#define SBX_GATEWAY_JOBS_INT_H

#include "gateway/jobs.h"
#include "gateway/launch.h"
#include "net/loop.h"

struct gw_flavor;
struct hash;

/* A step that is in the open transaction, to be told when it is stored. */
struct jobs_note {
	char id[JOB_ID_LEN + 1];
	char *ns, *message;
	struct job_step step;
};

/* A job that has not ended, or whose end is not stored yet. */
struct live {
	struct jobs *js;
	struct job job;
	struct launch *launch; /* NULL: none (yet, or any more) */
	char *note;            /* what is other than asked for; NULL: nothing */
	char *http;            /* its agent's address, once it answers */
	bool dirty;            /* the database does not have its state */
};

struct jobs {
	struct jobs_options o;
	struct jobstore *store;
	struct hash *live; /* id -> struct live */
	struct jobs_watch *watches;
	struct jobs_note *notes;
	size_t nnotes, nstored; /* the first nstored are on disk */
	struct jobs_totals totals;
	jobs_restore_cb restore; /* NULL: nobody can */
	void *restore_arg;
	void (*adopted)(void *arg); /* NULL: nobody waits for that */
	void *adopted_arg;
	struct task batch;
	struct timer retry, prune;
};

/* jobs.c: what stops that do not say it have. */
uint64_t jobs_grace(const struct jobs *js, const struct job_spec *s);

/* jobs_run.c */
struct live *jobs_live_add(struct jobs *js, struct job *j); /* moved from */
void jobs_live_free(struct live *l);
/* Hands it to the launcher. */
void jobs_run_start(struct live *l, const struct gw_flavor *flavor,
		    uint64_t timeout_ms);
void jobs_run_stop(struct live *l, struct strv by, uint64_t grace_ms);
/* E_BUSY with *why (malloc'ed): it cannot be. l may be NULL. */
int jobs_run_pause(struct live *l, struct strv by, bool pause,
		   char **why) SBX_MUST_CHECK;

/* jobs_tell.c */
void jobs_tell_init(struct jobs *js);
void jobs_tell_clear(struct jobs *js);
/* Does a step, if the table has it; it is stored and told after the batch. */
bool jobs_step(struct live *l, enum job_event ev, int64_t at_ms,
	       const int *exit_code, const char *text);
/* Ends the transaction now; 0: all is stored. */
int jobs_flush(struct jobs *js);
/* A step that is stored already (made with the job). */
void jobs_note(struct jobs *js, const struct job *j, uint64_t seq);

#endif
