/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the database of jobs: a row becomes a struct job in one place. */
#include "config.h"

#include "gateway/jobstore.h"

#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "gateway/jobstore_int.h"

static struct strv
column(sqlite3_stmt *st, int i)
{
	const unsigned char *p = sqlite3_column_text(st, i);

	return (struct strv){(const char *)p,
			     (size_t)sqlite3_column_bytes(st, i)};
}

char *
jobstore_column_dup(sqlite3_stmt *st, int i)
{
	struct strv v = column(st, i);

	return v.p != NULL ? xstrndup(v.p, v.len) : NULL;
}

static int
read_spec(sqlite3_stmt *row, int i, struct job_spec *out)
{
	struct json_doc *doc = NULL;
	struct strbuf why = {0};
	int r;

	if ((r = json_parse(column(row, i), &doc, NULL)) == 0)
		r = jobspec_parse(json_root(doc), true, out, NULL, &why);
	json_doc_free(doc);
	strbuf_clear(&why);
	return r;
}

static void
read_labels(struct jobstore *s, struct job *j)
{
	sqlite3_stmt *st = jobstore_use(s, ST_LABELS_GET);

	jobstore_bind_int(st, 1, (int64_t)j->seq);
	while (sqlite3_step(st) == SQLITE_ROW)
		jobspec_push(&j->spec.labels, column(st, 0), column(st, 1));
	(void)sqlite3_reset(st);
	/* Records of versions that had no other kind do not say it. */
	if (jobspec_pair(&j->spec.labels, "hf-sandbox") != NULL)
		j->spec.hub = j->spec.sandbox;
}

static void
read_tags(struct jobstore *s, struct job *j)
{
	sqlite3_stmt *st = jobstore_use(s, ST_TAGS_GET);

	jobstore_bind_int(st, 1, (int64_t)j->seq);
	while (sqlite3_step(st) == SQLITE_ROW)
		jobspec_push_word(&j->spec.tags, column(st, 0));
	(void)sqlite3_reset(st);
}

/* A row of JOBSTORE_COLUMNS. E_SYS: it is not one of ours. */
static int
read_job(struct jobstore *s, sqlite3_stmt *row, struct job *out)
{
	struct job j = {.seq = (uint64_t)sqlite3_column_int64(row, 0)};
	struct strv id = column(row, 1);
	int state = sqlite3_column_int(row, 4);

	if (!job_id_ok(id) || state < 0 || state >= JOB_STATES ||
	    job_event_parse(column(row, 5), &j.reason) != 0 ||
	    read_spec(row, 12, &j.spec) != 0) {
		log_error("jobs.store", "what=read job=%s error=malformed",
			  log_esc(id));
		return E_SYS;
	}
	memcpy(j.id, id.p, JOB_ID_LEN);
	j.ns = jobstore_column_dup(row, 2);
	j.user = jobstore_column_dup(row, 3);
	j.state = (enum job_state)state;
	j.message = jobstore_column_dup(row, 6);
	j.has_exit = sqlite3_column_type(row, 7) != SQLITE_NULL;
	j.exit_code = sqlite3_column_int(row, 7);
	j.created_ms = sqlite3_column_int64(row, 8);
	j.started_ms = sqlite3_column_int64(row, 9);
	j.finished_ms = sqlite3_column_int64(row, 10);
	j.changed_ms = sqlite3_column_int64(row, 11);
	read_labels(s, &j);
	read_tags(s, &j);
	*out = j;
	return 0;
}

static int
get_one(struct jobstore *s, sqlite3_stmt *st, struct job *out)
{
	int rc = sqlite3_step(st), r;

	if (rc == SQLITE_ROW)
		r = read_job(s, st, out);
	else
		r = rc == SQLITE_DONE ? E_NOTFOUND : jobstore_failed(s, "get");
	(void)sqlite3_reset(st);
	return r;
}

