/* SPDX-License-Identifier: Apache-2.0 */
/* The service of jobs over a launcher that does what the test says. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "gateway/gwconf.h"
#include "gateway/jobs.h"
#include "gateway/launch.h"
#include "net/loop.h"

/* --- a launcher for tests ---------------------------------------------- */
#define MOST 32

struct fake_job {
	struct launch base;
	bool used, dropped;
	uint64_t grace;
	unsigned stops;
	bool cannot_pause, paused;
};

struct fake {
	struct launcher base;
	struct fake_job jobs[MOST]; /* in the order they came */
	size_t n;
	int refuse;         /* start fails with it */
	struct strbuf seen; /* what the last start was asked for */
	unsigned removed, swept;
};

static void
fake_free(struct launcher *l)
{
	(void)l;
}

static void
fake_conf(struct launcher *l, const struct gw_conf *conf)
{
	(void)l;
	(void)conf;
}

static struct fake_job *
fake_add(struct launcher *l, const char *id)
{
	struct fake *f = (struct fake *)l;
	struct fake_job *j = &f->jobs[f->n++];

	assert_true(f->n <= MOST);
	memset(j, 0, sizeof(*j));
	j->used = true;
	j->base.launcher = l;
	(void)snprintf(j->base.id, sizeof(j->base.id), "%s", id);
	return j;
}

static int
fake_start(struct launcher *l, const struct launch_spec *s, struct launch **out,
	   char **why)
{
	struct fake *f = (struct fake *)l;

	strbuf_clear(&f->seen);
	strbuf_addf(&f->seen, "mode=%d timeout=%llu memory=%llu", s->mode,
		    (unsigned long long)s->timeout_ms,
		    (unsigned long long)s->memory);
	for (size_t i = 0; i < s->nargv; i++)
		strbuf_addf(&f->seen, " [%s]", s->argv[i]);
	if (s->cwd != NULL)
		strbuf_addf(&f->seen, " cwd=%s cpu=%llu grace=%llu", s->cwd,
			    (unsigned long long)s->cpu_milli,
			    (unsigned long long)s->grace_ms);
	for (size_t i = 0; i < s->nfiles; i++)
		strbuf_addf(&f->seen, " %s:%o=%.*s", s->files[i].path,
			    s->files[i].mode, STRV_ARG(s->files[i].content));
	for (size_t i = 0; i < s->nenv; i++)
		strbuf_addf(&f->seen, " %s=%s", s->env[i].name,
			    s->env[i].value);
	for (size_t i = 0; i < s->nsecrets; i++)
		strbuf_addf(&f->seen, " secret:%s=%s", s->secrets[i].name,
			    s->secrets[i].value);
	if (f->refuse != 0) {
		*why = xstrdup("not today");
		return f->refuse;
	}
	*out = &fake_add(l, s->id)->base;
	return 0;
}

static void
fake_adopt(struct launcher *l, const char *id, struct launch **out)
{
	*out = &fake_add(l, id)->base;
}

static void
fake_sweep(struct launcher *l, launch_known_cb known, void *arg)
{
	struct fake *f = (struct fake *)l;

	f->swept++;
	assert_false(known("ffffffffffffffffffffffff", arg));
}

static void
fake_stop(struct launch *j, uint64_t grace_ms)
{
	struct fake_job *fj = (struct fake_job *)j;

	assert_false(fj->dropped);
	fj->stops++;
	fj->grace = grace_ms;
}

static void
fake_drop(struct launch *j)
{
	((struct fake_job *)j)->dropped = true;
}

static void
fake_remove(struct launcher *l, const char *id)
{
	(void)id;
	((struct fake *)l)->removed++;
}

static int
fake_pause(struct launch *j, bool pause, const char **why)
{
	struct fake_job *fj = (struct fake_job *)j;

	if (fj->cannot_pause) {
		*why = "not this one";
		return E_UNSUPPORTED;
	}
	fj->paused = pause;
	return 0;
}

