/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The route table: three hash tables (sandboxes, agents, bearers) that change
 * by messages (route_msg.c) and by nothing else. Every change moves `version`,
 * on which all cached decisions depend.
 */
#include "config.h"

#include "gateway/route_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "gateway/gwconf.h"

struct route_table *
route_new(void)
{
	struct route_table *t = xcalloc(1, sizeof(*t));

	t->sandboxes = hash_new();
	t->agents = hash_new();
	t->bearers = hash_new();
	t->gone_tail = &t->gone_head;
	t->version = 1;
	return t;
}

void
route_agent_free(struct route_agent *a)
{
	free(a->name);
	free(a->http);
	free(a->control);
	free(a->ns);
	mem_free_secret(a->token);
	free(a->down);
	free(a);
}

static void
sandbox_free(struct route_sandbox *s)
{
	free(s->id);
	free(s->ns);
	free(s->http);
	free(s->control);
	free(s->gone_reason);
	free(s);
}

void
route_bearer_free(struct route_bearer *b)
{
	free(b->name);
	free(b->ns);
	free(b->role);
	free(b);
}

/* Takes s out of the table's hands. */
static void
sandbox_drop(struct route_sandbox *s)
{
	if (s->conns == 0) {
		sandbox_free(s);
	} else {
		s->detached = true;
		s->agent = NULL; /* it may go now */
	}
}

void
route_free(struct route_table *t)
{
	struct route_sandbox *s;
	struct route_agent *a;
	struct route_bearer *b;
	size_t pos;

	if (t == NULL)
		return;
	for (pos = 0; (s = hash_next(t->sandboxes, &pos, NULL)) != NULL;)
		sandbox_drop(s);
	for (pos = 0; (a = hash_next(t->agents, &pos, NULL)) != NULL;)
		route_agent_free(a);
	for (pos = 0; (b = hash_next(t->bearers, &pos, NULL)) != NULL;)
		route_bearer_free(b);
	hash_free(t->sandboxes);
	hash_free(t->agents);
	hash_free(t->bearers);
	free(t);
}

uint64_t
route_version(const struct route_table *t)
{
	return t->version;
}

const struct gw_sandbox_conf *
route_conf_of(const struct route_table *t, const char *id)
{
	size_t i;

	if (t->conf == NULL)
		return NULL;
	for (i = 0; i < t->conf->nsandboxes; i++) {
		if (strcmp(t->conf->sandboxes[i].name, id) == 0)
			return &t->conf->sandboxes[i];
	}
	return NULL;
}

void
route_set_conf(struct route_table *t, const struct gw_conf *conf)
{
	struct route_sandbox *s;
	size_t pos = 0;

	t->conf = conf;
	while ((s = hash_next(t->sandboxes, &pos, NULL)) != NULL) {
		if (s->agent == NULL && !s->job)
			s->conf = route_conf_of(t, s->id);
	}
	t->version++;
}

/* --- looking up -------------------------------------------------------- */

static struct strv
table_key(struct strv id)
{
	return id.len == 0 ? STRV("-") : id;
}

struct route_sandbox *
route_lookup(struct route_table *t, struct strv id)
{
	char low[SANDBOX_ID_MAX];
	size_t i;

	if (id.len > sizeof(low))
		return NULL;
	for (i = 0; i < id.len; i++) {
		low[i] = id.p[i];
		if (low[i] >= 'A' && low[i] <= 'Z')
			low[i] = (char)(low[i] + ('a' - 'A'));
	}
	id.p = low;
	return hash_get(t->sandboxes, table_key(id));
}

void
route_hold(struct route_sandbox *s)
{
	s->conns++;
}

void
route_release(struct route_sandbox *s)
{
	if (s == NULL)
		return;
	s->conns--;
	if (s->detached && s->conns == 0)
		sandbox_free(s);
}

bool
route_ns_has(const char *list, const char *ns)
{
	struct strv rest = strv_of(list), one;

	while (strv_cut(&rest, ',', &one))
		if (one.len > 0 && strv_eq(one, strv_of(ns)))
			return true;
	return false;
}

const struct route_bearer *
route_bearer(const struct route_table *t, const uint8_t hash[TOKEN_HASH_LEN])
{
	struct strv key = {(const char *)hash, TOKEN_HASH_LEN};

	return hash_get(t->bearers, key);
}

struct route_agent *
route_agent(struct route_table *t, struct strv name)
{
	return hash_get(t->agents, name);
}

struct route_agent *
route_default_agent(struct route_table *t)
{
	struct route_agent *a;
	size_t pos = 0;

	if ((a = hash_get(t->agents, STRV("embedded"))) != NULL)
		return a;
	if (hash_count(t->agents) != 1)
		return NULL;
	return hash_next(t->agents, &pos, NULL);
}

size_t
route_count(const struct route_table *t)
{
	return hash_count(t->sandboxes) - t->ngone;
}

struct route_sandbox *
route_each(struct route_table *t, size_t *pos)
{
	return hash_next(t->sandboxes, pos, NULL);
}

/* --- rows that come and go ---------------------------------------------- */

/* Takes the oldest tombstones away while there are too many or too old. */
static void
gone_trim(struct route_table *t, time_t now)
{
	struct route_sandbox *s;

	while ((s = t->gone_head) != NULL) {
		if (t->ngone <= ROUTE_GONE_MAX &&
		    now - s->gone_at < ROUTE_GONE_SECONDS)
			return;
		t->gone_head = s->next_gone;
		if (t->gone_head == NULL)
			t->gone_tail = &t->gone_head;
		t->ngone--;
		(void)hash_del(t->sandboxes, table_key(strv_of(s->id)));
		sandbox_drop(s);
	}
}

/* An id is used again: its tombstone goes. */
static void
gone_unlink(struct route_table *t, struct route_sandbox *s)
{
	struct route_sandbox **pp = &t->gone_head;

	while (*pp != s)
		pp = &(*pp)->next_gone;
	*pp = s->next_gone;
	if (s->next_gone == NULL)
		t->gone_tail = pp;
	s->next_gone = NULL;
	t->ngone--;
}

void
route_bury(struct route_table *t, struct route_sandbox *s)
{
	s->gone = true;
	s->next_gone = NULL;
	*t->gone_tail = s;
	t->gone_tail = &s->next_gone;
	t->ngone++;
	t->version++;
	gone_trim(t, s->gone_at);
}

struct route_sandbox *
route_slot(struct route_table *t, struct strv id, uint64_t generation, bool job)
{
	struct route_sandbox *s = hash_get(t->sandboxes, id);

	if (s != NULL && !s->gone && s->generation == generation &&
	    s->job == job) {
		free(s->ns);
		return s;
	}
	if (s != NULL) {
		if (s->gone)
			gone_unlink(t, s);
		(void)hash_del(t->sandboxes, id);
		sandbox_drop(s);
	}
	s = xcalloc(1, sizeof(*s));
	s->job = job;
	s->id = strv_eq(id, STRV("-")) ? xstrdup("") : xstrndup(id.p, id.len);
	s->generation = generation;
	(void)hash_set(t->sandboxes, id, s);
	return s;
}