int
jobstore_get(struct jobstore *s, struct strv id, struct job *out)
{
	sqlite3_stmt *st;

	if (!job_id_ok(id))
		return E_NOTFOUND;
	st = jobstore_use(s, ST_GET);
	jobstore_bind_view(st, 1, id);
	return get_one(s, st, out);
}

int
jobstore_by_request(struct jobstore *s, const char *ns, const char *request_id,
		    struct job *out)
{
	sqlite3_stmt *st = jobstore_use(s, ST_BY_REQUEST);

	jobstore_bind_text(st, 1, ns);
	jobstore_bind_text(st, 2, request_id);
	return get_one(s, st, out);
}

static int
each_job(struct jobstore *s, sqlite3_stmt *st,
	 bool (*fn)(const struct job *j, void *arg), void *arg)
{
	struct job j;
	bool more = true;
	int rc = SQLITE_DONE, r = 0;

	while (more && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		if (read_job(s, st, &j) != 0)
			continue; /* said in the log; the others are fine */
		more = fn(&j, arg);
		job_clear(&j);
	}
	if (rc != SQLITE_DONE && rc != SQLITE_ROW)
		r = jobstore_failed(s, "list");
	(void)sqlite3_reset(st);
	return r;
}

int
jobstore_live(struct jobstore *s, bool (*fn)(const struct job *j, void *arg),
	      void *arg)
{
	return each_job(s, jobstore_use(s, ST_LIVE), fn, arg);
}

int
jobstore_ended(struct jobstore *s, int64_t after_ms, unsigned max,
	       bool (*fn)(const struct job *j, void *arg), void *arg)
{
	sqlite3_stmt *st = jobstore_use(s, ST_ENDED);

	jobstore_bind_int(st, 1, after_ms);
	jobstore_bind_int(st, 2, max);
	return each_job(s, st, fn, arg);
}

static void
add_bits(struct strbuf *b, const char *name, unsigned bits)
{
	const char *sep = "";

	if (bits == 0)
		return;
	strbuf_addf(b, " AND %s IN (", name);
	for (unsigned i = 0; i < 32; i++) {
		if ((bits & (1U << i)) == 0)
			continue;
		strbuf_addf(b, "%s%u", sep, i);
		sep = ",";
	}
	strbuf_addc(b, ')');
}

/* The index to walk: those that live are few, those with a label or a tag
 * mostly too.
 * Only numbers and constants are put into the text. */
static bool
asks_for_live_ones(const struct job_query *q)
{
	const unsigned stages =
	    (1U << STAGE_SCHEDULING) | (1U << STAGE_RUNNING);
	unsigned ended = 0;

	for (int i = 0; i < JOB_STATES; i++)
		if (job_final((enum job_state)i))
			ended |= 1U << i;
	return (q->stages != 0 && (q->stages & ~stages) == 0) ||
	       (q->states != 0 && (q->states & ended) == 0);
}

static void
list_sql(const struct job_query *q, struct strbuf *b)
{
	size_t nlabels = q->labels != NULL ? q->labels->n : 0,
	       ntags = q->tags != NULL ? q->tags->n : 0, i = 0, t = 0;
	bool only_live = asks_for_live_ones(q);

	strbuf_adds(b, "SELECT " JOBSTORE_COLUMNS " FROM job");
	if (only_live) {
		strbuf_adds(b, " INDEXED BY job_live"
			       " WHERE finished_ms = 0 AND ns = ?1"
			       " AND seq < ?2");
	} else if (nlabels != 0) {
		strbuf_adds(b, " WHERE ns = ?1 AND seq IN (SELECT job FROM"
			       " label INDEXED BY label_find WHERE ns = ?1 AND"
			       " key = ?3 AND value = ?4 AND job < ?2"
			       " ORDER BY job DESC)");
		i = 1;
	} else if (ntags != 0) {
		strbuf_adds(b, " WHERE ns = ?1 AND seq IN (SELECT job FROM"
			       " tag INDEXED BY tag_find WHERE ns = ?1 AND"
			       " tag = ?3 AND job < ?2 ORDER BY job DESC)");
		t = 1;
	} else {
		strbuf_adds(b, " INDEXED BY job_ns WHERE ns = ?1 AND seq < ?2");
	}
	add_bits(b, "stage", q->stages);
	add_bits(b, "state", q->states);
	for (; i < nlabels; i++)
		strbuf_addf(b,
			    " AND EXISTS (SELECT 1 FROM label WHERE label.job"
			    " = job.seq AND key = ?%zu AND value = ?%zu)",
			    3 + 2 * i, 4 + 2 * i);
	for (; t < ntags; t++)
		strbuf_addf(b,
			    " AND EXISTS (SELECT 1 FROM tag WHERE tag.job"
			    " = job.seq AND tag = ?%zu)",
			    3 + 2 * nlabels + t);
	strbuf_adds(b, " ORDER BY seq DESC");
}

