/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs by command. A job is STARTING (its start command runs), WATCHED (its
 * status command is run again and again, the more seldom the longer nothing
 * changes), or OVER. One command of a job runs at a time; a stop waits for its
 * turn.
 *
 * What a new gateway must know is in the job's directory: `begun` (the start
 * command was run; the deadline in ms since 1970, 0: none), `token` and
 * `address` (of the registration), exit.json.
 */
#include "config.h"

#include "gateway/launch_command.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/token.h"
#include "gateway/command.h"
#include "gateway/gwconf.h"
#include "gateway/launch_command_int.h"
#include "gateway/launchlog.h"
#include "gateway/launchspec.h"
#include "gateway/template.h"
#include "net/addr.h"
#include "net/dialer.h"
#include "net/loop.h"

#define POLL_MIN_MS  200
#define FAILURES_MAX 10     /* of status, in a row: the job is lost */
#define STOP_MAX_MS  120000 /* beyond the grace, for a job to be gone */
#define LOG_MAX      (16U << 20)

const struct gw_launcher *
launch_command_settings(const struct cmd_job *j)
{
	struct cmd_launcher *l = CMD(j->base.launcher);

	return launchconf_launcher(&l->conf->launch, l->name);
}

static void next_step(struct cmd_job *j);
static void settle(void *arg);

static uint64_t
now_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* --- jobs -------------------------------------------------------------- */

static void timer_cb(void *arg);

static struct cmd_job *
job_new(struct cmd_launcher *l, const char *id)
{
	struct cmd_job *j = xcalloc(1, sizeof(*j));

	j->base.launcher = &l->base;
	(void)snprintf(j->base.id, sizeof(j->base.id), "%s", id);
	j->dir = launch_dir(&l->base, id);
	j->poll_ms = POLL_MIN_MS;
	j->code = -1;
	task_init(&j->task, settle, j);
	timer_init(&j->timer, l->loop, timer_cb, j);
	j->prevp = &l->jobs;
	if ((j->next = l->jobs) != NULL)
		j->next->prevp = &j->next;
	l->jobs = j;
	return j;
}

struct cmd_job *
launch_command_find(struct cmd_launcher *l, const char *id)
{
	for (struct cmd_job *j = l->jobs; j != NULL; j = j->next)
		if (strcmp(j->base.id, id) == 0)
			return j;
	return NULL;
}

static void
job_free(struct cmd_job *j)
{
	*j->prevp = j->next;
	if (j->next != NULL)
		j->next->prevp = j->prevp;
	if (j->cmd != NULL)
		command_cancel(j->cmd);
	if (j->dial != NULL)
		dial_cancel(j->dial);
	task_cancel(&j->task);
	timer_clear(&j->timer);
	template_free(j->start);
	free(j->message);
	free(j->dir);
	loop_defer_free(CMD(j->base.launcher)->loop, j, NULL);
}

/* --- the end ----------------------------------------------------------- */

static void
removed_cb(int status, const char *out, const char *err, void *arg)
{
	(void)out;
	(void)arg;
	if (status != 0)
		log_warn("launch.remove", "error=%s", log_esc(strv_of(err)));
}

static void
over(struct cmd_job *j, enum launch_reason reason, const char *message)
{
	struct cmd_launcher *l = CMD(j->base.launcher);
	const struct gw_launcher *s = launch_command_settings(j);
	struct launch_end e = {.reason = reason,
			       .code = j->code,
			       .time_ms = now_ms(),
			       .message = message};
	char **argv, *why = NULL, *text;

	j->state = OVER;
	timer_stop(&j->timer);
	launch_command_unlink(j->dir, "env");
	launch_command_unlink(j->dir, "env.sh");
	launch_command_unlink(j->dir, "token");
	launch_command_put_end(j, &e);
	if (s != NULL && s->remove != NULL && j->start == NULL &&
	    (argv = launch_command_expand(j, NULL, s->remove, &why)) != NULL) {
		(void)command_start(l->loop, argv, s->timeout_ms, removed_cb,
				    NULL);
		template_free(argv);
	}
	free(why);
	log_info("launch.end", "job=%s reason=%s code=%d", j->base.id,
		 launch_reason_text(reason), j->code);
	text = xstrndup(message, LAUNCH_TEXT - 1);
	e.message = text;
	j->base.cbs->ended(&j->base, &e, j->base.arg); /* j may be gone */
	free(text);
}

/* --- commands ---------------------------------------------------------- */

static void
run(struct cmd_job *j, char **argv, command_done_cb done)
{
	const struct gw_launcher *s = launch_command_settings(j);

	j->cmd = command_start(CMD(j->base.launcher)->loop, argv,
			       s != NULL ? s->timeout_ms : 60000, done, j);
}

/* Runs a configured line; false: it cannot be. */
static bool
run_line(struct cmd_job *j, const char *line, command_done_cb done)
{
	char *why = NULL, **argv = launch_command_expand(j, NULL, line, &why);

	if (argv == NULL) {
		log_error("launch.command", "job=%s error=%s", j->base.id,
			  log_esc(strv_of(why)));
		free(why);
		return false;
	}
	run(j, argv, done);
	template_free(argv);
	return true;
}

