/* SPDX-License-Identifier: Apache-2.0 */
/* Killing everything below a process, where no pid namespace does it. */
#ifndef SBX_AGENT_JOBKILL_H
#define SBX_AGENT_JOBKILL_H

/* Kills all that descends from this process, which must be a child subreaper,
 * and reaps it; gives up after some seconds on what does not die. */
void jobkill_descendants(void);

#endif
