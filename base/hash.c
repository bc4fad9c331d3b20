/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open addressing with linear probing; the number of slots is a power of two
 * and at most three quarters of them are ever touched. Taking an entry out
 * leaves a tombstone and moves nothing, which is what makes that safe during
 * a walk. The hash is SipHash-1-3, keyed once per process.
 */
#include "config.h"

#include "base/hash.h"

#include <assert.h>
#include <endian.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/token.h"

#define HASH_MIN 8

struct hash_slot {
	char *key; /* NULL: free; hash_tomb: was taken out */
	size_t len;
	uint64_t hash;
	void *value;
};

struct hash {
	struct hash_slot *slots;
	size_t cap;  /* 0 or a power of two */
	size_t live; /* entries */
	size_t used; /* entries and tombstones */
};

static char hash_tomb[1];
static uint64_t hash_seed[2];
static pthread_once_t hash_once = PTHREAD_ONCE_INIT;

static void
hash_seed_init(void)
{
	token_random(hash_seed, sizeof(hash_seed));
}

static inline uint64_t
rotl(uint64_t x, int by)
{
	return x << by | x >> (64 - by);
}

static inline void
sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[1] = rotl(v[1], 13) ^ v[0];
	v[0] = rotl(v[0], 32);
	v[2] += v[3];
	v[3] = rotl(v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = rotl(v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = rotl(v[1], 17) ^ v[2];
	v[2] = rotl(v[2], 32);
}

uint64_t
hash_siphash13(const uint64_t key[2], const void *p, size_t n)
{
	uint64_t v[4] = {
	    key[0] ^ UINT64_C(0x736f6d6570736575),
	    key[1] ^ UINT64_C(0x646f72616e646f6d),
	    key[0] ^ UINT64_C(0x6c7967656e657261),
	    key[1] ^ UINT64_C(0x7465646279746573),
	};
	const unsigned char *in = p;
	uint64_t m, last = (uint64_t)n << 56;
	size_t left;

	for (left = n; left >= 8; left -= 8, in += 8) {
		memcpy(&m, in, 8);
		m = le64toh(m);
		v[3] ^= m;
		sip_round(v);
		v[0] ^= m;
	}
	for (size_t i = 0; i < left; i++)
		last |= (uint64_t)in[i] << (8 * i);
	v[3] ^= last;
	sip_round(v);
	v[0] ^= last;
	v[2] ^= 0xff;
	for (int i = 0; i < 3; i++)
		sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

uint64_t
hash_bytes(const void *p, size_t n)
{
	(void)pthread_once(&hash_once, hash_seed_init);
	return hash_siphash13(hash_seed, p, n);
}

struct hash *
hash_new(void)
{
	return xcalloc(1, sizeof(struct hash));
}

static bool
slot_live(const struct hash_slot *s)
{
	return s->key != NULL && s->key != hash_tomb;
}

void
hash_free(struct hash *h)
{
	if (h == NULL)
		return;
	for (size_t i = 0; i < h->cap; i++) {
		if (slot_live(&h->slots[i]))
			free(h->slots[i].key);
	}
	free(h->slots);
	free(h);
}

size_t
hash_count(const struct hash *h)
{
	return h->live;
}

static struct hash_slot *
hash_find(const struct hash *h, struct strv key, uint64_t hash)
{
	size_t i = (size_t)hash;

	if (h->cap == 0)
		return NULL;
	for (;; i++) {
		struct hash_slot *s = &h->slots[i & (h->cap - 1)];

		if (s->key == NULL)
			return NULL;
		if (s->key != hash_tomb && s->hash == hash &&
		    strv_eq((struct strv){s->key, s->len}, key))
			return s;
	}
}

/* Puts e, which is not there yet, into the first slot without an entry. */
static void
hash_place(struct hash *h, const struct hash_slot *e)
{
	size_t i = (size_t)e->hash & (h->cap - 1);

	while (slot_live(&h->slots[i]))
		i = (i + 1) & (h->cap - 1);
	if (h->slots[i].key == NULL)
		h->used++;
	h->slots[i] = *e;
	h->live++;
}

/* Makes room for one more, dropping the tombstones on the way. */
static void
hash_reserve(struct hash *h)
{
	struct hash old = *h;

	if (h->used + 1 <= h->cap / 4 * 3)
		return;
	h->cap = HASH_MIN;
	while (h->cap / 2 < old.live + 1)
		h->cap *= 2;
	h->slots = xcalloc(h->cap, sizeof(*h->slots));
	h->live = h->used = 0;
	for (size_t i = 0; i < old.cap; i++) {
		if (slot_live(&old.slots[i]))
			hash_place(h, &old.slots[i]);
	}
	free(old.slots);
}

void *
hash_get(const struct hash *h, struct strv key)
{
	struct hash_slot *s = hash_find(h, key, hash_bytes(key.p, key.len));

	return s != NULL ? s->value : NULL;
}

void *
hash_set(struct hash *h, struct strv key, void *value)
{
	struct hash_slot e = {.len = key.len, .value = value};
	struct hash_slot *s;

	assert(value != NULL);
	e.hash = hash_bytes(key.p, key.len);
	s = hash_find(h, key, e.hash);
	if (s != NULL) {
		void *old = s->value;

		s->value = value;
		return old;
	}
	hash_reserve(h);
	e.key = xmemdup(key.p, key.len);
	hash_place(h, &e);
	return NULL;
}

void *
hash_del(struct hash *h, struct strv key)
{
	struct hash_slot *s = hash_find(h, key, hash_bytes(key.p, key.len));
	void *value;

	if (s == NULL)
		return NULL;
	value = s->value;
	free(s->key);
	*s = (struct hash_slot){.key = hash_tomb};
	h->live--;
	return value;
}

void *
hash_next(const struct hash *h, size_t *pos, struct strv *key)
{
	while (*pos < h->cap) {
		const struct hash_slot *s = &h->slots[(*pos)++];

		if (!slot_live(s))
			continue;
		if (key != NULL)
			*key = (struct strv){s->key, s->len};
		return s->value;
	}
	return NULL;
}
