/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Responses of the HTTP server. The framing fields and Connection are written
 * here and nowhere else, from one decision; body bytes go straight into the
 * stream's output. On a connection that has ended meanwhile all of this does
 * nothing, so handlers need not ask first.
 */
#include "config.h"

#include "net/httpd_int.h"

#include <assert.h>
#include <string.h>

#include "base/err.h"
#include "net/stream.h"

#define OWN_ROOM 256 /* status line and what we add to a head */

static bool
resp_alive(const struct httpd_req *rq)
{
	return rq->c->state == CONN_BUSY;
}

static struct bufq *
resp_out(struct httpd_req *rq)
{
	return stream_output(rq->c->st);
}

/* Text that is known to be well-formed, as it is. */
static void
put_raw(struct http_writer *w, struct strv v)
{
	if (w->err != 0 || v.len == 0)
		return;
	if ((size_t)(w->end - w->p) < v.len) {
		w->err = E_LIMIT;
		return;
	}
	memcpy(w->p, v.p, v.len);
	w->p += v.len;
}

/* --- head -------------------------------------------------------------- */

static bool
status_has_body(unsigned status)
{
	return status >= 200 && status != 204 && status != 304;
}

struct http_writer *
httpd_begin(struct httpd_req *rq, unsigned status, struct strv reason,
	    enum http_body body, uint64_t length, size_t room)
{
	rq->w = (struct http_writer){.err = E_PEER};
	if (!resp_alive(rq))
		return &rq->w;
	assert(rq->resp == RESP_NONE);
	rq->resp = RESP_HEAD;
	rq->status = status;
	rq->kind = body;
	rq->length = length;
	rq->head_only = rq->head.method == M_HEAD || !status_has_body(status);
	http1_write_status(&rq->w, resp_out(rq), room + reason.len + OWN_ROOM,
			   status, reason);
	return &rq->w;
}

/* Whether the connection can serve another request after this response. */
static bool
resp_may_keep(struct httpd_req *rq)
{
	struct httpd_conn *c = rq->c;
	const struct httpd *s = c->s;

	if (!rq->head.keep_alive || rq->last || rq->lent || s->draining ||
	    (s->o.max_requests != 0 && c->nreq >= s->o.max_requests))
		return false;
	if (c->body.done)
		return !stream_eof(c->st) || stream_input(c->st)->len > 0;
	/* Who waits for a 100 that never comes may send the body or not. */
	if (rq->head.expect_continue && !rq->continued &&
	    httpd_body_bytes(rq) == 0)
		return false;
	return rq->reading || c->body.left <= HTTPD_DROP_MAX;
}

static void
put_framing(struct httpd_req *rq)
{
	struct http_writer *w = &rq->w;

	switch (rq->kind) {
	case BODY_NONE:
		if (!rq->head_only)
			put_raw(w, STRV("Content-Length: 0\r\n"));
		rq->length = 0;
		break;
	case BODY_LENGTH:
		if (rq->status >= 200 && rq->status != 204 &&
		    (rq->status != 304 || rq->length > 0))
			http1_put_u64(w, STRV("Content-Length"), rq->length);
		break;
	case BODY_CHUNKED:
	case BODY_UNTIL_CLOSE:
		if (rq->head_only)
			break;
		rq->kind = rq->head.minor > 0 ? BODY_CHUNKED : BODY_UNTIL_CLOSE;
		if (rq->kind == BODY_CHUNKED)
			put_raw(w, STRV("Transfer-Encoding: chunked\r\n"));
		else
			rq->keep = false;
		break;
	}
	if (rq->head_only)
		rq->kind = BODY_NONE;
}

static int
resp_head_done(struct httpd_req *rq)
{
	int r = http1_write_end(&rq->w);

	rq->resp = r == 0 ? RESP_BODY : RESP_NONE;
	if (r != 0)
		rq->status = 0;
	return r;
}

int
httpd_end_head(struct httpd_req *rq)
{
	if (!resp_alive(rq))
		return E_PEER;
	assert(rq->resp == RESP_HEAD);
	rq->keep = resp_may_keep(rq);
	put_framing(rq);
	if (!rq->keep)
		put_raw(&rq->w, STRV("Connection: close\r\n"));
	else if (rq->head.minor == 0)
		put_raw(&rq->w, STRV("Connection: keep-alive\r\n"));
	return resp_head_done(rq);
}

/* --- body -------------------------------------------------------------- */

/* How many of n body bytes go out now. */
static size_t
resp_admit(struct httpd_req *rq, size_t n)
{
	if (!resp_alive(rq) || rq->head_only)
		return 0;
	assert(rq->resp == RESP_BODY);
	if (rq->kind == BODY_NONE)
		return 0;
	if (rq->kind == BODY_LENGTH && n > rq->length - rq->sent)
		n = (size_t)(rq->length - rq->sent);
	rq->sent += n;
	return n;
}

void
httpd_write(struct httpd_req *rq, const void *p, size_t n)
{
	struct bufq *out;

	if ((n = resp_admit(rq, n)) == 0)
		return;
	out = resp_out(rq);
	if (rq->kind == BODY_CHUNKED)
		chunk_encode_mem(out, p, n);
	else
		bufq_add(out, p, n);
}

void
httpd_move(struct httpd_req *rq, struct bufq *src, size_t n)
{
	size_t take = resp_admit(rq, n);

	if (take > 0 && rq->kind == BODY_CHUNKED)
		chunk_encode(resp_out(rq), src, take);
	else if (take > 0)
		bufq_move(resp_out(rq), src, take);
	bufq_drain(src, n - take);
}

