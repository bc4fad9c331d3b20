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

struct hash;
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
/*
 * A job, whose URL needs a bearer of the namespace ns. It is starting, and
 * requests wait a moment, until it is said again with an address: of its agent
 * ("unix:/path"; NULL: it has none) and of the control channel that gives
 * descriptors to its own ports (NULL: none; see PROTOCOL.md, section 1). These
 * are final for a generation.
 */
void owner_job(struct owner *o, const char *id, uint64_t generation,
	       const char *http, const char *control, const char *ns);
/* It has ended: 410 with the reason (a few words for people) from now on. One
 * that was never said (it ended before we started) is known after this. */
void owner_job_gone(struct owner *o, const char *id, uint64_t generation,
		    const char *ns, const char *reason);

/* All of an agent's are gone: it died. */
void owner_agent_gone(struct owner *o, const char *agent, const char *reason);
/* It cannot be reached now, and why (one line); its sandboxes stay. */
void owner_agent_down(struct owner *o, const char *agent, const char *reason);
void owner_agent_up(struct owner *o, const char *agent);
/* Those that are not in ids are gone; returns how many. */
size_t owner_agent_keep(struct owner *o, const char *agent,
			const struct hash *ids, const char *reason);
/* The agent itself is no more, and so are its sandboxes. */
void owner_agent_drop(struct owner *o, const char *agent, const char *reason);

#endif
