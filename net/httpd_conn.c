/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection of the HTTP server: states, the parsing of heads, and its end.
 * See httpd_int.h for how the pieces fit.
 *
 * Steady state: a readable event parses the head into a block from the free
 * list, the handler answers into the stream's output, one write follows, and
 * the block goes back. The only timer is put off, which stores a number.
 */
#include "config.h"

#include "net/httpd_int.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/stream.h"

/* Thousands of them sit idle. */
_Static_assert(sizeof(struct httpd_conn) < 1024, "small when idle");

static void
conn_set_state(struct httpd_conn *c, enum httpd_conn_state to)
{
	static const unsigned legal[] = {
	    [CONN_WAIT] = 1 << CONN_HEAD | 1 << CONN_BUSY | 1 << CONN_CLOSED,
	    [CONN_HEAD] = 1 << CONN_BUSY | 1 << CONN_CLOSED,
	    [CONN_BUSY] = 1 << CONN_WAIT | 1 << CONN_DROP | 1 << CONN_CLOSED,
	    [CONN_DROP] = 1 << CONN_WAIT | 1 << CONN_CLOSED,
	    [CONN_CLOSED] = 0,
	};

	assert(legal[c->state] & 1U << to);
	c->state = to;
}

/* --- the end ----------------------------------------------------------- */

/* Until its new owner has set callbacks, a stream that was given away must
 * not call into the connection, whose memory goes after this batch. What comes
 * meanwhile is told to the owner then. */
static void
nobody_cb(struct stream *st, void *arg)
{
	(void)st;
	(void)arg;
}

static void
nobody_error_cb(struct stream *st, int err, void *arg)
{
	(void)st;
	(void)err;
	(void)arg;
}

static const struct stream_cbs nobody_cbs = {
    .readable = nobody_cb,
    .eof = nobody_cb,
    .error = nobody_error_cb,
};

struct stream *
httpd_conn_detach(struct httpd_conn *c)
{
	struct stream *st = c->st;

	conn_set_state(c, CONN_CLOSED);
	timer_stop(&c->timer);
	c->st = NULL;
	stream_set_cbs(st, &nobody_cbs, NULL);
	if (c->depth == 0)
		task_post(c->s->loop, &c->task);
	return st;
}

void
httpd_conn_end(struct httpd_conn *c, int err, enum httpd_how how)
{
	struct stream *st;

	if (c->state == CONN_CLOSED)
		return;
	c->err = err;
	if (c->rq != NULL && c->rq->resp == RESP_HEAD) /* take it back */
		bufq_commit(stream_output(c->st), 0);
	st = httpd_conn_detach(c);
	switch (how) {
	case HOW_FINISH:
		stream_finish(st, c->s->o.linger_ms);
		break;
	case HOW_CLOSE:
		stream_close(st);
		break;
	case HOW_RESET:
		stream_reset(st);
		break;
	}
}

void
httpd_conn_abort(struct httpd_conn *c, int err)
{
	struct httpd_req *rq = c->rq;

	if (rq == NULL || rq->resp == RESP_NONE || rq->resp == RESP_HEAD)
		httpd_conn_end(c, err, HOW_CLOSE);
	else if (rq->kind == BODY_UNTIL_CLOSE) /* a FIN would look complete */
		httpd_conn_end(c, err, HOW_RESET);
	else
		httpd_conn_end(c, err, HOW_FINISH);
}

/* Tells whom it concerns that the connection is over, once. */
static void
conn_bury(struct httpd_conn *c)
{
	struct httpd *s = c->s;

	if (c->rq != NULL)
		httpd_req_close(c->rq, c->err);
	if (c->prevp == NULL)
		return;
	*c->prevp = c->next;
	if (c->next != NULL)
		c->next->prevp = c->prevp;
	c->prevp = NULL;
	s->count--;
	timer_clear(&c->timer);
	task_cancel(&c->task);
	if (s->h.conn_closed != NULL)
		s->h.conn_closed(c, s->arg);
	loop_defer_free(s->loop, c, free);
}