void
httpd_flush(struct httpd_req *rq)
{
	struct httpd_conn *c = rq->c;

	if (!resp_alive(rq))
		return;
	assert(rq->resp != RESP_HEAD);
	httpd_conn_flush(c);
	httpd_pace_watch(c);
}

void
httpd_end(struct httpd_req *rq)
{
	struct httpd_conn *c = rq->c;

	if (!resp_alive(rq) || rq->resp == RESP_DONE)
		return;
	assert(rq->resp == RESP_BODY);
	if (rq->kind == BODY_LENGTH && rq->sent < rq->length) {
		httpd_conn_abort(c, E_CANCELLED);
		return;
	}
	if (rq->kind == BODY_CHUNKED)
		chunk_encode_end(resp_out(rq));
	rq->resp = RESP_DONE;
	if (c->depth > 0)
		return; /* the end of this stack flushes and finishes */
	httpd_conn_flush(c);
	task_post(c->s->loop, &c->task);
}

void
httpd_inform(struct httpd_req *rq, unsigned status, struct strv fields)
{
	struct httpd_conn *c = rq->c;
	struct http_writer w;

	if (!resp_alive(rq) || rq->resp != RESP_NONE || rq->head.minor == 0 ||
	    (status == 100 && rq->continued))
		return;
	http1_write_status(&w, resp_out(rq), fields.len + OWN_ROOM, status,
			   http1_reason_for(status));
	put_raw(&w, fields);
	if (http1_write_end(&w) != 0)
		return;
	rq->continued |= status == 100;
	if (c->depth == 0)
		httpd_flush(rq);
}

void
httpd_abort(struct httpd_req *rq)
{
	if (resp_alive(rq))
		httpd_conn_abort(rq->c, E_CANCELLED);
}

bool
httpd_begun(const struct httpd_req *rq)
{
	return rq->resp == RESP_BODY || rq->resp == RESP_DONE;
}

bool
httpd_over_high(const struct httpd_req *rq)
{
	return resp_alive(rq) && stream_over_high(rq->c->st);
}

unsigned
httpd_status(const struct httpd_req *rq)
{
	return rq->status;
}

uint64_t
httpd_sent(const struct httpd_req *rq)
{
	return rq->sent;
}

void
httpd_close_after(struct httpd_req *rq)
{
	rq->last = true;
	rq->keep = false;
}

/* --- whole responses --------------------------------------------------- */

/* The fields of an answer that is our own. */
static void
put_own(struct http_writer *w, struct httpd *s, const char *type,
	struct strv extra)
{
	put_raw(w, httpd_date(s));
	if (s->o.server != NULL)
		http1_put(w, STRV("Server"), strv_of(s->o.server));
	if (type != NULL)
		http1_put(w, STRV("Content-Type"), strv_of(type));
	put_raw(w, extra);
}

void
httpd_respond(struct httpd_req *rq, unsigned status, const char *type,
	      struct strv extra, struct strv body)
{
	struct http_writer *w;

	w = httpd_begin(rq, status, http1_reason_for(status), BODY_LENGTH,
			body.len, extra.len + OWN_ROOM);
	put_own(w, rq->c->s, type, extra);
	if (httpd_end_head(rq) != 0) {
		if (!resp_alive(rq))
			return;
		/* Too much, or not fit to be sent: our own fault. */
		(void)httpd_begin(rq, 500, STRV("Internal Server Error"),
				  BODY_NONE, 0, OWN_ROOM);
		if (httpd_end_head(rq) != 0) {
			httpd_conn_abort(rq->c, E_INVALID);
			return;
		}
	} else {
		httpd_write(rq, body.p, body.len);
	}
	httpd_end(rq);
}

void
httpd_conn_respond(struct httpd_conn *c, unsigned status, const char *type,
		   struct strv extra, struct strv body)
{
	struct http_writer w;
	bool no_body = false;

	if (c->state == CONN_CLOSED ||
	    (c->rq != NULL && c->rq->resp != RESP_NONE))
		return;
	if (c->rq != NULL) {
		c->rq->status = status;
		no_body = c->rq->head.method == M_HEAD;
	}
	http1_write_status(&w, stream_output(c->st), extra.len + 2 * OWN_ROOM,
			   status, http1_reason_for(status));
	put_own(&w, c->s, type, extra);
	http1_put_u64(&w, STRV("Content-Length"), body.len);
	put_raw(&w, STRV("Connection: close\r\n"));
	if (http1_write_end(&w) == 0 && !no_body)
		bufq_addv(stream_output(c->st), body);
	httpd_conn_end(c, c->err, HOW_FINISH);
}

/* --- upgrade ----------------------------------------------------------- */

struct stream *
httpd_upgrade(struct httpd_req *rq, struct strv protocol)
{
	struct httpd_conn *c = rq->c;
	struct stream *st;

	if (!resp_alive(rq))
		return NULL;
	assert(rq->resp == RESP_HEAD && rq->status == 101);
	put_raw(&rq->w, STRV("Connection: Upgrade\r\n"));
	http1_put(&rq->w, STRV("Upgrade"), protocol);
	/* Bytes after a body that nobody read would be taken for the new
	 * protocol's. */
	if (!c->body.done || resp_head_done(rq) != 0) {
		httpd_conn_abort(c, E_INVALID);
		return NULL;
	}
	rq->resp = RESP_DONE;
	httpd_conn_flush(c);
	st = httpd_conn_detach(c);
	stream_orphan(st);
	httpd_req_close(rq, 0);
	return st;
}
