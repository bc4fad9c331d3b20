/* SPDX-License-Identifier: Apache-2.0 */
/* The table of snapshots; see the header. They are few and seldom changed: a
 * statement is made when it is wanted. */
#include "config.h"

#include "gateway/snapstore.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "gateway/jobstore_int.h"

#define COLUMNS                                                                \
	"seq, id, ns, user, job, trigger, request_id, state, reason, image, "  \
	"file, size, bytes, entries, changed, skipped, created_ms, "           \
	"completed_ms, updated_ms, volume, sha256"

/* --- values ------------------------------------------------------------ */
void
snapshot_clear(struct snapshot *sn)
{
	free(sn->ns);
	free(sn->user);
	free(sn->volume);
	free(sn->request_id);
	free(sn->reason);
	free(sn->image);
	free(sn->file);
	memset(sn, 0, sizeof(*sn));
}

static char *
dup(const char *s)
{
	return s != NULL ? xstrdup(s) : NULL;
}

void
snapshot_copy(struct snapshot *to, const struct snapshot *from)
{
	*to = *from;
	to->ns = dup(from->ns);
	to->user = dup(from->user);
	to->volume = dup(from->volume);
	to->request_id = dup(from->request_id);
	to->reason = dup(from->reason);
	to->image = dup(from->image);
	to->file = dup(from->file);
}

const char *
snapshot_state_name(enum snapshot_state s)
{
	static const char *const names[] = {"UNSPECIFIED", "CREATING", "READY",
					    "FAILED", "DELETING"};

	return (size_t)s < ARRAY_LEN(names) ? names[s] : names[0];
}

const char *
snapshot_trigger_name(enum snapshot_trigger t)
{
	return t == SNAPSHOT_ON_DELETE ? "ON_DELETE" : "MANUAL";
}

/* --- statements -------------------------------------------------------- */
static int
prepare(struct jobstore *s, const char *sql, sqlite3_stmt **st)
{
	return sqlite3_prepare_v2(s->db, sql, -1, st, NULL) == SQLITE_OK
		   ? 0
		   : jobstore_failed(s, "snapshot");
}

static int
run(struct jobstore *s, sqlite3_stmt *st)
{
	int r = jobstore_run(s, st, "snapshot");

	(void)sqlite3_finalize(st);
	return r;
}

int
snapstore_insert(struct jobstore *s, struct snapshot *sn)
{
	sqlite3_stmt *st = NULL;
	int r;

	if ((r = jobstore_begin(s)) != 0 ||
	    (r = prepare(s,
			 "INSERT INTO snapshot (id, ns, user, job, trigger,"
			 " request_id, state, reason, image, file, created_ms,"
			 " updated_ms, volume) VALUES (?1, ?2, ?3, ?4, ?5, ?6,"
			 " ?7, ?8, ?9, ?10, ?11, ?11, ?12)",
			 &st)) != 0)
		return r;
	jobstore_bind_text(st, 1, sn->id);
	jobstore_bind_text(st, 2, sn->ns);
	jobstore_bind_text(st, 3, sn->user);
	jobstore_bind_text(st, 4, sn->job);
	jobstore_bind_int(st, 5, sn->trigger);
	jobstore_bind_text(st, 6, sn->request_id);
	jobstore_bind_int(st, 7, sn->state);
	jobstore_bind_text(st, 8, sn->reason);
	jobstore_bind_text(st, 9, sn->image);
	jobstore_bind_text(st, 10, sn->file);
	jobstore_bind_int(st, 11, sn->created_ms);
	jobstore_bind_text(st, 12, sn->volume);
	if ((r = run(s, st)) == 0)
		sn->seq = (uint64_t)sqlite3_last_insert_rowid(s->db);
	return r;
}

int
snapstore_update(struct jobstore *s, const struct snapshot *sn)
{
	sqlite3_stmt *st = NULL;
	int r;

	if ((r = jobstore_begin(s)) != 0 ||
	    (r = prepare(s,
			 "UPDATE snapshot SET state = ?2, reason = ?3,"
			 " size = ?4, bytes = ?5, entries = ?6, changed = ?7,"
			 " skipped = ?8, completed_ms = ?9, updated_ms = ?10,"
			 " sha256 = ?11 WHERE seq = ?1",
			 &st)) != 0)
		return r;
	jobstore_bind_int(st, 1, (int64_t)sn->seq);
	jobstore_bind_int(st, 2, sn->state);
	jobstore_bind_text(st, 3, sn->reason);
	jobstore_bind_int(st, 4, (int64_t)sn->size);
	jobstore_bind_int(st, 5, (int64_t)sn->bytes);
	jobstore_bind_int(st, 6, (int64_t)sn->entries);
	jobstore_bind_int(st, 7, (int64_t)sn->changed);
	jobstore_bind_int(st, 8, (int64_t)sn->skipped);
	jobstore_bind_int(st, 9, sn->completed_ms);
	jobstore_bind_int(st, 10, sn->updated_ms);
	jobstore_bind_text(st, 11, sn->sha256[0] != '\0' ? sn->sha256 : NULL);
	return run(s, st);
}

