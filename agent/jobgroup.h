/* SPDX-License-Identifier: Apache-2.0 */
/* A control group (version 2) for one job: its memory, CPU and processes. */
#ifndef SBX_AGENT_JOBGROUP_H
#define SBX_AGENT_JOBGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/defs.h"
#include "base/str.h"

struct jobgroup_limits { /* 0: none */
	uint64_t memory, cpu_milli, pids;
};

/* Makes PARENT/ID with these limits; what cannot be bounded is added to *lacks.
 * The descriptor is the caller's. 0, or -1 with errno. */
int jobgroup_make(const char *parent, const char *id,
		  const struct jobgroup_limits *l, struct strbuf *lacks,
		  int *fd) SBX_MUST_CHECK;
/* Puts a process (and all that it will start) into it. 0, or -1 with errno. */
int jobgroup_enter(int fd, pid_t pid) SBX_MUST_CHECK;
/* Was something in there killed for want of memory? */
bool jobgroup_starved(int fd);
/* What is frozen in there goes on. */
void jobgroup_thaw(int fd);
/* Kills what is in there, waits a little, and removes it. */
void jobgroup_remove(const char *path);

#endif
