/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The database of jobs. Statements are prepared once; a row becomes a struct
 * job in one function and goes back in one other. The schema has a number
 * (user_version); what an older one lacks is added step by step on opening.
 */
#include "config.h"

#include "gateway/jobstore.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "gateway/jobstore_int.h"

#define APPLICATION_ID 0x5342584a /* "SBXJ" */

static const char *const texts[ST_COUNT] = {
    [ST_BEGIN] = "BEGIN IMMEDIATE",
    [ST_COMMIT] = "COMMIT",
    [ST_ROLLBACK] = "ROLLBACK",
    [ST_INSERT] = "INSERT INTO job (id, ns, user, request_id, state, stage,"
		  " reason, message, created_ms, changed_ms, spec)"
		  " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9, ?10)",
    [ST_UPDATE] = "UPDATE job SET state = ?2, stage = ?3, reason = ?4,"
		  " message = ?5, exit_code = ?6, started_ms = ?7,"
		  " finished_ms = ?8, changed_ms = ?9 WHERE seq = ?1",
    [ST_STEP] = "INSERT INTO step (job, ns, state, reason, message, at_ms,"
		" exit_code) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    [ST_LABELS_DEL] = "DELETE FROM label WHERE job = ?1",
    [ST_LABEL_ADD] = "INSERT INTO label (job, ns, pos, key, value)"
		     " VALUES (?1, ?2, ?3, ?4, ?5)",
    [ST_LABELS_GET] = "SELECT key, value FROM label WHERE job = ?1"
		      " ORDER BY pos",
    [ST_TAG_ADD] = "INSERT INTO tag (job, ns, pos, tag)"
		   " VALUES (?1, ?2, ?3, ?4)",
    [ST_TAGS_GET] = "SELECT tag FROM tag WHERE job = ?1 ORDER BY pos",
    [ST_GET] = "SELECT " JOBSTORE_COLUMNS " FROM job WHERE id = ?1",
    [ST_BY_REQUEST] = "SELECT " JOBSTORE_COLUMNS " FROM job"
		      " WHERE ns = ?1 AND request_id = ?2",
    [ST_LIVE] = "SELECT " JOBSTORE_COLUMNS " FROM job INDEXED BY job_live"
		" WHERE finished_ms = 0 ORDER BY seq",
    [ST_ENDED] = "SELECT " JOBSTORE_COLUMNS " FROM job INDEXED BY job_ended"
		 " WHERE finished_ms > 0 AND finished_ms > ?1"
		 " ORDER BY finished_ms DESC LIMIT ?2",
    [ST_STEPS_JOB] = "SELECT step.seq, job.id, step.state, step.reason,"
		     " step.message, step.at_ms, step.exit_code"
		     " FROM step JOIN job ON job.seq = step.job"
		     " WHERE job.id = ?1 AND job.ns = ?2 AND step.seq > ?3"
		     " ORDER BY step.seq",
    [ST_STEPS_NS] = "SELECT step.seq, job.id, step.state, step.reason,"
		    " step.message, step.at_ms, step.exit_code"
		    " FROM step INDEXED BY step_ns JOIN job"
		    " ON job.seq = step.job WHERE step.ns = ?2"
		    " AND step.seq > ?3 ORDER BY step.seq",
    [ST_LAST_STEP] = "SELECT seq FROM sqlite_sequence WHERE name = 'step'",
    [ST_OLD] = "SELECT id, seq FROM job INDEXED BY job_ended"
	       " WHERE finished_ms > 0 AND finished_ms < ?1"
	       " ORDER BY finished_ms LIMIT ?2",
    [ST_NAMESPACES] = "SELECT DISTINCT ns FROM job",
    [ST_EXCESS] = "SELECT id, seq FROM job INDEXED BY job_ended_ns"
		  " WHERE ns = ?1 AND finished_ms > 0"
		  " ORDER BY finished_ms DESC LIMIT ?2 OFFSET ?3",
    [ST_DELETE] = "DELETE FROM job WHERE seq = ?1",
};

