/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens are compared as SHA-256 hashes, in constant time, against the
 * operator's and the sandbox's (or against nothing, when there is none, at the
 * same cost).
 */
#include "config.h"

#include "gateway/auth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/token.h"
#include "gateway/gwconf.h"
#include "gateway/route.h"
#include "net/http1.h"
#include "net/loop.h"
#include "net/tlsctx.h"

#define CRED_MAX 4096

struct auth {
	struct loop *loop;
	struct route_table *routes;
	struct hub *hub; /* NULL: none */
	bool has_operator;
	const char *operator_name;
	uint8_t operator_hash[TOKEN_HASH_LEN];
	uint8_t nothing[TOKEN_HASH_LEN]; /* random: equals no hash */
};

struct auth *
auth_new(struct loop *l, const struct gw_conf *conf, struct route_table *routes)
{
	struct auth *a = xcalloc(1, sizeof(*a));
	const char *op = conf->operator_token;
	char *msg = NULL;

	a->loop = l;
	a->routes = routes;
	a->operator_name =
	    conf->operator_name != NULL ? conf->operator_name : "operator";
	token_random(a->nothing, sizeof(a->nothing));
	if (op != NULL && *op != '\0') {
		a->has_operator = true;
		tls_sha256(op, strlen(op), a->operator_hash);
	} else {
		token_random(a->operator_hash, sizeof(a->operator_hash));
	}
	if (hub_new(l, conf, &a->hub, &msg) != 0) {
		/* Bearers of the token file still work; others get a 503. */
		log_error("auth.hub", "err=%s", msg);
		free(msg);
	}
	return a;
}

void
auth_free(struct auth *a)
{
	if (a == NULL)
		return;
	hub_free(a->hub);
	free(a);
}

void
auth_read(const struct http_head *h, struct auth_req *q)
{
	struct strv v;

	q->token = STRV_NULL;
	q->bearer = STRV_NULL;
	if (h->first[H_X_SANDBOX_TOKEN] != 0) {
		v = http1_get(h, H_X_SANDBOX_TOKEN);
		q->token = v;
	}
	if (h->first[H_AUTHORIZATION] != 0) {
		v = http1_get(h, H_AUTHORIZATION);
		if (v.len > 7 &&
		    strv_eq_nocase((struct strv){v.p, 7}, STRV("Bearer ")))
			q->bearer = strv_trim(strv_from(v, 7));
	}
}

/* --- the cached decision ----------------------------------------------- */

static bool
cached(const struct auth *a, const struct auth_cache *c,
       const struct auth_req *q)
{
	struct strv cred = c->by_token ? q->token : q->bearer;

	if (c->version != route_version(a->routes) || c->need != q->need ||
	    cred.p == NULL || c->len != cred.len || q->now_ms >= c->expires_ms)
		return false;
	if ((q->need == AUTH_NEED_SANDBOX || q->need == AUTH_NEED_LIST) &&
	    (c->sb == NULL || !strv_eq(strv_of(c->sb->id), q->id)))
		return false;
	/* A bearer counts for nothing beside a token, unless to a job. */
	if (!c->by_token && q->token.p != NULL &&
	    (c->sb == NULL || !c->sb->job))
		return false;
	return token_equal_raw(c->cred, cred.p, cred.len);
}

static void
remember(const struct auth *a, struct auth_cache *c, const struct auth_req *q,
	 const struct auth_who *who, struct route_sandbox *sb,
	 uint64_t expires_ms)
{
	struct strv cred = who->by_token ? q->token : q->bearer;

	c->version = 0;
	if (cred.p == NULL || cred.len > sizeof(c->cred))
		return;
	c->version = route_version(a->routes);
	c->sb = sb;
	c->expires_ms = expires_ms;
	c->kind = (uint8_t)who->kind;
	c->need = (uint8_t)q->need;
	c->by_token = who->by_token;
	c->len = (uint8_t)cred.len;
	c->token_id = who->token_id;
	memcpy(c->name, who->name, sizeof(c->name));
	memcpy(c->cred, cred.p, cred.len);
}

uint64_t
auth_token_id(const uint8_t hash[32])
{
	uint64_t id;

	memcpy(&id, hash, sizeof(id));
	return id;
}

/* --- deciding ---------------------------------------------------------- */

