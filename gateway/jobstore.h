/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs on disk: records, labels and history in one SQLite database (no
 * other file than jobstore*.c knows that). Write-ahead log, synchronous=NORMAL:
 * what was committed survives the end of this process at any point, and no
 * write waits for the disk except a checkpoint, once in some thousand of them.
 *
 * Changes of one batch of the loop go into one transaction: the first change
 * opens it, jobstore_commit() ends it. Reading sees what is not committed yet.
 *
 * Values of secrets never get here.
 */
#ifndef SBX_GATEWAY_JOBSTORE_H
#define SBX_GATEWAY_JOBSTORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/defs.h"
#include "base/str.h"
#include "gateway/job.h"

struct jobstore;

/* Opens path or makes it (0600). A file that is not a sound database of ours
 * is renamed to path.broken-<time> and a new one begun; *msg (malloc'ed) then
 * says so, and 0 is returned. E_UNSUPPORTED: it was written by a later
 * version; E_SYS and others: it cannot be opened; nothing is touched. */
int jobstore_open(const char *path, struct jobstore **out,
		  char **msg) SBX_MUST_CHECK;
void jobstore_close(struct jobstore *s); /* commits; NULL is fine */

/* All of the following: E_FULL, E_SYS: the database could not do it. */

/* A new job with its labels and its first step. Sets j->seq. E_EXISTS: there
 * is one with that id, or with that namespace and request id. */
int jobstore_insert(struct jobstore *s, struct job *j,
		    uint64_t *step) SBX_MUST_CHECK;
/* The job's state is now as in *j; adds a step of its history. */
int jobstore_update(struct jobstore *s, const struct job *j,
		    uint64_t *step) SBX_MUST_CHECK;
int jobstore_labels(struct jobstore *s,
		    const struct job *j) SBX_MUST_CHECK; /* replaces them */
/* Whether there is anything for jobstore_commit() to make lasting. */
bool jobstore_open_changes(const struct jobstore *s);
/* Ends the transaction of all changes since the last one. E_FULL, E_SYS: none
 * of them happened. */
int jobstore_commit(struct jobstore *s) SBX_MUST_CHECK;

/* *out is job_clear()'s afterwards. E_NOTFOUND. */
int jobstore_get(struct jobstore *s, struct strv id,
		 struct job *out) SBX_MUST_CHECK;
/* The same, by what POST said as requestId. */
int jobstore_by_request(struct jobstore *s, const char *ns,
			const char *request_id, struct job *out) SBX_MUST_CHECK;

/* Which jobs of a namespace; zeroed: all. */
struct job_query {
	const char *ns;
	unsigned stages;                /* bits, 1 << enum job_stage; 0: any */
	unsigned states;                /* bits, 1 << enum job_state; 0: any */
	const struct job_pairs *labels; /* all of them; NULL: none */
	const struct job_words *tags;   /* all of them; NULL: none */
	uint64_t before; /* only with a smaller seq; 0: from the newest */
};
/* Newest first, until fn says false. *j is the store's. */
int jobstore_list(struct jobstore *s, const struct job_query *q,
		  bool (*fn)(const struct job *j, void *arg),
		  void *arg) SBX_MUST_CHECK;
/* Every job that has not ended, oldest first. */
int jobstore_live(struct jobstore *s,
		  bool (*fn)(const struct job *j, void *arg),
		  void *arg) SBX_MUST_CHECK;

/* At most max of those that ended after that time, the last one first. */
int jobstore_ended(struct jobstore *s, int64_t after_ms, unsigned max,
		   bool (*fn)(const struct job *j, void *arg),
		   void *arg) SBX_MUST_CHECK;

/* The steps after `after`, oldest first, until fn says false: of one job, or,
 * id empty, of a namespace. */
int jobstore_steps(struct jobstore *s, const char *ns, struct strv id,
		   uint64_t after,
		   bool (*fn)(struct strv id, const struct job_step *st,
			      void *arg),
		   void *arg) SBX_MUST_CHECK;
uint64_t jobstore_last_step(struct jobstore *s);

/* Takes at most max ended jobs out: those that ended before before_ms, or, when
 * there are none, the oldest ones of namespaces that have more than keep. fn is
 * told each id. *n: how many; 0: all is done. */
int jobstore_prune(struct jobstore *s, int64_t before_ms, uint64_t keep,
		   unsigned max, void (*fn)(const char *id, void *arg),
		   void *arg, unsigned *n) SBX_MUST_CHECK;

#endif
