/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring of bytes, and beside it a list of where the stream changes. The list
 * is bounded too: output that alternates byte by byte costs kept bytes.
 */
#include "config.h"

#include "agent/ring.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define RING_MIN      4096U
#define RING_SPANS    32768U
#define RING_SPANS_LO 16U

struct span {
	uint64_t start;
	unsigned stream;
};

struct ring {
	char *mem;
	size_t cap; /* a power of two */
	size_t max; /* of cap; a power of two */
	uint64_t start, end;
	/* spans[(first + i) % span_cap]: the first one covers `start`. */
	struct span *spans;
	size_t span_cap, first, nspans;
};

struct ring *
ring_new(void)
{
	struct ring *r = xcalloc(1, sizeof(*r));

	r->max = RING_MAX;
	return r;
}

void
ring_limit(struct ring *r, size_t max)
{
	r->max = max > r->cap ? max : r->cap;
}

void
ring_free(struct ring *r)
{
	if (r == NULL)
		return;
	free(r->mem);
	free(r->spans);
	free(r);
}

static struct span *
ring_span(const struct ring *r, size_t i)
{
	return &r->spans[(r->first + i) & (r->span_cap - 1)];
}

static void
ring_copy_in(struct ring *r, uint64_t at, const char *p, size_t n)
{
	size_t off = (size_t)at & (r->cap - 1);
	size_t run = r->cap - off;

	if (run > n)
		run = n;
	memcpy(r->mem + off, p, run);
	memcpy(r->mem, p + run, n - run);
}

/* Room for n bytes beside what is kept, if the limit allows it. */
static void
ring_grow(struct ring *r, size_t n)
{
	size_t need = (size_t)(r->end - r->start) + n;
	size_t cap = r->cap != 0 ? r->cap : RING_MIN;
	struct ring old = *r;

	while (cap < need && cap < r->max)
		cap *= 2;
	if (cap == r->cap)
		return;
	r->mem = xmalloc(cap);
	r->cap = cap;
	for (uint64_t at = old.start; at < old.end;) {
		size_t off = (size_t)at & (old.cap - 1);
		size_t run = old.cap - off;

		if (run > old.end - at)
			run = (size_t)(old.end - at);
		ring_copy_in(r, at, old.mem + off, run);
		at += run;
	}
	free(old.mem);
}

/* Forgets what stands before `start`. */
static void
ring_forget(struct ring *r, uint64_t start)
{
	r->start = start;
	while (r->nspans > 1 && ring_span(r, 1)->start <= start) {
		r->first = (r->first + 1) & (r->span_cap - 1);
		r->nspans--;
	}
}

static void
ring_grow_spans(struct ring *r)
{
	size_t cap = r->span_cap != 0 ? 2 * r->span_cap : RING_SPANS_LO;
	struct span *v = xmalloc(cap * sizeof(*v));

	for (size_t i = 0; i < r->nspans; i++)
		v[i] = *ring_span(r, i);
	free(r->spans);
	r->spans = v;
	r->span_cap = cap;
	r->first = 0;
}

static void
ring_mark(struct ring *r, unsigned stream)
{
	if (r->nspans > 0 && ring_span(r, r->nspans - 1)->stream == stream)
		return;
	if (r->nspans == RING_SPANS)
		ring_forget(r, ring_span(r, 1)->start);
	else if (r->nspans == r->span_cap)
		ring_grow_spans(r);
	*ring_span(r, r->nspans++) = (struct span){r->end, stream};
}

void
ring_add(struct ring *r, unsigned stream, const char *p, size_t n)
{
	if (n == 0)
		return;
	ring_mark(r, stream);
	if (n > r->max) {
		r->end += n - r->max;
		p += n - r->max;
		n = r->max;
		ring_forget(r, r->end);
	}
	ring_grow(r, n);
	ring_copy_in(r, r->end, p, n);
	r->end += n;
	if (r->end - r->start > r->cap)
		ring_forget(r, r->end - r->cap);
}

uint64_t
ring_start(const struct ring *r)
{
	return r->start;
}

uint64_t
ring_end(const struct ring *r)
{
	return r->end;
}

size_t
ring_memory(const struct ring *r)
{
	return r->cap + r->span_cap * sizeof(struct span);
}

size_t
ring_bound(const struct ring *r)
{
	return r->max;
}

/* The last span that begins at or before pos. */
static size_t
ring_find(const struct ring *r, uint64_t pos)
{
	size_t lo = 0, hi = r->nspans;

	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;

		if (ring_span(r, mid)->start <= pos)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

size_t
ring_span_left(const struct ring *r, uint64_t pos)
{
	size_t i = ring_find(r, pos);
	uint64_t end = i + 1 < r->nspans ? ring_span(r, i + 1)->start : r->end;

	return end > pos ? (size_t)(end - pos) : 0;
}

void
ring_copy(const struct ring *r, uint64_t pos, char *out, size_t n)
{
	for (size_t i = 0; i < n; i++)
		out[i] = r->mem[(size_t)(pos + i) & (r->cap - 1)];
}

struct strv
ring_read(const struct ring *r, uint64_t *pos, unsigned *stream)
{
	size_t off, n;

	if (*pos < r->start)
		*pos = r->start;
	if (*pos >= r->end)
		return STRV_NULL;
	*stream = ring_span(r, ring_find(r, *pos))->stream;
	off = (size_t)*pos & (r->cap - 1);
	n = ring_span_left(r, *pos);
	if (n > r->cap - off)
		n = r->cap - off;
	return (struct strv){r->mem + off, n};
}