void
httpd_conn_close(struct httpd_conn *c)
{
	httpd_conn_end(c, E_CANCELLED, HOW_CLOSE);
	if (c->depth == 0)
		conn_bury(c);
}

void
httpd_conn_refuse(struct httpd_conn *c, int err, unsigned status,
		  const char *what)
{
	struct httpd *s = c->s;

	log_debug("httpd.refused", "cid=%llu status=%u reason=\"%s\"",
		  (unsigned long long)c->id, status, what);
	if (c->rq != NULL && c->rq->resp != RESP_NONE) {
		httpd_conn_abort(c, err);
		return;
	}
	c->err = err;
	if (s->h.refused == NULL || !s->h.refused(c, status, what, s->arg))
		httpd_conn_respond(c, status, "text/plain; charset=utf-8",
				   STRV_NULL, strv_of(what));
	httpd_conn_end(c, err, HOW_CLOSE); /* if nobody answered */
}

/* --- deadlines --------------------------------------------------------- */

/* The client was told that the connection is kept, if that was before a
 * retirement: it may be writing already, and is told with the next answer. */
static void
conn_idle(struct httpd_conn *c)
{
	conn_set_state(c, CONN_WAIT);
	if ((c->s->hurry || stream_eof(c->st)) && stream_input(c->st)->len == 0)
		httpd_conn_end(c, 0, HOW_FINISH);
	else
		timer_set(&c->timer, c->s->o.idle_ms);
}

static void
exchange_late(struct httpd_conn *c)
{
	switch (httpd_pace_judge(c)) {
	case PACE_NOT_TAKEN:
		httpd_conn_end(c, E_TIMEOUT, HOW_RESET);
		break;
	case PACE_NOT_SENT:
		httpd_conn_refuse(c, E_TIMEOUT, 408, "request body too slow");
		break;
	case PACE_FINE:
		break;
	}
}

static void
conn_timer_cb(void *arg)
{
	struct httpd_conn *c = arg;

	httpd_conn_enter(c);
	switch (c->state) {
	case CONN_WAIT:
	case CONN_DROP:
		httpd_conn_end(c, E_TIMEOUT, HOW_FINISH);
		break;
	case CONN_HEAD:
		httpd_conn_refuse(c, E_TIMEOUT, 408, "request head too slow");
		break;
	case CONN_BUSY:
		exchange_late(c);
		break;
	case CONN_CLOSED:
		break;
	}
	httpd_conn_leave(c);
}

/* --- heads ------------------------------------------------------------- */

static void
head_incomplete(struct httpd_conn *c)
{
	if (stream_eof(c->st)) {
		httpd_conn_end(c, E_PEER, HOW_FINISH);
		return;
	}
	stream_quickack(c->st);
	if (c->state == CONN_HEAD)
		return;
	conn_set_state(c, CONN_HEAD);
	timer_set(&c->timer, c->s->o.head_ms); /* absolute from here on */
}

static int
head_parse(struct httpd_conn *c, struct httpd_req *rq, struct http_reject *rej)
{
	struct bufq *in = stream_input(c->st);
	struct strv run = bufq_front(in);
	int r;

	r = http1_parse_request(run.p, run.len, &c->scanned, &rq->head, rej);
	if (r != E_AGAIN || run.len == in->len || run.len >= HTTP1_HEAD_MAX)
		return r;
	/* It goes on in the next slab. */
	run.len = in->len < HTTP1_HEAD_MAX ? in->len : HTTP1_HEAD_MAX;
	run.p = bufq_pullup(in, run.len);
	return http1_parse_request(run.p, run.len, &c->scanned, &rq->head, rej);
}

