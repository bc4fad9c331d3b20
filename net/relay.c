/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins two streams. Direction i flows from s[i] to s[1 - i]. A source is
 * paused while its sink is over its high mark, so a relay never holds more
 * than the high marks and one turn of reading. When a side fails, what it had
 * sent (also what only the kernel holds) still goes to the other before that
 * one is finished.
 */
#include "config.h"

#include "net/relay.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/mem.h"
#include "net/buf.h"
#include "net/loop.h"
#include "net/stream.h"

#define RELAY_HIGH      65536
#define RELAY_LINGER_MS 1000
/* The last words of a side that failed may take this long without progress,
 * if no shorter idle time is set. */
#define RELAY_DRAIN_MS 30000

enum relay_dir { RELAY_OPEN, RELAY_DRAINING, RELAY_SHUT };

struct relay {
	struct loop *loop;
	struct stream *s[2];
	enum relay_dir dir[2];
	bool failed[2];
	bool ended; /* one of the directions: side is known */
	bool over;
	struct relay_options o;
	struct relay_result res;
	uint64_t bytes[2];
	uint64_t progress; /* bytes in and out when the timer was set */
	void (*tap)(const struct bufq *, void *);
	void *tap_arg;
	struct timer idle;
};

static void
relay_set_dir(struct relay *r, int i, enum relay_dir next)
{
	/* Only forwards: OPEN, DRAINING, SHUT. */
	assert(next >= r->dir[i]);
	r->dir[i] = next;
}

static int
relay_index(const struct relay *r, const struct stream *st)
{
	return st == r->s[RELAY_A] ? RELAY_A : RELAY_B;
}

/* --- ending ------------------------------------------------------------ */

static void
relay_end(struct relay *r, enum relay_end end)
{
	int i;

	if (r->over)
		return;
	r->over = true;
	r->res.end = end;
	r->res.a_to_b = r->bytes[RELAY_A];
	r->res.b_to_a = r->bytes[RELAY_B];
	timer_clear(&r->idle);
	for (i = 0; i < 2; i++) {
		if (end == RELAY_END_FIN || r->failed[i])
			stream_close(r->s[i]);
		else
			stream_finish(r->s[i], RELAY_LINGER_MS);
	}
	loop_defer_free(r->loop, r, NULL);
	if (r->o.done != NULL)
		r->o.done(&r->res, r->o.arg);
}

/* Ends the relay when nothing is left to do. */
static void
relay_check(struct relay *r)
{
	int i;

	for (i = 0; i < 2; i++) {
		if (!r->failed[i])
			continue;
		if (r->failed[1 - i] || (stream_input(r->s[i])->len == 0 &&
					 stream_output(r->s[1 - i])->len == 0))
			relay_end(r, RELAY_END_RESET);
		return;
	}
	if (r->dir[0] == RELAY_SHUT && r->dir[1] == RELAY_SHUT)
		relay_end(r, RELAY_END_FIN);
}

/* --- idle -------------------------------------------------------------- */

static uint64_t
relay_progress(const struct relay *r)
{
	return stream_bytes_in(r->s[0]) + stream_bytes_out(r->s[0]) +
	       stream_bytes_in(r->s[1]) + stream_bytes_out(r->s[1]);
}

static uint64_t
relay_idle_ms(const struct relay *r)
{
	uint64_t ms = r->o.idle_ms;

	if ((r->dir[0] != RELAY_OPEN || r->dir[1] != RELAY_OPEN) &&
	    r->o.half_closed_idle_ms != 0)
		ms = r->o.half_closed_idle_ms;
	if ((r->failed[0] || r->failed[1]) && (ms == 0 || ms > RELAY_DRAIN_MS))
		ms = RELAY_DRAIN_MS;
	return ms;
}

static void
relay_touch(struct relay *r)
{
	uint64_t ms = relay_idle_ms(r);

	r->progress = relay_progress(r);
	if (ms != 0)
		timer_set(&r->idle, ms);
}

static void
relay_idle_cb(void *arg)
{
	struct relay *r = arg;

	/* A slow reader takes bytes without any callback. */
	if (relay_progress(r) != r->progress)
		relay_touch(r);
	else if (r->failed[0] || r->failed[1])
		relay_end(r, RELAY_END_RESET);
	else
		relay_end(r, RELAY_END_IDLE);
}

