/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job's life. STARTING (the inner half builds), RUNNING (the main process
 * runs), ENDING (the inner half is dead; what is in the pipes is still read),
 * then jobrun_finish(). Whatever is to end the job notes why, and kills; how
 * it ended is decided once, when nothing of it is left.
 */
#include "config.h"

#include "agent/jobrun_int.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/jobgroup.h"
#include "agent/jobkill.h"
#include "agent/jobnet.h"
#include "agent/jobout.h"
#include "agent/jobprep.h"
#include "agent/jobsock.h"
#include "base/err.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "net/loop.h"
#include "net/seqpkt.h"

#define READ_MAX 16384
#define TURN_MAX 16   /* reads of one pipe in one go */
#define GRACE_MS 5000 /* after a timeout */
#define DRAIN_MS 2000 /* for pipes that strangers hold open */

void
jobrun_unstarted(struct jobrun *j, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(j->end.message, sizeof(j->end.message), fmt, ap);
	va_end(ap);
	j->end.reason = "unstarted";
	j->end.code = -1;
}

/* --- what is said to job.sock ------------------------------------------ */

static const char *
state_word(const struct jobrun *j)
{
	if (j->why != NULL || j->state == ENDING)
		return "stopping";
	if (j->state < RUNNING)
		return "starting";
	return j->ready ? "ready" : "running";
}

static void
greet(struct jobsock_conn *c, void *arg)
{
	struct jobrun *j = arg;

	if (j->state == PREPARING)
		jobsock_say(c, "preparing");
	if (j->state == RUNNING)
		jobsock_say(c, "started %s",
			    j->lacks.len > 0 ? j->lacks.s : "");
	if (j->state == RUNNING && j->ready)
		jobsock_say(c, "ready");
}

void
jobrun_lack(struct jobrun *j, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (j->lacks.len + strlen(text) < 1000)
		strbuf_addf(&j->lacks, "%s%s", j->lacks.len > 0 ? "; " : "",
			    text);
}

/* --- ending ------------------------------------------------------------ */

/* Process 1 cannot be outlived where it has a namespace; where it has none, it
 * kills all its descendants when the channel ends. */
static void
kill_all(struct jobrun *j)
{
	if (j->state == ENDING)
		return;
	if (j->channel != NULL)
		seqpkt_close(j->channel);
	j->channel = NULL;
	if (j->builder > 0)
		(void)kill(j->builder, SIGKILL);
	if (j->init > 0 && j->pids_own)
		(void)kill(j->init, SIGKILL);
}

static void
kill_cb(void *arg)
{
	kill_all(arg);
}

/* TERM once; of several graces the one counts that is over first. */
static void
stop(struct jobrun *j, const char *why, uint64_t grace_ms)
{
	uint64_t at = loop_now_ms(j->loop) + grace_ms;
	bool again = j->kill_at != 0;

	if (j->state == ENDING)
		return;
	if (j->why == NULL)
		j->why = why;
	if (j->group_fd != -1)
		jobgroup_thaw(j->group_fd); /* else it would not see TERM */
	if (j->state == PREPARING) {
		j->end = (struct jobend){.reason = "exited", .code = -1};
		(void)snprintf(j->end.message, sizeof(j->end.message),
			       "stopped before it was started");
	}
	if (j->state == PREPARING || grace_ms == 0 || j->channel == NULL ||
	    (!again && seqpkt_send(j->channel, STRV("term"), -1) != 0)) {
		kill_all(j);
		return;
	}
	if (again && at >= j->kill_at)
		return;
	j->kill_at = at;
	timer_set(&j->grace, grace_ms);
}

static void
timeout_cb(void *arg)
{
	struct jobrun *j = arg;

	joblog_say(j->log, "timed out after %llu s",
		   (unsigned long long)j->spec->timeout_ms / 1000);
	stop(j, "timeout",
	     j->spec->grace_ms != 0 ? j->spec->grace_ms : GRACE_MS);
}

/* What it says is read from when all is known that is to be said of it first.
 */
static void
listen_to_it(struct jobrun *j)
{
	for (int i = 0; i < JOBRUN_PIPES; i++)
		if (j->out[i].fd != -1) /* again does no harm */
			(void)event_add(&j->out[i].ev, NULL);
}

