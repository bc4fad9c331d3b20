/* SPDX-License-Identifier: Apache-2.0 */
/* The database of jobs: what comes back, in which order, after which accident.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sqlite3.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "gateway/jobstore.h"

static char dir[40];
static char path[64];

static void
no_log(enum log_level l, const char *line, size_t len, void *arg)
{
	(void)l;
	(void)line;
	(void)len;
	(void)arg;
}

static int
setup(void **state)
{
	(void)state;
	(void)snprintf(dir, sizeof(dir), "/tmp/sbx-jobstore-XXXXXX");
	if (mkdtemp(dir) == NULL)
		return -1;
	(void)snprintf(path, sizeof(path), "%s/jobs.db", dir);
	log_set_hook(no_log, NULL);
	return 0;
}

static int
teardown(void **state)
{
	DIR *d = opendir(dir);
	struct dirent *e;

	(void)state;
	log_set_hook(NULL, NULL);
	while (d != NULL && (e = readdir(d)) != NULL)
		if (e->d_name[0] != '.')
			(void)unlinkat(dirfd(d), e->d_name, 0);
	if (d != NULL)
		(void)closedir(d);
	return rmdir(dir);
}

static struct jobstore *
must_open(void)
{
	struct jobstore *s = NULL;
	char *msg = NULL;

	assert_int_equal(jobstore_open(path, &s, &msg), 0);
	assert_null(msg);
	return s;
}

/* Job number i of a namespace, as it stands when it was accepted. */
static struct job
make_job(unsigned i, const char *ns)
{
	struct job j = {.ns = xstrdup(ns), .user = xstrdup("ann")};

	(void)snprintf(j.id, sizeof(j.id), "%024x", i);
	j.spec.flavor = xstrdup("cpu-basic");
	jobspec_push(&j.spec.env, STRV("N"), STRV("5"));
	jobspec_push(&j.spec.secrets, STRV("T"), STRV("hush-hush"));
	assert_true(job_apply(&j, JOB_EV_CREATE, 1000 + i, NULL, NULL));
	return j;
}

static void
step(struct jobstore *s, struct job *j, enum job_event ev, int64_t at,
     const int *code)
{
	uint64_t n = 0;

	assert_true(job_apply(j, ev, at, code, job_event_name(ev)));
	assert_int_equal(jobstore_update(s, j, &n), 0);
	assert_int_not_equal(n, 0);
}

static void
put(struct jobstore *s, unsigned i, const char *ns, const char *label)
{
	struct job j = make_job(i, ns);
	uint64_t n;

	if (label != NULL)
		jobspec_push(&j.spec.labels, STRV("k"), strv_of(label));
	assert_int_equal(jobstore_insert(s, &j, &n), 0);
	job_clear(&j);
}

/* What list and steps found, as text. */
static struct strbuf seen;

static bool
see_job(const struct job *j, void *arg)
{
	unsigned *most = arg;

	strbuf_addf(&seen, "%lx ", strtoul(j->id, NULL, 16));
	return most == NULL || --*most > 0;
}

static bool
see_step(struct strv id, const struct job_step *st, void *arg)
{
	(void)id;
	(void)arg;
	strbuf_addf(&seen, "%s:%s@%lld ", job_state_name(st->state),
		    job_event_name(st->reason), (long long)st->at_ms);
	if (st->has_exit)
		strbuf_addf(&seen, "exit=%d ", st->exit_code);
	return true;
}

static void
expect(const char *want)
{
	assert_string_equal(seen.s != NULL ? seen.s : "", want);
	strbuf_clear(&seen);
}

