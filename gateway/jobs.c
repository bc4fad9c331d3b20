/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The service of jobs. Those that have not ended are in memory, and what is
 * said of them there wins over the database, so that a full disk cannot make
 * the table lie about what runs.
 */
#include "config.h"

#include "gateway/jobs.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/token.h"
#include "gateway/gwconf.h"
#include "gateway/jobs_int.h"

#define PRUNE_MS     60000
#define PRUNE_EACH   64
#define AGENT_BUCKET "huggingface/sbx-server"

/* --- forgetting -------------------------------------------------------- */
static void
pruned_cb(const char *id, void *arg)
{
	struct jobs *js = arg;

	launch_remove(js->o.launcher, id);
	log_debug("job.forget", "job=%s", id);
}

void
jobs_prune(struct jobs *js)
{
	const struct gw_jobs *conf = &js->o.conf->jobs;
	unsigned n = 0;

	if (jobstore_prune(
		js->store, job_now_ms() - (int64_t)conf->retention_ms,
		conf->retention_max, PRUNE_EACH, pruned_cb, js, &n) != 0)
		n = 0;
	task_post(js->o.loop, &js->batch);
	timer_set(&js->prune, n != 0 ? 10 : PRUNE_MS);
}

static void
prune_cb(void *arg)
{
	jobs_prune(arg);
}

/* --- life -------------------------------------------------------------- */
int
jobs_new(const struct jobs_options *o, struct jobs **out, char **msg)
{
	struct jobs *js;
	struct jobstore *store;
	int r;

	if ((r = jobstore_open(o->db_path, &store, msg)) != 0)
		return r;
	js = xcalloc(1, sizeof(*js));
	js->o = *o;
	js->o.db_path = NULL;
	js->store = store;
	js->live = hash_new();
	jobs_tell_init(js);
	timer_init(&js->prune, o->loop, prune_cb, js);
	timer_set(&js->prune, PRUNE_MS);
	*out = js;
	return 0;
}

void
jobs_free(struct jobs *js)
{
	struct live *l;
	size_t pos = 0;

	if (js == NULL)
		return;
	timer_clear(&js->prune);
	jobs_tell_clear(js);
	while ((l = hash_next(js->live, &pos, NULL)) != NULL)
		jobs_live_free(l);
	hash_free(js->live);
	jobstore_close(js->store);
	while (js->watches != NULL)
		jobs_watch_del(js->watches);
	free(js);
}

void
jobs_set_conf(struct jobs *js, const struct gw_conf *conf)
{
	js->o.conf = conf;
}

const struct gw_conf *
jobs_conf(const struct jobs *js)
{
	return js->o.conf;
}

struct loop *
jobs_loop(const struct jobs *js)
{
	return js->o.loop;
}

size_t
jobs_count(const struct jobs *js)
{
	struct live *l;
	size_t pos = 0, n = 0;

	while ((l = hash_next(js->live, &pos, NULL)) != NULL)
		n += !job_final(l->job.state);
	return n;
}

const struct jobs_totals *
jobs_totals(const struct jobs *js)
{
	return &js->totals;
}

struct jobstore *
jobs_store(struct jobs *js)
{
	return js->store;
}

int
jobs_commit(struct jobs *js)
{
	task_post(js->o.loop, &js->batch); /* tells the steps among it */
	return jobs_flush(js);
}

void
jobs_set_restore(struct jobs *js, jobs_restore_cb fn, void *arg)
{
	js->restore = fn;
	js->restore_arg = arg;
}

void
jobs_set_adopted(struct jobs *js, void (*fn)(void *arg), void *arg)
{
	js->adopted = fn;
	js->adopted_arg = arg;
}

int
jobs_tree(struct jobs *js, const char *id, struct launch_tree *out)
{
	return launch_tree(js->o.launcher, id, out);
}

int
jobs_keep(struct jobs *js, const char *id)
{
	return launch_keep(js->o.launcher, id);
}

