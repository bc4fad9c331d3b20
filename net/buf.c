/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Byte queues made of pooled slabs. Invariants: a queue's len is the sum of
 * its slabs' lens; no slab in a queue is empty, except the last one between
 * bufq_reserve() and bufq_commit(); an empty queue owns no slab.
 */
#include "config.h"

#include "net/buf.h"

#include <assert.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define BUF_HEADROOM 32   /* before the data of a fresh slab, for prepend */
#define BUF_COPY_MAX 2048 /* a whole slab this small is copied, not linked */

struct slab {
	struct slab *next;
	struct bufpool *pool;
	uint32_t off; /* of the first byte in data */
	uint32_t len;
	uint32_t cap; /* size of data, headroom included */
	char data[];
};

struct bufpool {
	struct slab *free;
	size_t nfree;
	size_t keep;
	size_t live;
};

/* --- pool -------------------------------------------------------------- */

struct bufpool *
bufpool_new(size_t keep)
{
	struct bufpool *p = xcalloc(1, sizeof(*p));

#ifdef SBX_SANITIZE
	keep = 0; /* let the sanitizer see every use after free */
#endif
	p->keep = keep;
	return p;
}

void
bufpool_free(struct bufpool *p)
{
	struct slab *s;

	if (p == NULL)
		return;
	assert(p->live == 0);
	while ((s = p->free) != NULL) {
		p->free = s->next;
		free(s);
	}
	free(p);
}

size_t
bufpool_live(const struct bufpool *p)
{
	return p->live;
}

static struct slab *
slab_new(struct bufpool *p, size_t size)
{
	struct slab *s;

	p->live++;
	if (size <= BUF_SLAB_SIZE && (s = p->free) != NULL) {
		p->free = s->next;
		p->nfree--;
	} else {
		if (size < BUF_SLAB_SIZE)
			size = BUF_SLAB_SIZE;
		s = xmalloc(sizeof(*s) + BUF_HEADROOM + size);
		s->pool = p;
		s->cap = (uint32_t)(BUF_HEADROOM + size);
	}
	s->next = NULL;
	s->off = BUF_HEADROOM;
	s->len = 0;
	return s;
}

static void
slab_free(struct slab *s)
{
	struct bufpool *p = s->pool;

	p->live--;
	if (p->nfree < p->keep && s->cap == BUF_HEADROOM + BUF_SLAB_SIZE) {
		s->next = p->free;
		p->free = s;
		p->nfree++;
	} else {
		free(s);
	}
}

static size_t
slab_room(const struct slab *s)
{
	return s->cap - s->off - s->len;
}

/* --- queue ------------------------------------------------------------- */

void
bufq_init(struct bufq *q, struct bufpool *pool)
{
	q->head = NULL;
	q->tail = NULL;
	q->len = 0;
	q->pool = pool;
}

void
bufq_clear(struct bufq *q)
{
	struct slab *s;

	while ((s = q->head) != NULL) {
		q->head = s->next;
		slab_free(s);
	}
	q->tail = NULL;
	q->len = 0;
}

static void
bufq_link(struct bufq *q, struct slab *s)
{
	s->next = NULL;
	if (q->tail != NULL)
		q->tail->next = s;
	else
		q->head = s;
	q->tail = s;
}

/* Takes the first slab off the list; len is the caller's to mend. */
static struct slab *
bufq_shift(struct bufq *q)
{
	struct slab *s = q->head;

	q->head = s->next;
	if (q->head == NULL)
		q->tail = NULL;
	return s;
}

struct strv
bufq_front(const struct bufq *q)
{
	struct strv v = STRV_NULL;

	if (q->head != NULL) {
		v.p = q->head->data + q->head->off;
		v.len = q->head->len;
	}
	return v;
}

/* Makes the first slab one that can hold n bytes behind each other. */
static struct slab *
bufq_roomy_head(struct bufq *q, size_t n)
{
	struct slab *s = q->head, *big;

	if (s->cap - s->off >= n)
		return s;
	if (s->cap >= n) {
		memmove(s->data, s->data + s->off, s->len);
		s->off = 0;
		return s;
	}
	big = slab_new(q->pool, BUF_PULLUP_MAX);
	memcpy(big->data + big->off, s->data + s->off, s->len);
	big->len = s->len;
	big->next = s->next;
	if (q->tail == s)
		q->tail = big;
	q->head = big;
	slab_free(s);
	return big;
}

char *
bufq_pullup(struct bufq *q, size_t n)
{
	struct slab *s, *from;
	size_t take;

	if (n > q->len || n > BUF_PULLUP_MAX || q->head == NULL)
		return NULL;
	if (q->head->len >= n)
		return q->head->data + q->head->off;
	s = bufq_roomy_head(q, n);
	while (s->len < n) {
		from = s->next;
		take = n - s->len < from->len ? n - s->len : from->len;
		memcpy(s->data + s->off + s->len, from->data + from->off, take);
		s->len += (uint32_t)take;
		from->off += (uint32_t)take;
		from->len -= (uint32_t)take;
		if (from->len == 0) {
			s->next = from->next;
			if (q->tail == from)
				q->tail = s;
			slab_free(from);
		}
	}
	return s->data + s->off;
}