static bool
fake_paused(struct launch *j)
{
	return ((struct fake_job *)j)->paused;
}

static const struct launcher_ops fake_ops = {.free = fake_free,
					     .set_conf = fake_conf,
					     .start = fake_start,
					     .adopt = fake_adopt,
					     .sweep = fake_sweep,
					     .stop = fake_stop,
					     .pause = fake_pause,
					     .paused = fake_paused,
					     .drop = fake_drop,
					     .remove = fake_remove};

/* --- the fixture ------------------------------------------------------- */
static struct {
	struct loop *l;
	struct gw_conf *conf;
	struct fake fake;
	struct jobs *js;
	char dir[40], path[64];
	struct strbuf told;  /* announced and gone */
	struct strbuf steps; /* by the watch */
	struct jobs_watch watch;
} fx;

static void
no_log(enum log_level l, const char *line, size_t len, void *arg)
{
	(void)l;
	(void)len;
	(void)arg;
	assert_null(strstr(line, "hush-hush"));
}

static void
announce_cb(const struct job *j, const char *http, const char *control,
	    void *arg)
{
	(void)arg;
	(void)control;
	strbuf_addf(&fx.told, "+%s:%s ", http != NULL ? http : "starting",
		    job_state_name(j->state));
}

static void
gone_cb(const struct job *j, const char *reason, void *arg)
{
	(void)j;
	(void)arg;
	strbuf_addf(&fx.told, "-%s ", reason);
}

static void
open_jobs(void)
{
	struct jobs_options o = {.loop = fx.l,
				 .conf = fx.conf,
				 .db_path = fx.path,
				 .launcher = &fx.fake.base,
				 .announce = announce_cb,
				 .gone = gone_cb};
	char *msg = NULL;

	assert_int_equal(jobs_new(&o, &fx.js, &msg), 0);
	assert_null(msg);
	jobs_adopt(fx.js);
}

static int
setup(void **state)
{
	(void)state;
	memset(&fx, 0, sizeof(fx));
	(void)snprintf(fx.dir, sizeof(fx.dir), "/tmp/sbx-jobs-XXXXXX");
	if (mkdtemp(fx.dir) == NULL)
		return -1;
	(void)snprintf(fx.path, sizeof(fx.path), "%s/jobs.db", fx.dir);
	log_set_hook(no_log, NULL);
	fx.l = loop_new();
	fx.conf = gwconf_new();
	fx.fake.base.ops = &fake_ops;
	fx.fake.base.jobs_dir = fx.dir;
	open_jobs();
	return 0;
}

static int
teardown(void **state)
{
	DIR *d;
	struct dirent *e;

	(void)state;
	jobs_free(fx.js);
	gwconf_free(fx.conf);
	loop_free(fx.l);
	strbuf_clear(&fx.told);
	strbuf_clear(&fx.steps);
	strbuf_clear(&fx.fake.seen);
	log_set_hook(NULL, NULL);
	d = opendir(fx.dir);
	while (d != NULL && (e = readdir(d)) != NULL)
		if (e->d_name[0] != '.')
			(void)unlinkat(dirfd(d), e->d_name, 0);
	if (d != NULL)
		(void)closedir(d);
	return rmdir(fx.dir);
}

static void
batch(void)
{
	loop_once(fx.l, false);
	loop_once(fx.l, false);
}

static struct job_spec
make_spec(bool sandbox)
{
	struct job_spec s = {.sandbox = sandbox, .hub = sandbox};

	s.command.v = xcalloc(2, sizeof(char *));
	s.command.v[0] = xstrdup("/bin/true");
	s.command.n = 1;
	jobspec_push(&s.env, STRV("N"), STRV("5"));
	jobspec_push(&s.env, STRV("SBX_IDLE_TIMEOUT"), STRV("60"));
	jobspec_push(&s.env, STRV("SBX_HOMES"), STRV("/"));
	jobspec_push(&s.secrets, STRV("SBX_TOKEN"), STRV("hush-hush"));
	return s;
}