/* --- pumping ----------------------------------------------------------- */

static void
relay_move(struct relay *r, int i)
{
	struct stream *src = r->s[i], *dst = r->s[1 - i];
	struct bufq *in = stream_input(src);

	do {
		if (in->len == 0 || stream_over_high(dst))
			continue;
		if (i == RELAY_B && r->tap != NULL)
			r->tap(in, r->tap_arg);
		r->bytes[i] += in->len;
		bufq_move(stream_output(dst), in, in->len);
		stream_flush(dst);
	} while (r->failed[i] && !stream_over_high(dst) && stream_salvage(src));
}

/* Moves what waits in direction i and adjusts its source and its state. */
static void
relay_pump(struct relay *r, int i)
{
	struct stream *src = r->s[i], *dst = r->s[1 - i];

	if (r->dir[i] == RELAY_SHUT || r->failed[1 - i])
		return;
	relay_move(r, i);
	if (r->failed[i])
		return;
	if (stream_over_high(dst))
		stream_pause(src);
	else if (stream_paused(src))
		stream_resume(src);
	if (r->dir[i] != RELAY_DRAINING || stream_input(src)->len > 0)
		return;
	stream_shutdown(dst);
	if (stream_flushed(dst))
		relay_set_dir(r, i, RELAY_SHUT);
}

static void
relay_ended(struct relay *r, int i)
{
	if (r->ended)
		return;
	r->ended = true;
	r->res.side = i == 0 ? RELAY_A : RELAY_B;
}

/* --- what the streams tell --------------------------------------------- */

static void
relay_readable_cb(struct stream *st, void *arg)
{
	struct relay *r = arg;

	relay_pump(r, relay_index(r, st));
	relay_touch(r);
}

static void
relay_drained_cb(struct stream *st, void *arg)
{
	struct relay *r = arg;

	relay_pump(r, 1 - relay_index(r, st));
	relay_touch(r);
	relay_check(r);
}

static void
relay_eof_cb(struct stream *st, void *arg)
{
	struct relay *r = arg;
	int i = relay_index(r, st);

	relay_ended(r, i);
	if (r->dir[i] == RELAY_OPEN)
		relay_set_dir(r, i, RELAY_DRAINING);
	relay_pump(r, i);
	relay_touch(r);
	relay_check(r);
}

static void
relay_error_cb(struct stream *st, int err, void *arg)
{
	struct relay *r = arg;
	int i = relay_index(r, st);

	r->failed[i] = true;
	r->ended = true;
	r->res.side = i == 0 ? RELAY_A : RELAY_B;
	r->res.err = err;
	/* Nobody is left to take what the other side says. */
	stream_pause(r->s[1 - i]);
	relay_set_dir(r, 1 - i, RELAY_SHUT);
	if (r->dir[i] == RELAY_OPEN)
		relay_set_dir(r, i, RELAY_DRAINING);
	relay_pump(r, i);
	relay_touch(r);
	relay_check(r);
}

static const struct stream_cbs relay_cbs = {
    .readable = relay_readable_cb,
    .drained = relay_drained_cb,
    .eof = relay_eof_cb,
    .error = relay_error_cb,
};

/* --- life -------------------------------------------------------------- */

struct relay *
relay_start(struct loop *l, struct stream *a, struct stream *b,
	    const struct relay_options *o)
{
	struct relay *r = xcalloc(1, sizeof(*r));
	int i;

	r->loop = l;
	r->s[RELAY_A] = a;
	r->s[RELAY_B] = b;
	r->o = *o;
	timer_init(&r->idle, l, relay_idle_cb, r);
	for (i = 0; i < 2; i++) {
		stream_set_input_limit(r->s[i], RELAY_HIGH);
		stream_set_high(r->s[i], RELAY_HIGH);
		/* Tells after this batch what waits, and the end if it was
		 * seen. */
		stream_set_cbs(r->s[i], &relay_cbs, r);
		stream_resume(r->s[i]);
	}
	relay_touch(r);
	return r;
}

void
relay_abort(struct relay *r)
{
	relay_end(r, RELAY_END_ABORT);
}

void
relay_tap_b(struct relay *r, void (*fn)(const struct bufq *, void *), void *arg)
{
	r->tap = fn;
	r->tap_arg = arg;
}

struct stream *
relay_stream(struct relay *r, enum relay_side side)
{
	return r->s[side];
}
