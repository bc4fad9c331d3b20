/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of snapshots, in the database of jobs. What is changed here is in the
 * transaction that is open there: it lasts after jobs_commit().
 */
#ifndef SBX_GATEWAY_SNAPSTORE_H
#define SBX_GATEWAY_SNAPSTORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/defs.h"
#include "base/str.h"
#include "gateway/job.h"

#define SNAPSHOT_ID_LEN  JOB_ID_LEN /* lower-case hex, too */
#define SNAPSHOT_SHA_LEN 64

struct jobstore;

/* The numbers are those of coreweave.sandbox.v1, and stored. */
enum snapshot_state {
	SNAPSHOT_CREATING = 1,
	SNAPSHOT_READY = 2,
	SNAPSHOT_FAILED = 3,
	SNAPSHOT_DELETING = 4
};
enum snapshot_trigger { SNAPSHOT_MANUAL = 1, SNAPSHOT_ON_DELETE = 2 };

struct snapshot {
	char id[SNAPSHOT_ID_LEN + 1];
	uint64_t seq; /* order of creation, by the store */
	char *ns, *user;
	char job[JOB_ID_LEN + 1]; /* whose files they are */
	enum snapshot_trigger trigger;
	char *volume;     /* scratch volume that it is of; NULL: of all */
	char *request_id; /* NULL: none */
	enum snapshot_state state;
	char *reason;  /* of the state, for people; NULL: none */
	char *image;   /* of the job; NULL: none */
	char *file;    /* name of the archive */
	uint64_t size; /* of the archive; 0 until it is READY */
	char sha256[SNAPSHOT_SHA_LEN + 1]; /* of it, in hex; "": not known */
	uint64_t bytes, entries, changed, skipped;    /* see snaptar_counts */
	int64_t created_ms, completed_ms, updated_ms; /* 0: not yet */
};

void snapshot_clear(struct snapshot *sn); /* frees what it holds */
void snapshot_copy(struct snapshot *to, const struct snapshot *from);
const char *snapshot_state_name(enum snapshot_state s);     /* "READY" */
const char *snapshot_trigger_name(enum snapshot_trigger t); /* "MANUAL" */

/* All of the following: E_FULL, E_SYS: the database could not do it. */

/* Sets sn->seq. E_EXISTS: that id, or that request id in that namespace. */
int snapstore_insert(struct jobstore *s, struct snapshot *sn) SBX_MUST_CHECK;
int snapstore_update(struct jobstore *s,
		     const struct snapshot *sn) SBX_MUST_CHECK;
int snapstore_delete(struct jobstore *s, const char *id) SBX_MUST_CHECK;
/* *out is snapshot_clear()'s. E_NOTFOUND. */
int snapstore_get(struct jobstore *s, struct strv id,
		  struct snapshot *out) SBX_MUST_CHECK;
int snapstore_by_request(struct jobstore *s, const char *ns,
			 const char *request_id,
			 struct snapshot *out) SBX_MUST_CHECK;

struct snapshot_query {
	struct strv ns;  /* p NULL: of all */
	struct strv job; /* p NULL: of any */
	unsigned states; /* bits, 1 << enum snapshot_state; 0: any */
	uint64_t before; /* only with a smaller seq; 0: from the newest */
};
/* Newest first, until fn says false. *sn is the store's. */
int snapstore_list(struct jobstore *s, const struct snapshot_query *q,
		   bool (*fn)(const struct snapshot *sn, void *arg),
		   void *arg) SBX_MUST_CHECK;

#endif