void
jobs_unkeep(struct jobs *js, const char *id)
{
	launch_unkeep(js->o.launcher, id);
}

char *
jobs_dir(const struct jobs *js, const char *id)
{
	return launch_dir(js->o.launcher, id);
}

/* --- reading ----------------------------------------------------------- */
/* What memory knows better. The message is borrowed from there. */
static void
overlay(struct jobs *js, struct job *j)
{
	const struct live *l = hash_get(js->live, strv_of(j->id));

	if (l == NULL)
		return;
	j->state = l->job.state;
	j->reason = l->job.reason;
	j->has_exit = l->job.has_exit;
	j->exit_code = l->job.exit_code;
	j->started_ms = l->job.started_ms;
	j->finished_ms = l->job.finished_ms;
	j->changed_ms = l->job.changed_ms;
	j->message = l->job.message;
}

/* A job of the store's becomes one of the caller's. */
static void
settle(struct jobs *js, struct job *j)
{
	char *stored = j->message;

	overlay(js, j);
	if (j->message == stored)
		return;
	j->message = j->message != NULL ? xstrdup(j->message) : NULL;
	free(stored);
}

int
jobs_get(struct jobs *js, struct strv ns, struct strv id, struct job *out)
{
	struct job j;
	int r;

	if ((r = jobstore_get(js->store, id, &j)) != 0)
		return r;
	if (!strv_eq(ns, strv_of(j.ns))) {
		job_clear(&j);
		return E_NOTFOUND;
	}
	settle(js, &j);
	*out = j;
	return 0;
}

struct listing {
	struct jobs *js;
	bool (*fn)(const struct job *j, void *arg);
	void *arg;
};

static bool
list_cb(const struct job *stored, void *arg)
{
	struct listing *li = arg;
	struct job j = *stored;

	overlay(li->js, &j);
	return li->fn(&j, li->arg);
}

int
jobs_list(struct jobs *js, const struct job_query *q,
	  bool (*fn)(const struct job *j, void *arg), void *arg)
{
	struct listing li = {js, fn, arg};

	return jobstore_list(js->store, q, list_cb, &li);
}

int
jobs_steps(struct jobs *js, const char *ns, struct strv id, uint64_t after,
	   bool (*fn)(struct strv id, const struct job_step *st, void *arg),
	   void *arg)
{
	return jobstore_steps(js->store, ns, id, after, fn, arg);
}

uint64_t
jobs_last_step(struct jobs *js)
{
	return jobstore_last_step(js->store);
}

/* --- making ------------------------------------------------------------ */
static size_t
count_in(struct jobs *js, const char *ns)
{
	struct live *l;
	size_t pos = 0, n = 0;

	while ((l = hash_next(js->live, &pos, NULL)) != NULL)
		n += !job_final(l->job.state) && strcmp(l->job.ns, ns) == 0;
	return n;
}

static int
check_room(struct jobs *js, const char *ns, char **why)
{
	const struct gw_jobs *conf = &js->o.conf->jobs;

	if (jobs_count(js) >= conf->max_jobs) {
		*why = xasprintf("too many jobs: %llu run already",
				 (unsigned long long)conf->max_jobs);
		return E_LIMIT;
	}
	if (conf->max_per_namespace != 0 &&
	    count_in(js, ns) >= conf->max_per_namespace) {
		*why = xasprintf(
		    "too many jobs: %llu of this namespace run already",
		    (unsigned long long)conf->max_per_namespace);
		return E_LIMIT;
	}
	return 0;
}

/* What is other than it was asked for. */
static char *
make_note(const struct job_spec *s, bool cut, uint64_t timeout_ms)
{
	struct strbuf b = {0};

	if (cut)
		strbuf_addf(&b, "timeout cut to %llu s",
			    (unsigned long long)(timeout_ms / 1000));
	/* The bucket that a sandbox would have got its agent from. */
	for (size_t i = 0; i < s->nvolumes; i++)
		if (!jobspec_is_scratch(&s->volumes[i]) &&
		    strcmp(s->volumes[i].source, AGENT_BUCKET) != 0) {
			strbuf_addf(&b, "%svolumes are not mounted",
				    b.len != 0 ? "; " : "");
			break;
		}
	return b.len != 0 ? strbuf_take(&b) : NULL;
}

