/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An answer that is a stream of event lines: one flush an event, a ping in
 * every 15 s of silence, and a look now and then whether a client that ended
 * its side is still there.
 */
#ifndef SBX_AGENT_EVSTREAM_H
#define SBX_AGENT_EVSTREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "net/loop.h"

struct call;

/* Embedded in its owner. Lines are made in `line`, then sent. */
struct evstream {
	struct call *c;
	struct strbuf line;
	struct timer tick;
	uint64_t said_ms; /* when the last event was sent */
	unsigned probes;
	bool begun, sent; /* the head: queued, gone */
};

void evstream_init(struct evstream *es, struct call *c);
void evstream_clear(struct evstream *es);
/* Queues the head, once. False: the exchange was aborted, and its `closed` is
 * on its way. */
bool evstream_begin(struct evstream *es);
/* Sends the head, if it has not left yet, and what is in `line`. */
void evstream_send(struct evstream *es);
/* Sends what is in `line`, and ends the answer: the owner may be gone. */
void evstream_end(struct evstream *es);
/* Sends what is in `line`, and has the answer look cut off. */
void evstream_abort(struct evstream *es);

#endif
