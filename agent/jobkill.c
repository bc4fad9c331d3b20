/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Killing a process tree. Whoever forks faster than we look is stopped first:
 * what is stopped forks no more, so that the rounds come to an end.
 */
#include "config.h"

#include "agent/jobkill.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "agent/descend.h"

#define ROUNDS     1000 /* of about 5 ms */
#define STOP_ROUND 4    /* stops in a row before a kill */

void
jobkill_descendants(void)
{
	const struct timespec pause = {.tv_nsec = 3000000};

	for (unsigned i = 0; i < ROUNDS && descend_any(); i++) {
		unsigned n = 0, before;

		for (unsigned k = 0; k < STOP_ROUND; k++) {
			before = n;
			n = descend_kill(SIGSTOP);
			if (n == before)
				break;
		}
		(void)descend_kill(SIGKILL);
		(void)nanosleep(&pause, NULL);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	}
}
