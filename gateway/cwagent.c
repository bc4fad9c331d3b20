/* SPDX-License-Identifier: Apache-2.0 */
/* See the header. */
#include "config.h"

#include "gateway/cwagent.h"

#include <stdlib.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "gateway/agentcall.h"
#include "gateway/cwsvc_int.h"

#define START_MS 120000 /* at most, for one that is being made */
#define LOOK_MS  100    /* after a restart no step tells of an agent */

/* --- refusals ---------------------------------------------------------- */

void
cwagent_lost(struct cwcall *c, const char *what)
{
	cwcall_fail(c, CW_UNAVAILABLE, CWERR_RUNNER_UNAVAILABLE,
		    "the sandbox does not answer: %s", what);
}

void
cwagent_refused(struct cwcall *c, const struct agentcall_no *no)
{
	if (no->status == 429 || strcmp(no->code, "limit") == 0)
		cwcall_fail(c, CW_RESOURCE_EXHAUSTED, NULL, "%s", no->text);
	else if (no->status == 403)
		cwcall_fail(c, CW_FAILED_PRECONDITION, NULL,
			    "the sandbox has a token of its own, which only "
			    "who made it knows");
	else if (no->status == 400 && strcmp(no->code, "cannot_start") != 0)
		cwcall_fail(c, CW_INVALID_ARGUMENT, CWERR_INVALID_REQUEST, "%s",
			    no->text);
	else
		cwcall_fail(c, CW_UNAVAILABLE, CWERR_RUNNER_UNAVAILABLE, "%s",
			    no->text);
}

int
cwagent_container(struct cwcall *c, const struct job *j, const char *name)
{
	char *ours;
	int r = 0;

	if (name[0] == '\0')
		return 0;
	ours = cwbox_container(j);
	if (strcmp(name, ours) != 0) {
		cwcall_bad_field(c, "container",
				 "this sandbox has no container of that name, "
				 "but \"%s\"",
				 ours);
		r = E_NOTFOUND;
	}
	free(ours);
	return r;
}

/* --- waiting ----------------------------------------------------------- */

static void
stop_waiting(struct cwagent *w)
{
	if (!w->waits)
		return;
	w->waits = false;
	jobs_watch_del(&w->watch);
	timer_clear(&w->look);
	timer_clear(&w->most);
}

void
cwagent_clear(struct cwagent *w)
{
	stop_waiting(w);
	free(w->cwd);
	w->cwd = NULL;
}

static void
not_running(struct cwagent *w, enum job_state state)
{
	stop_waiting(w);
	cwcall_fail(w->c, CW_FAILED_PRECONDITION, NULL,
		    "sandbox \"%s\" is not running: it is %s", w->id,
		    job_state_name(state));
}

/* True when it is decided. */
static bool
decide(struct cwagent *w, enum job_state state)
{
	struct agentcall_to to = {NULL, NULL};

	if (state == JOB_RUNNING)
		to.address =
		    jobs_agent(w->c->svc->o.jobs, strv_of(w->id), &to.token);
	if (to.address != NULL) {
		stop_waiting(w);
		w->ready(&to, w->arg);
		return true;
	}
	if (state == JOB_PENDING || state == JOB_CREATING ||
	    state == JOB_RUNNING)
		return false;
	not_running(w, state);
	return true;
}

static void
step_cb(const char *id, const struct job_step *st, void *arg)
{
	(void)id;
	(void)decide(arg, st->state);
}

static void
look_cb(void *arg)
{
	struct cwagent *w = arg;
	struct job j;

	if (jobs_get(w->c->svc->o.jobs, w->c->ns, strv_of(w->id), &j) != 0) {
		stop_waiting(w);
		cwsvc_not_found(w->c, w->id);
		return;
	}
	if (!decide(w, j.state))
		timer_set(&w->look, LOOK_MS);
	job_clear(&j);
}

static void
most_cb(void *arg)
{
	struct cwagent *w = arg;

	stop_waiting(w);
	cwagent_lost(w->c, "it is still being started");
}

static void
wait_for(struct cwagent *w)
{
	struct cwsvc *svc = w->c->svc;

	w->waits = true;
	w->watch.fn = step_cb;
	w->watch.arg = w;
	jobs_watch_add(svc->o.jobs, &w->watch, w->c->ns, strv_of(w->id));
	timer_init(&w->look, svc->o.loop, look_cb, w);
	timer_init(&w->most, svc->o.loop, most_cb, w);
	timer_set(&w->look, LOOK_MS);
	timer_set(&w->most, START_MS);
}

void
cwagent_find(struct cwagent *w, struct cwcall *c, const struct cwmsg *m,
	     void (*ready)(const struct agentcall_to *to, void *arg), void *arg)
{
	struct job j;

	memset(w, 0, sizeof(*w));
	w->c = c;
	w->ready = ready;
	w->arg = arg;
	if (cwsvc_find(c, cwmsg_text(m, "sandbox_id"), &j) != 0)
		return;
	memcpy(w->id, j.id, sizeof(w->id));
	if (j.spec.working_dir != NULL)
		w->cwd = xstrdup(j.spec.working_dir);
	if (cwagent_container(c, &j, cwmsg_text(m, "container")) == 0 &&
	    !decide(w, j.state))
		wait_for(w);
	job_clear(&j);
}
