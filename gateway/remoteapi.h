/* SPDX-License-Identifier: Apache-2.0 */
/* /api/tunnels: how the tunnels are, and what a URL is over there. */
#ifndef SBX_GATEWAY_REMOTEAPI_H
#define SBX_GATEWAY_REMOTEAPI_H

struct api;
struct remotes;

void remoteapi_add(struct api *a, struct remotes *rs);

#endif