/* What is asked for beside a flavor is at most what some flavor has. */
static int
check_resources(const struct gw_jobs *conf, const struct job_spec *s,
		char **why)
{
	bool memory = s->memory == 0, cpu = s->cpu_milli == 0;

	for (size_t i = 0; i < conf->nflavors; i++) {
		const struct gw_flavor *f = &conf->flavors[i];

		memory |= f->memory == 0 || s->memory <= f->memory;
		cpu |= f->cpu_milli == 0 || s->cpu_milli <= f->cpu_milli;
	}
	if (memory && cpu)
		return 0;
	*why = xasprintf("%s: is more than any flavor has",
			 memory ? "cpuMilli" : "memory");
	return E_INVALID;
}

static int
check_spec(struct job_spec *s, char **why)
{
	struct strbuf b = {0};
	int r = jobspec_check(s, &b);

	if (r != 0)
		*why = strbuf_take(&b);
	strbuf_clear(&b);
	return r;
}

static int
restore(struct jobs *js, const char *ns, struct job_spec *s, char **why)
{
	if (s->restore == NULL)
		return 0;
	if (js->restore != NULL)
		return js->restore(ns, s, why, js->restore_arg);
	*why = xstrdup("restoreSnapshot: there are no snapshots");
	return E_INVALID;
}

/* Puts the defaults in. */
static int
resolve(struct jobs *js, const char *ns, struct job_spec *s,
	const struct gw_flavor **flavor, uint64_t *timeout_ms, char **note,
	char **why)
{
	const struct gw_jobs *conf = &js->o.conf->jobs;
	struct strbuf b = {0};
	bool cut;
	int r;

	if ((r = restore(js, ns, s, why)) != 0 ||
	    (r = check_spec(s, why)) != 0 ||
	    (r = check_resources(conf, s, why)) != 0)
		return r;
	if (s->flavor == NULL)
		s->flavor = xstrdup(conf->flavors[0].name);
	*flavor = jobconf_flavor(conf, strv_of(s->flavor));
	if (*flavor == NULL) {
		strbuf_addf(&b, "flavor: \"%.64s\" is not one of", s->flavor);
		for (size_t i = 0; i < conf->nflavors; i++)
			strbuf_addf(&b, "%s %s", i != 0 ? "," : "",
				    conf->flavors[i].name);
		*why = strbuf_take(&b);
		return E_INVALID;
	}
	*timeout_ms =
	    s->timeout_s != 0 ? s->timeout_s * 1000 : conf->default_timeout_ms;
	cut = conf->max_timeout_ms != 0 && *timeout_ms > conf->max_timeout_ms;
	if (cut)
		*timeout_ms = conf->max_timeout_ms;
	*note = make_note(s, cut, *timeout_ms);
	s->timeout_s = (*timeout_ms + 999) / 1000;
	return 0;
}

/* An earlier job of that request, if there is one. */
static int
find_request(struct jobs *js, const char *ns, const char *request_id,
	     struct job *out)
{
	int r;

	if (request_id == NULL)
		return E_NOTFOUND;
	if ((r = jobstore_by_request(js->store, ns, request_id, out)) == 0)
		settle(js, out);
	return r;
}

static int
insert(struct jobs *js, struct job *j, char **why)
{
	uint64_t step;
	int r;

	token_hex(j->id, JOB_ID_LEN / 2);
	(void)job_apply(j, JOB_EV_CREATE, job_now_ms(), NULL, NULL);
	(void)jobs_flush(js);
	if ((r = jobstore_insert(js->store, j, &step)) == 0)
		jobs_note(js, j, step);
	else
		*why =
		    xasprintf("the job could not be stored: %s", err_text(r));
	return r;
}

