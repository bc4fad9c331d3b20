/* SPDX-License-Identifier: Apache-2.0 */
/* What proc.c (life and end) and procio.c (the pipes) share; private. */
#ifndef SBX_AGENT_PROC_INT_H
#define SBX_AGENT_PROC_INT_H

#include <event2/event_struct.h>

#include "agent/proc.h"
#include "net/buf.h"
#include "net/loop.h"

#define PROC_MAGIC    0x50524f43U
#define PROC_READ_MAX 65536

struct proc_env {
	struct loop *loop;
	struct spawner *spawner;
	int devnull;
	char *scratch; /* PROC_READ_MAX: what one read gets */
	struct proc *procs;
	size_t count;
	struct procio_sink *sinks;
	size_t nsinks;
};

struct proc_pipe {
	struct proc *p;
	int fd; /* -1: at its end */
	bool on;
	size_t owed; /* bytes that were in it at the end, or at a sync */
	struct event ev;
};

struct proc {
	uint32_t magic;
	pid_t pid;
	pid_t inside;
	int pidfd;
	struct proc_env *env;
	struct proc *next;
	struct proc **prevp;
	const struct proc_cbs *cbs; /* NULL: given up by its owner */
	void *arg;
	bool reaped;
	bool told; /* exited was */
	bool closed_told;
	bool paused;
	bool adopted;
	bool tty;
	bool syncing;
	bool drain_over; /* descendants had their time */
	bool stopping;
	bool timed_out;
	uint64_t started_us;
	struct proc_exit result;
	struct event exit_ev;
	struct proc_pipe out[2];
	struct {
		int fd;
		bool on;
		bool end;  /* close when written */
		bool owed; /* drained is to be told */
		struct event ev;
		struct bufq q;
	} in;
	struct timer deadline; /* the timeout, then the grace, then the drain */
	struct task check;
};

/* Takes both output pipes' and the input's read and write ends (in -1: none).
 */
void procio_init(struct proc *p, int in, int out, int err);
void procio_want(struct proc *p); /* reads, or not, as paused says */
/* Notes what is in the pipes, which is owed, and reads what can be read now. A
 * terminal does not tell: until it says that there is nothing, all is. */
void procio_drain(struct proc *p);
bool procio_settled(const struct proc *p); /* all that is owed was told */
bool procio_eof(const struct proc *p);
/* Closes everything; output pipes that descendants hold are emptied into
 * nothing from now on. A terminal is hung up. */
void procio_clear(struct proc *p);
void procio_sinks_free(struct proc_env *e);

#endif
