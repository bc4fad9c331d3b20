/* SPDX-License-Identifier: Apache-2.0 */
/* How a job ended: the `exit.json` of its directory (doc/PROTOCOL.md). */
#ifndef SBX_AGENT_JOBEND_H
#define SBX_AGENT_JOBEND_H

#include "base/defs.h"

struct jobend {
	const char *reason; /* exited, timeout, stopped, unstarted, lost;
			     * NULL: not yet */
	int code;           /* -1: none */
	int signal;         /* 0: none */
	char message[512];
};

/* Writes it for good (fsync, rename), unless one is there: E_EXISTS. */
int jobend_write(int dirfd, const struct jobend *e) SBX_MUST_CHECK;

#endif
