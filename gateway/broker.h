/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What workers ask of the master: that their replica be up to date (sync), and
 * connections that they may not make themselves (connect).
 */
#ifndef SBX_GATEWAY_BROKER_H
#define SBX_GATEWAY_BROKER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

struct agentctl;
struct broker;
struct crew;
struct crew_member;
struct remotes;

struct broker *broker_new(void);
void broker_free(struct broker *b);
/* Whom a question for news goes to. */
struct broker_agents {
	struct agentctl *agent; /* NULL: none */
	struct remotes *remotes;
};
void broker_message(struct broker *b, struct crew *c,
		    const struct broker_agents *from, struct crew_member *m,
		    struct strv msg);
/* The agent, or the remotes, have answered question `number` and all before
 * it. */
void broker_synced(struct broker *b, struct crew *c, bool remote,
		   uint64_t number);

#endif
