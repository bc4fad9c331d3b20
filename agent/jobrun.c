/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job's life. STARTING (the inner half builds), RUNNING (the main process
 * runs), ENDING (the inner half is dead; what is in the pipes is still read),
 * then jobrun_finish(). Whatever is to end the job notes why, and kills; how
 * it ended is decided once, when nothing of it is left.
 */
#include "config.h"

#include "agent/jobrun.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <event2/event.h>
#include <event2/event_struct.h>

#include "agent/jobend.h"
#include "agent/jobgroup.h"
#include "agent/jobinit.h"
#include "agent/jobkill.h"
#include "agent/joblog.h"
#include "agent/jobnet.h"
#include "agent/jobns.h"
#include "agent/jobout.h"
#include "agent/jobroot.h"
#include "agent/jobsock.h"
#include "base/err.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "net/listener.h"
#include "net/loop.h"
#include "net/seqpkt.h"

#define READ_MAX   65536
#define TURN_MAX   4    /* reads of one pipe in one go */
#define GRACE_MS   5000 /* after a timeout */
#define DRAIN_MS   2000 /* for pipes that strangers hold open */
#define NET_TRY_MS 10
#define NET_MAX_MS 5000

enum state { STARTING, RUNNING, ENDING };

struct pipe_in {
	struct jobrun *j;
	int fd; /* -1: at its end */
	enum joblog_stream stream;
	struct event ev;
};

struct jobrun {
	const struct jobrun_options *o;
	struct jobdef *spec;
	enum state state;
	bool ready;
	bool pids_own; /* the job has a pid namespace */
	struct loop *loop;
	struct joblog *log;
	struct jobsock *sock;
	struct jobout *outside;
	char *fs;
	char *resolv;
	pid_t builder, init, net; /* 0: not there (any more) */
	struct seqpkt *channel;
	struct pipe_in out[2];
	int ready_fd; /* its reading end */
	struct event ready_ev;
	struct strbuf lacks;
	struct timer timeout, grace, drain, net_try;
	unsigned net_tries;
	char *group; /* of its control group; NULL: none */
	int group_fd;
	struct jobend end;
	const char *why; /* timeout, stopped: who ended it; NULL: itself */
	char buf[READ_MAX];
};

static void unstarted(struct jobrun *j, const char *fmt, ...) SBX_PRINTF(2, 3);

static void
unstarted(struct jobrun *j, const char *fmt, ...)
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
	if (j->state == STARTING)
		return "starting";
	return j->ready ? "ready" : "running";
}

static void
greet(struct jobsock_conn *c, void *arg)
{
	struct jobrun *j = arg;

	if (j->state == RUNNING)
		jobsock_say(c, "started %s",
			    j->lacks.len > 0 ? j->lacks.s : "");
	if (j->state == RUNNING && j->ready)
		jobsock_say(c, "ready");
}

static void add_lack(struct jobrun *j, const char *fmt, ...) SBX_PRINTF(2, 3);

static void
add_lack(struct jobrun *j, const char *fmt, ...)
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

static void
stop(struct jobrun *j, const char *why, uint64_t grace_ms)
{
	if (j->state == ENDING)
		return;
	if (j->why == NULL)
		j->why = why;
	if (grace_ms == 0 || j->channel == NULL ||
	    seqpkt_send(j->channel, STRV("term"), -1) != 0) {
		kill_all(j);
		return;
	}
	timer_set(&j->grace, grace_ms);
}

static void
timeout_cb(void *arg)
{
	struct jobrun *j = arg;

	joblog_say(j->log, "timed out after %llu s",
		   (unsigned long long)j->spec->timeout_ms / 1000);
	stop(j, "timeout", GRACE_MS);
}

static void
finish_if_drained(struct jobrun *j)
{
	if (j->state == ENDING && j->out[0].fd == -1 && j->out[1].fd == -1)
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
	finish_if_drained(j);
}

static bool
reaped(pid_t *pid, int *status)
{
	if (*pid <= 0 || waitpid(*pid, status, WNOHANG) != *pid)
		return false;
	*pid = 0;
	return true;
}

/* The job goes on. What they say goes to syslog; the usual cause is told here.
 */