static void
round_trip(void **state)
{
	struct job j = make_job(1, "ann"), k;
	struct jobstore *s = must_open();
	int code = 7;
	uint64_t n;

	(void)state;
	j.spec.request_id = xstrdup("r-1");
	jobspec_push(&j.spec.labels, STRV("b"), STRV("2"));
	jobspec_push(&j.spec.labels, STRV("a"), STRV("1"));
	assert_int_equal(jobstore_insert(s, &j, &n), 0);
	step(s, &j, JOB_EV_START, 2000, NULL);
	step(s, &j, JOB_EV_READY, 3000, NULL);
	step(s, &j, JOB_EV_EXIT, 4000, &code);
	assert_true(jobstore_open_changes(s));
	jobstore_close(s);

	s = must_open();
	assert_int_equal(jobstore_get(s, strv_of(j.id), &k), 0);
	assert_int_equal(k.state, JOB_COMPLETED);
	assert_int_equal(k.reason, JOB_EV_EXIT);
	assert_string_equal(k.message, "exit");
	assert_true(k.has_exit);
	assert_int_equal(k.exit_code, 7);
	assert_int_equal(k.created_ms, 1001);
	assert_int_equal(k.started_ms, 3000);
	assert_int_equal(k.finished_ms, 4000);
	assert_string_equal(k.user, "ann");
	assert_string_equal(jobspec_pair(&k.spec.env, "N"), "5");
	assert_string_equal(k.spec.secrets.v[0].key, "T");
	assert_null(k.spec.secrets.v[0].value);
	assert_string_equal(k.spec.labels.v[0].key, "b");
	job_clear(&k);
	assert_int_equal(jobstore_by_request(s, "ann", "r-1", &k), 0);
	assert_string_equal(k.id, j.id);
	job_clear(&k);
	assert_int_equal(jobstore_by_request(s, "bob", "r-1", &k), E_NOTFOUND);
	assert_int_equal(
	    jobstore_steps(s, "ann", strv_of(j.id), 0, see_step, NULL), 0);
	expect("PENDING:create@1001 CREATING:start@2000 RUNNING:ready@3000 "
	       "COMPLETED:exit@4000 exit=7 ");
	assert_int_equal(
	    jobstore_steps(s, "bob", strv_of(j.id), 0, see_step, NULL), 0);
	expect("");
	assert_int_equal(
	    jobstore_steps(s, "ann", STRV(""), n + 1, see_step, NULL), 0);
	expect("RUNNING:ready@3000 COMPLETED:exit@4000 exit=7 ");
	assert_int_equal(jobstore_last_step(s), n + 3);
	assert_int_equal(jobstore_get(s, STRV("nothing"), &k), E_NOTFOUND);
	jobstore_close(s);
	job_clear(&j);
}

static void
twice(void **state)
{
	struct job a = make_job(1, "ann"), b = make_job(2, "ann"),
		   c = make_job(3, "bob");
	struct jobstore *s = must_open();
	struct job k;
	uint64_t n;

	(void)state;
	a.spec.request_id = xstrdup("r");
	b.spec.request_id = xstrdup("r");
	c.spec.request_id = xstrdup("r");
	assert_int_equal(jobstore_insert(s, &a, &n), 0);
	assert_int_equal(jobstore_insert(s, &a, &n), E_EXISTS);
	assert_int_equal(jobstore_insert(s, &b, &n), E_EXISTS);
	assert_int_equal(jobstore_insert(s, &c, &n), 0);
	assert_int_equal(jobstore_get(s, strv_of(b.id), &k), E_NOTFOUND);
	jobstore_close(s);
	job_clear(&a);
	job_clear(&b);
	job_clear(&c);
}

static void
list(struct jobstore *s, const struct job_query *q, unsigned most,
     const char *want)
{
	assert_int_equal(jobstore_list(s, q, see_job, most ? &most : NULL), 0);
	expect(want);
}

static void
listing(void **state)
{
	struct jobstore *s = must_open();
	struct job_pairs l = {0};
	struct job_query q = {.ns = "ann"};
	struct job j;
	uint64_t seq;
	int code = 0;

	(void)state;
	for (unsigned i = 1; i <= 9; i++)
		put(s, i, i % 3 == 0 ? "bob" : "ann", i % 2 ? "odd" : "even");
	list(s, &q, 0, "8 7 5 4 2 1 ");
	list(s, &q, 2, "8 7 ");
	assert_int_equal(jobstore_get(s, STRV("000000000000000000000007"), &j),
			 0);
	seq = j.seq;
	step(s, &j, JOB_EV_START, 1, NULL);
	step(s, &j, JOB_EV_READY, 1, NULL);
	job_clear(&j);
	assert_int_equal(jobstore_get(s, STRV("000000000000000000000005"), &j),
			 0);
	step(s, &j, JOB_EV_START, 1, NULL);
	step(s, &j, JOB_EV_EXIT, 2, &code);
	job_clear(&j);
	q.before = seq;
	list(s, &q, 0, "5 4 2 1 ");
	q.before = 0;
	jobspec_push(&l, STRV("k"), STRV("odd"));
	q.labels = &l;
	list(s, &q, 0, "7 5 1 ");
	q.stages = 1U << STAGE_RUNNING | 1U << STAGE_SCHEDULING;
	list(s, &q, 0, "7 1 ");
	q.stages = 1U << STAGE_RUNNING;
	list(s, &q, 0, "7 ");
	q.stages = 1U << STAGE_COMPLETED;
	list(s, &q, 0, "5 ");
	q.stages = 0;
	q.states = 1U << JOB_PENDING;
	list(s, &q, 0, "1 ");
	q.states = 0;
	jobspec_push(&l, STRV("x"), STRV("y"));
	list(s, &q, 0, "");
	q.stages = 1U << STAGE_RUNNING;
	list(s, &q, 0, "");
	jobspec_clear_pairs(&l);
	assert_int_equal(jobstore_live(s, see_job, NULL), 0);
	expect("1 2 3 4 6 7 8 9 ");
	jobstore_close(s);
}

