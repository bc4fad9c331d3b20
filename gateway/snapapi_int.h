/* SPDX-License-Identifier: Apache-2.0 */
/* What snapapi.c and snapapi_content.c share. */
#ifndef SBX_GATEWAY_SNAPAPI_INT_H
#define SBX_GATEWAY_SNAPAPI_INT_H

#include "gateway/api.h"
#include "gateway/snapapi.h"
#include "gateway/snapstore.h"

/* An answer that waits; embedded. */
struct snapapi_wait {
	struct snapapi_wait *next, **prevp;
	struct snapapi *sa;
	char *ns;
	void (*end)(void *arg); /* answers now */
	void *arg;
};

struct snapapi {
	struct jobs *jobs;
	struct snapshots *snapshots;
	struct snapapi_wait *waits;
	size_t nwaits, ndownloads;
	bool draining;
};

/* Param 0 is the id of a snapshot of a namespace that who asks may read; else
 * it is answered. */
int snapapi_find(struct api_req *r, struct snapshot *out) SBX_MUST_CHECK;

/* snapapi_content.c */
api_handler snapapi_content;

#endif
