/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The owner of the route table. Whatever changes it goes through publish(), so
 * that the owner's table and every replica are the result of the same
 * messages in the same order.
 */
#include "config.h"

#include "gateway/owner.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/token.h"
#include "net/tlsctx.h"

struct owner {
	struct route_table *table;
	struct token_list tokens; /* what the bearers were made from */
	uint64_t generation;      /* of configured sandboxes */
	void (*emit)(struct strv msg, void *arg);
	void *arg;
};

struct owner *
owner_new(void (*emit)(struct strv msg, void *arg), void *arg)
{
	struct owner *o = xcalloc(1, sizeof(*o));

	o->table = route_new();
	o->emit = emit;
	o->arg = arg;
	return o;
}

void
owner_free(struct owner *o)
{
	if (o == NULL)
		return;
	route_free(o->table);
	tokens_clear(&o->tokens);
	free(o);
}

struct route_table *
owner_table(struct owner *o)
{
	return o->table;
}

static void
publish(struct owner *o, struct strbuf *b)
{
	struct strv msg = {b->s, b->len};
	int r = route_apply(o->table, msg);

	if (r != 0)
		log_error("route.publish", "error=\"%s\"", err_text(r));
	else
		o->emit(msg, o->arg);
	mem_secure_zero(b->s, b->cap);
	strbuf_clear(b);
}

static const char *
or_dash(const char *s)
{
	return s != NULL && s[0] != '\0' ? s : "-";
}

static void
hash_text(struct strv token, char hex[2 * TOKEN_HASH_LEN + 1])
{
	uint8_t raw[TOKEN_HASH_LEN];

	tls_sha256(token.p, token.len, raw);
	token_hex_encode(hex, raw, sizeof(raw));
}

static void
add(struct owner *o, struct strv id, uint64_t generation, const char *agent,
    const char *ns, struct strv token)
{
	char hex[2 * TOKEN_HASH_LEN + 1] = "-";
	struct strbuf b = {0};

	if (token.len != 0)
		hash_text(token, hex);
	strbuf_addf(&b, "sandbox %.*s %llu %s %s %s", STRV_ARG(id),
		    (unsigned long long)generation, or_dash(agent), or_dash(ns),
		    hex);
	publish(o, &b);
}

static void
drop(struct owner *o, struct strv id, uint64_t generation, struct strv reason)
{
	struct strbuf b = {0};

	strbuf_addf(&b, "gone %.*s %llu %.*s %lld", STRV_ARG(id),
		    (unsigned long long)generation, STRV_ARG(reason),
		    (long long)time(NULL));
	publish(o, &b);
}

static const struct gw_sandbox_conf *
conf_has(const struct gw_conf *conf, const char *id)
{
	for (size_t i = 0; i < conf->nsandboxes; i++)
		if (strcmp(conf->sandboxes[i].name, id) == 0)
			return &conf->sandboxes[i];
	return NULL;
}

struct dead {
	char *id;
	uint64_t generation;
};

/* Those that want() says are to go. The table changes under a walk, so they
 * are noted first. */
static size_t
drop_where(struct owner *o,
	   bool (*want)(const struct route_sandbox *s, const void *arg),
	   const void *arg, const char *reason)
{
	struct dead *v = NULL;
	size_t n = 0, pos = 0;
	struct route_sandbox *s;

	while ((s = route_each(o->table, &pos)) != NULL) {
		if (s->gone || !want(s, arg))
			continue;
		v = xreallocarray(v, n + 1, sizeof(*v));
		v[n].id = xstrdup(or_dash(s->id));
		v[n++].generation = s->generation;
	}
	for (size_t i = 0; i < n; i++) {
		drop(o, strv_of(v[i].id), v[i].generation, strv_of(reason));
		free(v[i].id);
	}
	free(v);
	return n;
}

static bool
not_configured(const struct route_sandbox *s, const void *arg)
{
	return s->agent == NULL && !s->job && conf_has(arg, s->id) == NULL;
}

static bool
of_agent(const struct route_sandbox *s, const void *arg)
{
	return s->agent != NULL && strcmp(s->agent->name, arg) == 0;
}

void
owner_set_conf(struct owner *o, const struct gw_conf *conf)
{
	(void)drop_where(o, not_configured, conf, "deleted");
	for (size_t i = 0; i < conf->nsandboxes; i++) {
		const struct gw_sandbox_conf *c = &conf->sandboxes[i];
		const struct route_sandbox *s =
		    route_lookup(o->table, strv_of(c->name));
		uint64_t generation;

		/* The same sandbox with another secret keeps what is open. */
		generation = s != NULL && !s->gone && s->agent == NULL
				 ? s->generation
				 : ++o->generation;
		add(o, strv_of(or_dash(c->name)), generation, NULL, c->ns,
		    strv_of(c->token));
	}
}

/* Its token is known, for whomever. */
static const struct route_bearer *
is_bearer(struct owner *o, const struct token_row *row)
{
	uint8_t raw[TOKEN_HASH_LEN];

	if (token_hex_decode(strv_of(row->hash), raw, sizeof(raw)) != 0)
		return NULL;
	return route_bearer(o->table, raw);
}

static bool
has_bearer(struct owner *o, const struct token_row *row)
{
	const struct route_bearer *b = is_bearer(o, row);

	return b != NULL && strcmp(b->name, row->name) == 0 &&
	       strcmp(b->ns, row->ns) == 0 && strcmp(b->role, row->role) == 0;
}