/* Makes one; the fake's job of it in *fj. */
static struct job
make(bool sandbox, struct fake_job **fj)
{
	struct job_spec s = make_spec(sandbox);
	struct job j;
	bool existed;
	char *why = NULL;

	assert_int_equal(
	    jobs_create(fx.js, "ann", "ann", &s, &j, &existed, &why), 0);
	assert_false(existed);
	assert_null(why);
	if (fj != NULL)
		*fj = &fx.fake.jobs[fx.fake.n - 1];
	return j;
}

static void
started(struct fake_job *fj, const char *text)
{
	fj->base.cbs->started(&fj->base, text, fj->base.arg);
}

static void
ready(struct fake_job *fj)
{
	fj->base.cbs->ready(&fj->base, "unix:/a", "/c", fj->base.arg);
}

static void
ended(struct fake_job *fj, enum launch_reason reason, int code, int sig,
      const char *text)
{
	struct launch_end e = {.reason = reason,
			       .code = code,
			       .signal = sig,
			       .time_ms = 77,
			       .message = text};

	fj->base.cbs->ended(&fj->base, &e, fj->base.arg);
}

static void
expect_state(const struct job *j, enum job_state state, const char *text)
{
	struct job k;

	assert_int_equal(jobs_get(fx.js, STRV("ann"), strv_of(j->id), &k), 0);
	assert_string_equal(job_state_name(k.state), job_state_name(state));
	if (text != NULL)
		assert_string_equal(k.message, text);
	job_clear(&k);
}

static void
expect_told(const char *want)
{
	assert_string_equal(fx.told.s != NULL ? fx.told.s : "", want);
	strbuf_clear(&fx.told);
}

/* --- tests ------------------------------------------------------------- */
static void
ordinary(void **state)
{
	struct fake_job *fj;
	struct job j = make(false, &fj);

	(void)state;
	assert_string_equal(fx.fake.seen.s,
			    "mode=0 timeout=86400000 memory=2147483648 "
			    "[/bin/true] N=5 SBX_IDLE_TIMEOUT=60 SBX_HOMES=/ "
			    "secret:SBX_TOKEN=hush-hush");
	assert_int_equal(j.state, JOB_CREATING);
	assert_null(j.spec.secrets.v[0].value);
	expect_state(&j, JOB_CREATING, NULL);
	started(fj, "no network namespace");
	expect_state(&j, JOB_RUNNING, "no network namespace");
	batch();
	assert_int_equal(jobs_count(fx.js), 1);
	ended(fj, LAUNCH_EXITED, 3, 0, "");
	expect_state(&j, JOB_COMPLETED, "ended with exit code 3");
	batch();
	expect_state(&j, JOB_COMPLETED, "ended with exit code 3");
	assert_int_equal(jobs_count(fx.js), 0);
	assert_int_equal(jobs_totals(fx.js)->created, 1);
	assert_int_equal(jobs_totals(fx.js)->ended[JOB_EV_EXIT], 1);
	assert_true(fj->dropped);
	expect_told("");
	job_clear(&j);
}

/* Where its agent is, and the token that is known of it; NULL: nowhere. */
static void
expect_agent(const struct job *j, const char *address, const char *token)
{
	const char *got, *want = NULL;

	got = jobs_agent(fx.js, strv_of(j->id), &want);
	if (address == NULL) {
		assert_null(got);
		return;
	}
	assert_string_equal(got, address);
	if (token != NULL)
		assert_string_equal(want, token);
	else
		assert_null(want);
}

