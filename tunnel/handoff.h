/* SPDX-License-Identifier: Apache-2.0 */
/* Becoming the real ssh, for what is not a tunnel. */
#ifndef SBX_TUNNEL_HANDOFF_H
#define SBX_TUNNEL_HANDOFF_H

/* Replaces this process by the first ssh in PATH that is not this program.
 * Returns only when there is none. */
void handoff_ssh(char **argv);

#endif