/* The exchange owns its head from now on; the body is what comes next. */
static void
exchange_begin(struct httpd_conn *c, struct httpd_req *rq)
{
	struct bufq *in = stream_input(c->st);
	size_t n = rq->head.len;
	char *bytes = httpd_alloc(rq, n);

	memcpy(bytes, rq->head.base, n);
	http1_rebase(&rq->head, bytes);
	bufq_drain(in, n);
	c->consumed = true;
	rq->started_us = loop_clock_us();
	httpd_body_begin(c, &rq->head);
	if (!c->body.done && in->len < c->body.left + (c->body.left == 0))
		stream_quickack(c->st);
	c->scanned = 0;
	c->nreq++;
	c->rq = rq;
	c->in.since_ms = c->out.since_ms = 0;
	conn_set_state(c, CONN_BUSY);
	c->s->h.request(rq, c->s->arg);
}

/* Takes up a request if there is one; true when something happened. */
static bool
head_step(struct httpd_conn *c)
{
	struct http_reject rej = {400, "bad request"};
	struct httpd_req *rq;
	int r;

	if (stream_input(c->st)->len == 0) {
		if (!stream_eof(c->st))
			return false;
		httpd_conn_end(c, 0, HOW_FINISH);
		return true;
	}
	rq = httpd_req_new(c);
	r = head_parse(c, rq, &rej);
	if (r == 0) {
		exchange_begin(c, rq);
		return true;
	}
	httpd_req_free(rq);
	if (r == E_AGAIN)
		head_incomplete(c);
	else
		httpd_conn_refuse(c, r, rej.status, rej.what);
	return c->state == CONN_CLOSED;
}

/* --- exchanges --------------------------------------------------------- */

void
httpd_conn_flush(struct httpd_conn *c)
{
	size_t n = stream_output(c->st)->len;

	if (n == 0)
		return;
	/* A stream whose writing failed drops its output and tells later: so
	 * an empty output alone does not mean that it was written. */
	c->queued = stream_bytes_out(c->st) + n;
	stream_flush(c->st);
}

static bool
conn_written(const struct httpd_conn *c)
{
	return stream_output(c->st)->len == 0 &&
	       stream_bytes_out(c->st) == c->queued;
}

static void
exchange_end(struct httpd_conn *c)
{
	bool keep = c->rq->keep;

	httpd_req_close(c->rq, 0);
	if (c->state == CONN_CLOSED)
		return;
	if (!keep) {
		httpd_conn_end(c, 0, HOW_FINISH);
	} else if (c->body.done) {
		conn_idle(c);
	} else {
		conn_set_state(c, CONN_DROP);
		c->dropped = 0;
		timer_set(&c->timer, c->s->o.linger_ms);
	}
}

/* The client ended its direction after a whole request: it may still want the
 * answer, so this is only told to those who asked for it. */
static bool
exchange_eof(struct httpd_conn *c)
{
	struct httpd_req *rq = c->rq;

	assert(rq != NULL);
	if (!stream_eof(c->st) || rq->over_told || !c->body.done ||
	    rq->resp == RESP_DONE || rq->cbs->peer_eof == NULL)
		return false;
	rq->over_told = true;
	rq->cbs->peer_eof(rq, rq->arg);
	return true;
}

static bool
exchange_step(struct httpd_conn *c)
{
	assert(c->rq != NULL);
	if (httpd_req_read(c->rq) || exchange_eof(c))
		return true;
	httpd_conn_flush(c);
	if (c->rq->resp == RESP_DONE && conn_written(c)) {
		exchange_end(c);
		return true;
	}
	httpd_pace_watch(c);
	return false;
}

/* What is left of a body that nobody wanted. */
static bool
drop_step(struct httpd_conn *c)
{
	struct bufq waste;
	int r;

	bufq_init(&waste, loop_bufpool(c->s->loop));
	r = httpd_body_take(c, &waste, HTTPD_DROP_MAX);
	c->dropped += waste.len;
	bufq_clear(&waste);
	if (r == 0)
		conn_idle(c);
	else if (r != E_AGAIN || c->dropped > HTTPD_DROP_MAX ||
		 stream_eof(c->st))
		httpd_conn_end(c, 0, HOW_FINISH);
	return r != E_AGAIN || c->state == CONN_CLOSED;
}

/* --- entering and leaving ---------------------------------------------- */