static void
tags(void **state)
{
	static const char *const sets[] = {"a", "a b", "b a c", "b", "c"};
	struct jobstore *s = must_open();
	struct job_words t = {0};
	struct job_pairs l = {0};
	struct job_query q = {.ns = "ann", .tags = &t, .labels = &l};
	uint64_t n;

	(void)state;
	for (unsigned i = 0; i < 2 * ARRAY_LEN(sets); i++) {
		struct job j = make_job(i + 1, i < 5 ? "ann" : "bob");
		struct strv rest = strv_of(sets[i % 5]), one;

		while (strv_cut(&rest, ' ', &one))
			jobspec_push_word(&j.spec.tags, one);
		jobspec_push(&j.spec.labels, STRV("k"),
			     i % 2 ? STRV("odd") : STRV("even"));
		assert_int_equal(jobstore_insert(s, &j, &n), 0);
		job_clear(&j);
	}
	list(s, &q, 0, "5 4 3 2 1 ");
	jobspec_push_word(&t, STRV("a"));
	list(s, &q, 0, "3 2 1 ");
	list(s, &q, 2, "3 2 ");
	q.before = 3;
	list(s, &q, 0, "2 1 ");
	q.before = 0;
	jobspec_push_word(&t, STRV("b"));
	list(s, &q, 0, "3 2 ");
	q.states = 1U << JOB_PENDING;
	q.stages = 1U << STAGE_SCHEDULING;
	list(s, &q, 0, "3 2 ");
	jobspec_push(&l, STRV("k"), STRV("odd"));
	list(s, &q, 0, "2 ");
	q.stages = 0;
	list(s, &q, 0, "2 ");
	jobspec_push_word(&t, STRV("'"));
	list(s, &q, 0, "");
	jobspec_clear_words(&t);
	jobspec_clear_pairs(&l);
	jobstore_close(s);
}

/* A database as the first version wrote it is made one of today's. */
static void
of_version_1(void **state)
{
	static const char sql[] =
	    "CREATE TABLE job (seq INTEGER PRIMARY KEY AUTOINCREMENT,"
	    " id TEXT NOT NULL UNIQUE, ns TEXT NOT NULL, user TEXT NOT NULL,"
	    " request_id TEXT, state INTEGER NOT NULL,"
	    " stage INTEGER NOT NULL, reason TEXT NOT NULL, message TEXT,"
	    " exit_code INTEGER, created_ms INTEGER NOT NULL,"
	    " started_ms INTEGER NOT NULL DEFAULT 0,"
	    " finished_ms INTEGER NOT NULL DEFAULT 0,"
	    " changed_ms INTEGER NOT NULL, spec TEXT NOT NULL);"
	    "CREATE INDEX job_ns ON job (ns, seq);"
	    "CREATE INDEX job_live ON job (ns, seq) WHERE finished_ms = 0;"
	    "CREATE INDEX job_ended ON job (finished_ms)"
	    " WHERE finished_ms > 0;"
	    "CREATE INDEX job_ended_ns ON job (ns, finished_ms)"
	    " WHERE finished_ms > 0;"
	    "CREATE UNIQUE INDEX job_request ON job (ns, request_id)"
	    " WHERE request_id IS NOT NULL;"
	    "CREATE TABLE label ("
	    " job INTEGER NOT NULL REFERENCES job (seq) ON DELETE CASCADE,"
	    " ns TEXT NOT NULL, pos INTEGER NOT NULL, key TEXT NOT NULL,"
	    " value TEXT NOT NULL, PRIMARY KEY (job, pos)) WITHOUT ROWID;"
	    "CREATE INDEX label_find ON label (ns, key, value, job);"
	    "CREATE TABLE step (seq INTEGER PRIMARY KEY AUTOINCREMENT,"
	    " job INTEGER NOT NULL REFERENCES job (seq) ON DELETE CASCADE,"
	    " ns TEXT NOT NULL, state INTEGER NOT NULL, reason TEXT NOT NULL,"
	    " message TEXT, at_ms INTEGER NOT NULL, exit_code INTEGER);"
	    "CREATE INDEX step_job ON step (job);"
	    "CREATE INDEX step_ns ON step (ns, seq);"
	    "INSERT INTO job (id, ns, user, state, stage, reason, created_ms,"
	    " changed_ms, spec) VALUES ('000000000000000000000001', 'ann',"
	    " 'ann', 2, 1, 'ready', 5, 6, '{\"command\":[\"sh\"],"
	    "\"arguments\":[],\"environment\":{\"N\":\"5\"},"
	    "\"secrets\":{\"T\":null},\"flavor\":\"cpu-basic\","
	    "\"sandbox\":true}');"
	    "INSERT INTO label VALUES (1, 'ann', 0, 'hf-sandbox', '1');"
	    "INSERT INTO step (job, ns, state, reason, at_ms)"
	    " VALUES (1, 'ann', 2, 'ready', 6);"
	    "PRAGMA application_id = 1396856906; PRAGMA user_version = 1";
	struct job_words t = {0};
	struct job_query q = {.ns = "ann", .tags = &t};
	struct jobstore *s;
	struct job j;
	sqlite3 *db;
	uint64_t n;

	(void)state;
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
	s = must_open();
	assert_int_equal(jobstore_get(s, STRV("000000000000000000000001"), &j),
			 0);
	assert_int_equal(j.state, JOB_RUNNING);
	assert_true(j.spec.sandbox && j.spec.hub);
	assert_false(jobspec_main(&j.spec));
	job_clear(&j);
	j = make_job(2, "ann");
	jobspec_push_word(&j.spec.tags, STRV("new"));
	assert_int_equal(jobstore_insert(s, &j, &n), 0);
	job_clear(&j);
	list(s, &q, 0, "2 1 ");
	jobspec_push_word(&t, STRV("new"));
	list(s, &q, 0, "2 ");
	jobstore_close(s);
	s = must_open(); /* once */
	list(s, &q, 0, "2 ");
	jobspec_clear_words(&t);
	jobstore_close(s);
}

