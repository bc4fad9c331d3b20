/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs and the launcher: a spec becomes what is started, what the launcher
 * tells becomes an event of the table in job.c. After a restart the same
 * callbacks come anew for jobs that are found; what is known already means
 * nothing then, except that their agents are announced again.
 */
#include "config.h"

#include "gateway/jobs.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "gateway/gwconf.h"
#include "gateway/jobs_int.h"
#include "gateway/route.h"

/* Of jobs that ended under an earlier gateway, as the route table keeps them.
 */
#define GONE_MS  (ROUTE_GONE_SECONDS * 1000LL)
#define GONE_MAX 4096

/* --- what runs --------------------------------------------------------- */
struct live *
jobs_live_add(struct jobs *js, struct job *j)
{
	struct live *l = xcalloc(1, sizeof(*l));

	l->js = js;
	l->job = *j;
	memset(j, 0, sizeof(*j));
	(void)hash_set(js->live, strv_of(l->job.id), l);
	return l;
}

void
jobs_live_free(struct live *l)
{
	launch_drop(l->launch);
	job_clear(&l->job);
	free(l->note);
	free(l->http);
	free(l);
}

const char *
jobs_agent(const struct jobs *js, struct strv id, const char **token)
{
	const struct live *l = hash_get(js->live, id);

	if (l == NULL || l->http == NULL || l->job.state != JOB_RUNNING)
		return NULL;
	*token = jobspec_pair(&l->job.spec.env, "SBX_TOKEN");
	return l->http;
}

static void
announce(struct live *l, const char *http, const char *control)
{
	l->js->o.announce(&l->job, http, control, l->js->o.arg);
}

static void
say_gone(struct jobs *js, const struct job *j)
{
	if (j->spec.sandbox)
		js->o.gone(j,
			   j->message != NULL ? j->message
					      : job_event_name(j->reason),
			   js->o.arg);
}

static void
add_note(struct live *l, const char *text)
{
	char *was = l->note;

	if (text[0] == '\0')
		return;
	l->note = was != NULL ? xasprintf("%s; %s", was, text) : xstrdup(text);
	free(was);
}

/* --- what the launcher tells ------------------------------------------- */
/* What was frozen, or let go, and not stored before a sudden end. */
static void
look_paused(struct live *l)
{
	bool paused = launch_paused(l->launch);

	if (paused && l->job.state == JOB_RUNNING)
		(void)jobs_step(l, JOB_EV_PAUSE, job_now_ms(), NULL, NULL);
	else if (!paused && l->job.state == JOB_PAUSED)
		(void)jobs_step(l, JOB_EV_RESUME, job_now_ms(), NULL, NULL);
}

static void
started_cb(struct launch *launch, const char *message, void *arg)
{
	struct live *l = arg;

	(void)launch;
	look_paused(l);
	add_note(l, message);
	if (!l->job.spec.sandbox)
		(void)jobs_step(l, JOB_EV_READY, job_now_ms(), NULL, l->note);
	else if (l->job.started_ms == 0 && jobspec_main(&l->job.spec))
		l->job.started_ms = job_now_ms(); /* stored with the next */
}

static void
ready_cb(struct launch *launch, const char *http, const char *control,
	 void *arg)
{
	struct live *l = arg;

	(void)launch;
	free(l->http);
	l->http = xstrdup(http);
	/* First the state, then the way in: nobody gets an answer from the
	 * agent of a job that is not said to run. */
	(void)jobs_step(l, JOB_EV_READY, job_now_ms(), NULL, l->note);
	if (l->job.state == JOB_RUNNING || l->job.state == JOB_PAUSED)
		announce(l, http, control);
}

