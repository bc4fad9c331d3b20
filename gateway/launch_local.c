/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs on this machine. A job is WAITING (its directory is complete, its turn
 * will come), STARTING, RUNNING (its supervisor said so), or OVER. What the
 * launcher knows of a job it has from the job's directory and from job.sock;
 * it keeps nothing that another gateway process could not find again.
 *
 * The supervisor unlinks spec.json when it has read it. So a spec.json that is
 * there means that no supervisor has ever read it, and one can be started.
 */
#include "config.h"

#include "gateway/launch_local.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "gateway/detach.h"
#include "gateway/gwconf.h"
#include "gateway/launch_local_int.h"
#include "gateway/launchspec.h"
#include "net/loop.h"
#include "net/seqpkt.h"

#define FROZEN_MS 15000 /* beyond the grace: a supervisor does not act */

static void settle(void *arg);
static void start_waiting(struct local *l);

/* --- programs ---------------------------------------------------------- */

static char *
find_agent(const struct gw_launch *conf)
{
	char self[4096], *slash, *path;
	ssize_t n;

	if (conf->agent != NULL)
		return xstrdup(conf->agent);
	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	self[n > 0 ? n : 0] = '\0';
	if ((slash = strrchr(self, '/')) != NULL) {
		*slash = '\0';
		path = xasprintf("%s/sbx-agent", self);
		if (access(path, X_OK) == 0)
			return path;
		free(path);
	}
	return xstrdup("sbx-agent");
}

static char *
find_outbound(const struct gw_launch *conf)
{
	static const char *const programs[] = {
	    "/usr/bin/pasta", "/usr/local/bin/pasta", "/usr/bin/slirp4netns",
	    "/usr/local/bin/slirp4netns"};

	if (strcmp(conf->outbound, "none") == 0)
		return NULL;
	if (strcmp(conf->outbound, "auto") != 0)
		return xstrdup(conf->outbound);
	for (size_t i = 0; i < ARRAY_LEN(programs); i++)
		if (access(programs[i], X_OK) == 0)
			return xstrdup(programs[i]);
	return NULL;
}

/* --- jobs -------------------------------------------------------------- */

static struct local_job *
job_new(struct local *l, const char *id)
{
	struct local_job *j = xcalloc(1, sizeof(*j));

	j->base.launcher = &l->base;
	(void)snprintf(j->base.id, sizeof(j->base.id), "%s", id);
	j->dir = launch_dir(&l->base, id);
	j->slot = LOCAL_NO_SLOT;
	task_init(&j->task, settle, j);
	j->prevp = &l->jobs;
	if ((j->next = l->jobs) != NULL)
		j->next->prevp = &j->next;
	l->jobs = j;
	return j;
}

struct local_job *
launch_local_find(struct local *l, const char *id)
{
	for (struct local_job *j = l->jobs; j != NULL; j = j->next)
		if (strcmp(j->base.id, id) == 0)
			return j;
	return NULL;
}

bool
launch_local_order(struct local_job *j, const char *order)
{
	return j->sp != NULL && seqpkt_send(j->sp, strv_of(order), -1) == 0;
}

static void
leave_start(struct local_job *j)
{
	if (j->state == STARTING)
		LOCAL(j->base.launcher)->starting--;
}

static void
job_free(struct local_job *j)
{
	struct local *l = LOCAL(j->base.launcher);

	leave_start(j);
	if (j->state == OVER)
		launch_local_keep_slot(j);
	*j->prevp = j->next;
	if (j->next != NULL)
		j->next->prevp = j->prevp;
	task_cancel(&j->task);
	timer_clear(&j->frozen);
	if (j->sp != NULL)
		seqpkt_close(j->sp);
	free(j->dir);
	loop_defer_free(l->loop, j, NULL);
}

/* --- the end ----------------------------------------------------------- */

