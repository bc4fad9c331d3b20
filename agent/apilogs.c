/* SPDX-License-Identifier: Apache-2.0 */
/*
 * procs/<pid>/logs and /wait: events of a background process for any number
 * of readers, each at its own pace; nothing is queued for a slow one beyond
 * what its connection holds. A command with an exec_id is viewed in the same
 * way, from its start or from where a connection was lost.
 */
#include "config.h"

#include "agent/api_int.h"

#include <stdlib.h>

#include "agent/events.h"
#include "agent/evstream.h"
#include "agent/ring.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/utf8.h"

#define APILOGS_PIECE 32768
#define APILOGS_JOIN  64

enum apilogs_what { APILOGS_WAIT, APILOGS_LOGS, APILOGS_EXEC };

struct apilogs {
	struct run_reader rd;
	struct call *c;
	struct evstream es;
	enum apilogs_what what;
	bool follow;
	bool over;
};

static void
apilogs_end(struct apilogs *x, const struct proc_exit *px)
{
	if (px != NULL) {
		const struct events_exit ex = {px->code, px->signal,
					       px->timed_out, px->duration_ms};

		events_exit(&x->es.line, &ex);
	}
	x->over = true;
	if (px == NULL && x->what == APILOGS_EXEC)
		evstream_abort(&x->es); /* it must not look whole */
	else
		evstream_end(&x->es);
}

/* Makes an event of the next bytes; false when there are none. In the ring no
 * stream is left within a character, so only where we cut may one be split. */
static bool
apilogs_piece(struct apilogs *x, const struct ring *ring, bool base64)
{
	uint64_t *pos = &x->rd.pos;
	char join[APILOGS_JOIN];
	unsigned stream;
	struct strv v = ring_read(ring, pos, &stream);
	size_t left;

	if (v.len == 0)
		return false;
	left = ring_span_left(ring, *pos);
	if (v.len > APILOGS_PIECE)
		v.len = APILOGS_PIECE;
	if (!base64 && v.len < left && utf8_tail(v) == v.len) {
		/* Where the ring begins anew. */
		v.len = left < sizeof(join) ? left : sizeof(join);
		ring_copy(ring, *pos, join, v.len);
		v.p = join;
	}
	if (!base64 && v.len < left)
		v.len -= utf8_tail(v);
	*pos += v.len;
	events_piece(&x->es.line, base64, stream, v, *pos);
	return true;
}

/* Sends what the log has and the client takes; true when it has all. */
static bool
apilogs_copy(struct apilogs *x, struct run *r)
{
	const struct ring *ring = run_log(r);

	while (!httpd_over_high(x->c->rq)) {
		if (x->rd.pos < ring_start(ring)) {
			events_dropped(&x->es.line,
				       ring_start(ring) - x->rd.pos);
			x->rd.pos = ring_start(ring);
		}
		if (!apilogs_piece(x, ring, run_base64(r)))
			return true;
		evstream_send(&x->es);
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
	if (x->what != APILOGS_WAIT && run_log(r) != NULL)
		all = apilogs_copy(x, r);
	if (all && (run_exit(r) != NULL || !x->follow))
		apilogs_end(x, run_exit(r));
	else
		run_reader_moved(&x->rd);
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
apilogs_closed(struct call *c, int err)
{
	struct apilogs *x = c->state;

	(void)err;
	run_reader_stop(&x->rd);
	evstream_clear(&x->es);
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
apilogs_begin(struct call *c, struct run *r, enum apilogs_what what,
	      bool follow, uint64_t pos)
{
	struct apilogs *x = xcalloc(1, sizeof(*x));

	x->c = c;
	x->what = what;
	x->follow = follow;
	x->rd.views = what == APILOGS_EXEC;
	x->rd.pos = pos;
	x->rd.wake = apilogs_wake;
	evstream_init(&x->es, c);
	run_reader_start(&x->rd, r);
	c->state = x;
	c->on_closed = apilogs_closed;
	c->on_drained = apilogs_drained;
	if (!evstream_begin(&x->es))
		return;
	if (what == APILOGS_EXEC)
		events_start(&x->es.line, run_pid(r));
	evstream_send(&x->es);
	apilogs_pump(x);
}

static struct run *
apilogs_find(struct call *c)
{
	struct run *r = run_find(&c->sb->runs, c->id);

	if (r == NULL)
		api_error(c->rq, 404, "no_such_process", "no such process");
	return r;
}

void
api_procs_logs(struct call *c)
{
	struct run *r = apilogs_find(c);
	uint64_t pos = 0;

	if (r != NULL && apilogs_since(c, r, &pos) == 0)
		apilogs_begin(c, r, APILOGS_LOGS, api_query_flag(c, "follow"),
			      pos);
}

void
api_procs_wait(struct call *c)
{
	struct run *r = apilogs_find(c);

	if (r != NULL)
		apilogs_begin(c, r, APILOGS_WAIT, true, 0);
}

/* --- commands with an exec_id ------------------------------------------ */

void
api_exec_view(struct call *c, struct run *r, uint64_t from)
{
	apilogs_begin(c, r, APILOGS_EXEC, true, from);
}

bool
api_exec_is_gone(struct call *c, struct strv id)
{
	if (!run_exec_gone(&c->sb->runs, id))
		return false;
	api_error(c->rq, 410, "exec_gone",
		  "it has ended, and what it wrote is not kept any more");
	return true;
}

void
api_exec_resume(struct call *c)
{
	struct run *r = run_exec_find(&c->sb->runs, c->id);
	uint64_t from = 0;

	if (r == NULL) {
		if (!api_exec_is_gone(c, c->id))
			api_error(c->rq, 404, "no_such_exec",
				  "no command has that exec_id");
	} else if (api_query_u64(c, "from", &from) == E_INVALID) {
		/* it was answered */
	} else if (from > ring_end(run_log(r))) {
		api_error(c->rq, 416, "bad_offset",
			  "from: beyond what it has written");
	} else {
		api_exec_view(c, r, from);
	}
}