int
jobs_create(struct jobs *js, const char *ns, const char *user,
	    struct job_spec *spec, struct job *out, bool *existed, char **why)
{
	struct job j = {
	    .ns = xstrdup(ns), .user = xstrdup(user), .spec = *spec};
	const struct gw_flavor *flavor = NULL;
	uint64_t timeout_ms = 0;
	char *note = NULL;
	char id[JOB_ID_LEN + 1];
	struct live *l;
	int r;

	memset(spec, 0, sizeof(*spec));
	*existed = true;
	if ((r = find_request(js, ns, j.spec.request_id, out)) == 0)
		goto out;
	*existed = false;
	if ((r = check_room(js, ns, why)) != 0 ||
	    (r = resolve(js, ns, &j.spec, &flavor, &timeout_ms, &note, why)) !=
		0 ||
	    (r = insert(js, &j, why)) != 0)
		goto out;
	log_info("job.create", "job=%s namespace=%s user=%s flavor=%s", j.id,
		 log_esc(strv_of(ns)), log_esc(strv_of(user)), flavor->name);
	js->totals.created++;
	memcpy(id, j.id, sizeof(id));
	l = jobs_live_add(js, &j);
	l->note = note;
	note = NULL;
	jobs_run_start(l, flavor, timeout_ms);
	(void)jobs_flush(js); /* who has its id finds it again */
	if ((r = jobs_get(js, strv_of(ns), strv_of(id), out)) != 0)
		*why = xasprintf("job %s was made, and cannot be read: %s", id,
				 err_text(r));
	return r;
out:
	free(note);
	job_clear(&j);
	return r;
}

/* --- changing ---------------------------------------------------------- */
uint64_t
jobs_grace(const struct jobs *js, const struct job_spec *s)
{
	return s->has_grace ? s->grace_ms : js->o.conf->jobs.grace_ms;
}

int
jobs_stop(struct jobs *js, struct strv ns, struct strv id, struct strv by,
	  uint64_t grace_ms)
{
	struct live *l;
	struct job j;
	int r;

	if ((r = jobs_get(js, ns, id, &j)) != 0)
		return r;
	if (grace_ms == JOBS_GRACE)
		grace_ms = jobs_grace(js, &j.spec);
	job_clear(&j);
	if ((l = hash_get(js->live, id)) != NULL) {
		jobs_run_stop(l, by, grace_ms);
		(void)jobs_flush(js); /* before anybody is told that it ends */
	}
	return 0;
}

int
jobs_pause(struct jobs *js, struct strv ns, struct strv id, struct strv by,
	   bool pause, char **why)
{
	enum job_state state;
	struct job j;
	int r;

	if ((r = jobs_get(js, ns, id, &j)) != 0)
		return r;
	state = j.state;
	job_clear(&j);
	if (state == (pause ? JOB_PAUSED : JOB_RUNNING))
		return 0;
	if (state == (pause ? JOB_RUNNING : JOB_PAUSED))
		return jobs_run_pause(hash_get(js->live, id), by, pause, why);
	*why = xasprintf("the job is %s", job_state_name(state));
	return E_BUSY;
}

int
jobs_set_labels(struct jobs *js, struct strv ns, struct strv id,
		struct job_pairs *labels)
{
	struct live *l = hash_get(js->live, id);
	struct job j;
	int r;

	if ((r = jobs_get(js, ns, id, &j)) != 0) {
		jobspec_clear_pairs(labels);
		return r;
	}
	jobspec_clear_pairs(&j.spec.labels);
	j.spec.labels = *labels;
	memset(labels, 0, sizeof(*labels));
	if ((r = jobstore_labels(js->store, &j)) == 0)
		r = jobs_flush(js);
	if (r == 0 && l != NULL) { /* what it is does not change with them */
		jobspec_clear_pairs(&l->job.spec.labels);
		l->job.spec.labels = j.spec.labels;
		memset(&j.spec.labels, 0, sizeof(j.spec.labels));
	}
	job_clear(&j);
	return r;
}