int
snapstore_delete(struct jobstore *s, const char *id)
{
	sqlite3_stmt *st = NULL;
	int r;

	if ((r = jobstore_begin(s)) != 0 ||
	    (r = prepare(s, "DELETE FROM snapshot WHERE id = ?1", &st)) != 0)
		return r;
	jobstore_bind_text(st, 1, id);
	return run(s, st);
}

/* --- reading ----------------------------------------------------------- */
/* Of len characters, or "". */
static void
word_at(sqlite3_stmt *st, int i, char *to, size_t len)
{
	const char *text = (const char *)sqlite3_column_text(st, i);

	if (text != NULL && strlen(text) == len)
		memcpy(to, text, len + 1);
}

static uint64_t
number_at(sqlite3_stmt *st, int i)
{
	return (uint64_t)sqlite3_column_int64(st, i);
}

static void
read_row(sqlite3_stmt *st, struct snapshot *sn)
{
	memset(sn, 0, sizeof(*sn));
	sn->seq = number_at(st, 0);
	word_at(st, 1, sn->id, SNAPSHOT_ID_LEN);
	sn->ns = jobstore_column_dup(st, 2);
	sn->user = jobstore_column_dup(st, 3);
	word_at(st, 4, sn->job, JOB_ID_LEN);
	sn->trigger = sqlite3_column_int(st, 5) == SNAPSHOT_ON_DELETE
			  ? SNAPSHOT_ON_DELETE
			  : SNAPSHOT_MANUAL;
	sn->request_id = jobstore_column_dup(st, 6);
	sn->state = (enum snapshot_state)sqlite3_column_int(st, 7);
	sn->reason = jobstore_column_dup(st, 8);
	sn->image = jobstore_column_dup(st, 9);
	sn->file = jobstore_column_dup(st, 10);
	sn->size = number_at(st, 11);
	sn->bytes = number_at(st, 12);
	sn->entries = number_at(st, 13);
	sn->changed = number_at(st, 14);
	sn->skipped = number_at(st, 15);
	sn->created_ms = sqlite3_column_int64(st, 16);
	sn->completed_ms = sqlite3_column_int64(st, 17);
	sn->updated_ms = sqlite3_column_int64(st, 18);
	sn->volume = jobstore_column_dup(st, 19);
	word_at(st, 20, sn->sha256, SNAPSHOT_SHA_LEN);
}

static int
get_one(struct jobstore *s, sqlite3_stmt *st, struct snapshot *out)
{
	int rc = sqlite3_step(st), r = 0;

	if (rc == SQLITE_ROW)
		read_row(st, out);
	else
		r = rc == SQLITE_DONE ? E_NOTFOUND
				      : jobstore_failed(s, "snapshot");
	(void)sqlite3_finalize(st);
	return r;
}

int
snapstore_get(struct jobstore *s, struct strv id, struct snapshot *out)
{
	sqlite3_stmt *st = NULL;
	int r;

	if (!job_id_ok(id))
		return E_NOTFOUND;
	if ((r = prepare(s, "SELECT " COLUMNS " FROM snapshot WHERE id = ?1",
			 &st)) != 0)
		return r;
	jobstore_bind_view(st, 1, id);
	return get_one(s, st, out);
}

int
snapstore_by_request(struct jobstore *s, const char *ns, const char *request_id,
		     struct snapshot *out)
{
	sqlite3_stmt *st = NULL;
	int r;

	if ((r = prepare(s,
			 "SELECT " COLUMNS " FROM snapshot"
			 " WHERE ns = ?1 AND request_id = ?2",
			 &st)) != 0)
		return r;
	jobstore_bind_text(st, 1, ns);
	jobstore_bind_text(st, 2, request_id);
	return get_one(s, st, out);
}

/* Only numbers and constants are put into the text. */
static void
list_sql(const struct snapshot_query *q, struct strbuf *b)
{
	strbuf_adds(b, "SELECT " COLUMNS " FROM snapshot WHERE seq < ?1");
	if (q->ns.p != NULL)
		strbuf_adds(b, " AND ns = ?2");
	if (q->job.p != NULL)
		strbuf_adds(b, " AND job = ?3");
	if (q->states != 0)
		strbuf_addf(b, " AND ((%u >> state) & 1) = 1", q->states);
	strbuf_adds(b, " ORDER BY seq DESC");
}

int
snapstore_list(struct jobstore *s, const struct snapshot_query *q,
	       bool (*fn)(const struct snapshot *sn, void *arg), void *arg)
{
	struct strbuf sql = {0};
	sqlite3_stmt *st = NULL;
	struct snapshot sn;
	bool more = true;
	int rc = SQLITE_DONE, r;

	list_sql(q, &sql);
	r = prepare(s, sql.s, &st);
	strbuf_clear(&sql);
	if (r != 0)
		return r;
	jobstore_bind_int(st, 1,
			  q->before != 0 ? (int64_t)q->before : INT64_MAX);
	if (q->ns.p != NULL)
		jobstore_bind_view(st, 2, q->ns);
	if (q->job.p != NULL)
		jobstore_bind_view(st, 3, q->job);
	while (more && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		read_row(st, &sn);
		more = fn(&sn, arg);
		snapshot_clear(&sn);
	}
	if (rc != SQLITE_DONE && rc != SQLITE_ROW)
		r = jobstore_failed(s, "snapshots");
	(void)sqlite3_finalize(st);
	return r;
}
