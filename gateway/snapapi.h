/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots over HTTP (doc/PROTOCOL.md): what is JSON about them is here. */
#ifndef SBX_GATEWAY_SNAPAPI_H
#define SBX_GATEWAY_SNAPAPI_H

struct api;
struct jobs;
struct snapapi;
struct snapshots;

/* Adds the routes. Free it before s, after api. */
struct snapapi *snapapi_new(struct api *a, struct jobs *js,
			    struct snapshots *s);
/* The gateway is to end: waits are answered, no new ones begun. */
void snapapi_drain(struct snapapi *sa);
void snapapi_free(struct snapapi *sa); /* NULL is fine */

#endif
