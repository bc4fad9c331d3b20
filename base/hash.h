/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A string-keyed table. Keys are hashed with SipHash under a random seed, so
 * a peer that chooses the keys cannot choose the collisions. Keys are copied;
 * values are borrowed (the table never frees them).
 */
#ifndef SBX_BASE_HASH_H
#define SBX_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct hash;

struct hash *hash_new(void);
void hash_free(struct hash *h); /* values stay the caller's */
size_t hash_count(const struct hash *h);
void *hash_get(const struct hash *h, struct strv key); /* NULL: not there */
/* Sets key to value (not NULL); returns the value it had, or NULL. */
void *hash_set(struct hash *h, struct strv key, void *value);
/* Takes key out; returns its value, or NULL. */
void *hash_del(struct hash *h, struct strv key);

/* Walk: *pos starts at 0; NULL at the end; key may be NULL. Taking out the
 * entry just returned is allowed during a walk (its key goes with it), adding
 * is not. */
void *hash_next(const struct hash *h, size_t *pos, struct strv *key);

/* The seeded hash itself, for tables of other shapes. */
uint64_t hash_bytes(const void *p, size_t n);
/* SipHash-1-3 under a given key, for what must be the same in two processes.
 */
uint64_t hash_siphash13(const uint64_t key[2], const void *p, size_t n);

#endif