static enum job_event
end_event(const struct launch_end *end)
{
	switch (end->reason) {
	case LAUNCH_EXITED:
		return end->signal != 0 ? JOB_EV_SIGNAL : JOB_EV_EXIT;
	case LAUNCH_TIMEOUT:
		return JOB_EV_TIMEOUT;
	case LAUNCH_STOPPED:
		return JOB_EV_STOPPED;
	case LAUNCH_UNSTARTED:
		return JOB_EV_START_FAILED;
	case LAUNCH_OOM:
		return JOB_EV_OOM;
	case LAUNCH_LOST:
		break;
	}
	return JOB_EV_LOST;
}

/* For people; what the launcher adds comes after it. */
static char *
end_text(const struct live *l, enum job_event ev, const struct launch_end *end)
{
	struct strbuf b = {0};

	switch (ev) {
	case JOB_EV_EXIT:
		if (end->code == 0 && l->job.spec.sandbox &&
		    !jobspec_main(&l->job.spec) &&
		    jobspec_pair(&l->job.spec.env, "SBX_IDLE_TIMEOUT") != NULL)
			strbuf_adds(&b, "ended after its idle time");
		else
			strbuf_addf(&b, "ended with exit code %d", end->code);
		break;
	case JOB_EV_SIGNAL:
		strbuf_addf(&b, "killed by signal %d (%s)", end->signal,
			    strsignal(end->signal));
		break;
	case JOB_EV_OOM:
		strbuf_adds(&b, "killed");
		break;
	case JOB_EV_TIMEOUT:
		strbuf_addf(&b, "timed out after %llu s",
			    (unsigned long long)l->job.spec.timeout_s);
		break;
	case JOB_EV_STOPPED:
		strbuf_adds(&b, "canceled");
		break;
	case JOB_EV_START_FAILED:
		strbuf_adds(&b, "could not be started");
		break;
	default:
		strbuf_adds(&b, "was lost");
		break;
	}
	if (end->message != NULL && end->message[0] != '\0' &&
	    strcmp(end->message, b.s) != 0)
		strbuf_addf(&b, ": %.*s", LAUNCH_TEXT, end->message);
	return strbuf_take(&b);
}

static void
ended_cb(struct launch *launch, const struct launch_end *end, void *arg)
{
	struct live *l = arg;
	enum job_event ev = end_event(end);
	int code = end->signal != 0 ? 128 + end->signal : end->code;
	int64_t at = end->time_ms != 0 ? (int64_t)end->time_ms : job_now_ms();
	char *text;

	launch_drop(launch);
	l->launch = NULL;
	/* Asked to end, it ended: how it went is in the exit code. */
	if (l->job.state == JOB_TERMINATING && l->job.reason == JOB_EV_STOP)
		ev = ev == JOB_EV_TIMEOUT ? ev : JOB_EV_STOPPED;
	text = end_text(l, ev, end);
	(void)jobs_step(l, ev, at, code >= 0 ? &code : NULL, text);
	free(text);
	say_gone(l->js, &l->job);
}

static const struct launch_cbs callbacks = {started_cb, ready_cb, ended_cb};

/* --- starting ---------------------------------------------------------- */
/* The agent's own settings that a job may choose. Beside a main process it is
 * not for the agent to end the job. */
static bool
agent_may_have(const struct job_spec *s, const char *name)
{
	if (jobspec_main(s) && strcmp(name, "SBX_IDLE_TIMEOUT") == 0)
		return false;
	return strncmp(name, "SBX_", 4) != 0 ||
	       strcmp(name, "SBX_TOKEN") == 0 ||
	       strcmp(name, "SBX_IDLE_TIMEOUT") == 0 ||
	       strcmp(name, "SBX_CAPACITY") == 0;
}

static struct launch_var *
variables(const struct job_spec *s, const struct job_pairs *p, size_t *n)
{
	struct launch_var *v = xcalloc(p->n + 1, sizeof(*v));

	*n = 0;
	for (size_t i = 0; i < p->n; i++) {
		if (p->v[i].value == NULL ||
		    (s->sandbox && !agent_may_have(s, p->v[i].key)))
			continue;
		v[*n].name = p->v[i].key;
		v[(*n)++].value = p->v[i].value;
	}
	return v;
}