static void
labels(void **state)
{
	struct jobstore *s = must_open();
	struct job j, k;

	(void)state;
	put(s, 1, "ann", "old");
	assert_int_equal(jobstore_get(s, STRV("000000000000000000000001"), &j),
			 0);
	jobspec_clear_pairs(&j.spec.labels);
	jobspec_push(&j.spec.labels, STRV("n"), STRV("'; DROP TABLE job;--"));
	assert_int_equal(jobstore_labels(s, &j), 0);
	assert_int_equal(jobstore_get(s, strv_of(j.id), &k), 0);
	assert_int_equal(k.spec.labels.n, 1);
	assert_string_equal(k.spec.labels.v[0].value, "'; DROP TABLE job;--");
	job_clear(&j);
	job_clear(&k);
	jobstore_close(s);
}

static void
see_id(const char *id, void *arg)
{
	(void)arg;
	strbuf_addf(&seen, "%lx ", strtoul(id, NULL, 16));
}

static void
pruning(void **state)
{
	struct jobstore *s = must_open();
	struct job_query q = {.ns = "ann"};
	int code = 0;
	unsigned n;

	(void)state;
	for (unsigned i = 1; i <= 6; i++) {
		struct job j;
		char id[JOB_ID_LEN + 1];

		put(s, i, "ann", "x");
		if (i == 3)
			continue; /* this one goes on */
		(void)snprintf(id, sizeof(id), "%024x", i);
		assert_int_equal(jobstore_get(s, strv_of(id), &j), 0);
		step(s, &j, JOB_EV_START, 1, NULL);
		step(s, &j, JOB_EV_EXIT, 100 * i, &code);
		job_clear(&j);
	}
	put(s, 7, "bob", NULL); /* his are counted apart */
	assert_int_equal(jobstore_prune(s, 150, 100, 10, see_id, NULL, &n), 0);
	assert_int_equal(n, 1);
	expect("1 ");
	assert_int_equal(jobstore_prune(s, 0, 4, 10, see_id, NULL, &n), 0);
	assert_int_equal(n, 0);
	assert_int_equal(jobstore_prune(s, 0, 2, 1, see_id, NULL, &n), 0);
	expect("4 ");
	assert_int_equal(jobstore_prune(s, 0, 2, 10, see_id, NULL, &n), 0);
	expect("2 ");
	assert_int_equal(jobstore_prune(s, 0, 2, 10, see_id, NULL, &n), 0);
	assert_int_equal(n, 0);
	list(s, &q, 0, "6 5 3 ");
	assert_int_equal(jobstore_steps(s, "ann", STRV(""), 0, see_step, NULL),
			 0);
	expect("PENDING:create@1003 PENDING:create@1005 CREATING:start@1 "
	       "COMPLETED:exit@500 exit=0 PENDING:create@1006 "
	       "CREATING:start@1 COMPLETED:exit@600 exit=0 ");
	jobstore_close(s);
}

