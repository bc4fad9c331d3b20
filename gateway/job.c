/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a job as a table. A stop that comes while a start is in flight
 * needs no care elsewhere: READY means nothing in TERMINATING, so a start that
 * finishes later cannot bring the job back.
 */
#include "config.h"

#include "gateway/job.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/mem.h"

#define BIT(s)  (1U << (s))
#define LIVE    (BIT(JOB_RUNNING) | BIT(JOB_PAUSED))
#define STARTED (BIT(JOB_CREATING) | LIVE)
#define OPEN    (BIT(JOB_PENDING) | STARTED)

/* Several rows for one event: the first that fits. */
static const struct {
	enum job_event ev;
	unsigned from;
	enum job_state to;
} steps[] = {
    {JOB_EV_CREATE, BIT(JOB_UNSPECIFIED), JOB_PENDING},
    {JOB_EV_START, BIT(JOB_PENDING), JOB_CREATING},
    {JOB_EV_READY, BIT(JOB_CREATING), JOB_RUNNING},
    {JOB_EV_PAUSE, BIT(JOB_RUNNING), JOB_PAUSED},
    {JOB_EV_RESUME, BIT(JOB_PAUSED), JOB_RUNNING},
    /* Nothing was started yet: there is nothing to wait for. */
    {JOB_EV_STOP, BIT(JOB_PENDING), JOB_TERMINATED},
    {JOB_EV_STOP, STARTED, JOB_TERMINATING},
    {JOB_EV_EXIT, STARTED, JOB_COMPLETED},
    {JOB_EV_EXIT, BIT(JOB_TERMINATING), JOB_TERMINATED},
    {JOB_EV_SIGNAL, STARTED, JOB_COMPLETED},
    {JOB_EV_SIGNAL, BIT(JOB_TERMINATING), JOB_TERMINATED},
    {JOB_EV_OOM, STARTED, JOB_FAILED},
    {JOB_EV_OOM, BIT(JOB_TERMINATING), JOB_TERMINATED},
    {JOB_EV_STOPPED, STARTED | BIT(JOB_TERMINATING), JOB_TERMINATED},
    {JOB_EV_TIMEOUT, STARTED | BIT(JOB_TERMINATING), JOB_TERMINATED},
    {JOB_EV_START_FAILED, BIT(JOB_PENDING) | BIT(JOB_CREATING), JOB_FAILED},
    {JOB_EV_START_FAILED, BIT(JOB_TERMINATING), JOB_TERMINATED},
    {JOB_EV_LOST, OPEN, JOB_FAILED},
    {JOB_EV_LOST, BIT(JOB_TERMINATING), JOB_TERMINATED},
};

static const char *const state_names[JOB_STATES] = {
    "UNSPECIFIED", "CREATING",   "RUNNING", "COMPLETED", "FAILED",
    "TERMINATING", "TERMINATED", "PENDING", "PAUSED"};

static const char *const event_names[JOB_EVENTS] = {
    "create", "start", "ready",   "pause",   "resume",       "stop", "exit",
    "signal", "oom",   "stopped", "timeout", "start_failed", "lost"};

static const char *const stage_names[JOB_STAGES] = {
    "SCHEDULING", "RUNNING", "COMPLETED", "CANCELED", "ERROR", "DELETED"};

void
job_clear(struct job *j)
{
	free(j->ns);
	free(j->user);
	free(j->message);
	jobspec_clear(&j->spec);
	memset(j, 0, sizeof(*j));
}

bool
job_next(enum job_state from, enum job_event ev, enum job_state *to)
{
	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		if (steps[i].ev != ev || (steps[i].from & BIT(from)) == 0)
			continue;
		*to = steps[i].to;
		return true;
	}
	return false;
}

