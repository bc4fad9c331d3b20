/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From an agent's events (one JSON object a line, output in base64) to those
 * of the Podflare API: {"type","data","seq","ts"}, a line of output each, and
 * one "exit" at the end. Output comes in pieces; a line is told when it is
 * whole, one without an end at the end of the call.
 */
#ifndef SBX_GATEWAY_PODLINES_H
#define SBX_GATEWAY_PODLINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/defs.h"
#include "base/str.h"

#define PODLINES_MAX     (1U << 20)  /* longer lines are cut */
#define PODLINES_SHORT   (64U << 10) /* while all calls hold too much */
#define PODLINES_HELD    (128U << 20)
#define PODLINES_IN_MAX  (2U << 20) /* of an event; larger ones are values */
#define PODLINES_TIMEOUT 124        /* exit code after a timeout */

struct podlines {
	struct strbuf in;      /* the beginning of an event */
	struct strbuf part[2]; /* lines without their end, of each stream */
	uint64_t seq;
	size_t *held;  /* bytes in `part`, of all calls */
	bool values;   /* show the value of the last expression */
	bool too_long; /* the event that comes is passed over */
	bool ended;    /* "exit" was told */
};

void podlines_init(struct podlines *p, bool values, size_t *held);
void podlines_clear(struct podlines *p);
/* Takes what the agent said and appends what the client is told. E_PROTO: that
 * was no event. */
int podlines_feed(struct podlines *p, struct strv v,
		  struct strbuf *out) SBX_MUST_CHECK;

#endif
