/* SPDX-License-Identifier: Apache-2.0 */
/* POST /api/jobs/ID/register: a job says where its agent is. */
#ifndef SBX_GATEWAY_LAUNCHAPI_H
#define SBX_GATEWAY_LAUNCHAPI_H

struct api;
struct launcher;

/* The launcher is borrowed for as long as the api lives. */
void launchapi_add(struct api *a, struct launcher *l);

#endif