int
jobstore_list(struct jobstore *s, const struct job_query *q,
	      bool (*fn)(const struct job *j, void *arg), void *arg)
{
	struct strbuf sql = {0};
	sqlite3_stmt *st = NULL;
	size_t at;
	int r = 0;

	list_sql(q, &sql);
	if (sqlite3_prepare_v2(s->db, sql.s, (int)sql.len, &st, NULL) !=
	    SQLITE_OK)
		r = jobstore_failed(s, "list");
	strbuf_clear(&sql);
	if (r != 0)
		return r;
	jobstore_bind_text(st, 1, q->ns);
	jobstore_bind_int(st, 2,
			  q->before != 0 ? (int64_t)q->before : INT64_MAX);
	for (size_t i = 0; q->labels != NULL && i < q->labels->n; i++) {
		jobstore_bind_text(st, (int)(3 + 2 * i), q->labels->v[i].key);
		jobstore_bind_text(st, (int)(4 + 2 * i), q->labels->v[i].value);
	}
	at = q->labels != NULL ? 3 + 2 * q->labels->n : 3;
	for (size_t i = 0; q->tags != NULL && i < q->tags->n; i++)
		jobstore_bind_text(st, (int)(at + i), q->tags->v[i]);
	r = each_job(s, st, fn, arg);
	(void)sqlite3_finalize(st);
	return r;
}

int
jobstore_steps(struct jobstore *s, const char *ns, struct strv id,
	       uint64_t after,
	       bool (*fn)(struct strv id, const struct job_step *st, void *arg),
	       void *arg)
{
	sqlite3_stmt *st =
	    jobstore_use(s, id.len != 0 ? ST_STEPS_JOB : ST_STEPS_NS);
	struct job_step step;
	bool more = true;
	int rc = SQLITE_DONE, r = 0;

	if (id.len != 0)
		jobstore_bind_view(st, 1, id);
	jobstore_bind_text(st, 2, ns);
	jobstore_bind_int(st, 3,
			  after < INT64_MAX ? (int64_t)after : INT64_MAX);
	while (more && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		memset(&step, 0, sizeof(step));
		step.seq = (uint64_t)sqlite3_column_int64(st, 0);
		step.state = (enum job_state)sqlite3_column_int(st, 2);
		if ((unsigned)step.state >= JOB_STATES ||
		    job_event_parse(column(st, 3), &step.reason) != 0)
			continue;
		step.message = column(st, 4).p;
		step.at_ms = sqlite3_column_int64(st, 5);
		step.has_exit = sqlite3_column_type(st, 6) != SQLITE_NULL;
		step.exit_code = sqlite3_column_int(st, 6);
		more = fn(column(st, 1), &step, arg);
	}
	if (rc != SQLITE_DONE && rc != SQLITE_ROW)
		r = jobstore_failed(s, "steps");
	(void)sqlite3_reset(st);
	return r;
}

uint64_t
jobstore_last_step(struct jobstore *s)
{
	sqlite3_stmt *st = jobstore_use(s, ST_LAST_STEP);
	uint64_t n = 0;

	if (sqlite3_step(st) == SQLITE_ROW)
		n = (uint64_t)sqlite3_column_int64(st, 0);
	(void)sqlite3_reset(st);
	return n;
}
