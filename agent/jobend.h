/* SPDX-License-Identifier: Apache-2.0 */
/* How a job ended: the `exit.json` of its directory (doc/PROTOCOL.md). */
#ifndef SBX_AGENT_JOBEND_H
#define SBX_AGENT_JOBEND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/defs.h"

struct jobend {
	const char *reason; /* exited, timeout, stopped, unstarted, lost, oom;
			     * NULL: not yet */
	int code;           /* -1: none */
	int signal;         /* 0: none */
	char message[512];
};

/* What was going on when it ended. */
struct jobend_facts {
	const char *why; /* timeout, stopped: who ended it; NULL: itself */
	bool starved;    /* the kernel killed in it for want of memory */
	uint64_t memory, timeout_ms; /* its limits */
};
/* Makes of how the main process ended (reason is not NULL) how the job did, and
 * a message if there is none. */
void jobend_conclude(struct jobend *e, const struct jobend_facts *f);

/* Takes the room for it, so that a job that fills the disk can end. */
void jobend_reserve(int dirfd);
/* Writes it for good (fsync, rename), unless one is there: E_EXISTS. */
int jobend_write(int dirfd, const struct jobend *e) SBX_MUST_CHECK;

#endif
