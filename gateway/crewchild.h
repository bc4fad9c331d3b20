/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker process does between fork() and exit(). */
#ifndef SBX_GATEWAY_CREWCHILD_H
#define SBX_GATEWAY_CREWCHILD_H

#include <signal.h>
#include <sys/types.h>

struct state_user;
struct worker_options;

/* In the child: leaves behind what is the master's, gives up root, serves.
 * Returns the exit status. mask: the signal mask to go back to. */
int crewchild_run(const struct worker_options *o, pid_t master,
		  const struct state_user *user, const sigset_t *mask);

#endif