static void
over(struct local_job *j, const struct launch_end *end)
{
	struct local *l = LOCAL(j->base.launcher);

	leave_start(j);
	j->state = OVER;
	timer_stop(&j->frozen);
	if (j->sp != NULL)
		seqpkt_close(j->sp);
	j->sp = NULL;
	launch_local_keep_over(j);
	log_info("launch.end", "job=%s reason=%s code=%d signal=%d", j->base.id,
		 launch_reason_text(end->reason), end->code, end->signal);
	j->base.cbs->ended(&j->base, end, j->base.arg); /* j may be gone */
	start_waiting(l);
}

static void
over_without(struct local_job *j, enum launch_reason reason, const char *text)
{
	struct timespec ts;
	struct launch_end end = {.reason = reason, .code = -1, .message = text};

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	end.time_ms =
	    (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
	over(j, &end);
}

/* Its supervisor is gone, or was never there. */
static void
over_as_written(struct local_job *j)
{
	struct local *l = LOCAL(j->base.launcher);
	struct launchspec_end e;

	if (launchspec_read_end(j->dir, &e) == 0) {
		over(j, &e.end);
		return;
	}
	if (launch_local_exists(j->dir, "."))
		launch_local_clean(l, j->dir, false);
	over_without(j, LAUNCH_LOST, "its supervisor is gone");
}

/* --- job.sock ---------------------------------------------------------- */

static void
message_cb(struct seqpkt *sp, struct strv msg, int fd, void *arg)
{
	struct local_job *j = arg;
	struct strv verb;
	char *http, *control;

	(void)sp;
	fd_close(&fd);
	if (j->state == OVER || !strv_cut(&msg, ' ', &verb))
		return;
	if (strv_eq(verb, STRV("preparing"))) {
		leave_start(j); /* this may take long, and costs little */
		j->state = RUNNING;
		start_waiting(LOCAL(j->base.launcher));
	} else if (strv_eq(verb, STRV("started"))) {
		leave_start(j);
		j->state = RUNNING;
		start_waiting(LOCAL(j->base.launcher));
		j->base.cbs->started(&j->base, msg.p != NULL ? msg.p : "",
				     j->base.arg);
	} else if (strv_eq(verb, STRV("ready"))) {
		http = xasprintf("unix:%s/agent.sock", j->dir);
		control = xasprintf("%s/control.sock", j->dir);
		j->base.cbs->ready(&j->base, http, control, j->base.arg);
		free(http);
		free(control);
	}
}

static int
reach(struct local_job *j)
{
	char *path = xasprintf("%s/job.sock", j->dir);
	int fd, r = seqpkt_connect(path, &fd);

	free(path);
	return r == 0 ? fd : r;
}

static void take_channel(struct local_job *j, int fd);

/* The supervisor closes when exit.json is there. */
static void
closed_cb(struct seqpkt *sp, void *arg)
{
	struct local_job *j = arg;
	int fd;

	seqpkt_close(sp);
	j->sp = NULL;
	if (!launch_local_exists(j->dir, "exit.json") && !j->retried &&
	    (fd = reach(j)) >= 0) {
		j->retried = true;
		take_channel(j, fd);
		return;
	}
	over_as_written(j);
}

static void
take_channel(struct local_job *j, int fd)
{
	static const struct seqpkt_cbs cbs = {message_cb, closed_cb};

	j->sp = seqpkt_take_fd(LOCAL(j->base.launcher)->loop, fd, &cbs, j);
}

/* --- start ------------------------------------------------------------- */

static int
start_supervisor(struct local_job *j)
{
	struct local *l = LOCAL(j->base.launcher);
	char job[] = "job", opt[] = "--inherited", name[] = "sbx-agent";
	char *argv[] = {name, job, opt, j->dir, NULL};
	char *path = xasprintf("%s/job.sock", j->dir);
	int fds[2] = {-1, -1}, pair[2] = {-1, -1}, r, eno;

	r = seqpkt_bind(path, 0600, (uid_t)-1, (gid_t)-1, &fds[0]);
	if (r == 0)
		r = seqpkt_pair(pair);
	fds[1] = pair[1];
	if (r == 0 && detach_start(l->agent, argv, fds, 2) != 0)
		r = E_SYS;
	eno = errno;
	fd_close(&fds[0]);
	fd_close(&pair[1]);
	free(path);
	if (r != 0)
		fd_close(&pair[0]);
	else
		take_channel(j, pair[0]);
	errno = eno;
	return r;
}

static void
unstarted(struct local_job *j, int r)
{
	struct local *l = LOCAL(j->base.launcher);
	char *text = xasprintf("%s: %s", l->agent,
			       r == E_SYS ? strerror(errno) : err_text(r));

	launch_local_unlink(j->dir, "spec.json");
	over_without(j, LAUNCH_UNSTARTED, text);
	free(text);
}

/* What start() and adopt() leave to be done, since they do not call back. */
static void
settle(void *arg)
{
	struct local_job *j = arg;
	struct local *l = LOCAL(j->base.launcher);
	int r;

	if (j->state == OVER) { /* adopted, and not there */
		over_as_written(j);
	} else if (j->state == WAITING && j->stopped) {
		launch_local_unlink(j->dir, "spec.json");
		over_without(j, LAUNCH_STOPPED,
			     "stopped before it was started");
	} else if (j->state == WAITING && l->starting < l->conf->parallel) {
		j->state = STARTING;
		l->starting++;
		if ((r = start_supervisor(j)) != 0)
			unstarted(j, r);
		else
			start_waiting(l);
	}
}

static void
start_waiting(struct local *l)
{
	struct local_job *j = l->jobs;

	if (l->starting >= l->conf->parallel)
		return;
	/* The list begins with the youngest: the last one that waits is the
	 * oldest. Once it is started, this is called again. */
	for (struct local_job *it = j; it != NULL; it = it->next)
		if (it->state == WAITING)
			j = it;
	if (j != NULL && j->state == WAITING)
		task_post(l->loop, &j->task);
}

static int
local_start(struct launcher *base, const struct launch_spec *spec,
	    struct launch **out, char **why)
{
	struct local *l = LOCAL(base);
	struct local_job *j = job_new(l, spec->id);
	int r;

	if (mkdir(j->dir, 0711) != 0) {
		r = errno == EEXIST ? E_EXISTS : E_SYS;
		*why = xasprintf("%s: %s", j->dir, strerror(errno));
		goto fail;
	}
	(void)chmod(j->dir, 0711);
	j->slot = launch_local_take_slot(l);
	if (geteuid() == 0 && j->slot == LOCAL_NO_SLOT) {
		r = E_LIMIT;
		*why = xstrdup("[local] uid_jobs: all of them are in use");
		goto fail_dir;
	}
	if ((r = launch_local_write(j, spec)) == 0) {
		task_post(l->loop, &j->task);
		*out = &j->base;
		return 0;
	}
	*why = xasprintf("%s: %s", j->dir, err_text(r));
fail_dir:
	launch_remove(base, spec->id);
fail:
	j->state = OVER;
	job_free(j);
	return r;
}

static void
local_adopt(struct launcher *base, const char *id, struct launch **out)
{
	struct local *l = LOCAL(base);
	struct local_job *j = job_new(l, id);
	int fd;

	*out = &j->base;
	j->slot = launch_local_read_slot(l, j->dir);
	if (!launch_local_exists(j->dir, "exit.json") && (fd = reach(j)) >= 0) {
		j->state = RUNNING; /* or nearly: it was begun */
		take_channel(j, fd);
		return;
	}
	j->state = launch_local_exists(j->dir, "spec.json") ? WAITING : OVER;
	task_post(l->loop, &j->task);
}

/* --- stop -------------------------------------------------------------- */

static void
frozen_cb(void *arg)
{
	struct local_job *j = arg;
	char *path = xasprintf("%s/pid", j->dir), *text = NULL;
	uint64_t pid;
	size_t len;
	int fd;

	/* The kernel has it that a pidfd is nobody else's afterwards; that it
	 * was the supervisor's before is what the open channel says. */
	if (j->sp != NULL && file_read(path, 32, &text, &len) == 0 && len > 0 &&
	    strv_parse_u64((struct strv){text, len - 1}, INT32_MAX, true,
			   &pid) == 0 &&
	    (fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0)) != -1) {
		log_error("launch.frozen", "job=%s pid=%llu action=kill",
			  j->base.id, (unsigned long long)pid);
		(void)syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
		(void)close(fd);
	}
	free(text);
	free(path);
}