static void
sandbox(void **state)
{
	struct fake_job *fj;
	struct job j = make(true, &fj);

	(void)state;
	/* Only those settings of the agent that are the client's business. */
	assert_string_equal(fx.fake.seen.s,
			    "mode=1 timeout=86400000 memory=2147483648 N=5 "
			    "SBX_IDLE_TIMEOUT=60 secret:SBX_TOKEN=hush-hush");
	expect_told("+starting:CREATING ");
	started(fj, "");
	expect_state(&j, JOB_CREATING, NULL);
	expect_agent(&j, NULL, NULL);
	ready(fj);
	expect_told("+unix:/a:RUNNING ");
	expect_agent(&j, "unix:/a", NULL); /* a secret is not kept */
	expect_state(&j, JOB_RUNNING, NULL);
	ended(fj, LAUNCH_EXITED, 0, 0, "");
	expect_agent(&j, NULL, NULL);
	expect_told("-ended after its idle time ");
	expect_state(&j, JOB_COMPLETED, "ended after its idle time");
	job_clear(&j);
}

/* A command with our agent beside it: what it is started with, when it runs,
 * and what is kept of it. */
static void
beside(void **state)
{
	struct job_spec s = make_spec(true);
	struct fake_job *fj;
	struct job j, k;
	bool existed;
	char *why = NULL;

	(void)state;
	s.hub = false;
	s.working_dir = xstrdup("/w");
	s.memory = 3ULL << 30;
	s.cpu_milli = 1500;
	s.has_grace = true;
	s.grace_ms = 2500;
	jobspec_push_word(&s.tags, STRV("t"));
	jobspec_push_file(&s, STRV("/f"), STRV("hush-hush"), 0600);
	assert_int_equal(
	    jobs_create(fx.js, "ann", "ann", &s, &j, &existed, &why), 0);
	fj = &fx.fake.jobs[fx.fake.n - 1];
	assert_string_equal(
	    fx.fake.seen.s,
	    "mode=1 timeout=86400000 memory=3221225472 [/bin/true] cwd=/w "
	    "cpu=1500 grace=2500 /f:600=hush-hush N=5 "
	    "secret:SBX_TOKEN=hush-hush");
	started(fj, "");
	expect_state(&j, JOB_CREATING, NULL);
	ready(fj);
	expect_state(&j, JOB_RUNNING, NULL);
	expect_told("+starting:CREATING +unix:/a:RUNNING ");
	expect_agent(&j, "unix:/a", NULL);
	assert_int_equal(jobs_stop(fx.js, STRV("ann"), strv_of(j.id),
				   STRV("ann"), JOBS_GRACE),
			 0);
	expect_agent(&j, NULL, NULL); /* nothing new while it ends */
	assert_int_equal(fj->grace, 2500);
	ended(fj, LAUNCH_EXITED, 0, 0, "");
	expect_state(&j, JOB_TERMINATED, "canceled");
	batch();
	assert_int_equal(jobs_get(fx.js, STRV("ann"), strv_of(j.id), &k), 0);
	assert_true(jobspec_main(&k.spec));
	assert_string_equal(k.spec.tags.v[0], "t");
	assert_string_equal(k.spec.files[0].path, "/f");
	assert_null(k.spec.files[0].data);
	assert_int_equal(k.spec.files[0].len, 9);
	assert_int_equal(k.spec.memory, 3ULL << 30);
	assert_int_equal(k.spec.grace_ms, 2500);
	strbuf_clear(&fx.told);
	job_clear(&k);
	job_clear(&j);
}

/* One that ends before its agent answers ran all the same. */
static void
ends_before_its_agent(void **state)
{
	struct job_spec s = make_spec(true);
	struct fake_job *fj;
	struct job j, k;
	bool existed;
	char *why = NULL;

	(void)state;
	s.hub = false;
	assert_int_equal(
	    jobs_create(fx.js, "ann", "ann", &s, &j, &existed, &why), 0);
	fj = &fx.fake.jobs[fx.fake.n - 1];
	started(fj, "");
	ended(fj, LAUNCH_EXITED, 0, 0, "");
	expect_state(&j, JOB_COMPLETED, "ended with exit code 0");
	batch();
	assert_int_equal(jobs_get(fx.js, STRV("ann"), strv_of(j.id), &k), 0);
	assert_true(k.started_ms != 0 && k.finished_ms >= k.started_ms);
	strbuf_clear(&fx.told);
	job_clear(&k);
	job_clear(&j);
}