/* migrations[n] makes version n + 1 of version n. */
static const char *const migrations[] = {
    "CREATE TABLE job ("
    " seq INTEGER PRIMARY KEY AUTOINCREMENT,"
    " id TEXT NOT NULL UNIQUE,"
    " ns TEXT NOT NULL,"
    " user TEXT NOT NULL,"
    " request_id TEXT,"
    " state INTEGER NOT NULL,"
    " stage INTEGER NOT NULL,"
    " reason TEXT NOT NULL,"
    " message TEXT,"
    " exit_code INTEGER,"
    " created_ms INTEGER NOT NULL,"
    " started_ms INTEGER NOT NULL DEFAULT 0,"
    " finished_ms INTEGER NOT NULL DEFAULT 0,"
    " changed_ms INTEGER NOT NULL,"
    " spec TEXT NOT NULL);"
    "CREATE INDEX job_ns ON job (ns, seq);"
    "CREATE INDEX job_live ON job (ns, seq) WHERE finished_ms = 0;"
    "CREATE INDEX job_ended ON job (finished_ms) WHERE finished_ms > 0;"
    "CREATE INDEX job_ended_ns ON job (ns, finished_ms)"
    " WHERE finished_ms > 0;"
    "CREATE UNIQUE INDEX job_request ON job (ns, request_id)"
    " WHERE request_id IS NOT NULL;"
    "CREATE TABLE label ("
    " job INTEGER NOT NULL REFERENCES job (seq) ON DELETE CASCADE,"
    " ns TEXT NOT NULL,"
    " pos INTEGER NOT NULL,"
    " key TEXT NOT NULL,"
    " value TEXT NOT NULL,"
    " PRIMARY KEY (job, pos)) WITHOUT ROWID;"
    "CREATE INDEX label_find ON label (ns, key, value, job);"
    "CREATE TABLE step ("
    " seq INTEGER PRIMARY KEY AUTOINCREMENT,"
    " job INTEGER NOT NULL REFERENCES job (seq) ON DELETE CASCADE,"
    " ns TEXT NOT NULL,"
    " state INTEGER NOT NULL,"
    " reason TEXT NOT NULL,"
    " message TEXT,"
    " at_ms INTEGER NOT NULL,"
    " exit_code INTEGER);"
    "CREATE INDEX step_job ON step (job);"
    "CREATE INDEX step_ns ON step (ns, seq);",
    "CREATE TABLE tag ("
    " job INTEGER NOT NULL REFERENCES job (seq) ON DELETE CASCADE,"
    " ns TEXT NOT NULL,"
    " pos INTEGER NOT NULL,"
    " tag TEXT NOT NULL,"
    " PRIMARY KEY (job, pos)) WITHOUT ROWID;"
    "CREATE INDEX tag_find ON tag (ns, tag, job);",
    "CREATE TABLE snapshot ("
    " seq INTEGER PRIMARY KEY AUTOINCREMENT,"
    " id TEXT NOT NULL UNIQUE,"
    " ns TEXT NOT NULL,"
    " user TEXT NOT NULL,"
    " job TEXT NOT NULL,"
    " trigger INTEGER NOT NULL,"
    " request_id TEXT,"
    " state INTEGER NOT NULL,"
    " reason TEXT,"
    " image TEXT,"
    " file TEXT NOT NULL,"
    " size INTEGER NOT NULL DEFAULT 0,"
    " bytes INTEGER NOT NULL DEFAULT 0,"
    " entries INTEGER NOT NULL DEFAULT 0,"
    " changed INTEGER NOT NULL DEFAULT 0,"
    " skipped INTEGER NOT NULL DEFAULT 0,"
    " created_ms INTEGER NOT NULL,"
    " completed_ms INTEGER NOT NULL DEFAULT 0,"
    " updated_ms INTEGER NOT NULL);"
    "CREATE INDEX snapshot_ns ON snapshot (ns, seq);"
    "CREATE INDEX snapshot_job ON snapshot (job, seq);"
    "CREATE UNIQUE INDEX snapshot_request ON snapshot (ns, request_id)"
    " WHERE request_id IS NOT NULL;",
    "ALTER TABLE snapshot ADD COLUMN volume TEXT;",
    "ALTER TABLE snapshot ADD COLUMN sha256 TEXT;"};
#define SCHEMA ((int)ARRAY_LEN(migrations))

/* --- statements -------------------------------------------------------- */
int
jobstore_failed(struct jobstore *s, const char *what)
{
	int rc = sqlite3_errcode(s->db);

	if (rc == SQLITE_CONSTRAINT)
		return E_EXISTS;
	log_error("jobs.store", "what=%s error=%s code=%d", what,
		  log_esc(strv_of(sqlite3_errmsg(s->db))),
		  sqlite3_extended_errcode(s->db));
	return rc == SQLITE_FULL ? E_FULL : E_SYS;
}