/* The end of the process at any point loses nothing that was committed. */
static void
sudden_death(void **state)
{
	struct jobstore *s = must_open();
	struct job_query q = {.ns = "ann"};
	pid_t pid;
	int st;

	(void)state;
	jobstore_close(s);
	if ((pid = fork()) == 0) {
		struct job j;
		char *msg = NULL;
		uint64_t n;

		if (jobstore_open(path, &s, &msg) != 0)
			_exit(1);
		for (unsigned i = 1; i <= 50; i++) {
			j = make_job(i, "ann");
			if (jobstore_insert(s, &j, &n) != 0)
				_exit(1);
			job_clear(&j);
		}
		(void)kill(getpid(), SIGKILL);
	}
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_true(WIFSIGNALED(st));
	s = must_open();
	assert_int_equal(jobstore_list(s, &q, see_job, NULL), 0);
	assert_non_null(strstr(seen.s, "32 31 30 "));
	strbuf_clear(&seen);
	jobstore_close(s);
}

static bool
kept_aside(void)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	bool found = false;

	assert_non_null(d);
	while ((e = readdir(d)) != NULL)
		if (strncmp(e->d_name, "jobs.db.broken-", 15) == 0)
			found = true;
	(void)closedir(d);
	return found;
}

static void
expect_broken(void)
{
	struct jobstore *s = NULL;
	struct job_query q = {.ns = "ann"};
	char *msg = NULL;

	assert_int_equal(jobstore_open(path, &s, &msg), 0);
	assert_non_null(msg);
	assert_non_null(strstr(msg, "kept as"));
	assert_true(kept_aside());
	list(s, &q, 0, "");
	put(s, 1, "ann", NULL);
	free(msg);
	jobstore_close(s);
}

static void
fill(unsigned n)
{
	struct jobstore *s = must_open();

	for (unsigned i = 1; i <= n; i++)
		put(s, i, "ann", "x");
	jobstore_close(s);
}

static void
no_database(void **state)
{
	static const char text[] = "this was never a database, and it is long "
				   "enough to have a header's size: "
				   "........................................";

	(void)state;
	assert_int_equal(file_write_atomic(path, text, sizeof(text), 0600), 0);
	expect_broken();
}

static void
overwritten(void **state)
{
	char junk[4096];
	int fd;

	(void)state;
	fill(50);
	memset(junk, 0x5a, sizeof(junk));
	assert_true((fd = open(path, O_RDWR | O_CLOEXEC)) >= 0);
	for (int page = 1; page < 8; page++)
		assert_int_equal(pwrite(fd, junk, sizeof(junk), page * 4096),
				 sizeof(junk));
	(void)close(fd);
	expect_broken();
}

static void
cut_short(void **state)
{
	(void)state;
	fill(50);
	assert_int_equal(truncate(path, 3 * 4096), 0);
	expect_broken();
}

static void
someone_elses(void **state)
{
	static const unsigned char version[4] = {0, 0, 0, 9};
	struct jobstore *s = NULL;
	char *msg = NULL;
	struct stat st;
	int fd;

	(void)state;
	fill(1);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	/* user_version: a later one of ours is not touched. */
	assert_true((fd = open(path, O_RDWR | O_CLOEXEC)) >= 0);
	assert_int_equal(pwrite(fd, version, 4, 60), 4);
	(void)close(fd);
	assert_int_equal(jobstore_open(path, &s, &msg), E_UNSUPPORTED);
	assert_non_null(strstr(msg, "later version"));
	assert_false(kept_aside());
	free(msg);
	msg = NULL;
	/* Nor is a path that cannot be one. */
	(void)snprintf(path, sizeof(path), "%s/none/jobs.db", dir);
	assert_int_equal(jobstore_open(path, &s, &msg), E_SYS);
	assert_non_null(strstr(msg, "No such file"));
	free(msg);
}

int
main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
	    T(round_trip), T(twice),         T(listing),     T(labels),
	    T(pruning),    T(sudden_death),  T(no_database), T(overwritten),
	    T(cut_short),  T(someone_elses), T(tags),        T(of_version_1),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
