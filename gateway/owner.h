/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The owner of the route table, in the master: turns what the configuration,
 * the token file and the agent say into table messages, applies them to its
 * own table and hands them out to be sent to the workers.
 */
#ifndef SBX_GATEWAY_OWNER_H
#define SBX_GATEWAY_OWNER_H

#include <stdint.h>

#include "base/defs.h"
#include "base/str.h"
#include "gateway/gwconf.h"
#include "gateway/route.h"
#include "gateway/tokens.h"

struct owner;

struct owner *owner_new(void (*emit)(struct strv msg, void *arg), void *arg);
void owner_free(struct owner *o);
struct route_table *owner_table(struct owner *o);

/* The configured sandboxes are now those of conf. */
void owner_set_conf(struct owner *o, const struct gw_conf *conf);
/* The user tokens are now these. */
void owner_set_tokens(struct owner *o, const struct token_list *l);

/* The embedded agent's. name is its name in the table. */
void owner_agent(struct owner *o, const char *name, const char *http,
		 const char *control, const char *ns, const char *token);
/* A sandbox of it; token is the secret itself (only its hash is kept). */
void owner_add(struct owner *o, struct strv id, uint64_t generation,
	       const char *agent, const char *ns, struct strv token);
void owner_gone(struct owner *o, struct strv id, uint64_t generation,
		struct strv reason);
/* All of an agent's are gone: it died. */
void owner_agent_gone(struct owner *o, const char *agent, const char *reason);

#endif