static struct launch_file *
files(const struct job_spec *s)
{
	struct launch_file *v = xcalloc(s->nfiles + 1, sizeof(*v));

	for (size_t i = 0; i < s->nfiles; i++)
		v[i] = (struct launch_file){
		    .path = s->files[i].path,
		    .content = {s->files[i].data, s->files[i].len},
		    .mode = s->files[i].mode};
	return v;
}

static int
by_place(const void *a, const void *b)
{
	const struct launch_scratch *x = a, *y = b;

	return strcmp(x->path, y->path);
}

/* One in the other: the outer one first, or it would hide the inner one. */
static struct launch_scratch *
scratch(const struct job_spec *s, size_t *n)
{
	struct launch_scratch *v = xcalloc(s->nvolumes + 1, sizeof(*v));

	*n = 0;
	for (size_t i = 0; i < s->nvolumes; i++)
		if (jobspec_is_scratch(&s->volumes[i]))
			v[(*n)++] = (struct launch_scratch){
			    .name = s->volumes[i].source,
			    .path = s->volumes[i].path};
	qsort(v, *n, sizeof(*v), by_place);
	return v;
}

static const char **
words(const struct job_spec *s)
{
	const char **v = xcalloc(s->command.n + s->arguments.n + 1, sizeof(*v));
	size_t n = 0;

	for (size_t i = 0; i < s->command.n; i++)
		v[n++] = s->command.v[i];
	for (size_t i = 0; i < s->arguments.n; i++)
		v[n++] = s->arguments.v[i];
	return v;
}

static enum launch_mode
mode_of(const struct job_spec *s)
{
	const char *host = jobspec_pair(&s->env, "SBX_HOST_MODE");

	if (!s->sandbox)
		return LAUNCH_COMMAND;
	return host != NULL && strcmp(host, "1") == 0 ? LAUNCH_HOST
						      : LAUNCH_DEDICATED;
}

static int
launch_it(struct live *l, const struct gw_flavor *flavor, uint64_t timeout_ms,
	  char **why)
{
	const struct job_spec *s = &l->job.spec;
	struct launch_spec ls = {
	    .id = l->job.id,
	    .mode = mode_of(s),
	    .image = s->image != NULL ? s->image : s->space,
	    .flavor = s->flavor,
	    .timeout_ms = timeout_ms,
	    .memory = s->memory != 0 ? s->memory : flavor->memory,
	    .cpu_milli = s->cpu_milli != 0 ? s->cpu_milli : flavor->cpu_milli,
	    .pids = flavor->pids,
	    .log_max = l->js->o.conf->jobs.log_max};
	struct launch_var *env = variables(s, &s->env, &ls.nenv);
	struct launch_var *secrets = variables(s, &s->secrets, &ls.nsecrets);
	struct launch_file *fv = files(s);
	struct launch_scratch *sv = scratch(s, &ls.nscratch);
	const char **argv = words(s);
	int r;

	ls.argv = argv;
	if (!s->sandbox || jobspec_main(s))
		ls.nargv = s->command.n + s->arguments.n;
	ls.cwd = s->working_dir;
	ls.closed = s->closed;
	ls.prepare = (const char *const *)s->prepare.v;
	ls.nprepare = s->prepare.n;
	ls.files = fv;
	ls.nfiles = s->nfiles;
	ls.scratch = sv;
	if (s->has_grace) /* 0 is the launcher's default */
		ls.grace_ms = s->grace_ms != 0 ? s->grace_ms : 1;
	ls.env = env;
	ls.secrets = secrets;
	r = launch_start(l->js->o.launcher, &ls, &callbacks, l, &l->launch,
			 why);
	free(argv);
	free(fv);
	free(sv);
	free(env);
	free(secrets);
	return r;
}