struct decision {
	struct auth_who who;
	enum auth_need need;
	struct route_sandbox *sb;
	uint64_t expires_ms;
	bool cacheable;
};

static void
name_it(struct decision *d, enum auth_kind kind, const char *name)
{
	d->who.kind = kind;
	(void)snprintf(d->who.name, sizeof(d->who.name), "%.19s", name);
}

static enum auth_verdict
be_operator(const struct auth *a, struct decision *d)
{
	name_it(d, AUTH_OPERATOR, a->operator_name);
	d->who.user = d->who.namespaces = a->operator_name;
	return AUTH_OK;
}

/* By X-Sandbox-Token. Both comparisons are always made. */
static enum auth_verdict
decide_token(struct auth *a, const struct auth_req *q, struct decision *d)
{
	const uint8_t *want = a->nothing;
	uint8_t hash[TOKEN_HASH_LEN];
	bool is_operator, is_own;

	tls_sha256(q->token.p, q->token.len, hash);
	if (d->sb != NULL && d->sb->has_token)
		want = d->sb->token_hash;
	is_operator = token_equal_raw(a->operator_hash, hash, sizeof(hash));
	is_own = token_equal_raw(want, hash, sizeof(hash));
	d->who.by_token = true;
	if (is_own && want != a->nothing && d->need == AUTH_NEED_SANDBOX) {
		name_it(d, AUTH_SANDBOX, "sandbox");
		return AUTH_OK;
	}
	if (is_operator && a->has_operator)
		return be_operator(a, d);
	return AUTH_REFUSED;
}

static const char *
namespace_of(const struct route_sandbox *sb)
{
	if (sb == NULL)
		return NULL;
	if (sb->ns != NULL)
		return sb->ns;
	return sb->agent != NULL ? sb->agent->ns : NULL;
}

/* A user of the token file. */
static enum auth_verdict
decide_bearer(const struct route_bearer *b, const struct auth_req *q,
	      struct decision *d)
{
	const char *ns = namespace_of(d->sb);

	name_it(d, AUTH_USER, b->name);
	d->who.user = b->name;
	d->who.namespaces = b->ns;
	if (strcmp(b->role, "admin") == 0) {
		d->who.kind = AUTH_ADMIN;
		return AUTH_OK;
	}
	if (d->need == AUTH_NEED_OPERATOR ||
	    (d->need == AUTH_NEED_SANDBOX &&
	     (ns == NULL || !route_ns_has(b->ns, ns))))
		return AUTH_FORBIDDEN;
	if (strcmp(b->role, "readonly") == 0) {
		d->who.readonly = true;
		d->cacheable = false; /* the next one may be writing */
		return q->writes ? AUTH_FORBIDDEN : AUTH_OK;
	}
	return strcmp(b->role, "user") == 0 ? AUTH_OK : AUTH_FORBIDDEN;
}

static enum auth_verdict
decide_hub_user(const struct hub_user *u, struct decision *d)
{
	const char *ns = namespace_of(d->sb);

	name_it(d, AUTH_USER, u->name);
	d->who.user = u->name;
	d->who.namespaces = u->namespaces;
	d->expires_ms = u->expires_ms;
	if (d->need == AUTH_NEED_USER)
		return AUTH_OK;
	if (d->need == AUTH_NEED_OPERATOR || ns == NULL)
		return AUTH_FORBIDDEN;
	return route_ns_has(u->namespaces, ns) ? AUTH_OK : AUTH_FORBIDDEN;
}

/* By Authorization: Bearer. The operator's token will do as one, so that a
 * client that knows no other field can be the operator. */
static enum auth_verdict
decide_user(struct auth *a, const struct auth_req *q, struct decision *d)
{
	uint8_t hash[TOKEN_HASH_LEN];
	const struct route_bearer *b;
	const struct hub_user *u = NULL;

	tls_sha256(q->bearer.p, q->bearer.len, hash);
	if (token_equal_raw(a->operator_hash, hash, sizeof(hash)) &&
	    a->has_operator)
		return be_operator(a, d);
	d->who.token_id = auth_token_id(hash);
	if ((b = route_bearer(a->routes, hash)) != NULL)
		return decide_bearer(b, q, d);
	if (a->hub == NULL)
		return AUTH_REFUSED;
	switch (hub_look(a->hub, hash, q->peer, &u)) {
	case HUB_UNKNOWN:
	case HUB_ASKING:
		return AUTH_ASK_HUB;
	case HUB_YES:
		return decide_hub_user(u, d);
	case HUB_NO:
		return AUTH_REFUSED;
	case HUB_DOWN:
		break;
	}
	return AUTH_DOWN;
}