bool
job_apply(struct job *j, enum job_event ev, int64_t at_ms, const int *exit_code,
	  const char *text)
{
	enum job_state from = j->state, to;
	bool asked;

	if (!job_next(from, ev, &to))
		return false;
	/* Who was stopped ended because of that, however it went. */
	asked = from == JOB_TERMINATING && j->reason == JOB_EV_STOP;
	j->state = to;
	j->reason = asked ? JOB_EV_STOPPED : ev;
	free(j->message);
	j->message = text != NULL ? xstrdup(text) : NULL;
	j->changed_ms = at_ms;
	if (ev == JOB_EV_CREATE)
		j->created_ms = at_ms;
	if (ev == JOB_EV_READY && j->started_ms == 0)
		j->started_ms = at_ms;
	if (job_final(to)) {
		/* When it ended is the launcher's word, when it started ours:
		 * later, for a job that was quick. */
		j->finished_ms = at_ms > j->started_ms ? at_ms : j->started_ms;
		j->changed_ms = j->finished_ms;
		j->has_exit = exit_code != NULL;
		j->exit_code = exit_code != NULL ? *exit_code : 0;
	}
	return true;
}

bool
job_final(enum job_state s)
{
	return s == JOB_COMPLETED || s == JOB_FAILED || s == JOB_TERMINATED;
}

enum job_stage
job_stage(enum job_state s, enum job_event reason, bool has_exit, int exit_code)
{
	switch (s) {
	case JOB_PENDING:
	case JOB_CREATING:
		return STAGE_SCHEDULING;
	case JOB_RUNNING:
	case JOB_PAUSED:
		return STAGE_RUNNING;
	case JOB_COMPLETED:
		return has_exit && exit_code == 0 ? STAGE_COMPLETED
						  : STAGE_ERROR;
	case JOB_FAILED:
		return STAGE_ERROR;
	case JOB_TERMINATING: /* its user has let go of it */
		return STAGE_CANCELED;
	case JOB_TERMINATED:
		return reason == JOB_EV_TIMEOUT ? STAGE_ERROR : STAGE_CANCELED;
	case JOB_UNSPECIFIED:
		break;
	}
	return STAGE_DELETED;
}

enum job_stage
job_stage_of(const struct job *j)
{
	return job_stage(j->state, j->reason, j->has_exit, j->exit_code);
}

/* --- names ------------------------------------------------------------- */
const char *
job_state_name(enum job_state s)
{
	return state_names[s];
}

const char *
job_event_name(enum job_event ev)
{
	return event_names[ev];
}

const char *
job_stage_name(enum job_stage s)
{
	return stage_names[s];
}

static int
find_name(const char *const *names, size_t n, struct strv name, size_t *out)
{
	for (size_t i = 0; i < n; i++) {
		if (!strv_eq(name, strv_of(names[i])))
			continue;
		*out = i;
		return 0;
	}
	return E_INVALID;
}

int
job_state_parse(struct strv name, enum job_state *out)
{
	size_t i;

	if (find_name(state_names, JOB_STATES, name, &i) != 0)
		return E_INVALID;
	*out = (enum job_state)i;
	return 0;
}

int
job_event_parse(struct strv name, enum job_event *out)
{
	size_t i;

	if (find_name(event_names, JOB_EVENTS, name, &i) != 0)
		return E_INVALID;
	*out = (enum job_event)i;
	return 0;
}

int
job_stage_parse(struct strv name, enum job_stage *out)
{
	size_t i;

	if (find_name(stage_names, JOB_STAGES, name, &i) != 0)
		return E_INVALID;
	*out = (enum job_stage)i;
	return 0;
}

bool
job_id_ok(struct strv id)
{
	if (id.len != JOB_ID_LEN)
		return false;
	for (size_t i = 0; i < id.len; i++)
		if (!((id.p[i] >= '0' && id.p[i] <= '9') ||
		      (id.p[i] >= 'a' && id.p[i] <= 'f')))
			return false;
	return true;
}

/* --- time -------------------------------------------------------------- */
void
job_add_time(struct strbuf *b, int64_t ms)
{
	time_t s = (time_t)(ms / 1000);
	char text[40];
	struct tm tm;

	(void)gmtime_r(&s, &tm);
	(void)strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	strbuf_addf(b, "%s.%03dZ", text, (int)(ms % 1000));
}

int64_t
job_now_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}
