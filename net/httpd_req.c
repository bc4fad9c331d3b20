/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request of the HTTP server: what its handler may ask, and how its body
 * gets to the handler. Decoded bytes wait in rq->in, 64 KiB at most; what is
 * not decoded yet stays in the stream's input, which has a limit as well.
 */
#include "config.h"

#include "net/httpd_int.h"

#include <assert.h>

#include "base/err.h"
#include "net/stream.h"

#define SMALL_READ 2048 /* Nagle may hold back what follows */

/* --- the body on the connection ---------------------------------------- */

void
httpd_body_begin(struct httpd_conn *c, const struct http_head *h)
{
	struct httpd_body *b = &c->body;

	b->kind = h->body;
	b->left = h->body == BODY_LENGTH ? h->content_length : 0;
	b->done = b->left == 0 && b->kind != BODY_CHUNKED;
	if (b->kind == BODY_CHUNKED)
		chunk_dec_init(&b->dec);
}

int
httpd_body_take(struct httpd_conn *c, struct bufq *dst, size_t room)
{
	struct bufq *in = stream_input(c->st);
	struct httpd_body *b = &c->body;
	size_t n = in->len < room ? in->len : room;
	int r;

	if (b->done)
		return 0;
	c->consumed = true;
	if (b->kind == BODY_CHUNKED) {
		r = chunk_decode(&b->dec, in, dst, room);
		b->done = r == 0;
		return r;
	}
	if (b->left < n)
		n = (size_t)b->left;
	bufq_move(dst, in, n);
	b->left -= n;
	b->done = b->left == 0;
	return b->done ? 0 : E_AGAIN;
}

/* --- handing it over --------------------------------------------------- */

static bool
req_alive(const struct httpd_req *rq)
{
	return rq->c->state == CONN_BUSY;
}

bool
httpd_req_waits(const struct httpd_req *rq)
{
	return rq->reading && !rq->paused && !rq->lent && !rq->patient &&
	       !rq->c->body.done && rq->resp != RESP_DONE &&
	       rq->in.len < HTTPD_IN_LIMIT;
}

static bool
req_too_large(const struct httpd_req *rq)
{
	uint64_t n = httpd_body_bytes(rq);

	if (rq->max_body == 0)
		return false;
	if (rq->c->body.kind == BODY_LENGTH)
		n = rq->head.content_length;
	return n > rq->max_body;
}

/* True when the connection was ended for a bad body. */
static bool
req_refused(struct httpd_req *rq, int r)
{
	struct httpd_conn *c = rq->c;

	if (req_too_large(rq))
		httpd_conn_refuse(c, E_LIMIT, 413, "request body too large");
	else if (r == E_PROTO)
		httpd_conn_refuse(c, E_PROTO, 400, "malformed chunked body");
	else if (r == E_LIMIT)
		httpd_conn_refuse(c, E_LIMIT, 400, "chunk framing too long");
	else if (r == E_AGAIN && stream_eof(c->st) &&
		 stream_input(c->st)->len == 0 && rq->in.len == 0)
		httpd_conn_abort(c, E_PEER); /* cut off */
	else
		return false;
	return true;
}

/* Whoever waits for our word before sending the body gets it now. */
static void
req_continue(struct httpd_req *rq)
{
	if (!rq->head.expect_continue || rq->continued ||
	    rq->resp != RESP_NONE || httpd_body_bytes(rq) > 0)
		return;
	rq->continued = true;
	bufq_addv(stream_output(rq->c->st),
		  STRV("HTTP/1.1 100 Continue\r\n\r\n"));
}