sqlite3_stmt *
jobstore_use(struct jobstore *s, enum jobstore_stmt which)
{
	sqlite3_stmt *st = s->st[which];

	(void)sqlite3_reset(st);
	(void)sqlite3_clear_bindings(st);
	return st;
}

void
jobstore_bind_text(sqlite3_stmt *st, int i, const char *text)
{
	if (text != NULL)
		(void)sqlite3_bind_text(st, i, text, -1, SQLITE_STATIC);
}

void
jobstore_bind_view(sqlite3_stmt *st, int i, struct strv v)
{
	(void)sqlite3_bind_text(st, i, v.p, (int)v.len, SQLITE_STATIC);
}

void
jobstore_bind_int(sqlite3_stmt *st, int i, int64_t v)
{
	(void)sqlite3_bind_int64(st, i, v);
}

/* For statements without rows. */
int
jobstore_run(struct jobstore *s, sqlite3_stmt *st, const char *what)
{
	int rc = sqlite3_step(st), r = 0;

	if (rc != SQLITE_DONE && rc != SQLITE_ROW)
		r = jobstore_failed(s, what);
	(void)sqlite3_reset(st);
	return r;
}

int
jobstore_begin(struct jobstore *s)
{
	int r;

	if (s->in_tx)
		return 0;
	if ((r = jobstore_run(s, jobstore_use(s, ST_BEGIN), "begin")) == 0)
		s->in_tx = true;
	return r;
}

int
jobstore_commit(struct jobstore *s)
{
	int r;

	if (!s->in_tx)
		return 0;
	s->in_tx = false;
	if ((r = jobstore_run(s, jobstore_use(s, ST_COMMIT), "commit")) != 0 &&
	    sqlite3_get_autocommit(s->db) == 0)
		(void)jobstore_run(s, jobstore_use(s, ST_ROLLBACK), "rollback");
	return r;
}

bool
jobstore_open_changes(const struct jobstore *s)
{
	return s->in_tx;
}

