/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verifying user tokens with the hub: GET <hub>/api/whoami-v2. Answers are
 * cached, good and bad ones, in a bounded table under the token's hash (the
 * token itself is not kept); all who ask for the same token at once share one
 * request.
 */
#ifndef SBX_GATEWAY_HUB_H
#define SBX_GATEWAY_HUB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/defs.h"
#include "base/str.h"

struct addr;
struct gw_conf;
struct hub;
struct loop;

#define HUB_USERS_MAX   4096 /* tokens that are somebody's */
#define HUB_OTHERS_MAX  4096 /* and that are nobody's, or being asked about */
#define HUB_ASKING_MAX  64   /* requests under way */
#define HUB_ASKING_EACH 16   /* of them, for one client address */
#define HUB_NS_MAX      64   /* namespaces of one user */
#define HUB_NAME_MAX    128

enum hub_state {
	HUB_UNKNOWN, /* to be asked */
	HUB_ASKING,
	HUB_YES,
	HUB_NO,  /* the hub says it is no token */
	HUB_DOWN /* it could not be asked, a moment ago */
};

struct hub_user {
	char *name;
	char *namespaces;    /* comma-separated: its name, its organisations */
	uint64_t expires_ms; /* loop_now_ms() */
};

/* Embedded in who waits; zeroed is idle. */
struct hub_wait {
	struct hub_wait *next;
	struct hub_wait **prevp;
	void (*fn)(void *arg);
	void *arg;
};

/* NULL when conf names no hub; E_INVALID with *msg when it cannot be used. */
int hub_new(struct loop *l, const struct gw_conf *conf, struct hub **out,
	    char **msg) SBX_MUST_CHECK;
void hub_free(struct hub *h);
/* *user (HUB_YES only) is good until the next call of any of these. */
/* peer: who asks; one client cannot have all requests to the hub for its
 * guesses (HUB_DOWN then). NULL: not counted. */
enum hub_state hub_look(struct hub *h, const uint8_t hash[32],
			const struct addr *peer, const struct hub_user **user);
/* Asks, or joins who asked; fn is called when hub_look() has an answer, never
 * from inside. */
void hub_ask(struct hub *h, struct strv token, const uint8_t hash[32],
	     const struct addr *peer, struct hub_wait *wait);
void hub_wait_cancel(struct hub_wait *wait);

/* The answer's body: 0, or E_INVALID. For tests, too. */
int hub_parse(struct strv body, struct hub_user *out) SBX_MUST_CHECK;
void hub_user_clear(struct hub_user *u);

#endif