static void
ends(void **state)
{
	static const struct {
		enum launch_reason reason;
		int code, sig;
		const char *said;
		enum job_state state;
		const char *text;
		int exit_code;
	} rows[] = {{LAUNCH_EXITED, 0, 0, "", JOB_COMPLETED,
		     "ended with exit code 0", 0},
		    {LAUNCH_EXITED, -1, 11, "", JOB_COMPLETED,
		     "killed by signal 11 (Segmentation fault)", 139},
		    {LAUNCH_EXITED, -1, 9, "out of memory", JOB_COMPLETED,
		     "killed by signal 9 (Killed): out of memory", 137},
		    {LAUNCH_TIMEOUT, -1, 15, "", JOB_TERMINATED,
		     "timed out after 86400 s", 143},
		    {LAUNCH_UNSTARTED, -1, 0, "no such program", JOB_FAILED,
		     "could not be started: no such program", -1},
		    {LAUNCH_OOM, -1, 9, "out of memory", JOB_FAILED,
		     "killed: out of memory", 137},
		    {LAUNCH_LOST, -1, 0, "", JOB_FAILED, "was lost", -1}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct fake_job *fj;
		struct job j = make(false, &fj), k;

		ended(fj, rows[i].reason, rows[i].code, rows[i].sig,
		      rows[i].said);
		expect_state(&j, rows[i].state, rows[i].text);
		batch();
		assert_int_equal(
		    jobs_get(fx.js, STRV("ann"), strv_of(j.id), &k), 0);
		assert_int_equal(k.finished_ms, 77);
		assert_int_equal(k.has_exit, rows[i].exit_code >= 0);
		if (k.has_exit)
			assert_int_equal(k.exit_code, rows[i].exit_code);
		job_clear(&k);
		job_clear(&j);
	}
}

static int
stop(const struct job *j, const char *ns, uint64_t grace)
{
	return jobs_stop(fx.js, strv_of(ns), strv_of(j->id), STRV("ann"),
			 grace);
}

static void
stopping(void **state)
{
	struct fake_job *fj;
	struct job j = make(true, &fj);

	(void)state;
	strbuf_clear(&fx.told);
	assert_int_equal(stop(&j, "bob", 0), E_NOTFOUND);
	assert_int_equal(fj->stops, 0);
	/* While it starts, many at once, and the start ends after them. */
	for (int i = 0; i < 50; i++)
		assert_int_equal(stop(&j, "ann", JOBS_GRACE), 0);
	assert_int_equal(fj->grace, 10000);
	assert_int_equal(stop(&j, "ann", 0), 0);
	assert_int_equal(fj->grace, 0);
	expect_state(&j, JOB_TERMINATING, "canceled by ann");
	expect_told("-canceled by ann ");
	started(fj, "");
	ready(fj);
	expect_told("");
	expect_state(&j, JOB_TERMINATING, "canceled by ann");
	ended(fj, LAUNCH_STOPPED, 0, 0, "");
	expect_state(&j, JOB_TERMINATED, "canceled");
	expect_told("-canceled ");
	assert_int_equal(stop(&j, "ann", 0), 0);
	batch();
	assert_int_equal(stop(&j, "ann", 0), 0);
	expect_state(&j, JOB_TERMINATED, "canceled");
	job_clear(&j);
}

static int
pause_job(const struct job *j, bool on, const char *want)
{
	char *why = NULL;
	int r = jobs_pause(fx.js, STRV("ann"), strv_of(j->id), STRV("eve"), on,
			   &why);

	if (want != NULL)
		assert_string_equal(why, want);
	else
		assert_null(why);
	free(why);
	return r;
}