static void
finish_if_drained(struct jobrun *j)
{
	for (int i = 0; i < JOBRUN_PIPES; i++)
		if (j->out[i].fd != -1)
			return;
	if (j->state == ENDING)
		loop_stop(j->loop);
}

static void
drain_cb(void *arg)
{
	loop_stop(((struct jobrun *)arg)->loop);
}

static void
init_died(struct jobrun *j, int status)
{
	if (j->net > 0)
		(void)kill(j->net, SIGKILL);
	jobkill_descendants();       /* none, where there is a pid namespace */
	if (j->end.reason == NULL) { /* it could not say how it ended */
		j->end.reason = "exited";
		j->end.code = -1;
		j->end.signal =
		    WIFSIGNALED(status) ? WTERMSIG(status) : SIGKILL;
	}
	j->state = ENDING;
	timer_set(&j->drain, DRAIN_MS);
	listen_to_it(j);
	finish_if_drained(j);
}

/* Now the inner half may build on what is there. */
static void
prepared(struct jobrun *j, int status)
{
	char text[400];

	if (status == 0 && j->state == PREPARING && j->channel != NULL) {
		j->state = STARTING;
		(void)!seqpkt_send(j->channel, STRV("go"), -1);
	} else if (j->state == PREPARING && j->end.reason == NULL) {
		jobprep_why(j->prepare_errors, status, text, sizeof(text));
		jobrun_unstarted(j, "%s", text);
		kill_all(j);
	}
}

static bool
reaped(pid_t *pid, int *status)
{
	if (*pid <= 0 || waitpid(*pid, status, WNOHANG) != *pid)
		return false;
	*pid = 0;
	return true;
}

static void
reap_cb(int sig, void *arg)
{
	struct jobrun *j = arg;
	int status;

	(void)sig;
	if (reaped(&j->prepare, &status))
		prepared(j, status);
	if (reaped(&j->net, &status) && j->state != ENDING)
		jobrun_net_died(j, status);
	/* A builder that has done its work leaves with 0, and process 1. */
	if (reaped(&j->builder, &status) && status != 0)
		init_died(j, status);
	if (reaped(&j->init, &status))
		init_died(j, status);
	/* Killed before anybody could say who process 1 is. */
	if (j->state != ENDING && j->channel == NULL && j->builder == 0 &&
	    j->init == 0)
		init_died(j, SIGKILL);
}

/* --- output and readiness ---------------------------------------------- */

void
jobrun_pipe_cb(evutil_socket_t fd, short what, void *arg)
{
	struct jobrun_pipe *p = arg;
	char buf[READ_MAX];
	ssize_t n = 0;

	(void)what;
	for (int i = 0; i < TURN_MAX; i++) {
		n = read((int)fd, buf, sizeof(buf));
		if (n <= 0)
			break;
		if (p->log != NULL)
			joblog_add(p->log, p->stream, buf, (size_t)n);
	}
	if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
		return;
	(void)event_del(&p->ev);
	fd_close(&p->fd);
	finish_if_drained(p->j);
}

void
jobrun_ready_cb(evutil_socket_t fd, short what, void *arg)
{
	struct jobrun *j = arg;
	char c;

	(void)what;
	if (read((int)fd, &c, 1) == 1) {
		j->ready = true;
		if (j->state == RUNNING) /* else it will be told after that */
			jobsock_say_all(j->sock, "ready");
	}
	(void)event_del(&j->ready_ev);
	fd_close(&j->ready_fd);
}

/* --- the inner half ---------------------------------------------------- */

/* Is process 1 in another pid namespace than we are? */
static bool
has_own_pids(pid_t pid)
{
	struct stat theirs, ours;
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%ld/ns/pid", (long)pid);
	return stat(path, &theirs) == 0 &&
	       stat("/proc/self/ns/pid", &ours) == 0 &&
	       theirs.st_ino != ours.st_ino;
}

static void
exited(struct jobrun *j, struct strv rest)
{
	struct strv code;
	uint64_t n;

	if (!strv_cut(&rest, ' ', &code))
		return;
	j->end.reason = "exited";
	j->end.code = strv_parse_u64(code, 255, false, &n) == 0 ? (int)n : -1;
	j->end.signal = strv_parse_u64(rest, 255, false, &n) == 0 ? (int)n : 0;
}