/* --- opening ----------------------------------------------------------- */
static int
pragma_int(sqlite3 *db, const char *sql, int *out)
{
	sqlite3_stmt *st = NULL;
	int rc;

	rc = sqlite3_prepare_v2(db, sql, -1, &st, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_step(st);
	if (rc == SQLITE_ROW)
		*out = sqlite3_column_int(st, 0);
	(void)sqlite3_finalize(st);
	return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int
exec(sqlite3 *db, const char *sql)
{
	return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

static int
migrate(sqlite3 *db, int from)
{
	char *sql;
	int rc = SQLITE_OK;

	for (int v = from; rc == SQLITE_OK && v < SCHEMA; v++) {
		sql = xasprintf("BEGIN IMMEDIATE; %s PRAGMA application_id = "
				"%d; PRAGMA user_version = %d; COMMIT",
				migrations[v], APPLICATION_ID, v + 1);
		rc = exec(db, sql);
		free(sql);
	}
	return rc;
}

static bool
is_sound(sqlite3 *db)
{
	sqlite3_stmt *st = NULL;
	bool ok = false;

	if (sqlite3_prepare_v2(db, "PRAGMA quick_check(1)", -1, &st, NULL) ==
		SQLITE_OK &&
	    sqlite3_step(st) == SQLITE_ROW)
		ok =
		    strcmp((const char *)sqlite3_column_text(st, 0), "ok") == 0;
	(void)sqlite3_finalize(st);
	return ok;
}

/* SQLITE_OK, SQLITE_NOTADB (not a sound database of ours), SQLITE_MISMATCH
 * (from a later version), or why not. */
static int
prepare_db(sqlite3 *db)
{
	int app = 0, version = 0, rc;

	(void)sqlite3_extended_result_codes(db, 0);
	(void)sqlite3_busy_timeout(db, 2000);
	if ((rc = pragma_int(db, "PRAGMA application_id", &app)) != 0 ||
	    (rc = pragma_int(db, "PRAGMA user_version", &version)) != 0)
		return rc;
	if (version > SCHEMA && app == APPLICATION_ID)
		return SQLITE_MISMATCH;
	if (version != 0 && app != APPLICATION_ID)
		return SQLITE_NOTADB;
	if ((rc = exec(db, "PRAGMA journal_mode = WAL;"
			   "PRAGMA synchronous = NORMAL;"
			   "PRAGMA foreign_keys = ON;"
			   "PRAGMA trusted_schema = OFF;"
			   "PRAGMA temp_store = MEMORY")) != SQLITE_OK)
		return rc;
	if (!is_sound(db))
		return SQLITE_NOTADB;
	return migrate(db, version);
}

static int
prepare_statements(struct jobstore *s)
{
	int rc = SQLITE_OK;

	for (int i = 0; rc == SQLITE_OK && i < ST_COUNT; i++)
		rc = sqlite3_prepare_v3(s->db, texts[i], -1,
					SQLITE_PREPARE_PERSISTENT, &s->st[i],
					NULL);
	return rc;
}

static void
close_db(struct jobstore *s)
{
	for (int i = 0; i < ST_COUNT; i++) {
		(void)sqlite3_finalize(s->st[i]);
		s->st[i] = NULL;
	}
	(void)sqlite3_close(s->db);
	s->db = NULL;
}

/* Its readers and writers are this process alone, so nobody else may: the
 * environment of jobs is in it. */
static int
make_file(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0 || fchmod(fd, 0600) != 0) {
		int eno = errno;

		if (fd >= 0)
			(void)close(fd);
		errno = eno;
		return -1;
	}
	(void)close(fd);
	return 0;
}

static int
open_db(struct jobstore *s, const char *path, char **why)
{
	int rc;

	if (make_file(path) != 0) {
		*why = xstrdup(strerror(errno));
		return SQLITE_CANTOPEN;
	}
	rc = sqlite3_open_v2(path, &s->db,
			     SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
	if (rc == SQLITE_OK)
		rc = prepare_db(s->db);
	if (rc == SQLITE_OK)
		rc = prepare_statements(s);
	if (rc == SQLITE_OK)
		return rc;
	*why = xstrdup(s->db != NULL && sqlite3_errcode(s->db) != SQLITE_OK
			   ? sqlite3_errmsg(s->db)
			   : sqlite3_errstr(rc));
	close_db(s);
	return rc;
}

/* Keeps what is there for somebody to look at. */
static char *
set_aside(const char *path)
{
	static const char *const tails[] = {"", "-wal", "-shm"};
	long long now = (long long)(job_now_ms() / 1000);
	char *to = xasprintf("%s.broken-%lld", path, now);

	for (size_t i = 0; i < ARRAY_LEN(tails); i++) {
		char *from = xasprintf("%s%s", path, tails[i]);
		char *aside = xasprintf("%s%s", to, tails[i]);

		if (rename(from, aside) != 0 && i == 0) {
			free(to);
			to = NULL;
		}
		free(from);
		free(aside);
		if (to == NULL)
			break;
	}
	return to;
}

int
jobstore_open(const char *path, struct jobstore **out, char **msg)
{
	struct jobstore *s = xcalloc(1, sizeof(*s));
	char *why = NULL, *aside = NULL;
	int rc = open_db(s, path, &why);

	if (rc == SQLITE_NOTADB || rc == SQLITE_CORRUPT) {
		if ((aside = set_aside(path)) != NULL) {
			*msg = xasprintf("%s: %s; kept as %s, beginning anew",
					 path, why, aside);
			free(why);
			why = NULL;
			rc = open_db(s, path, &why);
		}
	}
	if (rc == SQLITE_OK) {
		*out = s;
	} else {
		free(*msg);
		*msg = xasprintf("%s: %s", path,
				 rc == SQLITE_MISMATCH
				     ? "was written by a later version"
				     : why);
		free(s);
	}
	free(aside);
	free(why);
	return rc == SQLITE_OK         ? 0
	       : rc == SQLITE_MISMATCH ? E_UNSUPPORTED
				       : E_SYS;
}

void
jobstore_close(struct jobstore *s)
{
	if (s == NULL)
		return;
	if (jobstore_commit(s) != 0)
		log_error("jobs.store", "what=close error=\"changes lost\"");
	close_db(s);
	free(s);
}

/* --- writing ----------------------------------------------------------- */
static int
add_labels(struct jobstore *s, const struct job *j)
{
	const struct job_pairs *l = &j->spec.labels;
	int r = 0;

	for (size_t i = 0; r == 0 && i < l->n; i++) {
		sqlite3_stmt *st = jobstore_use(s, ST_LABEL_ADD);

		jobstore_bind_int(st, 1, (int64_t)j->seq);
		jobstore_bind_text(st, 2, j->ns);
		jobstore_bind_int(st, 3, (int64_t)i);
		jobstore_bind_text(st, 4, l->v[i].key);
		jobstore_bind_text(st, 5, l->v[i].value);
		r = jobstore_run(s, st, "label");
	}
	return r;
}

static int
add_tags(struct jobstore *s, const struct job *j)
{
	const struct job_words *t = &j->spec.tags;
	int r = 0;

	for (size_t i = 0; r == 0 && i < t->n; i++) {
		sqlite3_stmt *st = jobstore_use(s, ST_TAG_ADD);

		jobstore_bind_int(st, 1, (int64_t)j->seq);
		jobstore_bind_text(st, 2, j->ns);
		jobstore_bind_int(st, 3, (int64_t)i);
		jobstore_bind_text(st, 4, t->v[i]);
		r = jobstore_run(s, st, "tag");
	}
	return r;
}

static int
add_step(struct jobstore *s, const struct job *j, uint64_t *step)
{
	sqlite3_stmt *st = jobstore_use(s, ST_STEP);
	int r;

	jobstore_bind_int(st, 1, (int64_t)j->seq);
	jobstore_bind_text(st, 2, j->ns);
	jobstore_bind_int(st, 3, j->state);
	jobstore_bind_text(st, 4, job_event_name(j->reason));
	jobstore_bind_text(st, 5, j->message);
	jobstore_bind_int(st, 6, j->changed_ms);
	if (j->has_exit)
		jobstore_bind_int(st, 7, j->exit_code);
	if ((r = jobstore_run(s, st, "step")) == 0)
		*step = (uint64_t)sqlite3_last_insert_rowid(s->db);
	return r;
}

static int
insert_row(struct jobstore *s, struct job *j)
{
	sqlite3_stmt *st = jobstore_use(s, ST_INSERT);
	struct strbuf spec = {0};
	int r;

	strbuf_addc(&spec, '{');
	jobspec_add_stored(&j->spec, &spec);
	strbuf_addc(&spec, '}');
	jobstore_bind_text(st, 1, j->id);
	jobstore_bind_text(st, 2, j->ns);
	jobstore_bind_text(st, 3, j->user);
	jobstore_bind_text(st, 4, j->spec.request_id);
	jobstore_bind_int(st, 5, j->state);
	jobstore_bind_int(st, 6, job_stage_of(j));
	jobstore_bind_text(st, 7, job_event_name(j->reason));
	jobstore_bind_text(st, 8, j->message);
	jobstore_bind_int(st, 9, j->created_ms);
	jobstore_bind_view(st, 10, (struct strv){spec.s, spec.len});
	if ((r = jobstore_run(s, st, "insert")) == 0)
		j->seq = (uint64_t)sqlite3_last_insert_rowid(s->db);
	strbuf_clear(&spec);
	return r;
}

int
jobstore_insert(struct jobstore *s, struct job *j, uint64_t *step)
{
	int r;

	/* What fails half-way must not stay: in a transaction of its own. */
	if ((r = jobstore_commit(s)) != 0 || (r = jobstore_begin(s)) != 0)
		return r;
	if ((r = insert_row(s, j)) != 0 || (r = add_labels(s, j)) != 0 ||
	    (r = add_tags(s, j)) != 0 || (r = add_step(s, j, step)) != 0) {
		s->in_tx = false;
		(void)jobstore_run(s, jobstore_use(s, ST_ROLLBACK), "rollback");
		return r;
	}
	return jobstore_commit(s);
}

int
jobstore_update(struct jobstore *s, const struct job *j, uint64_t *step)
{
	sqlite3_stmt *st;
	int r;

	if ((r = jobstore_begin(s)) != 0)
		return r;
	st = jobstore_use(s, ST_UPDATE);
	jobstore_bind_int(st, 1, (int64_t)j->seq);
	jobstore_bind_int(st, 2, j->state);
	jobstore_bind_int(st, 3, job_stage_of(j));
	jobstore_bind_text(st, 4, job_event_name(j->reason));
	jobstore_bind_text(st, 5, j->message);
	if (j->has_exit)
		jobstore_bind_int(st, 6, j->exit_code);
	jobstore_bind_int(st, 7, j->started_ms);
	jobstore_bind_int(st, 8, j->finished_ms);
	jobstore_bind_int(st, 9, j->changed_ms);
	if ((r = jobstore_run(s, st, "update")) != 0)
		return r;
	return add_step(s, j, step);
}

int
jobstore_labels(struct jobstore *s, const struct job *j)
{
	sqlite3_stmt *st;
	int r;

	if ((r = jobstore_begin(s)) != 0)
		return r;
	st = jobstore_use(s, ST_LABELS_DEL);
	jobstore_bind_int(st, 1, (int64_t)j->seq);
	if ((r = jobstore_run(s, st, "labels")) != 0)
		return r;
	return add_labels(s, j);
}
