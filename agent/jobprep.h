/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program that fills a job's file system before anything of the job runs:
 * with the rights of the supervisor, in `fs/` (laid out already), and with
 * SBX_FS, SBX_FS_UID, SBX_FS_UIDS and SBX_FS_ROOTFS as its whole environment
 * (doc/PROTOCOL.md).
 */
#ifndef SBX_AGENT_JOBPREP_H
#define SBX_AGENT_JOBPREP_H

#include <stddef.h>
#include <sys/types.h>

#include "agent/jobdef.h"
#include "base/defs.h"

/* Starts it; *errors becomes a file of what it says. Pid, or -1 with errno. */
pid_t jobprep_start(const struct jobdef *s, const char *fs, int *errors);
/* How it went wrong: the last line of what it said, else its status. */
void jobprep_why(int errors, int status, char *text, size_t size);

#endif
