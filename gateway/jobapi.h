/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Hub's Jobs API, as its clients speak it (doc/PROTOCOL.md), on the
 * service of jobs: what is HTTP and JSON about jobs is in jobapi*.c and
 * jobjson.c, and nowhere else.
 */
#ifndef SBX_GATEWAY_JOBAPI_H
#define SBX_GATEWAY_JOBAPI_H

struct api;
struct jobapi;
struct jobs;
struct snapshots;

/* Adds the routes. Free it before js and snapshots, after api. */
struct jobapi *jobapi_new(struct api *a, struct jobs *js,
			  struct snapshots *snapshots);
/* The gateway is to end: open streams are ended in order, waits are answered,
 * no new ones begun. */
void jobapi_drain(struct jobapi *ja);
void jobapi_free(struct jobapi *ja); /* NULL is fine */

#endif
