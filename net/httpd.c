/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP server as a whole: its connections in a list, and the memory of
 * its exchanges. An exchange lives in one block taken from a short free list,
 * so that a request costs no malloc and an idle connection owns no memory but
 * its own struct.
 */
#include "config.h"

#include "net/httpd_int.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/mem.h"

#ifdef SBX_SANITIZE
#define BLOCKS_KEPT 0 /* let the sanitizer see every use after free */
#else
#define BLOCKS_KEPT 64
#endif
#define FIRST_REQUEST_MS 1000 /* when draining */

static uint64_t
or_default(uint64_t v, uint64_t def)
{
	return v != 0 ? v : def;
}

struct httpd *
httpd_new(struct loop *l, const struct httpd_options *o,
	  const struct httpd_handler *h, void *arg)
{
	struct httpd *s = xcalloc(1, sizeof(*s));

	assert(h->request != NULL);
	s->loop = l;
	s->o = *o;
	s->h = *h;
	s->arg = arg;
	s->o.head_ms = or_default(o->head_ms, 10000);
	s->o.idle_ms = or_default(o->idle_ms, 75000);
	s->o.handshake_ms = or_default(o->handshake_ms, 10000);
	s->o.body_ms = or_default(o->body_ms, 60000);
	s->o.write_ms = or_default(o->write_ms, 60000);
	s->o.linger_ms = or_default(o->linger_ms, 2000);
	return s;
}

void
httpd_free(struct httpd *s)
{
	struct httpd_block *b;

	if (s == NULL)
		return;
	httpd_close_all(s);
	assert(s->conns == NULL);
	while ((b = s->free) != NULL) {
		s->free = b->next;
		free(b);
	}
	free(s);
}

size_t
httpd_count(const struct httpd *s)
{
	return s->count;
}

void
httpd_retire(struct httpd *s)
{
	s->draining = true;
}

void
httpd_drain(struct httpd *s)
{
	struct httpd_conn *c, *next;

	s->draining = s->hurry = true;
	for (c = s->conns; c != NULL; c = next) {
		next = c->next;
		if (c->state != CONN_WAIT)
			continue;
		if (c->nreq == 0) /* it has only just come */
			timer_set(&c->timer, FIRST_REQUEST_MS);
		else
			httpd_conn_end(c, 0, HOW_FINISH);
	}
}

void
httpd_close_all(struct httpd *s)
{
	struct httpd_conn *c, *next;

	/* What was closed keeps its memory, and its next, for this batch. */
	for (c = s->conns; c != NULL; c = next) {
		next = c->next;
		httpd_conn_close(c);
	}
}

void
httpd_each(struct httpd *s, void (*fn)(struct httpd_conn *, void *), void *arg)
{
	struct httpd_conn *c, *next;

	for (c = s->conns; c != NULL; c = next) {
		next = c->next;
		if (c->state != CONN_CLOSED)
			fn(c, arg);
	}
}

/* --- a connection's facts ------------------------------------------------ */

void *
httpd_conn_tag(const struct httpd_conn *c)
{
	return c->tag;
}

const struct addr *
httpd_conn_peer(const struct httpd_conn *c)
{
	return &c->peer;
}

struct stream *
httpd_conn_stream(struct httpd_conn *c)
{
	return c->st;
}

uint64_t
httpd_conn_id(const struct httpd_conn *c)
{
	return c->id;
}

void *
httpd_conn_scratch(struct httpd_conn *c)
{
	return c->scratch;
}

/* --- the memory of exchanges ------------------------------------------- */

static struct httpd_block *
block_new(struct httpd *s, size_t size)
{
	struct httpd_block *b = s->free;

	if (size <= HTTPD_BLOCK_SIZE && b != NULL) {
		s->free = b->next;
		s->nfree--;
		return b;
	}
	if (size < HTTPD_BLOCK_SIZE)
		size = HTTPD_BLOCK_SIZE;
	b = xmalloc(sizeof(*b) + size);
	b->size = size;
	return b;
}

static void
block_free(struct httpd *s, struct httpd_block *b)
{
	if (b->size != HTTPD_BLOCK_SIZE || s->nfree + 1 > BLOCKS_KEPT) {
		free(b);
		return;
	}
	b->next = s->free;
	s->free = b;
	s->nfree++;
}

struct httpd_req *
httpd_req_new(struct httpd_conn *c)
{
	static const struct httpd_req_cbs none;
	struct httpd_block *b = block_new(c->s, sizeof(struct httpd_req));
	struct httpd_req *rq = (struct httpd_req *)(void *)b->data;

	/* The head is the parser's to fill. */
	memset(rq, 0, offsetof(struct httpd_req, head));
	b->next = NULL;
	rq->c = c;
	rq->blocks = b;
	rq->at = (char *)(rq + 1);
	rq->end = (char *)b->data + b->size;
	rq->cbs = &none;
	rq->max_body = c->s->o.max_body;
	bufq_init(&rq->in, loop_bufpool(c->s->loop));
	return rq;
}

void
httpd_req_free(struct httpd_req *rq)
{
	struct httpd *s = rq->c->s;
	struct httpd_block *b, *next;

	bufq_clear(&rq->in);
	for (b = rq->blocks; b != NULL; b = next) {
		next = b->next;
		block_free(s, b);
	}
}

void *
httpd_alloc(struct httpd_req *rq, size_t n)
{
	struct httpd_block *b;
	char *p;

	if (__builtin_add_overflow(n, _Alignof(max_align_t) - 1, &n))
		n = SIZE_MAX / 2; /* fails in xmalloc */
	n &= ~(_Alignof(max_align_t) - 1);
	p = rq->at;
	p += -(uintptr_t)p & (_Alignof(max_align_t) - 1);
	if (p <= rq->end && (size_t)(rq->end - p) >= n) {
		rq->at = p + n;
		return p;
	}
	b = block_new(rq->c->s, n);
	b->next = rq->blocks;
	rq->blocks = b;
	if (n <= HTTPD_BLOCK_SIZE) { /* the rest of a large one is nothing */
		rq->at = (char *)b->data + n;
		rq->end = (char *)b->data + b->size;
	}
	return b->data;
}

/* --- date -------------------------------------------------------------- */

struct strv
httpd_date(struct httpd *s)
{
	uint64_t now = loop_now_ms(s->loop);
	struct timespec ts;
	struct tm tm;

	/* Made anew when the coarse clock has moved on by a quarter second. */
	if (s->date_ms == 0 || now - s->date_ms > 250) {
		s->date_ms = now;
		(void)clock_gettime(CLOCK_REALTIME_COARSE, &ts);
		(void)gmtime_r(&ts.tv_sec, &tm);
		(void)strftime(s->date, sizeof(s->date),
			       "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &tm);
	}
	return strv_of(s->date);
}