bool
httpd_req_read(struct httpd_req *rq)
{
	struct httpd_conn *c = rq->c;
	size_t before = rq->in.len;
	bool kick = rq->kick && before > 0;
	int r = 0;

	if (!rq->reading || rq->paused || rq->lent || rq->cbs->body == NULL ||
	    rq->resp == RESP_DONE || (rq->end_told && !kick))
		return false;
	rq->kick = false;
	if (before < HTTPD_IN_LIMIT)
		r = httpd_body_take(c, &rq->in, HTTPD_IN_LIMIT - before);
	if (req_refused(rq, r))
		return true;
	if (r == E_AGAIN && rq->in.len == before)
		req_continue(rq);
	else if (r == E_AGAIN && rq->in.len - before < SMALL_READ)
		stream_quickack(c->st);
	if (rq->in.len == before && !kick && (!c->body.done || rq->end_told))
		return false;
	rq->end_told = c->body.done;
	rq->cbs->body(rq, &rq->in, c->body.done, rq->arg);
	return true;
}

void
httpd_req_close(struct httpd_req *rq, int err)
{
	rq->c->rq = NULL;
	if (rq->cbs->closed != NULL)
		rq->cbs->closed(rq, err, rq->arg);
	httpd_req_free(rq);
}

/* --- what handlers ask ------------------------------------------------- */

const struct http_head *
httpd_head(const struct httpd_req *rq)
{
	return &rq->head;
}

struct httpd_conn *
httpd_req_conn(struct httpd_req *rq)
{
	return rq->c;
}

struct loop *
httpd_loop(const struct httpd_req *rq)
{
	return rq->c->s->loop;
}

uint64_t
httpd_started_us(const struct httpd_req *rq)
{
	return rq->started_us;
}

bool
httpd_has_body(const struct httpd_req *rq)
{
	return rq->head.body == BODY_CHUNKED ||
	       (rq->head.body == BODY_LENGTH && rq->head.content_length > 0);
}

uint64_t
httpd_body_bytes(const struct httpd_req *rq)
{
	const struct httpd_body *b = &rq->c->body;

	switch (b->kind) {
	case BODY_CHUNKED:
		return b->dec.total;
	case BODY_LENGTH:
		return rq->head.content_length - b->left;
	case BODY_NONE:
	case BODY_UNTIL_CLOSE:
		break;
	}
	return 0;
}

void
httpd_set_max_body(struct httpd_req *rq, uint64_t bytes)
{
	rq->max_body = bytes;
}

void
httpd_set_cbs(struct httpd_req *rq, const struct httpd_req_cbs *cbs, void *arg)
{
	rq->cbs = cbs;
	rq->arg = arg;
	if (cbs->body != NULL && !rq->paused)
		httpd_body_resume(rq);
}

void
httpd_body_resume(struct httpd_req *rq)
{
	struct httpd_conn *c = rq->c;

	if (!req_alive(rq))
		return;
	rq->kick = true;
	rq->paused = false;
	if (!rq->reading) {
		rq->reading = true;
		if (c->depth > 0)
			return; /* the end of this stack sees to it */
	}
	task_post(c->s->loop, &c->task);
}

int
httpd_body_lend(struct httpd_req *rq, uint64_t *left)
{
	struct httpd_body *b = &rq->c->body;
	int fd;

	if (!req_alive(rq) || b->kind != BODY_LENGTH || b->done ||
	    rq->in.len > 0 || rq->resp != RESP_NONE ||
	    httpd_body_bytes(rq) == 0 || (fd = stream_lend(rq->c->st)) == -1)
		return -1;
	rq->lent = true;
	*left = b->left;
	return fd;
}

void
httpd_body_return(struct httpd_req *rq, uint64_t n)
{
	struct httpd_body *b = &rq->c->body;

	if (!req_alive(rq))
		return;
	assert(rq->lent && n <= b->left);
	rq->lent = false;
	b->left -= n;
	b->done = b->left == 0;
	stream_return(rq->c->st, n);
	httpd_body_resume(rq);
}

void
httpd_body_pause(struct httpd_req *rq)
{
	rq->paused = true;
}

void
httpd_patient(struct httpd_req *rq)
{
	rq->patient = true; /* a timer that runs finds nothing to judge */
}
