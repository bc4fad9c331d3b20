/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages that change the route table (PROTOCOL.md, section 2). The
 * master's table and the workers' are the same thing: a replica is what
 * route_dump() of the owner, applied in order, makes.
 */
#include "config.h"

#include "gateway/route_int.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/token.h"

#define WORDS_MAX 8

static size_t
split(struct strv msg, struct strv w[WORDS_MAX])
{
	size_t n = 0;
	struct strv word;

	while (strv_cut(&msg, ' ', &word)) {
		if (n == WORDS_MAX || word.len == 0)
			return 0;
		w[n++] = word;
	}
	return n;
}

/* A malloc'ed copy; NULL for "-". */
static char *
opt_dup(struct strv v)
{
	return strv_eq(v, STRV("-")) ? NULL : xstrndup(v.p, v.len);
}

static int
apply_agent(struct route_table *t, const struct strv *w)
{
	struct route_agent *a = hash_get(t->agents, w[1]);

	if (a == NULL) {
		a = xcalloc(1, sizeof(*a));
		a->name = xstrndup(w[1].p, w[1].len);
		(void)hash_set(t->agents, w[1], a);
	}
	free(a->http);
	free(a->control);
	free(a->ns);
	mem_free_secret(a->token);
	a->http = xstrndup(w[2].p, w[2].len);
	a->control = opt_dup(w[3]);
	a->ns = opt_dup(w[4]);
	a->token = opt_dup(w[5]);
	t->version++;
	return 0;
}

/* "down <agent> <reason in words>" */
static int
apply_down(struct route_table *t, struct strv rest)
{
	struct route_agent *a;
	struct strv name;

	if (!strv_cut(&rest, ' ', &name) || rest.len == 0 ||
	    (a = hash_get(t->agents, name)) == NULL)
		return E_INVALID;
	free(a->down);
	a->down = xstrndup(rest.p, rest.len);
	t->version++;
	return 0;
}

static int
apply_up(struct route_table *t, const struct strv *w)
{
	struct route_agent *a = hash_get(t->agents, w[1]);

	if (a == NULL)
		return E_INVALID;
	free(a->down);
	a->down = NULL;
	t->version++;
	return 0;
}

/* Only tombstones may be left of its sandboxes. */
static int
apply_unagent(struct route_table *t, const struct strv *w)
{
	struct route_agent *a = hash_get(t->agents, w[1]);
	struct route_sandbox *s;
	size_t pos = 0;

	if (a == NULL)
		return 0;
	while ((s = hash_next(t->sandboxes, &pos, NULL)) != NULL)
		if (s->agent == a)
			s->agent = NULL;
	(void)hash_del(t->agents, w[1]);
	route_agent_free(a);
	t->version++;
	return 0;
}

static int
apply_sandbox(struct route_table *t, const struct strv *w)
{
	uint8_t hash[TOKEN_HASH_LEN];
	struct route_agent *agent = NULL;
	struct route_sandbox *s;
	uint64_t generation;
	bool has_token = !strv_eq(w[5], STRV("-"));

	if (!route_id_ok(w[1]) && !strv_eq(w[1], STRV("-")))
		return E_INVALID;
	if (strv_parse_u64(w[2], UINT64_MAX, true, &generation) != 0)
		return E_INVALID;
	if (has_token && token_hex_decode(w[5], hash, sizeof(hash)) != 0)
		return E_INVALID;
	if (!strv_eq(w[3], STRV("-"))) {
		agent = hash_get(t->agents, w[3]);
		if (agent == NULL)
			return E_INVALID;
	}
	s = route_slot(t, w[1], generation, false);
	s->agent = agent;
	s->conf = agent == NULL ? route_conf_of(t, s->id) : NULL;
	s->ns = opt_dup(w[4]);
	s->has_token = has_token;
	if (has_token)
		memcpy(s->token_hash, hash, sizeof(hash));
	t->version++;
	return 0;
}

/* An address becomes known once, and then is what it is: who uses it holds the
 * sandbox, not the text. */
static int
set_once(char **to, struct strv v)
{
	if (*to == NULL)
		*to = opt_dup(v);
	else if (!strv_eq(strv_of(*to), v))
		return E_EXISTS;
	return 0;
}

static int
apply_job(struct route_table *t, const struct strv *w)
{
	struct route_sandbox *s;
	uint64_t generation;

	if (!route_id_ok(w[1]) ||
	    strv_parse_u64(w[2], UINT64_MAX, true, &generation) != 0)
		return E_INVALID;
	s = route_slot(t, w[1], generation, true);
	s->ns = opt_dup(w[3]);
	t->version++;
	if (set_once(&s->http, w[4]) != 0 || set_once(&s->control, w[5]) != 0)
		return E_INVALID;
	return 0;
}

/* A reason is several words, which in a message are held together by '_'. */
static char *
reason_of(struct strv word)
{
	char *text = xstrndup(word.p, word.len);

	for (char *p = text; *p != '\0'; p++)
		if (*p == '_')
			*p = ' ';
	return text;
}

static int
apply_gone(struct route_table *t, const struct strv *w)
{
	struct route_sandbox *s = hash_get(t->sandboxes, w[1]);
	uint64_t generation, at;

	if (strv_parse_u64(w[2], UINT64_MAX, true, &generation) != 0 ||
	    strv_parse_u64(w[4], INT64_MAX, true, &at) != 0)
		return E_INVALID;
	if (s == NULL || s->gone || s->generation != generation)
		return 0; /* another one by now */
	s->gone_reason = reason_of(w[3]);
	s->gone_at = (time_t)at;
	route_bury(t, s);
	return 0;
}

