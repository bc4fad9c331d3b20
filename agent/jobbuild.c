/* SPDX-License-Identifier: Apache-2.0 */
/* How a job begins: its sockets, pipes, ids and control group, and the fork of
 * the inner half; see jobrun_int.h. */
#include "config.h"

#include "agent/jobrun_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/jobgroup.h"
#include "agent/jobinit.h"
#include "agent/jobns.h"
#include "agent/jobprep.h"
#include "agent/jobroot.h"
#include "agent/jobsock.h"
#include "base/err.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "net/listener.h"
#include "net/seqpkt.h"

#define AGENT_LOG_MAX (256U << 10)

struct parts {
	struct jobinit ji;
	int channel;           /* our end */
	int out[JOBRUN_PIPES]; /* our ends */
	int ready;             /* our end */
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
			jobrun_unstarted(j, "agent.sock: %s", err_text(r));
			return r;
		}
		if (pipe2(fds, O_CLOEXEC) != 0)
			goto fail;
		p->ready = fds[0];
		p->ji.ready_fd = fds[1];
	}
	for (int i = 0; i < (jobdef_beside(j->spec) ? 3 : 2); i++) {
		if (pipe2(fds, O_CLOEXEC) != 0 || fd_set_nonblock(fds[0]) != 0)
			goto fail;
		p->out[i] = fds[0];
		*(i < 2 ? &p->ji.out[i] : &p->ji.agent_out) = fds[1];
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0)
		goto fail;
	p->channel = fds[0];
	p->ji.channel = fds[1];
	p->ji.exe = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	if (p->ji.exe != -1 && fd_set_nonblock(p->channel) == 0)
		return 0;
fail:
	jobrun_unstarted(j, "%s", strerror(errno));
	return E_SYS;
}

static void
close_theirs(struct parts *p)
{
	fd_close(&p->ji.channel);
	fd_close(&p->ji.userns);
	fd_close(&p->ji.out[0]);
	fd_close(&p->ji.out[1]);
	fd_close(&p->ji.agent_out);
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
		jobrun_lack(j, "runs as root: no ids were given to it");
		return 0;
	}
	if (jobns_user(j->spec->uid, j->spec->uids, &p->ji.userns) != 0)
		jobrun_lack(j, "no user namespace (%s)", strerror(errno));
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
	jobrun_unstarted(j, "fork: %s", strerror(errno));
	return E_SYS;
}

static void
add_events(struct jobrun *j, const struct parts *p)
{
	static const struct seqpkt_cbs cbs = {jobrun_channel_cb,
					      jobrun_channel_closed_cb};

	j->channel = seqpkt_take_fd(j->loop, p->channel, &cbs, j);
	for (int i = 0; i < JOBRUN_PIPES; i++) {
		struct jobrun_pipe *out = &j->out[i];

		if (p->out[i] == -1)
			continue;
		out->j = j;
		out->fd = p->out[i];
		out->stream = i == 0 ? JOBLOG_STDOUT : JOBLOG_STDERR;
		out->log = i < 2 ? j->log : j->agent_log;
		(void)event_assign(&out->ev, loop_base(j->loop), out->fd,
				   EV_READ | EV_PERSIST, jobrun_pipe_cb, out);
	}
	j->ready_fd = p->ready;
	if (p->ready != -1) {
		(void)event_assign(&j->ready_ev, loop_base(j->loop), p->ready,
				   EV_READ, jobrun_ready_cb, j);
		(void)event_add(&j->ready_ev, NULL);
	}
}

/* They are in the inner half now, and have no business here. */
static void
forget_secrets(struct jobdef *s)
{
	for (size_t i = 0; s->env[i] != NULL; i++)
		mem_secure_zero(s->env[i], strlen(s->env[i]));
	for (size_t i = 0; i < s->nfiles; i++)
		if (s->files[i].content.s != NULL)
			mem_secure_zero(s->files[i].content.s,
					s->files[i].content.len);
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
			jobrun_lack(j, "no limit of memory and CPU");
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
		jobrun_lack(j, "no control group (%s)", strerror(errno));
	else if (lacks.len > 0)
		jobrun_lack(j, "%s", lacks.s);
	strbuf_clear(&lacks);
}

static int
prepare(struct jobrun *j)
{
	j->prepare = jobprep_start(j->spec, j->fs, &j->prepare_errors);
	if (j->prepare == -1) {
		jobrun_unstarted(j, "%s: %s", j->spec->prepare[0],
				 strerror(errno));
		return E_SYS;
	}
	j->state = PREPARING;
	jobsock_say_all(j->sock, "preparing");
	return 0;
}

int
jobbuild(struct jobrun *j)
{
	const struct jobdef *s = j->spec;
	struct jobroot dirs = {
	    .fs = j->fs, .uid = s->uid, .scratch = s->scratch};
	struct parts p = {.channel = -1, .out = {-1, -1, -1}, .ready = -1};
	int r;

	p.ji = (struct jobinit){.spec = s,
				.fs = j->fs,
				.resolv = j->resolv,
				.channel = -1,
				.arg = j->o->arg,
				.lock = j->o->lock,
				.userns = -1,
				.out = {-1, -1},
				.agent_out = -1,
				.listen_fd = -1,
				.control_fd = -1,
				.ready_fd = -1,
				.exe = -1};
	make_group(j);
	if (s->image != NULL && s->rootfs == NULL)
		jobrun_lack(j,
			    "image %s is not configured: this machine's own "
			    "system is used",
			    s->image);
	if (jobroot_dirs(&dirs) != 0) {
		jobrun_unstarted(j, "fs: %s", strerror(errno));
		return E_SYS;
	}
	if ((r = make_parts(j, &p)) == 0 && (r = make_user(j, &p)) == 0)
		r = fork_init(j, &p);
	if (r == 0 && j->group_fd != -1 &&
	    jobgroup_enter(j->group_fd, j->builder) != 0)
		jobrun_lack(j, "not in its control group (%s)",
			    strerror(errno));
	close_theirs(&p);
	forget_secrets(j->spec);
	jobrun_start_loop(j);
	if (r != 0)
		return r;
	if (jobdef_beside(s) && joblog_open(j->o->dirfd, "agent.log",
					    AGENT_LOG_MAX, &j->agent_log) != 0)
		jobrun_lack(j, "no agent.log (%s)", strerror(errno));
	add_events(j, &p);
	if (s->timeout_ms != 0)
		timer_set(&j->timeout, s->timeout_ms);
	if (s->prepare == NULL)
		(void)!seqpkt_send(j->channel, STRV("go"), -1);
	else
		return prepare(j);
	return 0;
}
