/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The route table: which sandboxes exist, what opens them, and where their
 * servers are. The master owns it (owner side: route_publish_*), each worker
 * keeps a replica that it fills from the master's messages (route_apply), and
 * answers every request from it alone. Nothing here does I/O.
 */
#ifndef SBX_GATEWAY_ROUTE_H
#define SBX_GATEWAY_ROUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "base/defs.h"
#include "base/str.h"

#define SANDBOX_ID_MAX                                                         \
	63 /* a DNS label's length; [a-z0-9-], see                             \
	    * route_id_ok() */
#define TOKEN_HASH_LEN 32

struct route_table;
struct gw_conf;
struct gw_sandbox_conf;

/* An agent: where requests that are not for a port inside go. */
struct route_agent {
	char *name;
	char *http;    /* "unix:/path" or "tcp:host:port" */
	char *control; /* path of its control channel, NULL: none (remote) */
	char *ns;      /* namespace that its sandboxes belong to */
	char *token;   /* what it wants as X-Sandbox-Token from us */
	char *down;    /* why it cannot be reached now; NULL: it can */
};

struct route_sandbox {
	char *id;
	uint64_t generation;
	struct route_agent *agent;          /* NULL: a configured one */
	const struct gw_sandbox_conf *conf; /* NULL for an agent's */
	char *ns;
	/* A job: needs a bearer of its namespace, and what it says as
	 * X-Sandbox-Token is for the job's own agent to look at. It starts
	 * while it has neither address. They stay for its generation. */
	bool job;
	char *http;    /* its agent's; NULL: none (yet) */
	char *control; /* path of its control channel; NULL: none (yet) */
	bool has_token;
	uint8_t token_hash[TOKEN_HASH_LEN];
	bool gone;         /* a tombstone */
	char *gone_reason; /* for people */
	time_t gone_at;
	unsigned conns; /* open exchanges and tunnels, by this worker; see
			 * route_hold() */
	bool detached;  /* out of the table, freed when conns is 0 */
	struct route_sandbox *next_gone; /* route.c: tombstones by age */
};

/* A tombstone is kept for a day, and at most so many are. */
#define ROUTE_GONE_SECONDS 86400
#define ROUTE_GONE_MAX     16384

/* A user token (Hugging Face style bearer). */
struct route_bearer {
	uint8_t hash[TOKEN_HASH_LEN];
	char *name;
	char *ns;   /* comma-separated, the default one first */
	char *role; /* "user", "admin", "readonly" */
};

struct route_table *route_new(void);
void route_free(struct route_table *t);
/* Where `conf` of configured sandboxes comes from (borrowed; it must outlive
 * the table or be replaced). Those that are in the table are looked up anew. */
void route_set_conf(struct route_table *t, const struct gw_conf *conf);
/* Changes with every change; for caches of decisions. */
uint64_t route_version(const struct route_table *t);

/* Sandboxes and tombstones; case-insensitively (ids come in host names). The
 * pointer is good until route_version() changes. */
struct route_sandbox *route_lookup(struct route_table *t, struct strv id);
static inline bool
route_starts(const struct route_sandbox *s)
{
	return s->job && s->http == NULL && s->control == NULL;
}
/* An exchange or tunnel begins and ends: a held sandbox stays readable when
 * the table drops it. */
void route_hold(struct route_sandbox *s);
void route_release(struct route_sandbox *s);
/* Whether a comma-separated list of namespaces has that one. */
bool route_ns_has(const char *list, const char *ns);
const struct route_bearer *route_bearer(const struct route_table *t,
					const uint8_t hash[TOKEN_HASH_LEN]);
struct route_agent *route_agent(struct route_table *t, struct strv name);
/* For requests that name no sandbox: the embedded agent, or the only one. */
struct route_agent *route_default_agent(struct route_table *t);
size_t route_count(const struct route_table *t);
struct route_sandbox *route_each(struct route_table *t, size_t *pos);

/* A sandbox with its agent's name is the machine of an agent that serves no
 * others (dedicated mode). */
static inline bool
route_is_machine(const struct route_sandbox *s)
{
	return s != NULL && s->agent != NULL &&
	       strcmp(s->id, s->agent->name) == 0;
}

/* Applies one message of PROTOCOL.md section 2 (agent, unagent, down, up,
 * sandbox, job, gone, bearer, unbearer). 0, E_NOTFOUND: not a table message,
 * E_INVALID: malformed. */
int route_apply(struct route_table *t, struct strv msg) SBX_MUST_CHECK;
/* The messages that make an empty replica equal to t, one call each. */
void route_dump(struct route_table *t, void (*emit)(struct strv msg, void *arg),
		void *arg);

/*
 * What a request target or Host means, decided on the raw bytes (nothing is
 * percent-decoded before it). id and tail point into the input.
 */
enum route_kind {
	ROUTE_NONE,   /* not ours: 404 route */
	ROUTE_HEALTH, /* GET /health */
	ROUTE_API,    /* /api, /buckets, /podflare, /coreweave…: the control
		       * plane */
	ROUTE_PORT,   /* a server in a sandbox */
	ROUTE_AGENT,  /* other /v1/...: the sandbox's agent */
	ROUTE_BAD     /* names a port or id that cannot be: 400 */
};
struct route_match {
	enum route_kind kind;
	struct strv id;     /* empty: the default sandbox */
	struct strv label;  /* ROUTE_AGENT by name (<label>--49983): a sandbox
			     * or an agent; id is what the path names */
	uint16_t port;      /* ROUTE_PORT */
	bool rpc;           /* ROUTE_API of the CoreWeave service */
	bool by_name;       /* by Host label: no prefix to strip */
	bool keep_prefix;   /* absproxy */
	bool no_slash;      /* ".../proxy/80" without a trailing slash */
	struct strv prefix; /* what was in front of tail in the path; for
			     * X-Forwarded-Prefix and rewriting */
	struct strv inner;  /* with a label: all that is behind it */
	struct strv tail;   /* path and query for the inner server: begins
			     * with '/' or '?' or is empty ("/" is meant) */
	const char *why;    /* ROUTE_BAD: static text */
};
/* host: value of Host, port and all. */
void route_match(const struct gw_conf *conf, struct strv host, struct strv path,
		 struct route_match *out);
/* The port that means the agent itself in the by-name forms. */
#define ROUTE_AGENT_PORT 49983
/* True for the path of an agent's route that nobody can read differently: no
 * percent sign, backslash, dot segment or empty segment before the query. */
bool route_plain_path(struct strv path);
/* True when no segment of the path could be taken for "." or "..": what is
 * sent on below a prefix through an agent must stay below it. */
bool route_stays_below(struct strv path);
/* 1..63 of [a-z0-9-], not beginning or ending with '-', no "--" inside. */
bool route_id_ok(struct strv id);
/* Canonical decimal 1-65535; 0 when it is not. */
uint16_t route_port_parse(struct strv s);

#endif
