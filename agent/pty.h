/* SPDX-License-Identifier: Apache-2.0 */
/* Pseudo terminals: made by the agent, whoever is to sit at them, so that they
 * need nothing of the sandbox's own mounts. */
#ifndef SBX_AGENT_PTY_H
#define SBX_AGENT_PTY_H

#include <stdint.h>
#include <sys/types.h>

#include "base/defs.h"

struct pty_size {
	uint16_t cols, rows; /* 0: 80 and 24 */
};

/* A new pair. The master does not block; neither becomes the agent's own
 * controlling terminal. owner may open the slave by its name, too; (uid_t)-1:
 * it is the agent's. E_SYS (errno). */
int pty_open(const struct pty_size *size, uid_t owner, int *master,
	     int *slave) SBX_MUST_CHECK;
/* Who is in the foreground there gets SIGWINCH. */
void pty_resize(int master, const struct pty_size *size);

#endif
