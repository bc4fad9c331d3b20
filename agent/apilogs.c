/* SPDX-License-Identifier: Apache-2.0 */
/*
 * procs/<pid>/logs and /wait: events of a background process for any number
 * of readers, each at its own pace; nothing is queued for a slow one beyond
 * what its connection holds.
 */
#include "config.h"

#include "agent/api_int.h"

#include <stdlib.h>

#include "agent/events.h"
#include "agent/ring.h"
#include "base/err.h"
#include "base/mem.h"
#include "net/loop.h"

#define APILOGS_PING_MS 15000
#define APILOGS_PIECE   32768

struct apilogs {
	struct run_reader rd;
	struct call *c;
	struct events ev;
	struct strbuf line;
	struct timer ping;
	uint64_t pos;
	bool output; /* logs; else wait */
	bool follow;
	bool over;
};

static void
apilogs_send(struct apilogs *x)
{
	if (x->line.len == 0)
		return;
	httpd_write(x->c->rq, x->line.s, x->line.len);
	strbuf_reset(&x->line);
	httpd_flush(x->c->rq);
	timer_set(&x->ping, APILOGS_PING_MS);
}

static void
apilogs_end(struct apilogs *x, const struct proc_exit *px)
{
	events_flush(&x->ev, &x->line);
	if (px != NULL) {
		const struct events_exit ex = {px->code, px->signal,
					       px->timed_out, px->duration_ms};

		events_exit(&x->line, &ex);
	}
	if (x->line.len > 0)
		httpd_write(x->c->rq, x->line.s, x->line.len);
	strbuf_reset(&x->line);
	timer_stop(&x->ping);
	x->over = true;
	httpd_end(x->c->rq);
}

/* Sends what the log has and the client takes; true when it has all. */
static bool
apilogs_copy(struct apilogs *x, const struct ring *ring)
{
	unsigned stream;
	struct strv v;

	while (!httpd_over_high(x->c->rq)) {
		if (x->pos < ring_start(ring)) {
			events_dropped(&x->line, ring_start(ring) - x->pos);
			x->pos = ring_start(ring);
		}
		v = ring_read(ring, &x->pos, &stream);
		if (v.len == 0)
			return true;
		if (v.len > APILOGS_PIECE)
			v.len = APILOGS_PIECE;
		x->pos += v.len;
		events_output(&x->ev, &x->line, stream, v, x->pos);
		apilogs_send(x);
	}
	return false;
}

static void
apilogs_pump(struct apilogs *x)
{
	struct run *r = x->rd.run;
	bool all = true;

	if (x->over)
		return;
	if (r == NULL) { /* it was removed */
		apilogs_end(x, NULL);
		return;
	}
	if (x->output && run_log(r) != NULL)
		all = apilogs_copy(x, run_log(r));
	if (all && (run_exit(r) != NULL || !x->follow))
		apilogs_end(x, run_exit(r));
}

static void
apilogs_wake(struct run_reader *rd)
{
	apilogs_pump((struct apilogs *)(void *)rd);
}

static void
apilogs_drained(struct call *c)
{
	apilogs_pump(c->state);
}

static void
apilogs_ping_cb(void *arg)
{
	struct apilogs *x = arg;

	if (httpd_over_high(x->c->rq)) {
		timer_set(&x->ping, APILOGS_PING_MS);
		return;
	}
	events_ping(&x->line);
	apilogs_send(x);
}

static void
apilogs_closed(struct call *c, int err)
{
	struct apilogs *x = c->state;

	(void)err;
	run_reader_stop(&x->rd);
	timer_clear(&x->ping);
	strbuf_clear(&x->line);
	free(x);
}

/* since is a position that a "next" told before; without one, all that is
 * kept is wanted, and nothing is said about what is not. */
static int
apilogs_since(struct call *c, struct run *r, uint64_t *pos)
{
	int err = api_query_u64(c, "since", pos);

	if (err == E_NOTFOUND && run_log(r) != NULL)
		*pos = ring_start(run_log(r));
	return err == E_INVALID ? err : 0;
}

static void
apilogs_begin(struct call *c, bool output, bool follow)
{
	struct run *r = run_find(&c->sb->runs, c->id);
	struct apilogs *x;
	uint64_t pos = 0;

	if (r == NULL) {
		api_error(c->rq, 404, "no_such_process", "no such process");
		return;
	}
	if (output && apilogs_since(c, r, &pos) != 0)
		return;
	x = xcalloc(1, sizeof(*x));
	x->c = c;
	x->output = output;
	x->follow = follow;
	x->pos = pos;
	x->rd.wake = apilogs_wake;
	timer_init(&x->ping, c->api->o.loop, apilogs_ping_cb, x);
	run_reader_start(&x->rd, r);
	c->state = x;
	c->on_closed = apilogs_closed;
	c->on_drained = apilogs_drained;
	http1_put(httpd_begin(c->rq, 200, STRV_NULL, BODY_UNTIL_CLOSE, 0, 256),
		  STRV("Content-Type"), STRV(EVENTS_TYPE));
	if (httpd_end_head(c->rq) != 0) {
		httpd_abort(c->rq);
		return;
	}
	httpd_flush(c->rq);
	timer_set(&x->ping, APILOGS_PING_MS);
	apilogs_pump(x);
}

void
api_procs_logs(struct call *c)
{
	apilogs_begin(c, true, api_query_flag(c, "follow"));
}

void
api_procs_wait(struct call *c)
{
	apilogs_begin(c, false, true);
}
