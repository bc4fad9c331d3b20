/* SPDX-License-Identifier: Apache-2.0 */
/* What jobstore.c and jobstore_read.c share. */
#ifndef SBX_GATEWAY_JOBSTORE_INT_H
#define SBX_GATEWAY_JOBSTORE_INT_H

#include <stdbool.h>
#include <stdint.h>

#include <sqlite3.h>

#include "gateway/jobstore.h"

#define JOBSTORE_COLUMNS                                                       \
	"seq, id, ns, user, state, reason, message, exit_code, created_ms, "   \
	"started_ms, finished_ms, changed_ms, spec"

enum jobstore_stmt {
	ST_BEGIN,
	ST_COMMIT,
	ST_ROLLBACK,
	ST_INSERT,
	ST_UPDATE,
	ST_STEP,
	ST_LABELS_DEL,
	ST_LABEL_ADD,
	ST_LABELS_GET,
	ST_TAG_ADD,
	ST_TAGS_GET,
	ST_GET,
	ST_BY_REQUEST,
	ST_LIVE,
	ST_ENDED,
	ST_STEPS_JOB,
	ST_STEPS_NS,
	ST_LAST_STEP,
	ST_OLD,
	ST_NAMESPACES,
	ST_EXCESS,
	ST_DELETE,
	ST_COUNT
};

struct jobstore {
	sqlite3 *db;
	sqlite3_stmt *st[ST_COUNT];
	bool in_tx;
};

/* Reset, nothing bound. */
sqlite3_stmt *jobstore_use(struct jobstore *s, enum jobstore_stmt which);
/* Runs a statement that has no rows. */
int jobstore_run(struct jobstore *s, sqlite3_stmt *st, const char *what);
int jobstore_begin(struct jobstore *s); /* a transaction, unless one is open */
/* Logs and translates what SQLite said last. */
int jobstore_failed(struct jobstore *s, const char *what);
/* The text is borrowed until the statement was run. NULL: NULL. */
void jobstore_bind_text(sqlite3_stmt *st, int i, const char *text);
void jobstore_bind_view(sqlite3_stmt *st, int i, struct strv v);
void jobstore_bind_int(sqlite3_stmt *st, int i, int64_t v);
/* Of the row that st stands at, malloc'ed; NULL: NULL. */
char *jobstore_column_dup(sqlite3_stmt *st, int i);

#endif
