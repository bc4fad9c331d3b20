/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes that process 1 of a job starts: the agent, the command, and,
 * before them, one that writes the files that the job is to find. Each has the
 * job's user, environment and directory.
 */
#ifndef SBX_AGENT_JOBMAIN_H
#define SBX_AGENT_JOBMAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "agent/jobinit.h"
#include "base/defs.h"

struct jobmain {
	const struct jobinit *o;
	bool new_mounts; /* the job has a file system of its own */
	bool own_userns; /* we are in a user namespace already */
};

enum jobmain_what { JOBMAIN_FILES, JOBMAIN_AGENT, JOBMAIN_COMMAND };

/* Returns when its program runs, or (files) when it is done. E_SYS: why says
 * at what it failed, and how. */
int jobmain_start(const struct jobmain *m, enum jobmain_what what, pid_t *pid,
		  char *why, size_t size) SBX_MUST_CHECK;

#endif