static void
local_stop(struct launch *base, uint64_t grace_ms)
{
	struct local_job *j = JOB(base);
	struct local *l = LOCAL(base->launcher);
	uint64_t at;

	if (j->state == OVER)
		return;
	if (j->state == WAITING) {
		j->stopped = true;
		task_post(l->loop, &j->task);
		return;
	}
	if (j->sp == NULL)
		return;
	(void)!(grace_ms == 0 ? seqpkt_send(j->sp, STRV("kill"), -1)
			      : seqpkt_sendf(j->sp, -1, "stop %llu",
					     (unsigned long long)grace_ms));
	if (j->frozen.loop == NULL)
		timer_init(&j->frozen, l->loop, frozen_cb, j);
	at = loop_now_ms(l->loop) + grace_ms + FROZEN_MS;
	if (!timer_running(&j->frozen) || at < j->frozen_at) {
		j->frozen_at = at;
		timer_set(&j->frozen, grace_ms + FROZEN_MS);
	}
}

/* The supervisor keeps the time, so that nobody here need know it. */
static void
local_stop_again(struct launch *base, uint64_t grace_ms)
{
	struct local_job *j = JOB(base);

	if (j->state == WAITING)
		local_stop(base, grace_ms);
	else if (j->state != OVER && j->sp != NULL)
		(void)!seqpkt_sendf(j->sp, -1, "restop %llu",
				    (unsigned long long)grace_ms);
}

