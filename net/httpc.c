/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client side of HTTP/1.1. httpc_run() takes the response as far as the
 * input goes and tells the owner; everything else only prepares for it. The
 * owner may end the exchange, or begin the next one, in any callback, so
 * nothing is touched after the callback that says the end.
 *
 * A connection that fails is read to its end first: what the server said
 * before it went is often the whole response.
 */
#include "config.h"

#include "net/httpc_int.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "net/stream.h"

#define IN_LIMIT    65536 /* decoded bytes an owner may leave */
#define INTERIM_MAX 32    /* interim responses to one request */

/* --- the end ----------------------------------------------------------- */

static void
httpc_destroy(void *p)
{
	struct httpc *c = p;

	bufq_clear(&c->in); /* an owner may have been reading in it */
	c->magic = 0;
	free(c);
}

/* Everything but the stream goes; c's memory stays for this batch. */
static struct stream *
httpc_detach(struct httpc *c)
{
	struct stream *st = c->st;

	httpc_pool_remove(c);
	c->closed = true;
	c->st = NULL;
	timer_clear(&c->timer);
	task_cancel(&c->task);
	loop_defer_free(c->loop, c, httpc_destroy);
	return st;
}

void
httpc_close(struct httpc *c)
{
	if (c != NULL && !c->closed)
		stream_close(httpc_detach(c));
}

static bool
httpc_begun(const struct httpc *c)
{
	return stream_bytes_in(c->st) != c->in_mark;
}

static void
httpc_fail(struct httpc *c, int err, const char *what)
{
	bool begun = httpc_begun(c);

	httpc_close(c);
	c->cbs->failed(c, err, begun, what, c->arg);
}

/* --- response head ----------------------------------------------------- */

static int
head_parse(struct httpc *c, struct http_head *h, struct http_reject *rej)
{
	struct bufq *in = stream_input(c->st);
	struct strv run = bufq_front(in);
	int r;

	r = http1_parse_response(run.p, run.len, &c->scanned, h, rej);
	if (r != E_AGAIN || run.len == in->len || run.len >= HTTP1_HEAD_MAX)
		return r;
	run.len = in->len < HTTP1_HEAD_MAX ? in->len : HTTP1_HEAD_MAX;
	run.p = bufq_pullup(in, run.len);
	return http1_parse_response(run.p, run.len, &c->scanned, h, rej);
}

static bool
head_switches(const struct httpc *c, const struct http_head *h)
{
	struct strv v = http1_get(h, H_UPGRADE);

	return c->upgrade[0] != '\0' && c->req == CREQ_DONE &&
	       h->wants_upgrade && http1_count(h, H_UPGRADE) == 1 &&
	       strv_eq_nocase(v, strv_of(c->upgrade));
}

static void
body_begin(struct httpc *c, const struct http_head *h)
{
	c->res = CRES_BODY;
	c->keep = h->keep_alive;
	c->kind = h->body;
	c->left = h->body == BODY_LENGTH ? h->content_length : 0;
	c->in_done = false; /* also without a body: the owner is told the end */
	c->end_told = false;
	c->wait_since = 0;
	timer_stop(&c->timer);
	if (h->body == BODY_CHUNKED)
		chunk_dec_init(&c->dec);
}

/* False when a callback has ended the exchange that was under way. */
static bool
same_exchange(const struct httpc *c, unsigned serial)
{
	return !c->closed && !c->pooled && c->serial == serial;
}

/* A whole head: says why it cannot be, or takes over what it says. */
static const char *
head_judge(struct httpc *c, struct http_head *h)
{
	if (http1_response_body(h, c->method) != 0)
		return "a length where no body can be";
	if (h->status == 101) {
		if (!head_switches(c, h))
			return "a 101 that was not asked for";
		c->res = CRES_UPGRADED;
		c->head_len = h->len;
		timer_stop(&c->timer);
		return NULL;
	}
	if (h->status < 200 && ++c->interim > INTERIM_MAX)
		return "too many interim responses";
	if (h->status >= 200)
		body_begin(c, h);
	return NULL;
}

/* True when the owner was told something and may be told more. */
static bool
head_step(struct httpc *c)
{
	struct http_reject rej = {502, "bad response"};
	struct bufq *in = stream_input(c->st);
	const char *bad;
	unsigned serial = c->serial;
	struct http_head h;
	int r;

	if (in->len == 0)
		return false;
	if ((r = head_parse(c, &h, &rej)) == E_AGAIN)
		return false;
	bad = r != 0 ? rej.what : head_judge(c, &h);
	if (bad != NULL) {
		httpc_fail(c, r != 0 ? r : E_PROTO, bad);
		return false;
	}
	c->scanned = 0;
	c->cbs->head(c, &h, h.status < 200 && h.status != 101, c->arg);
	/* An upgrade is taken in this callback, or stays where it is. */
	if (!same_exchange(c, serial) || c->res == CRES_UPGRADED)
		return false;
	bufq_drain(in, h.len);
	return true;
}