static void
net_died(struct jobrun *j, int status)
{
	const char *tun = "";

	if (access("/dev/net/tun", R_OK | W_OK) == -1)
		tun = errno == ENOENT ? "; there is no /dev/net/tun"
				      : "; /dev/net/tun cannot be opened";
	joblog_say(j->log, "no outbound network: %s ended (%s %d)%s",
		   j->spec->outbound, WIFSIGNALED(status) ? "signal" : "status",
		   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
		   tun);
}

static void
reap_cb(int sig, void *arg)
{
	struct jobrun *j = arg;
	int status;

	(void)sig;
	if (reaped(&j->net, &status) && j->state != ENDING)
		net_died(j, status);
	/* A builder that has done its work leaves with 0, and process 1. */
	if (reaped(&j->builder, &status) && status != 0)
		init_died(j, status);
	if (reaped(&j->init, &status))
		init_died(j, status);
}

/* --- output and readiness ---------------------------------------------- */

static void
pipe_cb(evutil_socket_t fd, short what, void *arg)
{
	struct pipe_in *p = arg;
	ssize_t n = 0;

	(void)what;
	for (int i = 0; i < TURN_MAX; i++) {
		n = read((int)fd, p->j->buf, READ_MAX);
		if (n <= 0)
			break;
		joblog_add(p->j->log, p->stream, p->j->buf, (size_t)n);
	}
	if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
		return;
	(void)event_del(&p->ev);
	fd_close(&p->fd);
	finish_if_drained(p->j);
}

static void
ready_cb(evutil_socket_t fd, short what, void *arg)
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

/* --- the network ------------------------------------------------------- */

static void
let_run(struct jobrun *j)
{
	if (j->channel != NULL)
		(void)!seqpkt_send(j->channel, STRV("run"), -1);
}

static void
net_try_cb(void *arg)
{
	struct jobrun *j = arg;

	if (j->net > 0 && ++j->net_tries < NET_MAX_MS / NET_TRY_MS &&
	    !jobnet_connected(j->init)) {
		timer_set(&j->net_try, NET_TRY_MS);
		return;
	}
	let_run(j);
}

static void
connect_net(struct jobrun *j, int log_fd)
{
	if (j->spec->outbound == NULL || geteuid() != 0) {
		/* Process 1 cannot be looked into: root alone gets at what is
		 * to be connected. */
		add_lack(j, "no outbound network%s",
			 j->spec->outbound != NULL
			     ? " (only a gateway that runs as root connects it)"
			     : "");
		let_run(j);
		return;
	}
	j->net = jobnet_start(j->spec->outbound, j->init, log_fd);
	if (j->net == -1)
		add_lack(j, "no outbound network (%s: %s)", j->spec->outbound,
			 strerror(errno));
	/* An agent need not wait for it; a command may want it at once. */
	if (j->spec->mode == JOBDEF_COMMAND)
		net_try_cb(j);
	else
		let_run(j);
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

static void
running(struct jobrun *j)
{
	const char *lacks = j->lacks.len > 0 ? j->lacks.s : "";

	j->state = RUNNING;
	if (*lacks != '\0')
		joblog_say(j->log, "%s", lacks);
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

static void
channel_cb(struct seqpkt *sp, struct strv msg, int fd, void *arg)
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
		add_lack(j, "%.*s", STRV_ARG(msg));
	} else if (strv_eq(verb, STRV("init"))) {
		has_init(j, msg);
	} else if (strv_eq(verb, STRV("net"))) {
		connect_net(j, STDERR_FILENO);
	} else if (strv_eq(verb, STRV("nonet"))) {
		let_run(j);
	} else if (strv_eq(verb, STRV("started"))) {
		running(j);
	} else if (strv_eq(verb, STRV("failed"))) {
		unstarted(j, "%.*s", STRV_ARG(msg));
	} else if (strv_eq(verb, STRV("exit"))) {
		exited(j, msg);
	}
}

static void
channel_closed_cb(struct seqpkt *sp, void *arg)
{
	struct jobrun *j = arg;

	seqpkt_close(sp);
	j->channel = NULL; /* SIGCHLD follows */
}

/* --- orders ------------------------------------------------------------ */

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

/* --- start ------------------------------------------------------------- */

struct parts {
	struct jobinit ji;
	int channel; /* our end */
	int out[2];  /* our ends */
	int ready;   /* our end */
};

