/* SPDX-License-Identifier: Apache-2.0 */
/* What podflare.c (ids and their sandboxes) and podop.c (orders to the agent)
 * share; private to them. */
#ifndef SBX_GATEWAY_PODFLARE_INT_H
#define SBX_GATEWAY_PODFLARE_INT_H

#include "gateway/podflare.h"
#include "net/loop.h"

struct hash;

struct podflare {
	struct podflare_options o;
	struct hash *ids; /* of struct pod */
	struct podbox *boxes;
	size_t nboxes, making; /* making: orders that will be boxes */
	struct podop *ops;
	struct timer sweep;
};

/* With a reference, the caller's. */
struct podbox *podbox_new(struct podflare *p, const char *id, const char *ns,
			  uint64_t epoch);
void podbox_unref(struct podbox *b);
/* Takes it and all its ids out of the tables. */
void podbox_take_out(struct podbox *b);
struct pod *pod_new(struct podbox *b, const char *context);
void pod_free(struct pod *pod); /* takes its id out */
/* podop.c: ends the sandbox at the agent, whoever waits for it. */
void podop_end_box(struct podbox *b);
void podop_free_all(struct podflare *p);

#endif