static void
pausing(void **state)
{
	struct fake_job *fj;
	struct job j = make(false, &fj);
	char *why = NULL;

	(void)state;
	assert_int_equal(pause_job(&j, true, "the job is CREATING"), E_BUSY);
	started(fj, "");
	assert_int_equal(jobs_pause(fx.js, STRV("bob"), strv_of(j.id),
				    STRV("bob"), true, &why),
			 E_NOTFOUND);
	assert_int_equal(pause_job(&j, false, NULL), 0);
	assert_int_equal(pause_job(&j, true, NULL), 0);
	assert_int_equal(pause_job(&j, true, NULL), 0);
	assert_true(fj->paused);
	expect_state(&j, JOB_PAUSED, "paused by eve");
	batch();
	assert_int_equal(pause_job(&j, false, NULL), 0);
	assert_false(fj->paused);
	expect_state(&j, JOB_RUNNING, "resumed by eve");
	fj->cannot_pause = true;
	assert_int_equal(
	    pause_job(&j, true, "the job cannot be paused: not this one"),
	    E_BUSY);
	expect_state(&j, JOB_RUNNING, "resumed by eve");
	fj->cannot_pause = false;
	assert_int_equal(pause_job(&j, true, NULL), 0);
	assert_int_equal(stop(&j, "ann", 5), 0);
	expect_state(&j, JOB_TERMINATING, "canceled by ann");
	assert_int_equal(pause_job(&j, false, "the job is TERMINATING"),
			 E_BUSY);
	ended(fj, LAUNCH_STOPPED, 0, 0, "");
	expect_state(&j, JOB_TERMINATED, "canceled");
	batch();
	assert_int_equal(pause_job(&j, true, "the job is TERMINATED"), E_BUSY);
	job_clear(&j);
}

static void
refusals(void **state)
{
	struct job_spec s = make_spec(false);
	struct job j;
	bool existed;
	char *why = NULL;

	(void)state;
	s.flavor = xstrdup("h200");
	assert_int_equal(
	    jobs_create(fx.js, "ann", "ann", &s, &j, &existed, &why),
	    E_INVALID);
	assert_string_equal(why, "flavor: \"h200\" is not one of cpu-basic, "
				 "cpu-upgrade");
	free(why);
	why = NULL;
	/* What the launcher refuses is a job that failed, with the reason. */
	fx.fake.refuse = E_INVALID;
	j = make(true, NULL);
	fx.fake.refuse = 0;
	assert_int_equal(j.state, JOB_FAILED);
	assert_string_equal(j.message, "could not be started: not today");
	expect_told("+starting:CREATING -could not be started: not today ");
	job_clear(&j);
	batch();
	assert_int_equal(jobs_count(fx.js), 0);
	fx.conf->jobs.max_jobs = 2;
	fx.conf->jobs.max_per_namespace = 1;
	j = make(false, NULL);
	job_clear(&j);
	s = make_spec(false);
	assert_int_equal(
	    jobs_create(fx.js, "ann", "ann", &s, &j, &existed, &why), E_LIMIT);
	free(why);
	why = NULL;
	s = make_spec(false);
	assert_int_equal(
	    jobs_create(fx.js, "bob", "bob", &s, &j, &existed, &why), 0);
	job_clear(&j);
	s = make_spec(false);
	assert_int_equal(
	    jobs_create(fx.js, "eve", "eve", &s, &j, &existed, &why), E_LIMIT);
	free(why);
}

static void
timeouts(void **state)
{
	struct job_spec s = make_spec(false);
	struct job j;
	bool existed;
	char *why = NULL;

	(void)state;
	fx.conf->jobs.max_timeout_ms = 60000;
	s.timeout_s = 3600;
	assert_int_equal(
	    jobs_create(fx.js, "ann", "ann", &s, &j, &existed, &why), 0);
	assert_non_null(strstr(fx.fake.seen.s, "timeout=60000 "));
	assert_int_equal(j.spec.timeout_s, 60);
	assert_non_null(strstr(j.message, "cut to 60 s"));
	job_clear(&j);
}