/* The main process may be fine, and nobody could get at it any more. */
static void
agent_lost(struct jobrun *j, struct strv text)
{
	j->end.reason = "lost";
	j->end.code = -1;
	(void)snprintf(j->end.message, sizeof(j->end.message), "%.*s",
		       STRV_ARG(text));
}

static void
running(struct jobrun *j)
{
	const char *lacks = j->lacks.len > 0 ? j->lacks.s : "";

	j->state = RUNNING;
	if (*lacks != '\0')
		joblog_say(j->log, "%s", lacks);
	listen_to_it(j);
	jobsock_say_all(j->sock, "started %s", lacks);
	if (j->ready)
		jobsock_say_all(j->sock, "ready");
}

static void
has_init(struct jobrun *j, struct strv pid)
{
	uint64_t n;

	if (strv_parse_u64(pid, INT32_MAX, true, &n) != 0)
		return;
	j->init = (pid_t)n;
	j->pids_own = has_own_pids(j->init);
	reap_cb(SIGCHLD, j); /* it may be dead already */
}

/* A socket in the job's network, for an endpoint on our side. */
static void
listens(struct jobrun *j, struct strv number, int fd)
{
	char **v = j->spec->outside;
	uint64_t n = 0, at;

	while (v != NULL && v[n] != NULL)
		n++;
	if (strv_parse_u64(number, UINT64_MAX, true, &at) != 0 || at >= n)
		fd_close(&fd);
	else
		jobout_take_fd(j->outside, fd, v[at]);
}

void
jobrun_channel_cb(struct seqpkt *sp, struct strv msg, int fd, void *arg)
{
	struct jobrun *j = arg;
	struct strv verb;

	(void)sp;
	if (!strv_cut(&msg, ' ', &verb)) {
		fd_close(&fd);
		return;
	}
	if (strv_eq(verb, STRV("outside")) && fd >= 0) {
		listens(j, msg, fd);
		return;
	}
	fd_close(&fd);
	if (strv_eq(verb, STRV("lack"))) {
		jobrun_lack(j, "%.*s", STRV_ARG(msg));
	} else if (strv_eq(verb, STRV("init"))) {
		has_init(j, msg);
	} else if (strv_eq(verb, STRV("net"))) {
		jobrun_net_connect(j, STDERR_FILENO);
	} else if (strv_eq(verb, STRV("nonet"))) {
		jobrun_net_done(j);
	} else if (strv_eq(verb, STRV("started"))) {
		running(j);
	} else if (strv_eq(verb, STRV("failed"))) {
		jobrun_unstarted(j, "%.*s", STRV_ARG(msg));
	} else if (strv_eq(verb, STRV("exit"))) {
		exited(j, msg);
	} else if (strv_eq(verb, STRV("lost"))) {
		agent_lost(j, msg);
	}
}

void
jobrun_channel_closed_cb(struct seqpkt *sp, void *arg)
{
	struct jobrun *j = arg;

	seqpkt_close(sp);
	j->channel = NULL; /* SIGCHLD follows */
}

/* --- orders ------------------------------------------------------------ */

/* Whether `fs/` is to be left when the job has ended. The file says so to
 * whoever comes afterwards, and is there before the order is seen to be obeyed.
 */
static void
set_keep(struct jobrun *j, bool on)
{
	int fd;

	if (!on) {
		(void)unlinkat(j->o->dirfd, "keep", 0);
		return;
	}
	fd = openat(j->o->dirfd, "keep", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd != -1)
		(void)close(fd);
}

static void
order_cb(struct jobsock_conn *c, struct strv msg, void *arg)
{
	struct jobrun *j = arg;
	struct strv verb;
	uint64_t ms;

	if (!strv_cut(&msg, ' ', &verb))
		return;
	if (strv_eq(verb, STRV("kill"))) {
		stop(j, "stopped", 0);
	} else if (strv_eq(verb, STRV("stop")) &&
		   strv_parse_u64(msg, UINT32_MAX, true, &ms) == 0) {
		stop(j, "stopped", ms);
	} else if (strv_eq(verb, STRV("restop")) &&
		   strv_parse_u64(msg, UINT32_MAX, true, &ms) == 0) {
		if (j->kill_at == 0)
			stop(j, "stopped", ms);
	} else if (strv_eq(verb, STRV("keep"))) {
		set_keep(j, true);
	} else if (strv_eq(verb, STRV("unkeep"))) {
		set_keep(j, false);
	} else if (strv_eq(verb, STRV("status"))) {
		jobsock_say(c, "state %s %ld %ld", state_word(j), (long)j->init,
			    (long)getpid());
	} else {
		jobsock_say(c, "error no such order");
	}
}