static int
bind_agent(struct jobrun *j, struct parts *p)
{
	const struct listen_options lo = {
	    .mode = 0660, .uid = j->spec->worker_uid, .gid = (gid_t)-1};
	char *path = xasprintf("%s/agent.sock", j->o->dir);
	struct addr a;
	int r;

	if ((r = addr_unix(&a, path)) == 0)
		r = listener_bind(&a, &lo, &p->ji.listen_fd);
	free(path);
	if (r != 0)
		return r;
	path = xasprintf("%s/control.sock", j->o->dir);
	r = seqpkt_bind(path, 0660, j->spec->worker_uid, (gid_t)-1,
			&p->ji.control_fd);
	free(path);
	return r;
}

static int
make_parts(struct jobrun *j, struct parts *p)
{
	int fds[2], r;

	if (j->spec->mode != JOBDEF_COMMAND) {
		if ((r = bind_agent(j, p)) != 0) {
			unstarted(j, "agent.sock: %s", err_text(r));
			return r;
		}
		if (pipe2(fds, O_CLOEXEC) != 0)
			goto fail;
		p->ready = fds[0];
		p->ji.ready_fd = fds[1];
	}
	for (int i = 0; i < 2; i++) {
		if (pipe2(fds, O_CLOEXEC) != 0 || fd_set_nonblock(fds[0]) != 0)
			goto fail;
		p->out[i] = fds[0];
		p->ji.out[i] = fds[1];
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0)
		goto fail;
	p->channel = fds[0];
	p->ji.channel = fds[1];
	p->ji.exe = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	if (p->ji.exe != -1 && fd_set_nonblock(p->channel) == 0)
		return 0;
fail:
	unstarted(j, "%s", strerror(errno));
	return E_SYS;
}

static void
close_theirs(struct parts *p)
{
	fd_close(&p->ji.channel);
	fd_close(&p->ji.userns);
	fd_close(&p->ji.out[0]);
	fd_close(&p->ji.out[1]);
	fd_close(&p->ji.listen_fd);
	fd_close(&p->ji.control_fd);
	fd_close(&p->ji.ready_fd);
	fd_close(&p->ji.exe);
}

static int
make_user(struct jobrun *j, struct parts *p)
{
	if (geteuid() != 0)
		return 0;
	if (j->spec->uids == 0) {
		add_lack(j, "runs as root: no ids were given to it");
		return 0;
	}
	if (jobns_user(j->spec->uid, j->spec->uids, &p->ji.userns) != 0)
		add_lack(j, "no user namespace (%s)", strerror(errno));
	return 0;
}

static int
fork_init(struct jobrun *j, struct parts *p)
{
	j->builder = jobns_fork(0);
	if (j->builder == 0)
		jobinit_run(&p->ji);
	if (j->builder != -1)
		return 0;
	unstarted(j, "fork: %s", strerror(errno));
	return E_SYS;
}

static void
add_events(struct jobrun *j, const struct parts *p)
{
	static const struct seqpkt_cbs cbs = {channel_cb, channel_closed_cb};

	j->channel = seqpkt_take_fd(j->loop, p->channel, &cbs, j);
	for (int i = 0; i < 2; i++) {
		j->out[i] = (struct pipe_in){
		    .j = j, .fd = p->out[i], .stream = (enum joblog_stream)i};
		(void)event_assign(&j->out[i].ev, loop_base(j->loop), p->out[i],
				   EV_READ | EV_PERSIST, pipe_cb, &j->out[i]);
		(void)event_add(&j->out[i].ev, NULL);
	}
	j->ready_fd = p->ready;
	if (p->ready != -1) {
		(void)event_assign(&j->ready_ev, loop_base(j->loop), p->ready,
				   EV_READ, ready_cb, j);
		(void)event_add(&j->ready_ev, NULL);
	}
}

static void
start_loop(struct jobrun *j)
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
	timer_init(&j->net_try, j->loop, net_try_cb, j);
	j->sock =
	    jobsock_new(j->loop, j->o->listen_fd, j->o->first_fd, &cbs, j);
}

/* The environment is in the main process now, and has no business here. */
static void
forget_secrets(struct jobdef *s)
{
	for (size_t i = 0; s->env[i] != NULL; i++)
		mem_secure_zero(s->env[i], strlen(s->env[i]));
}

