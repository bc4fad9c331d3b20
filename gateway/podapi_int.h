/* SPDX-License-Identifier: Apache-2.0 */
/* What podapi.c and podexec.c share; private to them. */
#ifndef SBX_GATEWAY_PODAPI_INT_H
#define SBX_GATEWAY_PODAPI_INT_H

#include <stddef.h>

#include "gateway/api.h"
#include "gateway/podflare.h"

struct podapi {
	struct podflare *p;
	size_t held;    /* podlines.h */
	unsigned calls; /* of exec, that run or wait */
};

/* The one that param i names; answers and returns NULL when there is none
 * that this user may use. */
struct pod *podapi_find(struct api_req *r, size_t i);
void podapi_not_found(struct api_req *r);

api_handler podexec_post; /* podexec.c */

#endif