void
bufq_drain(struct bufq *q, size_t n)
{
	struct slab *s;

	assert(n <= q->len);
	q->len -= n;
	while (n > 0) {
		s = q->head;
		if (n < s->len) {
			s->off += (uint32_t)n;
			s->len -= (uint32_t)n;
			return;
		}
		n -= s->len;
		slab_free(bufq_shift(q));
	}
}

size_t
bufq_copy_out(const struct bufq *q, void *p, size_t n)
{
	const struct slab *s;
	size_t done = 0, take;

	for (s = q->head; s != NULL && done < n; s = s->next) {
		take = n - done < s->len ? n - done : s->len;
		memcpy((char *)p + done, s->data + s->off, take);
		done += take;
	}
	return done;
}

void
bufq_add(struct bufq *q, const void *p, size_t n)
{
	const char *from = p;
	struct slab *s;
	size_t take;

	while (n > 0) {
		s = q->tail;
		if (s == NULL || slab_room(s) == 0) {
			s = slab_new(q->pool, BUF_SLAB_SIZE);
			bufq_link(q, s);
		}
		take = slab_room(s) < n ? slab_room(s) : n;
		memcpy(s->data + s->off + s->len, from, take);
		s->len += (uint32_t)take;
		q->len += take;
		from += take;
		n -= take;
	}
}

void
bufq_addv(struct bufq *q, struct strv v)
{
	bufq_add(q, v.p, v.len);
}

void
bufq_addf(struct bufq *q, const char *fmt, ...)
{
	char small[256], *big;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(small, sizeof(small), fmt, ap);
	va_end(ap);
	assert(n >= 0);
	if ((size_t)n < sizeof(small)) {
		bufq_add(q, small, (size_t)n);
		return;
	}
	big = xmalloc((size_t)n + 1);
	va_start(ap, fmt);
	(void)vsnprintf(big, (size_t)n + 1, fmt, ap);
	va_end(ap);
	bufq_add(q, big, (size_t)n);
	free(big);
}

void
bufq_prepend(struct bufq *q, const void *p, size_t n)
{
	struct slab *s = q->head;
	const char *from = p;
	size_t take;

	while (n > 0) {
		if (s == NULL || s->off == 0) {
			s = slab_new(q->pool, BUF_SLAB_SIZE);
			/* Its bytes end where its room ends. */
			s->off = s->cap;
			s->next = q->head;
			q->head = s;
			if (q->tail == NULL)
				q->tail = s;
		}
		take = s->off < n ? s->off : n;
		s->off -= (uint32_t)take;
		s->len += (uint32_t)take;
		q->len += take;
		n -= take;
		memcpy(s->data + s->off, from + n, take);
	}
}

char *
bufq_reserve(struct bufq *q, size_t min, size_t *room)
{
	struct slab *s = q->tail;

	assert(min <= BUF_PULLUP_MAX);
	if (s == NULL || slab_room(s) < (min > 0 ? min : 1)) {
		s = slab_new(q->pool, min);
		bufq_link(q, s);
	}
	*room = slab_room(s);
	return s->data + s->off + s->len;
}

static void
bufq_drop_tail(struct bufq *q)
{
	struct slab *s, *last = q->tail;

	if (q->head == last) {
		q->head = NULL;
		q->tail = NULL;
	} else {
		for (s = q->head; s->next != last; s = s->next)
			continue;
		s->next = NULL;
		q->tail = s;
	}
	slab_free(last);
}

void
bufq_commit(struct bufq *q, size_t n)
{
	struct slab *s = q->tail;

	if (s == NULL)
		return;
	assert(n <= slab_room(s));
	s->len += (uint32_t)n;
	q->len += n;
	if (s->len == 0)
		bufq_drop_tail(q);
}

/* Moves one whole slab; true when it was linked or copied. */
static void
bufq_move_slab(struct bufq *dst, struct bufq *src)
{
	struct slab *s = bufq_shift(src);
	struct slab *t = dst->tail;

	src->len -= s->len;
	if (s->len <= BUF_COPY_MAX && t != NULL && slab_room(t) >= s->len) {
		memcpy(t->data + t->off + t->len, s->data + s->off, s->len);
		t->len += s->len;
		dst->len += s->len;
		slab_free(s);
		return;
	}
	dst->len += s->len;
	bufq_link(dst, s);
}

void
bufq_move(struct bufq *dst, struct bufq *src, size_t n)
{
	assert(n <= src->len && dst != src);
	if (n == src->len && dst->head == NULL) {
		dst->head = src->head;
		dst->tail = src->tail;
		dst->len = src->len;
		src->head = NULL;
		src->tail = NULL;
		src->len = 0;
		return;
	}
	while (n > 0) {
		if (n < src->head->len) {
			bufq_add(dst, src->head->data + src->head->off, n);
			bufq_drain(src, n);
			return;
		}
		n -= src->head->len;
		bufq_move_slab(dst, src);
	}
}

int
bufq_iovec(const struct bufq *q, struct iovec *iov, int max, size_t *total)
{
	struct slab *s;
	int n = 0;

	*total = 0;
	for (s = q->head; s != NULL && n < max; s = s->next) {
		iov[n].iov_base = s->data + s->off;
		iov[n].iov_len = s->len;
		*total += s->len;
		n++;
	}
	return n;
}