/* Its path is written down for whoever cleans up after us. */
static void
make_group(struct jobrun *j)
{
	const struct jobdef *s = j->spec;
	const struct jobgroup_limits l = {s->memory, s->cpu_milli, s->pids};
	struct strbuf lacks = {0};
	int fd;

	if (s->cgroup == NULL) {
		if (s->memory != 0 || s->cpu_milli != 0)
			add_lack(j, "no limit of memory and CPU");
		return;
	}
	j->group = xasprintf("%s/sbx-%s", s->cgroup, s->id);
	fd =
	    openat(j->o->dirfd, "cgroup", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd != -1) {
		(void)!fd_write_all(fd, j->group, strlen(j->group));
		(void)close(fd);
	}
	if (jobgroup_make(s->cgroup, strrchr(j->group, '/') + 1, &l, &lacks,
			  &j->group_fd) != 0)
		add_lack(j, "no control group (%s)", strerror(errno));
	else if (lacks.len > 0)
		add_lack(j, "%s", lacks.s);
	strbuf_clear(&lacks);
}

static int
start(struct jobrun *j)
{
	const struct jobdef *s = j->spec;
	struct jobroot dirs = {.fs = j->fs, .uid = s->uid};
	struct parts p = {.channel = -1, .out = {-1, -1}, .ready = -1};
	int r;

	p.ji = (struct jobinit){.spec = s,
				.fs = j->fs,
				.resolv = j->resolv,
				.channel = -1,
				.arg = j->o->arg,
				.lock = j->o->lock,
				.userns = -1,
				.out = {-1, -1},
				.listen_fd = -1,
				.control_fd = -1,
				.ready_fd = -1,
				.exe = -1};
	make_group(j);
	if (s->image != NULL && s->rootfs == NULL)
		add_lack(j,
			 "image %s is not configured: this machine's own "
			 "system is used",
			 s->image);
	if (jobroot_dirs(&dirs) != 0) {
		unstarted(j, "fs: %s", strerror(errno));
		return E_SYS;
	}
	if ((r = make_parts(j, &p)) == 0 && (r = make_user(j, &p)) == 0)
		r = fork_init(j, &p);
	if (r == 0 && j->group_fd != -1 &&
	    jobgroup_enter(j->group_fd, j->builder) != 0)
		add_lack(j, "not in its control group (%s)", strerror(errno));
	close_theirs(&p);
	forget_secrets(j->spec);
	start_loop(j);
	if (r != 0)
		return r;
	add_events(j, &p);
	if (s->timeout_ms != 0)
		timer_set(&j->timeout, s->timeout_ms);
	(void)!seqpkt_send(j->channel, STRV("go"), -1);
	return 0;
}

/* --- end --------------------------------------------------------------- */

static void
conclude(struct jobrun *j)
{
	struct jobend *e = &j->end;

	if (j->why != NULL && strcmp(e->reason, "unstarted") != 0)
		e->reason = j->why;
	if (j->group_fd != -1 && jobgroup_starved(j->group_fd) &&
	    *e->message == '\0')
		(void)snprintf(e->message, sizeof(e->message),
			       "out of memory: the limit is %llu MiB",
			       (unsigned long long)j->spec->memory >> 20);
	else if (*e->message != '\0')
		;
	else if (strcmp(e->reason, "timeout") == 0)
		(void)snprintf(e->message, sizeof(e->message),
			       "timed out after %llu s",
			       (unsigned long long)j->spec->timeout_ms / 1000);
	else if (e->signal != 0)
		(void)snprintf(e->message, sizeof(e->message),
			       "killed by signal %d (%s)", e->signal,
			       strsignal(e->signal));
	if (*e->message != '\0' && strcmp(e->reason, "timeout") != 0)
		joblog_say(j->log, "%s", e->message);
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
	for (int i = 0; i < 2; i++)
		if (j->out[i].fd != -1) {
			(void)event_del(&j->out[i].ev);
			fd_close(&j->out[i].fd);
		}
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
	j->out[0].fd = j->out[1].fd = j->ready_fd = j->group_fd = -1;
	j->fs = xasprintf("%s/fs", o->dir);
	if (o->spec->outbound != NULL)
		j->resolv = jobnet_resolv(o->spec->outbound);
	if (joblog_open(o->dirfd, o->spec->log_max, &j->log) != 0 ||
	    start(j) != 0) {
		if (j->builder > 0)
			(void)kill(j->builder, SIGKILL);
		if (j->loop == NULL)
			start_loop(j);
		if (j->end.reason == NULL)
			unstarted(j, "log: %s", strerror(errno));
	} else {
		loop_run(j->loop);
	}
	finish(j);
	clear(j);
}