/* --- status ------------------------------------------------------------ */

void
launch_command_started(struct cmd_job *j)
{
	if (j->said_started)
		return;
	j->said_started = true;
	j->base.cbs->started(&j->base, "", j->base.arg);
}

static void
ended(struct cmd_job *j)
{
	if (j->ending)
		over(j, j->why, j->why == LAUNCH_TIMEOUT ? "timed out" : "");
	else
		over(j, LAUNCH_EXITED, "");
}

static void
lost(struct cmd_job *j, const char *err)
{
	char *text = xasprintf("status: %s", *err != '\0' ? err : "no answer");

	over(j, j->ending ? j->why : LAUNCH_LOST, text);
	free(text);
}

static void
status_cb(int status, const char *out, const char *err, void *arg)
{
	struct cmd_job *j = arg;
	enum launch_command_state st =
	    status == 0 ? launch_command_parse(out, &j->code) : CMD_UNKNOWN;

	j->cmd = NULL;
	launchlog_pump(j->dir, LOG_MAX, st == CMD_ENDED);
	j->failures = st == CMD_UNKNOWN ? j->failures + 1 : 0;
	switch (st) {
	case CMD_ENDED:
		ended(j);
		return;
	case CMD_RUNNING:
		launch_command_started(j);
		break;
	case CMD_PENDING:
		break;
	case CMD_UNKNOWN:
		/* What was told to stop, and cannot be asked any more, has. */
		if (j->failures >= (j->stopped_ms != 0 ? 3 : FAILURES_MAX)) {
			lost(j, err);
			return;
		}
		break;
	}
	next_step(j);
}

static void
stopped_cb(int status, const char *out, const char *err, void *arg)
{
	struct cmd_job *j = arg;

	(void)out;
	j->cmd = NULL;
	j->stop_failed = status != 0;
	if (status != 0)
		log_warn("launch.stop", "job=%s error=%s", j->base.id,
			 log_esc(strv_of(err)));
	j->poll_ms = POLL_MIN_MS;
	next_step(j);
}

static void
begin_end(struct cmd_job *j, enum launch_reason why, uint64_t grace_ms)
{
	uint64_t gone = j->stopped_ms != 0 ? now_ms() - j->stopped_ms : 0;

	/* Again only with a grace that is over earlier. */
	if (j->ending && !j->stop_failed && grace_ms + gone >= j->grace_ms)
		return;
	if (!j->ending)
		j->why = why;
	j->ending = j->stop_due = true;
	j->grace_ms = grace_ms;
}

/* After each command: what comes next, and when. */
static void
next_step(struct cmd_job *j)
{
	const struct gw_launcher *s = launch_command_settings(j);
	uint64_t wait = j->poll_ms, now = now_ms(),
		 max = s != NULL ? s->poll_ms : 5000;

	if (j->state != WATCHED || j->cmd != NULL)
		return;
	if (j->deadline_ms != 0 && now >= j->deadline_ms && !j->ending)
		begin_end(j, LAUNCH_TIMEOUT, 10000);
	if (j->stop_due && s != NULL) {
		j->stop_due = false;
		j->stopped_ms = now;
		if (run_line(j, s->stop, stopped_cb))
			return;
	}
	if (j->stopped_ms != 0 &&
	    now > j->stopped_ms + j->grace_ms + STOP_MAX_MS) {
		over(j, j->why, "it was told to stop, and may still run");
		return;
	}
	if (j->deadline_ms > now && !j->ending && j->deadline_ms - now < wait)
		wait = j->deadline_ms - now;
	timer_set(&j->timer, wait);
	j->poll_ms += j->poll_ms / 2;
	if (j->poll_ms > max)
		j->poll_ms = max;
}

static void
timer_cb(void *arg)
{
	struct cmd_job *j = arg;
	const struct gw_launcher *s = launch_command_settings(j);

	if (j->cmd != NULL || j->state != WATCHED)
		return;
	if (j->stop_due ||
	    (!j->ending && j->deadline_ms != 0 && now_ms() >= j->deadline_ms))
		next_step(j);
	else if (s == NULL || !run_line(j, s->status, status_cb))
		next_step(j);
}

/* --- start ------------------------------------------------------------- */

static void
watch(struct cmd_job *j)
{
	j->state = WATCHED;
	launch_command_agent(j);
	next_step(j);
}

static void
started_cb(int status, const char *out, const char *err, void *arg)
{
	struct cmd_job *j = arg;
	char *text;

	(void)out;
	j->cmd = NULL;
	launch_command_unlink(j->dir, "env");
	if (status == 0) {
		watch(j);
		return;
	}
	text = xasprintf("start: %s (exit code %d)",
			 *err != '\0' ? err : "no message", status);
	over(j, LAUNCH_UNSTARTED, text);
	free(text);
}

