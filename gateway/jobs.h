/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The service of jobs: makes them, drives a launcher, keeps what became of
 * them, and tells who wants to know. Every face of the control plane (the Hub's
 * API is one) is built on this; nothing of HTTP is known here.
 *
 * A namespace is compared in every call that names a job: a job of another
 * namespace does not exist (E_NOTFOUND).
 */
#ifndef SBX_GATEWAY_JOBS_H
#define SBX_GATEWAY_JOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/defs.h"
#include "base/str.h"
#include "gateway/job.h"
#include "gateway/jobstore.h"

struct gw_conf;
struct jobs;
struct launch_tree;
struct launcher;
struct loop;

struct jobs_options {
	struct loop *loop;
	const struct gw_conf *conf; /* borrowed until jobs_set_conf() */
	const char *db_path;
	struct launcher *launcher; /* borrowed */
	/* A job that has an agent: http NULL while it starts, then its address
	 * and that of its control channel; and that it has ended, with why for
	 * people, also for jobs that ended under an earlier gateway. */
	void (*announce)(const struct job *j, const char *http,
			 const char *control, void *arg);
	void (*gone)(const struct job *j, const char *reason, void *arg);
	void *arg;
};

/* Opens the database. *msg (malloc'ed): why not; also set when it returns 0
 * and somebody should know something. */
int jobs_new(const struct jobs_options *o, struct jobs **out,
	     char **msg) SBX_MUST_CHECK;
/* Finds those that still run, ends what nobody knows of. Once, after
 * jobs_new(). */
void jobs_adopt(struct jobs *js);
void jobs_free(struct jobs *js); /* jobs go on; NULL is fine */
/* Forgets jobs whose time is over (done once a minute by itself). */
void jobs_prune(struct jobs *js);
/* After a reload: conf is borrowed until the next one. */
void jobs_set_conf(struct jobs *js, const struct gw_conf *conf);
const struct gw_conf *jobs_conf(const struct jobs *js);
struct loop *jobs_loop(const struct jobs *js);
size_t jobs_count(const struct jobs *js); /* that have not ended */
/* Since the start of this process; by event for those that ended. */
struct jobs_totals {
	uint64_t created, ended[JOB_EVENTS];
};
const struct jobs_totals *jobs_totals(const struct jobs *js);
/* For who keeps other records in the same database. */
struct jobstore *jobs_store(struct jobs *js);
/* What was changed there lasts from now on; else none of it happened. E_FULL,
 * E_SYS. */
int jobs_commit(struct jobs *js) SBX_MUST_CHECK;
/* Who knows what spec->restore names (which is set): fills spec->prepare, and
 * may set its image. Not 0: the job is not made; *why, malloc'ed. */
typedef int (*jobs_restore_cb)(const char *ns, struct job_spec *spec,
			       char **why, void *arg);
void jobs_set_restore(struct jobs *js, jobs_restore_cb fn, void *arg);
/* Called by jobs_adopt() once jobs are found, before what nobody knows of or
 * keeps is removed. */
void jobs_set_adopted(struct jobs *js, void (*fn)(void *arg), void *arg);
/* See launch_tree(), launch_keep(), launch_unkeep(). */
int jobs_tree(struct jobs *js, const char *id,
	      struct launch_tree *out) SBX_MUST_CHECK;
int jobs_keep(struct jobs *js, const char *id) SBX_MUST_CHECK;
void jobs_unkeep(struct jobs *js, const char *id);
/* The directory of a job (its log is in it), malloc'ed. */
char *jobs_dir(const struct jobs *js, const char *id);
/* Where the agent of a running job is, and the token that it wants (NULL: none;
 * of one that was given as a secret nobody knows). NULL: it does not answer
 * (yet). Both are good until the loop goes on. */
const char *jobs_agent(const struct jobs *js, struct strv id,
		       const char **token);

/*
 * Makes a job and starts it. *spec is moved from, in any case. 0: *out is
 * job_clear()'s; it may have failed already. With a request id that was used
 * before in this namespace, the job of then comes back and *existed is set.
 * E_INVALID, E_LIMIT (too many), E_NOTFOUND and E_BUSY (what is to be restored
 * is not there (yet)), E_FULL, E_SYS: *why, malloc'ed.
 */
int jobs_create(struct jobs *js, const char *ns, const char *user,
		struct job_spec *spec, struct job *out, bool *existed,
		char **why) SBX_MUST_CHECK;
/* *out is job_clear()'s. E_NOTFOUND (also of another namespace), E_SYS. */
int jobs_get(struct jobs *js, struct strv ns, struct strv id,
	     struct job *out) SBX_MUST_CHECK;
/* As jobstore_list(). */
int jobs_list(struct jobs *js, const struct job_query *q,
	      bool (*fn)(const struct job *j, void *arg),
	      void *arg) SBX_MUST_CHECK;
#define JOBS_GRACE UINT64_MAX /* the job's own, or the configured one */
/* Wants it ended; by: who. As often as one likes; 0 also when it has ended.
 * E_NOTFOUND, E_SYS. */
int jobs_stop(struct jobs *js, struct strv ns, struct strv id, struct strv by,
	      uint64_t grace_ms) SBX_MUST_CHECK;
/* Freezes it, or lets it go on. 0: it is so (already). E_NOTFOUND, E_SYS;
 * E_BUSY: it cannot be, *why (malloc'ed) says why not. */
int jobs_pause(struct jobs *js, struct strv ns, struct strv id, struct strv by,
	       bool pause, char **why) SBX_MUST_CHECK;
/* *labels is moved from, in any case. E_NOTFOUND, E_FULL, E_SYS. */
int jobs_set_labels(struct jobs *js, struct strv ns, struct strv id,
		    struct job_pairs *labels) SBX_MUST_CHECK;
/* As jobstore_steps(). */
int jobs_steps(struct jobs *js, const char *ns, struct strv id, uint64_t after,
	       bool (*fn)(struct strv id, const struct job_step *st, void *arg),
	       void *arg) SBX_MUST_CHECK;
/* The number of the newest step of any job; 0: there was none. */
uint64_t jobs_last_step(struct jobs *js);

/* Being told of each step of a job or of all of a namespace, once it is
 * stored. Embedded in who listens; it may be removed inside any call of fn. */
struct jobs_watch {
	struct jobs_watch *next;
	struct jobs_watch **prevp;
	char *ns;
	char id[JOB_ID_LEN + 1]; /* "": every job of the namespace */
	void (*fn)(const char *id, const struct job_step *st, void *arg);
	void *arg;
};
/* fn is called for steps from now on; ns is copied, and freed by
 * jobs_watch_del(); id empty: all of the namespace. */
void jobs_watch_add(struct jobs *js, struct jobs_watch *w, struct strv ns,
		    struct strv id);
void jobs_watch_del(struct jobs_watch *w); /* idempotent */

#endif