static int
apply_bearer(struct route_table *t, const struct strv *w)
{
	struct route_bearer *b, *old;
	struct strv key;

	b = xcalloc(1, sizeof(*b));
	if (token_hex_decode(w[1], b->hash, sizeof(b->hash)) != 0) {
		free(b);
		return E_INVALID;
	}
	b->name = xstrndup(w[2].p, w[2].len);
	b->ns = xstrndup(w[3].p, w[3].len);
	b->role = xstrndup(w[4].p, w[4].len);
	key.p = (const char *)b->hash;
	key.len = sizeof(b->hash);
	if ((old = hash_set(t->bearers, key, b)) != NULL)
		route_bearer_free(old);
	t->version++;
	return 0;
}

static int
apply_unbearer(struct route_table *t, const struct strv *w)
{
	uint8_t hash[TOKEN_HASH_LEN];
	struct strv key = {(const char *)hash, sizeof(hash)};
	struct route_bearer *b;

	if (token_hex_decode(w[1], hash, sizeof(hash)) != 0)
		return E_INVALID;
	if ((b = hash_del(t->bearers, key)) != NULL) {
		route_bearer_free(b);
		t->version++;
	}
	return 0;
}

int
route_apply(struct route_table *t, struct strv msg)
{
	static const struct {
		const char *word;
		size_t words;
		int (*fn)(struct route_table *, const struct strv *);
	} kinds[] = {
	    {"agent", 6, apply_agent},   {"sandbox", 6, apply_sandbox},
	    {"job", 6, apply_job},       {"gone", 5, apply_gone},
	    {"bearer", 5, apply_bearer}, {"unbearer", 2, apply_unbearer},
	    {"up", 2, apply_up},         {"unagent", 2, apply_unagent},
	};
	struct strv w[WORDS_MAX], rest = msg, first;
	size_t i;

	if (!strv_cut(&rest, ' ', &first))
		return E_NOTFOUND;
	if (strv_eq(first, STRV("down")))
		return apply_down(t, rest);
	for (i = 0; i < ARRAY_LEN(kinds); i++) {
		if (!strv_eq(first, strv_of(kinds[i].word)))
			continue;
		if (split(msg, w) != kinds[i].words)
			return E_INVALID;
		return kinds[i].fn(t, w);
	}
	return E_NOTFOUND;
}

/* --- dump -------------------------------------------------------------- */

static const char *
or_dash(const char *s)
{
	return s != NULL && *s != '\0' ? s : "-";
}

static void
dump_sandbox(const struct route_sandbox *s, struct strbuf *b)
{
	char hex[2 * TOKEN_HASH_LEN + 1] = "-";

	if (s->job) {
		strbuf_addf(b, "job %s %" PRIu64 " %s %s %s", s->id,
			    s->generation, or_dash(s->ns), or_dash(s->http),
			    or_dash(s->control));
		return;
	}
	if (s->has_token)
		token_hex_encode(hex, s->token_hash, TOKEN_HASH_LEN);
	strbuf_addf(b, "sandbox %s %" PRIu64 " %s %s %s", or_dash(s->id),
		    s->generation, s->agent != NULL ? s->agent->name : "-",
		    or_dash(s->ns), hex);
}

static void
dump_emit(struct strbuf *b, void (*emit)(struct strv, void *), void *arg)
{
	struct strv v = {b->s, b->len};

	emit(v, arg);
	strbuf_reset(b);
}

static void
add_reason(struct strbuf *b, const char *text)
{
	for (; *text != '\0'; text++)
		strbuf_addc(b, (char)(*text == ' ' ? '_' : *text));
}

static void
dump_gone(const struct route_table *t, struct strbuf *b,
	  void (*emit)(struct strv, void *), void *arg)
{
	const struct route_sandbox *s;

	for (s = t->gone_head; s != NULL; s = s->next_gone) {
		dump_sandbox(s, b);
		dump_emit(b, emit, arg);
		strbuf_addf(b, "gone %s %" PRIu64 " ", or_dash(s->id),
			    s->generation);
		add_reason(b, s->gone_reason);
		strbuf_addf(b, " %lld", (long long)s->gone_at);
		dump_emit(b, emit, arg);
	}
}

void
route_dump(struct route_table *t, void (*emit)(struct strv msg, void *arg),
	   void *arg)
{
	char hex[2 * TOKEN_HASH_LEN + 1];
	struct strbuf b = {0};
	const struct route_agent *a;
	const struct route_bearer *u;
	const struct route_sandbox *s;
	size_t pos;

	for (pos = 0; (a = hash_next(t->agents, &pos, NULL)) != NULL;) {
		strbuf_addf(&b, "agent %s %s %s %s %s", a->name, a->http,
			    or_dash(a->control), or_dash(a->ns),
			    or_dash(a->token));
		dump_emit(&b, emit, arg);
		if (a->down == NULL)
			continue;
		strbuf_addf(&b, "down %s %s", a->name, a->down);
		dump_emit(&b, emit, arg);
	}
	for (pos = 0; (u = hash_next(t->bearers, &pos, NULL)) != NULL;) {
		token_hex_encode(hex, u->hash, TOKEN_HASH_LEN);
		strbuf_addf(&b, "bearer %s %s %s %s", hex, u->name, u->ns,
			    u->role);
		dump_emit(&b, emit, arg);
	}
	for (pos = 0; (s = hash_next(t->sandboxes, &pos, NULL)) != NULL;) {
		if (s->gone)
			continue;
		dump_sandbox(s, &b);
		dump_emit(&b, emit, arg);
	}
	dump_gone(t, &b, emit, arg);
	if (b.s != NULL)
		mem_secure_zero(b.s, b.cap); /* agents' tokens were in it */
	strbuf_clear(&b);
}