static void
term_cb(int sig, void *arg)
{
	(void)sig;
	stop(arg, "stopped", GRACE_MS);
}

/* --- the whole --------------------------------------------------------- */

void
jobrun_start_loop(struct jobrun *j)
{
	static const struct jobsock_cbs cbs = {greet, order_cb};

	j->loop = loop_new();
	j->outside = jobout_new(j->loop);
	loop_on_signal(j->loop, SIGCHLD, reap_cb, j);
	loop_on_signal(j->loop, SIGTERM, term_cb, j);
	loop_on_signal(j->loop, SIGINT, term_cb, j);
	timer_init(&j->timeout, j->loop, timeout_cb, j);
	timer_init(&j->grace, j->loop, kill_cb, j);
	timer_init(&j->drain, j->loop, drain_cb, j);
	timer_init(&j->net_try, j->loop, jobrun_net_try_cb, j);
	j->sock =
	    jobsock_new(j->loop, j->o->listen_fd, j->o->first_fd, &cbs, j);
}

static void
conclude(struct jobrun *j)
{
	const struct jobend_facts f = {.why = j->why,
				       .starved = j->group_fd != -1 &&
						  jobgroup_starved(j->group_fd),
				       .memory = j->spec->memory,
				       .timeout_ms = j->spec->timeout_ms};

	jobend_conclude(&j->end, &f);
	if (j->log != NULL && *j->end.message != '\0' &&
	    strcmp(j->end.reason, "timeout") != 0)
		joblog_say(j->log, "%s", j->end.message);
}

static void
finish(struct jobrun *j)
{
	int r;

	conclude(j);
	fd_close(&j->group_fd);
	if (j->group != NULL)
		jobgroup_remove(j->group);
	joblog_close(j->log);
	joblog_close(j->agent_log);
	if ((r = jobend_write(j->o->dirfd, &j->end)) != 0)
		(void)fprintf(stderr, "exit.json: %s\n", err_text(r));
	jobsock_free(j->sock);
	loop_once(j->loop, false);
}

static void
clear(struct jobrun *j)
{
	if (j->channel != NULL)
		seqpkt_close(j->channel);
	for (int i = 0; i < JOBRUN_PIPES; i++)
		if (j->out[i].fd != -1) {
			(void)event_del(&j->out[i].ev);
			fd_close(&j->out[i].fd);
		}
	fd_close(&j->prepare_errors);
	if (j->ready_fd != -1) {
		(void)event_del(&j->ready_ev);
		fd_close(&j->ready_fd);
	}
	timer_clear(&j->timeout);
	timer_clear(&j->grace);
	timer_clear(&j->drain);
	timer_clear(&j->net_try);
	jobout_free(j->outside);
	loop_free(j->loop);
	strbuf_clear(&j->lacks);
	free(j->fs);
	free(j->group);
	free(j->resolv);
	free(j);
}

void
jobrun(const struct jobrun_options *o)
{
	struct jobrun *j = xcalloc(1, sizeof(*j));

	j->o = o;
	j->spec = o->spec;
	j->ready_fd = j->group_fd = j->prepare_errors = -1;
	j->state = STARTING;
	for (int i = 0; i < JOBRUN_PIPES; i++)
		j->out[i].fd = -1;
	j->fs = xasprintf("%s/fs", o->dir);
	if (o->spec->outbound != NULL)
		j->resolv = jobnet_resolv(o->spec->outbound);
	if (joblog_open(o->dirfd, "log", o->spec->log_max, &j->log) != 0 ||
	    jobbuild(j) != 0) {
		if (j->builder > 0)
			(void)kill(j->builder, SIGKILL);
		if (j->loop == NULL)
			jobrun_start_loop(j);
		if (j->end.reason == NULL)
			jobrun_unstarted(j, "log: %s", strerror(errno));
	} else {
		loop_run(j->loop);
	}
	finish(j);
	clear(j);
}