static void
request_id(void **state)
{
	struct job_spec s;
	struct job a, b;
	bool existed;
	char *why = NULL;

	(void)state;
	for (int i = 0; i < 2; i++) {
		s = make_spec(false);
		s.request_id = xstrdup("once");
		assert_int_equal(jobs_create(fx.js, "ann", "ann", &s,
					     i == 0 ? &a : &b, &existed, &why),
				 0);
		assert_int_equal(existed, i == 1);
	}
	assert_string_equal(a.id, b.id);
	assert_int_equal(fx.fake.n, 1);
	job_clear(&a);
	job_clear(&b);
}

static void
reopen(void)
{
	jobs_free(fx.js);
	memset(fx.fake.jobs, 0, sizeof(fx.fake.jobs));
	fx.fake.n = 0;
	open_jobs();
}

static void
adoption(void **state)
{
	struct fake_job *fj;
	struct job run = make(true, &fj), ending, over;

	(void)state;
	started(fj, "");
	ready(fj);
	ending = make(false, &fj);
	started(fj, "");
	assert_int_equal(stop(&ending, "ann", 0), 0);
	over = make(true, &fj);
	ended(fj, LAUNCH_EXITED, 1, 0, "");
	strbuf_clear(&fx.told);
	reopen();
	assert_int_equal(fx.fake.n, 2);
	assert_int_equal(fx.fake.swept, 2);
	/* What was being ended is ended on. */
	assert_string_equal(fx.fake.jobs[0].base.id, run.id);
	assert_int_equal(fx.fake.jobs[0].stops, 0);
	assert_int_equal(fx.fake.jobs[1].stops, 1);
	/* Ended long ago by the fake's clock: nobody asks for it any more. */
	expect_told("+starting:RUNNING ");
	expect_agent(&run, NULL, NULL); /* not found again yet */
	started(&fx.fake.jobs[0], "");
	ready(&fx.fake.jobs[0]);
	expect_agent(&run, "unix:/a", NULL);
	expect_told("+unix:/a:RUNNING ");
	expect_state(&run, JOB_RUNNING, NULL);
	ended(&fx.fake.jobs[0], LAUNCH_LOST, -1, 0, "its directory is gone");
	expect_state(&run, JOB_FAILED, "was lost: its directory is gone");
	expect_told("-was lost: its directory is gone ");
	ended(&fx.fake.jobs[1], LAUNCH_STOPPED, -1, 15, "");
	expect_state(&ending, JOB_TERMINATED, "canceled");
	expect_state(&over, JOB_COMPLETED, "ended with exit code 1");
	job_clear(&run);
	job_clear(&ending);
	job_clear(&over);
}

/* How it is frozen is the kernel's word, not that of the database. */
static void
paused_before(void **state)
{
	struct fake_job *fj;
	struct job a = make(false, &fj), b;

	(void)state;
	started(fj, "");
	b = make(false, &fj);
	started(fj, "");
	assert_int_equal(pause_job(&b, true, NULL), 0);
	batch();
	reopen();
	fx.fake.jobs[fx.fake.n - 2].paused = true;
	started(&fx.fake.jobs[fx.fake.n - 2], "");
	started(&fx.fake.jobs[fx.fake.n - 1], "");
	expect_state(&a, JOB_PAUSED, NULL);
	expect_state(&b, JOB_RUNNING, NULL);
	job_clear(&a);
	job_clear(&b);
}

