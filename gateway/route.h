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
};

struct route_sandbox {
	char *id;
	uint64_t generation;
	struct route_agent *agent;          /* NULL: a configured one */
	const struct gw_sandbox_conf *conf; /* NULL for an agent's */
	char *ns;
	bool has_token;
	uint8_t token_hash[TOKEN_HASH_LEN];
	bool gone; /* a tombstone */
	char *gone_reason;
	time_t gone_at;
	unsigned conns; /* open exchanges and tunnels, by this worker */
};

/* A user token (Hugging Face style bearer). */
struct route_bearer {
	uint8_t hash[TOKEN_HASH_LEN];
	char *name;
	char *ns;
	char *role; /* "user", "admin", "readonly" */
};

struct route_table *route_new(void);
void route_free(struct route_table *t);
/* Changes with every change; for caches of decisions. */
uint64_t route_version(const struct route_table *t);

struct route_sandbox *route_lookup(struct route_table *t, struct strv id);
const struct route_bearer *route_bearer(const struct route_table *t,
					const uint8_t hash[TOKEN_HASH_LEN]);
struct route_agent *route_agent(struct route_table *t, struct strv name);
size_t route_count(const struct route_table *t);
struct route_sandbox *route_each(struct route_table *t, size_t *pos);

/* Applies one message of PROTOCOL.md section 2 (agent, sandbox, gone, bearer,
 * unbearer). 0, E_NOTFOUND: not a table message, E_INVALID: malformed. */
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
	ROUTE_API,    /* /api/...: the control plane */
	ROUTE_PORT,   /* a server in a sandbox */
	ROUTE_AGENT,  /* other /v1/...: the sandbox's agent */
	ROUTE_BAD     /* names a port or id that cannot be: 400 */
};
struct route_match {
	enum route_kind kind;
	struct strv id;     /* empty: the default sandbox */
	uint16_t port;      /* ROUTE_PORT */
	bool by_name;       /* by Host label: no prefix to strip */
	bool keep_prefix;   /* absproxy */
	bool no_slash;      /* ".../proxy/80" without a trailing slash */
	struct strv prefix; /* what was in front of tail in the path; for
			     * X-Forwarded-Prefix and rewriting */
	struct strv tail;   /* path and query for the inner server: begins
			     * with '/' or '?' or is empty ("/" is meant) */
	const char *why;    /* ROUTE_BAD: static text */
};
/* host: value of Host, port and all. */
void route_match(const struct gw_conf *conf, struct strv host, struct strv path,
		 struct route_match *out);
/* 1..63 of [a-z0-9-], not beginning or ending with '-', no "--" inside. */
bool route_id_ok(struct strv id);
/* Canonical decimal 1-65535; 0 when it is not. */
uint16_t route_port_parse(struct strv s);

#endif