void
owner_set_tokens(struct owner *o, const struct token_list *l)
{
	struct hash *now = hash_new();
	struct strbuf b = {0};

	for (size_t i = 0; i < l->n; i++)
		(void)hash_set(now, strv_of(l->v[i].hash), &l->v[i]);
	for (size_t i = 0; i < o->tokens.n; i++) {
		if (hash_get(now, strv_of(o->tokens.v[i].hash)) != NULL)
			continue;
		strbuf_addf(&b, "unbearer %s", o->tokens.v[i].hash);
		publish(o, &b);
	}
	hash_free(now);
	for (size_t i = 0; i < l->n; i++) {
		if (has_bearer(o, &l->v[i]))
			continue;
		if (is_bearer(o, &l->v[i])) { /* what it opened ends, too */
			strbuf_addf(&b, "unbearer %s", l->v[i].hash);
			publish(o, &b);
		}
		strbuf_addf(&b, "bearer %s %s %s %s", l->v[i].hash,
			    l->v[i].name, l->v[i].ns, l->v[i].role);
		publish(o, &b);
	}
	tokens_clear(&o->tokens);
	if (l->n != 0)
		o->tokens.v = xmemdup(l->v, l->n * sizeof(*l->v));
	o->tokens.n = l->n;
}

void
owner_agent(struct owner *o, const char *name, const char *http,
	    const char *control, const char *ns, const char *token)
{
	struct strbuf b = {0};

	strbuf_addf(&b, "agent %s %s %s %s %s", name, http, or_dash(control),
		    or_dash(ns), or_dash(token));
	publish(o, &b);
}

void
owner_add(struct owner *o, struct strv id, uint64_t generation,
	  const char *agent, const char *ns, struct strv token)
{
	const struct route_sandbox *s = route_lookup(o->table, id);

	/* Nobody takes over another's id, not even one that is no more. */
	if (s != NULL &&
	    (s->agent == NULL ? !s->gone || s->job
			      : strcmp(s->agent->name, agent) != 0)) {
		log_warn("route.conflict", "sandbox=%.*s agent=%s kept=%s",
			 STRV_ARG(id), agent,
			 s->agent != NULL ? s->agent->name : "configured");
		return;
	}
	add(o, id, generation, agent, ns, token);
	log_debug("route.add", "sandbox=%.*s generation=%llu", STRV_ARG(id),
		  (unsigned long long)generation);
}

void
owner_gone(struct owner *o, struct strv id, uint64_t generation,
	   struct strv reason)
{
	drop(o, id, generation, reason);
	log_debug("route.gone", "sandbox=%.*s reason=%.*s", STRV_ARG(id),
		  STRV_ARG(reason));
}

/* --- jobs -------------------------------------------------------------- */

#define REASON_MAX 200

/* One printable word of a message. */
static void
add_words(struct strbuf *b, const char *text)
{
	size_t n = 0;

	for (; *text != '\0' && n < REASON_MAX; text++, n++) {
		unsigned char c = (unsigned char)*text;

		strbuf_addc(b, c > 0x20 && c < 0x7f ? (char)c : '_');
	}
	if (n == 0)
		strbuf_adds(b, "ended");
}

static bool
is_taken(struct owner *o, const char *id)
{
	const struct route_sandbox *s = route_lookup(o->table, strv_of(id));

	if (s == NULL || s->gone || s->job)
		return false;
	log_warn("route.conflict", "job=%s kept=sandbox", id);
	return true;
}

void
owner_job(struct owner *o, const char *id, uint64_t generation,
	  const char *http, const char *control, const char *ns)
{
	const struct route_sandbox *s = route_lookup(o->table, strv_of(id));
	struct strbuf b = {0};

	if (is_taken(o, id))
		return;
	if (s != NULL && s->gone && s->generation == generation)
		return; /* it cannot come back */
	strbuf_addf(&b, "job %s %llu %s %s %s", id,
		    (unsigned long long)generation, or_dash(ns), or_dash(http),
		    or_dash(control));
	publish(o, &b);
}

void
owner_job_gone(struct owner *o, const char *id, uint64_t generation,
	       const char *ns, const char *reason)
{
	const struct route_sandbox *s = route_lookup(o->table, strv_of(id));
	struct strbuf b = {0};

	if (is_taken(o, id))
		return;
	if (s != NULL && s->gone && s->generation == generation)
		return;
	if (s == NULL || s->generation != generation)
		owner_job(o, id, generation, NULL, NULL, ns);
	strbuf_addf(&b, "gone %s %llu ", id, (unsigned long long)generation);
	add_words(&b, reason != NULL ? reason : "");
	strbuf_addf(&b, " %lld", (long long)time(NULL));
	publish(o, &b);
}

void
owner_agent_gone(struct owner *o, const char *agent, const char *reason)
{
	(void)drop_where(o, of_agent, agent, reason);
}

void
owner_agent_down(struct owner *o, const char *agent, const char *reason)
{
	struct strbuf b = {0};

	strbuf_addf(&b, "down %s %s", agent, reason);
	publish(o, &b);
}

void
owner_agent_up(struct owner *o, const char *agent)
{
	struct strbuf b = {0};

	strbuf_addf(&b, "up %s", agent);
	publish(o, &b);
}

struct kept {
	const char *agent;
	const struct hash *ids;
};

static bool
not_kept(const struct route_sandbox *s, const void *arg)
{
	const struct kept *k = arg;

	return of_agent(s, k->agent) &&
	       hash_get(k->ids, strv_of(s->id)) == NULL;
}

size_t
owner_agent_keep(struct owner *o, const char *agent, const struct hash *ids,
		 const char *reason)
{
	const struct kept k = {agent, ids};

	return drop_where(o, not_kept, &k, reason);
}

void
owner_agent_drop(struct owner *o, const char *agent, const char *reason)
{
	struct strbuf b = {0};

	owner_agent_gone(o, agent, reason);
	strbuf_addf(&b, "unagent %s", agent);
	publish(o, &b);
}
