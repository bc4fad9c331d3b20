/* SPDX-License-Identifier: Apache-2.0 */
/* What jobrun.c (a job's life) and jobbuild.c (its beginning) share. */
#ifndef SBX_AGENT_JOBRUN_INT_H
#define SBX_AGENT_JOBRUN_INT_H

#include <stdbool.h>
#include <sys/types.h>

#include <event2/event.h>
#include <event2/event_struct.h>

#include "agent/jobend.h"
#include "agent/joblog.h"
#include "agent/jobrun.h"
#include "base/defs.h"
#include "base/str.h"
#include "net/loop.h"

struct jobout;
struct jobsock;
struct seqpkt;

/* PREPARING: the inner half waits for the file system. */
enum jobrun_state { PREPARING, STARTING, RUNNING, ENDING };

/* What somebody in the job says, on its way to a log. */
struct jobrun_pipe {
	struct jobrun *j;
	int fd; /* -1: at its end */
	enum joblog_stream stream;
	struct joblog *log;
	struct event ev;
};
#define JOBRUN_PIPES 3 /* output and error of the main process; an agent's */

struct jobrun {
	const struct jobrun_options *o;
	struct jobdef *spec;
	enum jobrun_state state;
	bool ready;
	bool pids_own; /* the job has a pid namespace */
	struct loop *loop;
	struct joblog *log;
	struct joblog *agent_log; /* NULL: none */
	struct jobsock *sock;
	struct jobout *outside;
	char *fs;
	char *resolv;
	pid_t prepare, builder, init, net; /* 0: not there (any more) */
	int prepare_errors;
	struct seqpkt *channel;
	struct jobrun_pipe out[JOBRUN_PIPES];
	int ready_fd; /* its reading end */
	struct event ready_ev;
	struct strbuf lacks;
	struct timer timeout, grace, drain, net_try;
	unsigned net_tries;
	char *group; /* of its control group; NULL: none */
	int group_fd;
	struct jobend end;
	const char *why;  /* timeout, stopped: who ended it; NULL: itself */
	uint64_t kill_at; /* when the grace is over; 0: no stop yet */
};

/* It cannot be started, and why. */
void jobrun_unstarted(struct jobrun *j, const char *fmt, ...) SBX_PRINTF(2, 3);
/* It has less than it should have. */
void jobrun_lack(struct jobrun *j, const char *fmt, ...) SBX_PRINTF(2, 3);
void jobrun_start_loop(struct jobrun *j);
/* Callbacks. */
void jobrun_pipe_cb(evutil_socket_t fd, short what, void *arg);
void jobrun_ready_cb(evutil_socket_t fd, short what, void *arg);
void jobrun_channel_cb(struct seqpkt *sp, struct strv msg, int fd, void *arg);
void jobrun_channel_closed_cb(struct seqpkt *sp, void *arg);

/* jobrun_net.c */
void jobrun_net_connect(struct jobrun *j, int log_fd);
void jobrun_net_try_cb(void *arg);
void jobrun_net_done(struct jobrun *j); /* as good as it gets: process 1 runs */
void jobrun_net_died(struct jobrun *j, int status);

/* jobbuild.c. Makes what the two halves have in common, and forks the inner
 * one. Not 0: jobrun_unstarted() was called. */
int jobbuild(struct jobrun *j) SBX_MUST_CHECK;

#endif
