/* SPDX-License-Identifier: Apache-2.0 */
/* How many cores this process may really use. */
#ifndef SBX_GATEWAY_CORES_H
#define SBX_GATEWAY_CORES_H

/* By affinity and by the cgroup's CPU quota (rounded up), 1 to 256. */
unsigned cores_usable(void);

#endif
