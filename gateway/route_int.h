/* SPDX-License-Identifier: Apache-2.0 */
/* The route table inside: route.c keeps it, route_msg.c changes it. */
#ifndef SBX_GATEWAY_ROUTE_INT_H
#define SBX_GATEWAY_ROUTE_INT_H

#include "gateway/route.h"

struct hash;

struct route_table {
	struct hash *sandboxes; /* by id; "-" for the default one */
	struct hash *agents;
	struct hash *bearers; /* by the 32 bytes of the hash */
	const struct gw_conf *conf;
	uint64_t version;
	/* tombstones, oldest first; some may have come back to life */
	struct route_sandbox *gone_head, **gone_tail;
	size_t ngone;
};

/* NULL is not fine; they must be out of the table. */
void route_agent_free(struct route_agent *a);
void route_bearer_free(struct route_bearer *b);
/* What is configured for that id; NULL: nothing. */
const struct gw_sandbox_conf *route_conf_of(const struct route_table *t,
					    const char *id);
/* The entry to fill for id in that generation: the one there is, or a new one
 * in its place. The table's; ns is the caller's to set. */
struct route_sandbox *route_slot(struct route_table *t, struct strv id,
				 uint64_t generation, bool job);
/* s, whose reason and time are set, is a tombstone from now on; the oldest ones
 * go while there are too many or too old. */
void route_bury(struct route_table *t, struct route_sandbox *s);

#endif