/* Labels may change; what a job is does not follow them. */
static void
relabel(void **state)
{
	struct job_pairs l = {0};
	struct job j = make(false, NULL), k;

	(void)state;
	jobspec_push(&l, STRV("hf-sandbox"), STRV("1"));
	assert_int_equal(jobs_set_labels(fx.js, STRV("ann"), strv_of(j.id), &l),
			 0);
	assert_int_equal(jobs_get(fx.js, STRV("ann"), strv_of(j.id), &k), 0);
	assert_int_equal(k.spec.labels.n, 1);
	assert_false(k.spec.sandbox);
	job_clear(&k);
	jobspec_push(&l, STRV("x"), STRV("1"));
	assert_int_equal(jobs_set_labels(fx.js, STRV("bob"), strv_of(j.id), &l),
			 E_NOTFOUND);
	assert_int_equal(l.n, 0);
	job_clear(&j);
}

static void
watch_cb(const char *id, const struct job_step *st, void *arg)
{
	(void)id;
	strbuf_addf(&fx.steps, "%s ", job_state_name(st->state));
	if (arg != NULL && job_final(st->state))
		jobs_watch_del(&fx.watch);
}

static void
watching(void **state)
{
	struct jobs_watch other = {.fn = watch_cb};
	struct fake_job *fj;
	struct job j;

	(void)state;
	fx.watch.fn = watch_cb;
	fx.watch.arg = &fx;
	jobs_watch_add(fx.js, &fx.watch, STRV("ann"), STRV(""));
	jobs_watch_add(fx.js, &other, STRV("bob"), STRV(""));
	j = make(false, &fj);
	started(fj, "");
	assert_int_equal(fx.steps.len, 0); /* only what is stored is told */
	batch();
	assert_string_equal(fx.steps.s, "PENDING CREATING RUNNING ");
	ended(fj, LAUNCH_EXITED, 0, 0, "");
	job_clear(&j);
	j = make(false, &fj);
	batch();
	assert_string_equal(fx.steps.s, "PENDING CREATING RUNNING COMPLETED ");
	jobs_watch_del(&other);
	jobs_watch_del(&other);
	job_clear(&j);
}

static void
retention(void **state)
{
	struct fake_job *fj;
	struct job j = make(false, &fj), k;

	(void)state;
	ended(fj, LAUNCH_EXITED, 0, 0, ""); /* in 1970 */
	batch();
	jobs_prune(fx.js);
	batch();
	assert_int_equal(fx.fake.removed, 1);
	assert_int_equal(jobs_get(fx.js, STRV("ann"), strv_of(j.id), &k),
			 E_NOTFOUND);
	job_clear(&j);
}

/* A disk that is full: what runs is still said right, and stored when there is
 * room again. */
static void
full_disk(void **state)
{
	struct rlimit was, none = {0};
	struct fake_job *fj;
	struct job j = make(false, &fj), k;
	bool existed;
	struct job_spec s = make_spec(false);
	char *why = NULL;

	(void)state;
	batch();
	(void)signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
	none.rlim_max = was.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	fx.watch.fn = watch_cb;
	jobs_watch_add(fx.js, &fx.watch, STRV("ann"), STRV(""));
	started(fj, "");
	batch();
	expect_state(&j, JOB_RUNNING, NULL);
	ended(fj, LAUNCH_EXITED, 7, 0, "");
	batch();
	expect_state(&j, JOB_COMPLETED, "ended with exit code 7");
	assert_int_equal(fx.steps.len, 0);
	assert_int_not_equal(
	    jobs_create(fx.js, "ann", "ann", &s, &k, &existed, &why), 0);
	assert_non_null(strstr(why, "could not be stored"));
	free(why);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
	while (fx.steps.len == 0)
		loop_once(fx.l, true);
	assert_string_equal(fx.steps.s, "COMPLETED ");
	jobs_watch_del(&fx.watch);
	reopen();
	expect_state(&j, JOB_COMPLETED, "ended with exit code 7");
	job_clear(&j);
}

int
main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
	    T(ordinary),      T(sandbox),
	    T(ends),          T(stopping),
	    T(refusals),      T(timeouts),
	    T(request_id),    T(adoption),
	    T(relabel),       T(watching),
	    T(retention),     T(full_disk),
	    T(beside),        T(pausing),
	    T(paused_before), T(ends_before_its_agent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