void
httpd_conn_enter(struct httpd_conn *c)
{
	assert(c->magic == HTTPD_CONN_MAGIC);
	if (c->depth++ == 0)
		c->consumed = false;
}

/* One step of what there is to do; false when there is nothing. */
static bool
conn_step(struct httpd_conn *c)
{
	switch (c->state) {
	case CONN_WAIT:
	case CONN_HEAD:
		return head_step(c);
	case CONN_BUSY:
		return exchange_step(c);
	case CONN_DROP:
		return drop_step(c);
	case CONN_CLOSED:
		break;
	}
	conn_bury(c);
	return false;
}

static void
conn_settle(struct httpd_conn *c)
{
	unsigned burst = c->nreq + HTTPD_BURST;

	if (c->depth > 1) {
		c->depth--;
		return;
	}
	while (conn_step(c)) {
		if (c->nreq == burst && c->state == CONN_WAIT) {
			task_post(c->s->loop, &c->task);
			break;
		}
	}
	c->depth = 0;
}

void
httpd_conn_leave(struct httpd_conn *c)
{
	conn_settle(c);
	/* A stream whose input was full has stopped, and must be told. */
	if (c->consumed && c->st != NULL)
		stream_resume(c->st);
}

static void
conn_task_cb(void *arg)
{
	httpd_conn_enter(arg);
	httpd_conn_leave(arg);
}

static void
conn_readable_cb(struct stream *st, void *arg)
{
	struct httpd_conn *c = arg;

	(void)st;
	httpd_conn_enter(c);
	conn_settle(c); /* the stream sees by itself what was consumed */
}

static void
conn_drained_cb(struct stream *st, void *arg)
{
	struct httpd_conn *c = arg;
	struct httpd_req *rq = c->rq;

	(void)st;
	httpd_conn_enter(c);
	if (rq != NULL && rq->cbs->drained != NULL && rq->resp != RESP_DONE &&
	    !stream_over_high(c->st))
		rq->cbs->drained(rq, rq->arg);
	httpd_conn_leave(c);
}

static void
conn_eof_cb(struct stream *st, void *arg)
{
	(void)st;
	httpd_conn_enter(arg);
	httpd_conn_leave(arg);
}

static void
conn_error_cb(struct stream *st, int err, void *arg)
{
	struct httpd_conn *c = arg;

	(void)st;
	httpd_conn_enter(c);
	httpd_conn_end(c, err, HOW_CLOSE);
	httpd_conn_leave(c);
}

static void
conn_ready_cb(struct stream *st, void *arg)
{
	struct httpd_conn *c = arg;

	(void)st;
	httpd_conn_enter(c);
	c->s->h.ready(c, c->s->arg);
	httpd_conn_leave(c);
}

static const struct stream_cbs conn_cbs = {
    .readable = conn_readable_cb,
    .drained = conn_drained_cb,
    .eof = conn_eof_cb,
    .error = conn_error_cb,
};

/* --- life -------------------------------------------------------------- */

struct httpd_conn *
httpd_serve(struct httpd *s, struct stream *st, const struct addr *peer,
	    void *tag)
{
	static uint64_t last_id; /* unique in the process: it is in its log */
	struct httpd_conn *c = xcalloc(1, sizeof(*c));

	c->magic = HTTPD_CONN_MAGIC;
	c->state = CONN_WAIT;
	c->s = s;
	c->st = st;
	c->tag = tag;
	c->id = ++last_id;
	c->queued = stream_bytes_out(st);
	if (peer != NULL)
		c->peer = *peer;
	c->next = s->conns;
	if (c->next != NULL)
		c->next->prevp = &c->next;
	c->prevp = &s->conns;
	s->conns = c;
	s->count++;
	task_init(&c->task, conn_task_cb, c);
	timer_init(&c->timer, s->loop, conn_timer_cb, c);
	timer_set(&c->timer, s->o.handshake_ms);
	stream_set_cbs(st, &conn_cbs, c);
	if (s->h.ready != NULL)
		stream_on_ready(st, conn_ready_cb);
	return c;
}
