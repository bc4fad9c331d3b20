/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last megabytes of a process's output. Positions count the bytes of both
 * streams together from the start of the process, so that a reader can leave,
 * come back with its position and miss nothing that is still kept.
 */
#ifndef SBX_AGENT_RING_H
#define SBX_AGENT_RING_H

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

#define RING_MAX (4U << 20)

struct ring;

struct ring *ring_new(void); /* takes memory as it fills, up to RING_MAX */
void ring_free(struct ring *r);
/* From now on it takes no more than max (a power of two, 64 KiB at least), or
 * what it has already. */
void ring_limit(struct ring *r, size_t max);
void ring_add(struct ring *r, unsigned stream, const char *p, size_t n);
uint64_t ring_start(const struct ring *r); /* the oldest byte kept */
uint64_t ring_end(const struct ring *r);
size_t ring_memory(const struct ring *r);
size_t ring_bound(const struct ring *r); /* what it keeps at most */
/* The bytes from *pos on that came from one stream and lie in one piece
 * (empty: nothing new). *pos moves up to ring_start() when that is later; the
 * caller adds what it used. */
struct strv ring_read(const struct ring *r, uint64_t *pos, unsigned *stream);
/* How many bytes from pos on came from the same stream. */
size_t ring_span_left(const struct ring *r, uint64_t pos);
/* Copies n bytes, which must be there. */
void ring_copy(const struct ring *r, uint64_t pos, char *out, size_t n);

#endif
