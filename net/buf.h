/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue of bytes in pooled 16 KiB slabs: what every stream reads into and
 * writes from. A slab is handed from queue to queue without copying, holds a
 * whole TLS record, and goes back to the pool (last in, first out, so cache
 * warm) when it is empty: an idle connection owns none.
 *
 * (libevent's evbuffer serves the same purpose. It allocates a chain for each
 * read, and cannot be read into by OpenSSL without a reserve/commit round.)
 */
#ifndef SBX_NET_BUF_H
#define SBX_NET_BUF_H

#include <stddef.h>
#include <sys/uio.h>

#include "base/defs.h"
#include "base/str.h"

#define BUF_SLAB_SIZE  16384 /* usable bytes of a slab */
#define BUF_PULLUP_MAX 65536

struct slab;
struct bufpool;

/* A pool that keeps at most keep free slabs. Freed by bufpool_free() when
 * every slab came back (asserted). */
struct bufpool *bufpool_new(size_t keep);
void bufpool_free(struct bufpool *p);
size_t bufpool_live(const struct bufpool *p); /* slabs out in queues */

struct bufq {
	struct slab *head;
	struct slab *tail;
	size_t len; /* bytes in the queue */
	struct bufpool *pool;
};

void bufq_init(struct bufq *q, struct bufpool *pool);
void bufq_clear(struct bufq *q); /* gives all slabs back; q stays usable */

/* The first contiguous run of bytes (empty when the queue is). */
struct strv bufq_front(const struct bufq *q);
/* The first n bytes made contiguous (copies only if they are not); NULL when
 * fewer are there or n > BUF_PULLUP_MAX. Valid until q changes. */
char *bufq_pullup(struct bufq *q, size_t n);
void bufq_drain(struct bufq *q, size_t n);                     /* n <= len */
size_t bufq_copy_out(const struct bufq *q, void *p, size_t n); /* a peek */

void bufq_add(struct bufq *q, const void *p, size_t n); /* copies */
void bufq_addv(struct bufq *q, struct strv v);
void bufq_addf(struct bufq *q, const char *fmt, ...) SBX_PRINTF(2, 3);
/* Puts n bytes before what is there (they fit the slab's headroom, or a new
 * slab is linked in). */
void bufq_prepend(struct bufq *q, const void *p, size_t n);

/* Contiguous room for at least min bytes at the end (min <= BUF_PULLUP_MAX);
 * *room is what there is. Then bufq_commit() what was filled in (0 is fine).
 * Nothing else may touch q in between. */
char *bufq_reserve(struct bufq *q, size_t min, size_t *room);
void bufq_commit(struct bufq *q, size_t n);

/* Moves the first n bytes (n <= src->len) to the end of dst: whole slabs by
 * link; small pieces (<= 2 KiB that fit dst's last slab) and a part of a slab
 * by copy, so a queue of small messages does not hold a slab each. */
void bufq_move(struct bufq *dst, struct bufq *src, size_t n);

/* Fills iov with the front of the queue: returns how many entries; their
 * bytes in *total. */
int bufq_iovec(const struct bufq *q, struct iovec *iov, int max, size_t *total);

#endif