static void
local_drop(struct launch *base)
{
	job_free(JOB(base));
}

/* --- the launcher ------------------------------------------------------ */

static void
local_free(struct launcher *base)
{
	struct local *l = LOCAL(base);

	while (l->jobs != NULL)
		job_free(l->jobs);
	launch_local_keep_clear(l);
	free(l->base.jobs_dir);
	free(l->agent);
	free(l->outbound);
	free(l->slots);
	free(l);
}

static void
local_set_conf(struct launcher *base, const struct gw_conf *conf)
{
	struct local *l = LOCAL(base);

	l->conf = &conf->launch;
	free(l->agent);
	free(l->outbound);
	l->agent = find_agent(l->conf);
	l->outbound = find_outbound(l->conf);
	if (l->conf->uid_jobs > l->nslots) {
		l->slots =
		    xreallocarray(l->slots, (size_t)l->conf->uid_jobs, 1);
		memset(l->slots + l->nslots, 0,
		       (size_t)l->conf->uid_jobs - l->nslots);
		l->nslots = (unsigned)l->conf->uid_jobs;
	}
}

static const struct launcher_ops ops = {
    .free = local_free,
    .set_conf = local_set_conf,
    .start = local_start,
    .adopt = local_adopt,
    .sweep = launch_local_sweep,
    .stop = local_stop,
    .stop_again = local_stop_again,
    .pause = launch_local_pause,
    .paused = launch_local_paused,
    .drop = local_drop,
    .remove = launch_local_remove,
    .tree = launch_local_tree,
    .keep = launch_local_keep,
    .unkeep = launch_local_unkeep,
};

int
launch_local_new(const struct launch_options *o, struct launcher **out,
		 char **why)
{
	struct local *l;
	int r;

	if ((r = dir_make(o->jobs_dir, 0711)) != 0) {
		*why = xasprintf("%s: %s", o->jobs_dir, err_text(r));
		return r;
	}
	l = xcalloc(1, sizeof(*l));
	l->base.ops = &ops;
	l->base.jobs_dir = xstrdup(o->jobs_dir);
	l->loop = o->loop;
	l->worker_uid = o->worker_uid;
	local_set_conf(&l->base, o->conf);
	*out = &l->base;
	return 0;
}
