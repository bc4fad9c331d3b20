/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots over HTTP (doc/PROTOCOL.md): what is JSON about them is here. */
#ifndef SBX_GATEWAY_SNAPAPI_H
#define SBX_GATEWAY_SNAPAPI_H

#include <stdint.h>

struct api;
struct api_req;
struct jobs;
struct snapapi;
struct snapshots;

/* Adds the routes. Free it before s, after api. */
struct snapapi *snapapi_new(struct api *a, struct jobs *js,
			    struct snapshots *s);
/* The gateway is to end: waits are answered, no new ones begun. */
void snapapi_drain(struct snapapi *sa);
void snapapi_free(struct snapapi *sa); /* NULL is fine */

/* POST …/cancel?snapshot=1 of the job that r names, which who asks may change:
 * ends it, and answers the snapshot of what it leaves. */
void snapapi_cancel(struct api_req *r, struct snapshots *s, uint64_t grace_ms);

#endif
