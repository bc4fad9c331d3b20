/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunked transfer coding (RFC 9112, 7.1), strict: a size is 1-16 hex digits,
 * lines end in CRLF only, extensions are checked, dropped and at most 4 KiB of
 * them per body; trailer fields are checked as header fields are, dropped, and
 * at most 8 KiB.
 */
#ifndef SBX_NET_CHUNK_H
#define SBX_NET_CHUNK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/defs.h"

struct bufq;

struct chunk_dec {
	uint8_t state;
	uint8_t digits;
	uint16_t ext;     /* extension bytes so far */
	uint16_t trailer; /* trailer bytes so far */
	uint64_t left;    /* of the current chunk */
	uint64_t total;   /* data bytes so far */
};

void chunk_dec_init(struct chunk_dec *d);
/*
 * Takes coded bytes from in and moves data bytes to out, until in is empty,
 * the end was seen, or max data bytes were moved in this call. Data slabs are
 * moved, not copied. Returns E_AGAIN (more may come), 0 (the end; what
 * follows stays in in), E_PROTO, or E_LIMIT.
 */
int chunk_decode(struct chunk_dec *d, struct bufq *in, struct bufq *out,
		 size_t max) SBX_MUST_CHECK;

/* Moves n bytes of data from src to dst as one chunk (n > 0). */
void chunk_encode(struct bufq *dst, struct bufq *src, size_t n);
/* The same for n bytes at p, which are copied. */
void chunk_encode_mem(struct bufq *dst, const void *p, size_t n);
/* The last chunk and the end of the (empty) trailer section. */
void chunk_encode_end(struct bufq *dst);

#endif
