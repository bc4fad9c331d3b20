/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counting connections by client address: an open-addressing table with linear
 * probing. An entry lives only while its client has a connection, so the table
 * holds at most as many as connections are allowed, and grows no further.
 */
#include "config.h"

#include "gateway/limits.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "gateway/gwconf.h"
#include "net/addr.h"

struct client {
	uint8_t ip[16];
	uint32_t conns; /* 0: free */
};

struct limits {
	const struct gw_limits *g;
	size_t count;
	struct client *tab;
	size_t cap, used; /* cap: a power of two */
	/* handshakes, in thousandths */
	uint64_t credit, credited_ms;
};

#define CAP_FIRST 64

struct limits *
limits_new(const struct gw_limits *g)
{
	struct limits *l = xcalloc(1, sizeof(*l));

	l->g = g;
	l->cap = CAP_FIRST;
	l->tab = xcalloc(l->cap, sizeof(*l->tab));
	l->credit = g->handshakes_per_s * 1000;
	return l;
}

void
limits_free(struct limits *l)
{
	if (l == NULL)
		return;
	free(l->tab);
	free(l);
}

size_t
limits_count(const struct limits *l)
{
	return l->count;
}

bool
limits_client(const struct addr *peer, uint8_t key[LIMITS_CLIENT])
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	const uint8_t *six = peer->u.in6.sin6_addr.s6_addr;

	memset(key, 0, 16);
	if (peer->u.sa.sa_family == AF_INET) {
		memcpy(key, mapped, 12);
		memcpy(key + 12, &peer->u.in.sin_addr, 4);
		return true;
	}
	if (peer->u.sa.sa_family != AF_INET6)
		return false;
	if (memcmp(six, mapped, 12) == 0)
		memcpy(key, six, 16);
	else
		memcpy(key, six, 8);
	return true;
}

/* Its entry, or the free one where it would be. */
static struct client *
slot(const struct limits *l, const uint8_t key[16])
{
	size_t i = hash_bytes(key, 16) & (l->cap - 1);

	while (l->tab[i].conns != 0 && memcmp(l->tab[i].ip, key, 16) != 0)
		i = (i + 1) & (l->cap - 1);
	return &l->tab[i];
}

static void
grow(struct limits *l)
{
	struct client *old = l->tab;
	size_t i, n = l->cap;

	l->cap *= 2;
	l->tab = xcalloc(l->cap, sizeof(*l->tab));
	for (i = 0; i < n; i++) {
		if (old[i].conns != 0)
			*slot(l, old[i].ip) = old[i];
	}
	free(old);
}

bool
limits_open(struct limits *l, const struct addr *peer)
{
	struct client *c;
	uint8_t key[16];

	if (l->g->conns != 0 && l->count >= l->g->conns)
		return false;
	if (l->g->conns_per_ip != 0 && limits_client(peer, key)) {
		if (2 * (l->used + 1) > l->cap)
			grow(l);
		c = slot(l, key);
		if (c->conns >= l->g->conns_per_ip)
			return false;
		if (c->conns == 0) {
			memcpy(c->ip, key, 16);
			l->used++;
		}
		c->conns++;
	}
	l->count++;
	return true;
}

/* Frees an entry and closes the gap that it leaves in its run. */
static void
take_out(struct limits *l, size_t gap)
{
	size_t i = gap, home;

	l->used--;
	for (;;) {
		l->tab[gap].conns = 0;
		do {
			i = (i + 1) & (l->cap - 1);
			if (l->tab[i].conns == 0)
				return;
			home = hash_bytes(l->tab[i].ip, 16) & (l->cap - 1);
			/* may it move up? not if home is in (gap, i] */
		} while (((i - home) & (l->cap - 1)) <
			 ((i - gap) & (l->cap - 1)));
		l->tab[gap] = l->tab[i];
		gap = i;
	}
}

void
limits_close(struct limits *l, const struct addr *peer)
{
	struct client *c;
	uint8_t key[16];

	l->count--;
	if (l->g->conns_per_ip == 0 || !limits_client(peer, key))
		return;
	c = slot(l, key);
	if (c->conns == 0)
		return;
	if (c->conns == 1)
		take_out(l, (size_t)(c - l->tab));
	else
		c->conns--;
}

bool
limits_handshake(struct limits *l, uint64_t now_ms)
{
	uint64_t rate = l->g->handshakes_per_s, gone;

	if (rate == 0)
		return true;
	gone = now_ms > l->credited_ms ? now_ms - l->credited_ms : 0;
	l->credited_ms = now_ms;
	if (gone > 1000)
		gone = 1000;
	l->credit += gone * rate;
	if (l->credit > rate * 1000)
		l->credit = rate * 1000;
	if (l->credit < 1000)
		return false;
	l->credit -= 1000;
	return true;
}