/* --- response body ----------------------------------------------------- */

/* Moves what there is to c->in. 0: the end; E_AGAIN; E_PROTO, E_LIMIT. */
static int
body_take(struct httpc *c)
{
	struct bufq *in = stream_input(c->st);
	size_t room = c->in.len < IN_LIMIT ? IN_LIMIT - c->in.len : 0;
	size_t n = in->len < room ? in->len : room;

	if (c->in_done || c->kind == BODY_NONE)
		return 0;
	if (c->kind == BODY_CHUNKED)
		return room > 0 ? chunk_decode(&c->dec, in, &c->in, room)
				: E_AGAIN;
	if (c->kind == BODY_LENGTH && c->left < n)
		n = (size_t)c->left;
	bufq_move(&c->in, in, n);
	if (c->kind == BODY_UNTIL_CLOSE)
		return in->len == 0 && stream_eof_clean(c->st) ? 0 : E_AGAIN;
	c->left -= n;
	return c->left == 0 ? 0 : E_AGAIN;
}

/* True when there may be more to tell. */
static bool
body_step(struct httpc *c)
{
	size_t before = c->in.len;
	bool kick = c->kick && before > 0;
	unsigned serial = c->serial;
	int r = body_take(c);

	if (r != 0 && r != E_AGAIN) {
		httpc_fail(c, r, "malformed chunked body");
		return false;
	}
	c->kick = false;
	c->in_done = r == 0;
	if (c->in.len == before && !kick && (c->end_told || !c->in_done))
		return false;
	c->end_told = c->in_done;
	c->cbs->body(c, &c->in, c->in_done, c->arg);
	return same_exchange(c, serial) && !c->in_done;
}

/* --- going on ---------------------------------------------------------- */

static bool
httpc_waits(const struct httpc *c)
{
	return c->res == CRES_HEAD || (c->res == CRES_BODY && !c->in_done);
}

/* Nothing more comes from the stream, but a response is not complete. True
 * when something was found that had come before. */
static bool
last_step(struct httpc *c)
{
	const char *why = c->err != 0 ? stream_why(c->st) : "";

	if (c->err != 0 && stream_salvage(c->st))
		return true;
	if (c->in.len > 0)
		return false; /* the owner shall have it before the news */
	httpc_fail(c, c->err != 0 ? c->err : E_EOF,
		   why[0] != '\0'        ? why
		   : c->res == CRES_BODY ? "closed within the body"
		   : httpc_begun(c)      ? "closed within the head"
					 : "closed without a response");
	return false;
}

/* The longest pause within a body, as a deadline that moves with it. */
static void
httpc_watch(struct httpc *c)
{
	uint64_t now, bytes;

	if (c->res != CRES_BODY)
		return;
	if (c->in_done || c->body_ms == 0 || c->in.len >= IN_LIMIT) {
		c->wait_since = 0;
		timer_stop(&c->timer);
		return;
	}
	now = loop_now_ms(c->loop);
	bytes = stream_bytes_in(c->st);
	if (c->wait_since == 0 || c->wait_bytes != bytes) {
		c->wait_since = now;
		c->wait_bytes = bytes;
		timer_set(&c->timer, c->body_ms);
	}
}

static void
httpc_run(struct httpc *c)
{
	unsigned serial = c->serial;
	bool more;

	do {
		if (c->res == CRES_HEAD)
			more = head_step(c);
		else
			more = c->res == CRES_BODY && body_step(c);
		if (!same_exchange(c, serial))
			return;
		if (!more && httpc_waits(c) &&
		    (c->err != 0 || stream_eof(c->st))) {
			more = last_step(c);
			if (c->closed)
				return;
		}
	} while (more);
	httpc_watch(c);
	/* Reading stopped when the input was full. */
	if (!c->reading && c->err == 0)
		stream_resume(c->st);
}

static struct httpc *
httpc_from(void *arg)
{
	struct httpc *c = arg;

	assert(c->magic == HTTPC_MAGIC);
	return c;
}

static void
httpc_task_cb(void *arg)
{
	httpc_run(httpc_from(arg));
}

