/* SPDX-License-Identifier: Apache-2.0 */
/* sbx-gateway token add|list|revoke. */
#ifndef SBX_GATEWAY_TOKENCMD_H
#define SBX_GATEWAY_TOKENCMD_H

/* argv[0] is "token". Returns the exit status. */
int tokencmd_run(int argc, char **argv);

#endif
