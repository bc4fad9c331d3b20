/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who asks, and whether that opens what they ask for: decided for every
 * request, in one place, to one value (struct auth_who) that the rest of the
 * request path only reads.
 *
 * Credentials: X-Sandbox-Token, the sandbox's own or the operator's, decides
 * alone when it is there; else Authorization: Bearer, a user's token from the
 * token file or one that the hub vouches for. To a job the bearer alone counts:
 * its X-Sandbox-Token is between the client and the job's agent.
 *
 * No oracle: whether a sandbox exists changes neither the answer nor the way
 * to it for who has no credential that opens it. A credential that fails is
 * looked at once more after the replica was brought up to date, whether its
 * sandbox is known or not.
 */
#ifndef SBX_GATEWAY_AUTH_H
#define SBX_GATEWAY_AUTH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "gateway/hub.h"

struct addr;
struct auth;
struct gw_conf;
struct http_head;
struct loop;
struct route_sandbox;
struct route_table;

enum auth_kind {
	AUTH_NOBODY,
	AUTH_SANDBOX,  /* the sandbox's own token */
	AUTH_USER,     /* of the sandbox's namespace; somebody */
	AUTH_ADMIN,    /* a user whose role opens everything */
	AUTH_OPERATOR, /* the operator's token */
};

struct auth_who {
	enum auth_kind kind;
	bool by_token; /* by X-Sandbox-Token, not by Authorization */
	char name[20]; /* for the log, cut */
	/* Of the user's token that opened it, so that this can be ended when
	 * that is taken back; 0: no such token did. */
	uint64_t token_id;
	/* Only for AUTH_NEED_USER, and good until the table or the hub's
	 * answers change: the whole name, its namespaces (comma-separated, the
	 * default one first), and whether it may read only. */
	const char *user, *namespaces;
	bool readonly;
};

/* What a request wants to open. */
enum auth_need {
	AUTH_NEED_SANDBOX,  /* the sandbox `id` */
	AUTH_NEED_LIST,     /* the job `id`; if that is none, the whole */
	AUTH_NEED_OPERATOR, /* the whole: operator or admin */
	AUTH_NEED_USER      /* to be somebody */
};

struct auth_req {
	enum auth_need need;
	struct strv id;
	struct strv token;  /* X-Sandbox-Token */
	struct strv bearer; /* of Authorization */
	bool writes;        /* more than a reader may do */
	bool synced;        /* the replica was brought up to date for it */
	uint64_t now_ms;
	/* The client, unless it is a proxy that many share. */
	const struct addr *peer;
};

enum auth_verdict {
	AUTH_OK,        /* who and *sb are set; *sb NULL: not in the table */
	AUTH_REFUSED,   /* 401 */
	AUTH_FORBIDDEN, /* 403: a good credential, for other things */
	AUTH_SYNC,      /* worker_sync(), then ask again with `synced` */
	AUTH_ASK_HUB,   /* auth_hub_wait(), then ask again */
	AUTH_DOWN       /* 503: the hub could not be asked */
};

/* The last decision on a connection: zeroed is empty, and the owner wipes it
 * at the end. While the table, the credential and the target are the same, a
 * request costs one comparison. */
struct auth_cache {
	uint64_t version; /* of the table; 0: nothing cached */
	struct route_sandbox *sb;
	uint64_t expires_ms;
	uint8_t kind;
	uint8_t need;
	uint8_t by_token;
	uint8_t len; /* of the credential */
	char name[20];
	uint64_t token_id;
	char cred[64];
};

/* token_id of a token with that hash. */
uint64_t auth_token_id(const uint8_t hash[32]);
struct auth *auth_new(struct loop *l, const struct gw_conf *conf,
		      struct route_table *routes);
void auth_free(struct auth *a);
/* Fills token and bearer from a head. */
void auth_read(const struct http_head *h, struct auth_req *q);
enum auth_verdict auth_check(struct auth *a, struct auth_cache *cache,
			     const struct auth_req *q, struct auth_who *who,
			     struct route_sandbox **sb);
/* After AUTH_ASK_HUB: calls fn when the answer is there; never at once. */
void auth_hub_wait(struct auth *a, const struct auth_req *q,
		   struct hub_wait *wait, void (*fn)(void *arg), void *arg);

#endif