static void
httpc_timer_cb(void *arg)
{
	struct httpc *c = httpc_from(arg);

	if (c->res == CRES_HEAD)
		httpc_fail(c, E_TIMEOUT, "no response in time");
	else if (c->wait_since != 0 && c->wait_bytes == stream_bytes_in(c->st))
		httpc_fail(c, E_TIMEOUT, "the body stalled");
	else
		httpc_watch(c);
}

static void
httpc_readable_cb(struct stream *st, void *arg)
{
	struct httpc *c = httpc_from(arg);

	(void)st;
	if (c->pooled) { /* unasked */
		httpc_close(c);
		return;
	}
	c->reading = true;
	httpc_run(c);
	c->reading = false;
}

static void
httpc_drained_cb(struct stream *st, void *arg)
{
	struct httpc *c = httpc_from(arg);

	if (c->req == CREQ_BODY && c->cbs->drained != NULL &&
	    !stream_over_high(st))
		c->cbs->drained(c, c->arg);
}

static void
httpc_eof_cb(struct stream *st, void *arg)
{
	struct httpc *c = httpc_from(arg);

	(void)st;
	if (c->pooled)
		httpc_close(c);
	else
		httpc_run(c);
}

static void
httpc_error_cb(struct stream *st, int err, void *arg)
{
	struct httpc *c = httpc_from(arg);

	(void)st;
	c->err = err;
	if (c->pooled)
		httpc_close(c);
	else
		httpc_run(c);
}

static const struct stream_cbs httpc_stream_cbs = {
    .readable = httpc_readable_cb,
    .drained = httpc_drained_cb,
    .eof = httpc_eof_cb,
    .error = httpc_error_cb,
};

/* --- life -------------------------------------------------------------- */

struct httpc *
httpc_take_stream(struct loop *l, struct httpc_pool *pool, struct strv key,
		  struct stream *st)
{
	struct httpc *c = xcalloc(1, sizeof(*c) + key.len);

	c->magic = HTTPC_MAGIC;
	c->loop = l;
	c->st = st;
	c->pool = key.len > 0 ? pool : NULL;
	c->key_len = key.len;
	if (key.len > 0)
		memcpy(c->key, key.p, key.len);
	if (c->pool != NULL)
		c->hash = httpc_pool_hash(key);
	bufq_init(&c->in, loop_bufpool(l));
	timer_init(&c->timer, l, httpc_timer_cb, c);
	task_init(&c->task, httpc_task_cb, c);
	stream_set_cbs(st, &httpc_stream_cbs, c);
	return c;
}

bool
httpc_reused(const struct httpc *c)
{
	return c->served > 0;
}

struct stream *
httpc_stream(struct httpc *c)
{
	return c->st;
}

/* Not after HEAD: servers that send a body all the same are common, and its
 * bytes may come later than this look at the input. */
static bool
httpc_clean(const struct httpc *c)
{
	return c->pool != NULL && c->keep && c->err == 0 &&
	       c->method != M_HEAD && c->req == CREQ_DONE &&
	       c->res == CRES_BODY && c->end_told && c->in.len == 0 &&
	       stream_input(c->st)->len == 0 &&
	       stream_output(c->st)->len == 0 && !stream_eof(c->st);
}

void
httpc_release(struct httpc *c)
{
	if (c->closed)
		return;
	if (!httpc_clean(c)) {
		httpc_close(c);
		return;
	}
	c->served++;
	c->req = CREQ_NONE;
	c->res = CRES_NONE;
	timer_stop(&c->timer);
	task_cancel(&c->task);
	if (!httpc_pool_put(c->pool, c))
		httpc_close(c);
}

struct stream *
httpc_upgrade(struct httpc *c)
{
	struct stream *st;

	assert(!c->closed && c->res == CRES_UPGRADED);
	bufq_drain(stream_input(c->st), c->head_len);
	st = httpc_detach(c);
	stream_orphan(st);
	return st;
}

/* --- what owners ask while it runs ------------------------------------- */

void
httpc_set_head_ms(struct httpc *c, uint64_t ms)
{
	if (c->closed || c->res != CRES_HEAD)
		return;
	if (ms > 0)
		timer_set(&c->timer, ms);
	else
		timer_stop(&c->timer);
}

void
httpc_set_body_ms(struct httpc *c, uint64_t ms)
{
	c->body_ms = ms;
	c->wait_since = 0;
	if (!c->closed)
		httpc_watch(c);
}

void
httpc_body_resume(struct httpc *c)
{
	if (c->closed || c->pooled)
		return;
	c->kick = true;
	task_post(c->loop, &c->task);
}