void
jobs_run_start(struct live *l, const struct gw_flavor *flavor,
	       uint64_t timeout_ms)
{
	char *why = NULL;

	(void)jobs_step(l, JOB_EV_START, job_now_ms(), NULL, l->note);
	if (l->job.spec.sandbox)
		announce(l, NULL, NULL);
	if (launch_it(l, flavor, timeout_ms, &why) != 0) {
		struct launch_end end = {.reason = LAUNCH_UNSTARTED,
					 .code = -1,
					 .message = why != NULL ? why : ""};
		char *text = end_text(l, JOB_EV_START_FAILED, &end);

		l->launch = NULL;
		(void)jobs_step(l, JOB_EV_START_FAILED, job_now_ms(), NULL,
				text);
		say_gone(l->js, &l->job);
		free(text);
		free(why);
	}
	jobspec_forget(&l->job.spec); /* the launcher has them now */
}

void
jobs_run_stop(struct live *l, struct strv by, uint64_t grace_ms)
{
	char *text = xasprintf("canceled by %.*s", STRV_ARG(by));

	/* Nobody new comes in while it ends. */
	if (jobs_step(l, JOB_EV_STOP, job_now_ms(), NULL, text))
		say_gone(l->js, &l->job);
	free(text);
	/* Again with less grace is fine, and does no harm after the end. */
	if (l->launch != NULL)
		launch_stop(l->launch, grace_ms);
}

int
jobs_run_pause(struct live *l, struct strv by, bool pause, char **why)
{
	const char *text = "it does not run";
	char *message;

	if (l == NULL || l->launch == NULL ||
	    launch_pause(l->launch, pause, &text) != 0) {
		*why = xasprintf("the job cannot be %s: %s",
				 pause ? "paused" : "resumed", text);
		return E_BUSY;
	}
	message =
	    xasprintf("%s by %.*s", pause ? "paused" : "resumed", STRV_ARG(by));
	(void)jobs_step(l, pause ? JOB_EV_PAUSE : JOB_EV_RESUME, job_now_ms(),
			NULL, message);
	free(message);
	return 0;
}

/* --- after a restart --------------------------------------------------- */
struct found {
	struct jobs *js;
	struct job *v;
	size_t n;
};

static bool
found_cb(const struct job *j, void *arg)
{
	struct found *f = arg;

	f->v = xreallocarray(f->v, f->n + 1, sizeof(*f->v));
	if (jobstore_get(f->js->store, strv_of(j->id), &f->v[f->n]) == 0)
		f->n++;
	return true;
}

/* Their URLs say why they are gone. */
static bool
ended_before_cb(const struct job *j, void *arg)
{
	struct jobs *js = arg;

	say_gone(js, j);
	return true;
}

static bool
known_cb(const char *id, void *arg)
{
	struct jobs *js = arg;
	struct job j;

	if (jobstore_get(js->store, strv_of(id), &j) != 0)
		return false;
	job_clear(&j);
	return true;
}

void
jobs_adopt(struct jobs *js)
{
	struct found f = {.js = js};
	int r = jobstore_live(js->store, found_cb, &f);

	if (r == 0)
		r = jobstore_ended(js->store, job_now_ms() - GONE_MS, GONE_MAX,
				   ended_before_cb, js);

	for (size_t i = 0; i < f.n; i++) {
		struct live *l = jobs_live_add(js, &f.v[i]);

		if (l->job.spec.sandbox)
			announce(l, NULL, NULL);
		launch_adopt(js->o.launcher, l->job.id, &callbacks, l,
			     &l->launch);
		if (l->job.state == JOB_TERMINATING)
			launch_stop_again(l->launch,
					  jobs_grace(js, &l->job.spec));
	}
	free(f.v);
	if (f.n != 0)
		log_info("jobs.adopt", "jobs=%zu", f.n);
	if (js->adopted != NULL)
		js->adopted(js->adopted_arg);
	/* Not when the list of those that are known could not be read. */
	if (r == 0)
		launch_sweep(js->o.launcher, known_cb, js);
}
