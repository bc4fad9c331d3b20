/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins two streams: bytes of each go to the other, slabs moved without
 * copying, with back-pressure; an end of one direction is passed on as a
 * half-close. Each direction is OPEN, DRAINING (source ended, output not yet
 * written) or SHUT; the relay ends when both are SHUT, on an error of either
 * side, or when idle.
 */
#ifndef SBX_NET_RELAY_H
#define SBX_NET_RELAY_H

#include <stdint.h>

struct bufq;
struct loop;
struct relay;
struct stream;

enum relay_side { RELAY_A, RELAY_B };

enum relay_end {
	RELAY_END_FIN,   /* both directions ended in order */
	RELAY_END_RESET, /* `side` was reset or failed */
	RELAY_END_IDLE,  /* no byte either way for idle_ms */
	RELAY_END_ABORT  /* relay_abort() */
};

struct relay_result {
	enum relay_end end;
	enum relay_side side; /* who ended first (FIN) or failed (RESET) */
	int err;              /* enum sbx_err for RESET */
	uint64_t a_to_b;      /* bytes */
	uint64_t b_to_a;
};

struct relay_options {
	uint64_t idle_ms; /* 0: never; any byte either way starts it anew */
	/* How long a half-closed relay may stay without a byte; 0: idle_ms. */
	uint64_t half_closed_idle_ms;
	/* Called once, last; both streams are closed by then. */
	void (*done)(const struct relay_result *res, void *arg);
	void *arg;
};

/* Takes both streams (their callbacks are replaced). Bytes that already wait
 * in their inputs are passed on. When one side is reset, what it had sent is
 * still delivered to the other before that is closed. */
struct relay *relay_start(struct loop *l, struct stream *a, struct stream *b,
			  const struct relay_options *o);
/* Ends it now; `done` is called before this returns. */
void relay_abort(struct relay *r);
/* Looks at bytes flowing B -> A without changing them; called before they are
 * queued. For who must know message boundaries (WebSocket close at a drain). */
void relay_tap_b(struct relay *r, void (*fn)(const struct bufq *q, void *arg),
		 void *arg);
struct stream *relay_stream(struct relay *r, enum relay_side side);

#endif
