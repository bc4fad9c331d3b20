/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One running program: its pipes and its end, on the event loop. Everything
 * that the program wrote before it ended is told before its end is.
 */
#ifndef SBX_AGENT_PROC_H
#define SBX_AGENT_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/spawn.h"
#include "base/defs.h"

struct bufq;
struct loop;
struct proc;
struct proc_env;
struct pty_size;

struct proc_exit {
	int code;   /* -1: killed by a signal */
	int signal; /* 0: none */
	bool timed_out;
	uint64_t duration_ms;
};

struct proc_cbs {
	/* Output as it was read; stream 0 is stdout, 1 stderr. */
	void (*output)(struct proc *p, unsigned stream, const char *data,
		       size_t n, void *arg);
	/* It ended, and all that it wrote was told. Descendants may still
	 * hold the pipes: then more output may come (see proc_free). */
	void (*exited)(struct proc *p, const struct proc_exit *x, void *arg);
	/* The standard input has room again; may be NULL. */
	void (*stdin_drained)(struct proc *p, void *arg);
	/* After proc_sync(): what had been written by then was told. May be
	 * NULL. */
	void (*synced)(struct proc *p, void *arg);
	/* After `exited`: nobody holds the pipes any more. May be NULL. */
	void (*closed)(struct proc *p, void *arg);
};

struct proc_options {
	uint64_t timeout_ms; /* then the group is killed; 0: never */
	bool want_stdin;     /* a pipe; else in_fd, else /dev/null */
	int in_fd;           /* becomes its standard input; 0: none */
	/* A terminal in the place of all three, with its own session's groups:
	 * its output is stream 0, its end is not to be told (^D is), and when
	 * it is stopped all of the session is. NULL: pipes. */
	const struct pty_size *tty;
};

/* What all processes of an agent share. At its end every proc must be gone
 * (proc_env_count() 0), or they are abandoned. */
struct proc_env *proc_env_new(struct loop *l);
void proc_env_free(struct proc_env *e);
size_t proc_env_count(const struct proc_env *e); /* not yet reaped */
/* For an agent that is process 1: reaps the orphans that it inherits. To be
 * called on SIGCHLD. */
void proc_env_reap(struct proc_env *e);

/* spec's fds are set here. Errors as spawn_start() gives them, and E_FULL when
 * there are no descriptors left. No callback before this has returned. */
int proc_start(struct proc_env *e, struct spawn_spec *spec,
	       const struct proc_options *o, const struct proc_cbs *cbs,
	       void *arg, struct proc **out,
	       struct spawn_error *err) SBX_MUST_CHECK;
/* A process that runs already, and that we did not start: its end is seen
 * through its pidfd, how it ended only if it is our child. It must lead a
 * process group. Takes the descriptors; out are the read ends of its pipes for
 * stdout and stderr, and do not block. */
struct proc *proc_adopt(struct proc_env *e, const struct spawn_child *child,
			const int out[2], const struct proc_cbs *cbs,
			void *arg);
/* No callback after this. A program that still runs is killed, with its group;
 * descendants that outlived it keep running, and what they write is thrown
 * away. */
void proc_free(struct proc *p);

pid_t proc_pid(const struct proc *p);
/* Its number among the sandbox's own processes. */
pid_t proc_inside(const struct proc *p);
bool proc_running(const struct proc *p); /* its end was not seen yet */
/* To its process group; E_NOTFOUND when it has ended. */
int proc_signal(struct proc *p, int sig) SBX_MUST_CHECK;
/* TERM to the group, and KILL when it has not ended grace_ms later. */
void proc_stop(struct proc *p, uint64_t grace_ms);
/* Of its terminal; nothing when it has none. */
void proc_resize(struct proc *p, const struct pty_size *size);
/* Calls `synced` when everything that is in its pipes now was told. */
void proc_sync(struct proc *p);
/* Reads no more output until proc_resume(), so that the program blocks. */
void proc_pause(struct proc *p);
void proc_resume(struct proc *p);

/* Bytes for its standard input: NULL when it has none or closed it. Put them
 * in, then call proc_stdin_flush(). */
struct bufq *proc_stdin(struct proc *p);
void proc_stdin_flush(struct proc *p);
/* Closes it once everything is written. */
void proc_stdin_end(struct proc *p);

#endif
