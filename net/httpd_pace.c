/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does an exchange of the HTTP server move on? Each direction has a longest
 * pause, and a request body a least rate, counted over the time that was spent
 * waiting for the client alone.
 */
#include "config.h"

#include "net/httpd_int.h"

#include "net/stream.h"

/* Follows one direction: the time by which it must have moved again. */
static uint64_t
pace_due(struct httpd_mark *m, bool waits, uint64_t bytes, uint64_t now,
	 uint64_t limit_ms)
{
	if (!waits) {
		m->since_ms = 0;
		return UINT64_MAX;
	}
	if (m->since_ms == 0 || m->bytes != bytes) {
		m->bytes = bytes;
		m->since_ms = now;
	}
	return m->since_ms + limit_ms;
}

/* Keeps the time spent waiting for body bytes; returns when to judge. */
static uint64_t
rate_due(struct httpd_req *rq, bool waits, uint64_t now)
{
	uint64_t every = rq->c->s->o.body_ms;

	if (!waits) {
		if (rq->wait_from != 0)
			rq->waited_ms += now - rq->wait_from;
		rq->wait_from = 0;
		return UINT64_MAX;
	}
	if (rq->wait_from == 0)
		rq->wait_from = now;
	if (rq->rate_due <= now)
		rq->rate_due = now + every;
	return rq->rate_due;
}

void
httpd_pace_watch(struct httpd_conn *c)
{
	const struct httpd_options *o = &c->s->o;
	bool in = httpd_req_waits(c->rq);
	bool out = stream_output(c->st)->len > 0 &&
		   (!c->rq->patient || c->rq->resp == RESP_DONE);
	uint64_t now, due, t;

	if (!in && !out && c->in.since_ms == 0 && c->out.since_ms == 0) {
		timer_stop(&c->timer);
		return;
	}
	now = loop_now_ms(c->s->loop);
	due = pace_due(&c->in, in, stream_bytes_in(c->st), now, o->body_ms);
	t = pace_due(&c->out, out, stream_bytes_out(c->st), now, o->write_ms);
	if (t < due)
		due = t;
	if (o->body_rate != 0 && (t = rate_due(c->rq, in, now)) < due)
		due = t;
	if (due == UINT64_MAX)
		timer_stop(&c->timer);
	else
		timer_set(&c->timer, due > now ? due - now : 0);
}

static bool
rate_too_low(struct httpd_req *rq, uint64_t now)
{
	const struct httpd_options *o = &rq->c->s->o;
	uint64_t ms = rq->waited_ms;

	if (o->body_rate == 0 || rq->wait_from == 0)
		return false;
	ms += now - rq->wait_from;
	return ms >= o->body_ms &&
	       httpd_body_bytes(rq) * 1000 < o->body_rate * ms;
}

enum httpd_pace
httpd_pace_judge(const struct httpd_conn *c)
{
	uint64_t now = loop_now_ms(c->s->loop);
	const struct httpd_options *o = &c->s->o;

	if (c->out.since_ms != 0 && stream_output(c->st)->len > 0 &&
	    stream_bytes_out(c->st) == c->out.bytes &&
	    now - c->out.since_ms >= o->write_ms)
		return PACE_NOT_TAKEN;
	if (httpd_req_waits(c->rq) && c->in.since_ms != 0 &&
	    ((stream_bytes_in(c->st) == c->in.bytes &&
	      now - c->in.since_ms >= o->body_ms) ||
	     rate_too_low(c->rq, now)))
		return PACE_NOT_SENT;
	return PACE_FINE;
}