static void
settle(void *arg)
{
	struct cmd_job *j = arg;
	struct launchspec_end e;
	char deadline[24];

	if (j->state == STARTING && j->ending) {
		over(j, j->why, "stopped before it was started");
	} else if (j->state == STARTING) {
		(void)snprintf(deadline, sizeof(deadline), "%llu\n",
			       (unsigned long long)j->deadline_ms);
		(void)!launch_command_put(j->dir, "begun", deadline);
		run(j, j->start, started_cb);
		template_free(j->start);
		j->start = NULL;
	} else if (j->state == WATCHED) {
		watch(j);
	} else if (launchspec_read_end(j->dir, &e) == 0) {
		j->base.cbs->ended(&j->base, &e.end, j->base.arg);
	} else {
		over(j, LAUNCH_LOST, "it was never started");
	}
}

static int
cmd_start(struct launcher *base, const struct launch_spec *spec,
	  struct launch **out, char **why)
{
	struct cmd_launcher *l = CMD(base);
	const struct gw_launcher *s =
	    launchconf_launcher(&l->conf->launch, l->name);
	struct cmd_job *j;
	int r = 0;

	if (s == NULL) {
		*why = xasprintf("[launcher %s] is gone", l->name);
		return E_NOTFOUND;
	}
	*why = NULL;
	if (spec->nfiles != 0 || spec->nscratch != 0 || spec->nprepare != 0 ||
	    spec->cwd != NULL || spec->closed ||
	    (spec->mode != LAUNCH_COMMAND && spec->nargv != 0)) {
		*why = xasprintf(
		    "[launcher %s]: files, scratch volumes, a snapshot, a "
		    "working directory, no network, or a command beside the "
		    "agent are for the local launcher",
		    l->name);
		return E_INVALID;
	}
	j = job_new(l, spec->id);
	if (mkdir(j->dir, 0711) != 0) {
		r = errno == EEXIST ? E_EXISTS : E_SYS;
		*why = xasprintf("%s: %s", j->dir, strerror(errno));
		job_free(j);
		return r;
	}
	(void)chmod(j->dir, 0711);
	if (spec->timeout_ms != 0)
		j->deadline_ms = now_ms() + spec->timeout_ms;
	j->start = launch_command_expand(j, spec, s->start, why);
	if (j->start == NULL)
		r = E_INVALID;
	else
		r = launch_command_put_env(j, spec, why);
	if (r != 0) {
		launch_remove(base, spec->id);
		job_free(j);
		return r;
	}
	task_post(l->loop, &j->task);
	*out = &j->base;
	return 0;
}

static void
cmd_adopt(struct launcher *base, const char *id, struct launch **out)
{
	struct cmd_launcher *l = CMD(base);
	struct cmd_job *j = job_new(l, id);
	char *begun = launch_command_get(j->dir, "begun");
	struct launchspec_end e;

	j->state = OVER;
	if (begun != NULL && launchspec_read_end(j->dir, &e) != 0) {
		j->state = WATCHED;
		if (strv_parse_u64(strv_of(begun), UINT64_MAX, true,
				   &j->deadline_ms) != 0)
			j->deadline_ms = 0;
	}
	free(begun);
	task_post(l->loop, &j->task);
	*out = &j->base;
}

static void
cmd_stop(struct launch *base, uint64_t grace_ms)
{
	struct cmd_job *j = JOB(base);

	if (j->state == OVER)
		return;
	begin_end(j, LAUNCH_STOPPED, grace_ms);
	if (j->state == WATCHED && j->cmd == NULL)
		timer_set(&j->timer, 0);
}

static void
cmd_drop(struct launch *base)
{
	job_free(JOB(base));
}

/* --- the launcher ------------------------------------------------------ */

static void
cmd_free(struct launcher *base)
{
	struct cmd_launcher *l = CMD(base);

	while (l->jobs != NULL)
		job_free(l->jobs);
	free(l->base.jobs_dir);
	free(l->name);
	loop_defer_free(l->loop, l, NULL);
}

static void
cmd_set_conf(struct launcher *base, const struct gw_conf *conf)
{
	CMD(base)->conf = conf;
}

static const struct launcher_ops ops = {
    .free = cmd_free,
    .set_conf = cmd_set_conf,
    .start = cmd_start,
    .adopt = cmd_adopt,
    .sweep = launch_command_sweep,
    .stop = cmd_stop,
    .drop = cmd_drop,
    .remove = launch_command_remove,
    .reg = launch_command_register,
};

int
launch_command_new(const struct launch_options *o, const char *name,
		   struct launcher **out, char **why)
{
	struct cmd_launcher *l;
	int r;

	if (launchconf_launcher(&o->conf->launch, name) == NULL) {
		*why = xasprintf("launcher \"%s\": there is no [launcher %s]",
				 name, name);
		return E_NOTFOUND;
	}
	if ((r = dir_make(o->jobs_dir, 0711)) != 0) {
		*why = xasprintf("%s: %s", o->jobs_dir, err_text(r));
		return r;
	}
	l = xcalloc(1, sizeof(*l));
	l->base.ops = &ops;
	l->base.jobs_dir = xstrdup(o->jobs_dir);
	l->loop = o->loop;
	l->name = xstrdup(name);
	l->conf = o->conf;
	l->worker_uid = o->worker_uid;
	*out = &l->base;
	return 0;
}
