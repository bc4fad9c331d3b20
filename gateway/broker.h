/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What workers ask of the master: that their replica be up to date (sync), and
 * connections that they may not make themselves (connect).
 */
#ifndef SBX_GATEWAY_BROKER_H
#define SBX_GATEWAY_BROKER_H

#include <stdint.h>

#include "base/str.h"

struct agentctl;
struct broker;
struct crew;
struct crew_member;

struct broker *broker_new(void);
void broker_free(struct broker *b);
/* agent: NULL when there is none. */
void broker_message(struct broker *b, struct crew *c, struct agentctl *agent,
		    struct crew_member *m, struct strv msg);
/* The agent has answered question `number` and all before it. */
void broker_synced(struct broker *b, struct crew *c, uint64_t number);

#endif
