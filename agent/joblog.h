/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of a job: what it says, line by line, as NDJSON, in two files of
 * bounded size (gateway/launch.h says how they are read).
 */
#ifndef SBX_AGENT_JOBLOG_H
#define SBX_AGENT_JOBLOG_H

#include <stddef.h>
#include <stdint.h>

#include "base/defs.h"

struct joblog;

enum joblog_stream { JOBLOG_STDOUT, JOBLOG_STDERR, JOBLOG_SYSTEM };

#define JOBLOG_LINE 16384 /* bytes; longer lines are cut into several */
#define JOBLOG_MAX  (16U << 20)

/* name: short, like "log". max: bytes that it and `log.1` in dirfd may take
 * together; 0: JOBLOG_MAX. dirfd is borrowed for as long as the log lives. */
int joblog_open(int dirfd, const char *name, uint64_t max,
		struct joblog **out) SBX_MUST_CHECK;
/* Bytes as they were read; whole lines are written before this returns. */
void joblog_add(struct joblog *l, enum joblog_stream s, const char *p,
		size_t n);
/* One line about the job. */
void joblog_say(struct joblog *l, const char *fmt, ...) SBX_PRINTF(2, 3);
/* Writes begun lines too. NULL is fine. */
void joblog_close(struct joblog *l);

#endif
