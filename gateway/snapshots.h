/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The service of snapshots: archives of what jobs wrote, kept in a directory,
 * with records in the jobs' database. Nothing of HTTP is known here; every face
 * is built on this.
 *
 * A snapshot is CREATING until its archive is whole and on disk, then READY, or
 * FAILED with a reason and without a file. A gateway that is killed leaves
 * nothing but FAILED ones.
 *
 * A namespace is compared in every call that names a job or a snapshot: one of
 * another namespace does not exist (E_NOTFOUND). Who gives none when reading
 * (p NULL) compares what comes back.
 */
#ifndef SBX_GATEWAY_SNAPSHOTS_H
#define SBX_GATEWAY_SNAPSHOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/defs.h"
#include "base/str.h"
#include "gateway/snapstore.h"

struct jobs;
struct snapshots;

struct snapshots_options {
	struct jobs *jobs;   /* borrowed; its loop and configuration are used */
	const char *dir;     /* absolute; made when missing; copied */
	const char *program; /* NULL: sbx-gateway beside us; copied */
};

/* Takes up what an earlier gateway left. *msg (malloc'ed): why not. */
int snapshots_new(const struct snapshots_options *o, struct snapshots **out,
		  char **msg) SBX_MUST_CHECK;
/* What is being written becomes FAILED with the next start, or is written anew
 * if it is of a job's end. NULL is fine. */
void snapshots_free(struct snapshots *s);

/* What is to be made. Everything is borrowed for the call. */
struct snapshot_ask {
	struct strv ns, user, job;
	struct strv request_id; /* p NULL: none */
	struct strv volume;     /* scratch volume of it; p NULL: all */
	enum snapshot_trigger trigger;
};

/*
 * Begins a snapshot of a job that runs (it may end meanwhile). 0: *out is
 * snapshot_clear()'s, in state CREATING (or what it has become: with a request
 * id that was used before in that namespace, the snapshot of then comes back
 * and *existed is set). E_NOTFOUND: no such job; E_BUSY: it has not started
 * yet; E_CANCELLED: it has ended, and its files are gone; E_UNSUPPORTED: its
 * files are not on this machine; E_INVALID: the request id, the volume;
 * E_LIMIT: too many; E_FULL, E_SYS: the database. *why, malloc'ed, says it for
 * people.
 */
int snapshots_create(struct snapshots *s, const struct snapshot_ask *ask,
		     struct snapshot *out, bool *existed,
		     char **why) SBX_MUST_CHECK;
/*
 * Ends a job, and makes a snapshot of what it leaves, ON_DELETE whatever ask
 * says. 0 as above; *existed also when the job is being ended, or was, with a
 * snapshot already. When it fails nobody has stopped anything: E_BUSY,
 * E_CANCELLED, E_UNSUPPORTED and so on, as above.
 */
int snapshots_stop(struct snapshots *s, const struct snapshot_ask *ask,
		   uint64_t grace_ms, struct snapshot *out, bool *existed,
		   char **why) SBX_MUST_CHECK;
/* *out is snapshot_clear()'s; one that is being written says how far it is in
 * bytes and entries. E_NOTFOUND, E_SYS. */
int snapshots_get(struct snapshots *s, struct strv ns, struct strv id,
		  struct snapshot *out) SBX_MUST_CHECK;
/* As snapstore_list(). */
int snapshots_list(struct snapshots *s, const struct snapshot_query *q,
		   bool (*fn)(const struct snapshot *sn, void *arg),
		   void *arg) SBX_MUST_CHECK;
/* Away with it, also while it is being written. 0: *out (may be NULL) is as it
 * is now, DELETING; it is gone a moment later. E_NOTFOUND, E_FULL, E_SYS. */
int snapshots_delete(struct snapshots *s, struct strv ns, struct strv id,
		     struct snapshot *out) SBX_MUST_CHECK;
/* The archive of one that is READY, open for reading; the caller's. E_NOTFOUND,
 * E_BUSY (not READY; *out is filled then, too), E_SYS. */
int snapshots_open(struct snapshots *s, struct strv ns, struct strv id,
		   struct snapshot *out, int *fd) SBX_MUST_CHECK;

/*
 * A job gets what the snapshot holds that its spec names: jobs_create() does
 * that by itself. image: of the job, NULL: none, gets the snapshot's then.
 * E_NOTFOUND, E_BUSY, E_INVALID (another image), E_SYS: *why.
 */
int snapshots_restore(struct snapshots *s, const char *ns, struct job_spec *js,
		      char **why) SBX_MUST_CHECK;

/* Being told when a snapshot's state changes, and when it is gone. Embedded in
 * who listens; it may be removed inside any call of fn. */
struct snapshots_watch {
	struct snapshots_watch *next;
	struct snapshots_watch **prevp;
	char id[SNAPSHOT_ID_LEN + 1];
	void (*fn)(void *arg);
	void *arg;
};
void snapshots_watch_add(struct snapshots *s, struct snapshots_watch *w,
			 const char *id);
void snapshots_watch_del(struct snapshots_watch *w); /* idempotent */

#endif