/*
 * Which of the two counts. A token that fails must not be told from one that is
 * a job's, so then the bearer is looked at whatever the id names; it is of use
 * only where that is a job, or nothing.
 */
static enum auth_verdict
decide(struct auth *a, const struct auth_req *q, struct decision *d)
{
	bool job = d->sb != NULL && d->sb->job;
	enum auth_verdict v;

	if (q->token.p == NULL)
		return decide_user(a, q, d);
	v = decide_token(a, q, d);
	if (v == AUTH_OK && !job)
		return v;
	if (q->bearer.p == NULL || !token_plausible(q->bearer, CRED_MAX))
		return AUTH_REFUSED;
	memset(&d->who, 0, sizeof(d->who));
	v = decide_user(a, q, d);
	if (v == AUTH_OK && !job &&
	    (d->sb != NULL || q->need == AUTH_NEED_OPERATOR ||
	     q->need == AUTH_NEED_USER))
		return AUTH_REFUSED;
	return v;
}

/* Looks up what is meant, and with it what that takes. */
static void
find(struct auth *a, const struct auth_req *q, struct decision *d)
{
	d->need = q->need;
	if (q->need == AUTH_NEED_SANDBOX || q->need == AUTH_NEED_LIST)
		d->sb = route_lookup(a->routes, q->id);
	if (q->need != AUTH_NEED_LIST)
		return;
	d->need = AUTH_NEED_SANDBOX;
	if (d->sb == NULL || !d->sb->job) {
		d->need = AUTH_NEED_OPERATOR;
		d->sb = NULL;
	}
}

static bool
may_cache(const struct auth_req *q, const struct decision *d)
{
	/* There is no room for a user's namespaces. */
	return d->cacheable && q->need != AUTH_NEED_USER &&
	       (q->need != AUTH_NEED_LIST || d->sb != NULL);
}

static void
recall(const struct auth_cache *c, struct auth_who *who,
       struct route_sandbox **sb)
{
	who->kind = (enum auth_kind)c->kind;
	who->by_token = c->by_token;
	who->token_id = c->token_id;
	memcpy(who->name, c->name, sizeof(who->name));
	*sb = c->sb;
}

enum auth_verdict
auth_check(struct auth *a, struct auth_cache *cache, const struct auth_req *q,
	   struct auth_who *who, struct route_sandbox **sb)
{
	struct decision d = {.expires_ms = UINT64_MAX, .cacheable = true};
	struct strv cred = q->token.p != NULL ? q->token : q->bearer;
	enum auth_verdict v;

	if (cred.p == NULL || !token_plausible(cred, CRED_MAX))
		return AUTH_REFUSED;
	if (cache->version != 0 && cached(a, cache, q)) {
		recall(cache, who, sb);
		return AUTH_OK;
	}
	find(a, q, &d);
	v = decide(a, q, &d);
	/* What was not found may be news that is still on its way. */
	if (!q->synced &&
	    (v == AUTH_REFUSED || v == AUTH_FORBIDDEN ||
	     (v == AUTH_OK && d.sb == NULL && q->need != AUTH_NEED_OPERATOR &&
	      q->need != AUTH_NEED_USER)))
		return AUTH_SYNC;
	if (v != AUTH_OK)
		return v;
	*who = d.who;
	*sb = d.sb;
	if (may_cache(q, &d))
		remember(a, cache, q, &d.who, d.sb, d.expires_ms);
	return AUTH_OK;
}

void
auth_hub_wait(struct auth *a, const struct auth_req *q, struct hub_wait *wait,
	      void (*fn)(void *arg), void *arg)
{
	uint8_t hash[TOKEN_HASH_LEN];

	wait->fn = fn;
	wait->arg = arg;
	tls_sha256(q->bearer.p, q->bearer.len, hash);
	hub_ask(a->hub, q->bearer, hash, q->peer, wait);
}
