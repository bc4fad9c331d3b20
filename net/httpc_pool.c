/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Idle client connections: found by key, most recently used first, and closed
 * by age. They hang in a hash table and a list through members of their own,
 * so neither giving back nor getting costs an allocation; one timer serves
 * all. EV_READ stays armed in the stream: what happens on an idle connection
 * takes it out of here.
 */
#include "config.h"

#include "net/httpc_int.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

#define BUCKETS_MIN 64
#define BUCKETS_MAX 65536

struct httpc_pool {
	struct loop *loop;
	struct httpc_pool_options o;
	struct timer timer;
	struct httpc **buckets;
	size_t nbuckets; /* a power of two */
	struct httpc *oldest, *youngest;
	size_t count;
};

uint64_t
httpc_pool_hash(struct strv key)
{
	return hash_bytes(key.p, key.len);
}

static void
pool_timer_cb(void *arg)
{
	struct httpc_pool *p = arg;
	uint64_t now = loop_now_ms(p->loop);

	while (p->oldest != NULL && now - p->oldest->idle_since >= p->o.idle_ms)
		httpc_close(p->oldest);
	if (p->oldest != NULL)
		timer_set(&p->timer,
			  p->oldest->idle_since + p->o.idle_ms - now);
}

struct httpc_pool *
httpc_pool_new(struct loop *l, const struct httpc_pool_options *o)
{
	struct httpc_pool *p = xcalloc(1, sizeof(*p));

	p->loop = l;
	p->o = *o;
	if (p->o.idle_ms == 0)
		p->o.idle_ms = 4000;
	p->nbuckets = BUCKETS_MIN;
	while (p->nbuckets < o->max_idle && p->nbuckets < BUCKETS_MAX)
		p->nbuckets *= 2;
	p->buckets = xcalloc(p->nbuckets, sizeof(*p->buckets));
	timer_init(&p->timer, l, pool_timer_cb, p);
	return p;
}

void
httpc_pool_free(struct httpc_pool *p)
{
	if (p == NULL)
		return;
	while (p->oldest != NULL)
		httpc_close(p->oldest);
	timer_clear(&p->timer);
	free(p->buckets);
	free(p);
}

void
httpc_pool_remove(struct httpc *c)
{
	struct httpc_pool *p = c->pool;

	if (!c->pooled)
		return;
	c->pooled = false;
	p->count--;
	*c->prevp = c->next;
	if (c->next != NULL)
		c->next->prevp = c->prevp;
	if (c->younger != NULL)
		c->younger->older = c->older;
	else
		p->youngest = c->older;
	if (c->older != NULL)
		c->older->younger = c->younger;
	else
		p->oldest = c->younger;
	c->younger = c->older = NULL;
}

static void
pool_link(struct httpc_pool *p, struct httpc *c)
{
	struct httpc **slot = &p->buckets[c->hash & (p->nbuckets - 1)];

	c->pooled = true;
	p->count++;
	c->next = *slot;
	if (c->next != NULL)
		c->next->prevp = &c->next;
	c->prevp = slot;
	*slot = c;
	c->older = p->youngest;
	c->younger = NULL;
	if (c->older != NULL)
		c->older->younger = c;
	else
		p->oldest = c;
	p->youngest = c;
}

static bool
key_is(const struct httpc *c, uint64_t hash, struct strv key)
{
	return c->hash == hash && c->key_len == key.len &&
	       memcmp(c->key, key.p, key.len) == 0;
}

/* Makes room under c's key: the one idle for longest goes. */
static void
pool_trim_key(struct httpc_pool *p, const struct httpc *c)
{
	struct strv key = {c->key, c->key_len};
	struct httpc *i, *last = NULL;
	unsigned n = 0;

	for (i = p->buckets[c->hash & (p->nbuckets - 1)]; i != NULL;
	     i = i->next) {
		if (key_is(i, c->hash, key)) {
			last = i;
			n++;
		}
	}
	if (n >= p->o.max_per_key)
		httpc_close(last);
}

bool
httpc_pool_put(struct httpc_pool *p, struct httpc *c)
{
	assert(!c->pooled);
	if (p->o.max_idle == 0 || p->o.max_per_key == 0)
		return false;
	pool_trim_key(p, c);
	if (p->count >= p->o.max_idle)
		httpc_close(p->oldest);
	c->idle_since = loop_now_ms(p->loop);
	pool_link(p, c);
	if (!timer_running(&p->timer))
		timer_set(&p->timer, p->o.idle_ms);
	return true;
}

struct httpc *
httpc_pool_get(struct httpc_pool *p, struct strv key)
{
	uint64_t hash = httpc_pool_hash(key);
	struct httpc *c = p->buckets[hash & (p->nbuckets - 1)];

	while (c != NULL && !key_is(c, hash, key))
		c = c->next;
	if (c != NULL)
		httpc_pool_remove(c);
	return c;
}

void
httpc_pool_flush(struct httpc_pool *p, struct strv prefix)
{
	struct httpc *c, *next;

	for (c = p->oldest; c != NULL; c = next) {
		next = c->younger;
		if (strv_starts((struct strv){c->key, c->key_len}, prefix))
			httpc_close(c);
	}
}

size_t
httpc_pool_count(const struct httpc_pool *p)
{
	return p->count;
}
