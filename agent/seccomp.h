/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls that sandboxes have no use for and that open holes: see the
 * table in seccomp.c for what and why. Refused with an errno that programs know
 * how to live with, never with a signal.
 */
#ifndef SBX_AGENT_SECCOMP_H
#define SBX_AGENT_SECCOMP_H

#include <stdbool.h>

#include "base/defs.h"

bool seccomp_available(void);

/* Both restrict the calling thread and all that it starts from now on, and set
 * no_new_privs. Only system calls: fit for a child before execve. 0 or -1 with
 * errno. */

/* For the agent itself, once: what its commands inherit costs nothing more.
 * userns: user namespaces too (then clone3 does not exist for the agent). */
int seccomp_restrict(bool userns) SBX_MUST_CHECK;
/* User namespaces alone, for each command of an agent that needs clone3. */
int seccomp_no_userns(void) SBX_MUST_CHECK;

#endif
