/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All that descends from this process. A subreaper inherits every orphan below
 * it, so that even a daemon of its own session is found.
 */
#ifndef SBX_AGENT_DESCEND_H
#define SBX_AGENT_DESCEND_H

#include <stdbool.h>
#include <sys/types.h>

/* Signals every process that descends from this one, as far as one look at
 * /proc shows them; what forks meanwhile is found by the next look. Returns
 * how many there were, zombies left out. */
unsigned descend_kill(int sig);
/* The same for that session's, whose leader must not have been reaped: so the
 * number is nobody else's. */
unsigned descend_session(pid_t session, int sig);
/* Whether there is one at all, zombies included: asks the kernel, not /proc. */
bool descend_any(void);

#endif
