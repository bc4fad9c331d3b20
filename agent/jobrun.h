/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The outer half of a job's supervisor: it starts the inner half (jobinit.h),
 * writes the log, keeps the time, obeys job.sock, and says how it all ended.
 */
#ifndef SBX_AGENT_JOBRUN_H
#define SBX_AGENT_JOBRUN_H

#include "agent/jobdef.h"

struct jobrun_options {
	const char *dir;     /* absolute */
	int dirfd;           /* the same */
	char *arg;           /* as it stands in our command line */
	struct jobdef *spec; /* its environment is wiped when it was used */
	int lock;            /* held by all who belong to the job */
	int listen_fd;       /* job.sock, listening; taken */
	int first_fd;        /* a connection to begin with; -1; taken */
};

/* Runs the job to its end; exit.json is written then. */
void jobrun(const struct jobrun_options *o);

#endif
