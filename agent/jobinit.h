/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inner half of a job's supervisor. A builder makes the job's surroundings
 * and leaves a process 1 of the job's pid namespace, which starts the main
 * process (and our agent beside it, if it is another one), reaps, and ends when
 * one of them has ended or the outer half is gone; with it ends all that the
 * job has started.
 *
 * They talk over a SEQPACKET pair. To the outer half: "lack TEXT" (any number),
 * "outside N" with a listening socket (for
 * that entry of the spec), "init PID" (process 1 is there, the builder ends),
 * "net" (there is a private network, to be connected) or "nonet", "started",
 * and "exit CODE SIGNAL" or "lost TEXT" (the agent's end); or "failed TEXT".
 * From it: "go" (build), "run" (the network is as good as it gets), "term". Its
 * end means: kill everything.
 */
#ifndef SBX_AGENT_JOBINIT_H
#define SBX_AGENT_JOBINIT_H

#include <stdbool.h>

#include "agent/jobdef.h"
#include "base/defs.h"

struct jobinit {
	const struct jobdef *spec;
	const char *fs;     /* the job's part of the disk */
	const char *resolv; /* NULL: as it is */
	char *arg;          /* of our command line, to be wiped; NULL */
	int channel;
	int lock;      /* held as long as we live */
	int userns;    /* to be entered by the main process; -1 */
	int out[2];    /* become its standard output and error */
	int agent_out; /* both of an agent beside a command; else -1 */
	int listen_fd, control_fd, ready_fd; /* for an agent; else -1 */
	int exe;                             /* our own program, for an agent */
};

#define JOBINIT_LISTEN  3 /* what these are in an agent */
#define JOBINIT_CONTROL 4
#define JOBINIT_READY   5

/* In a child of the outer half, which becomes process 1's parent as well. */
void jobinit_run(const struct jobinit *ji) SBX_NORETURN;

#endif
