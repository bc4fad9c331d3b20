/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event lines that tell of a process: one JSON object a line. Text is made
 * UTF-8: a character that two reads split is kept whole, and what cannot be
 * UTF-8 becomes U+FFFD as Python's errors="replace" makes it.
 */
#ifndef SBX_AGENT_EVENTS_H
#define SBX_AGENT_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/str.h"

#define EVENTS_TYPE "application/x-ndjson"

/* One reader's state; zeroed is ready (text). */
struct events {
	bool base64;
	struct {
		char hold[4]; /* the beginning of a character */
		unsigned n;
	} part[2];
};

struct events_exit {
	int code;   /* -1: none (killed by a signal) */
	int signal; /* 0: none */
	bool timed_out;
	uint64_t duration_ms;
};

void events_start(struct strbuf *b, pid_t pid);
/* stream 0 is stdout, 1 stderr. Adds a line, or nothing when all of it had to
 * be held back. */
void events_output(struct events *e, struct strbuf *b, unsigned stream,
		   struct strv data);
/* Output that is known to split no character. pos: where it ends (ring.h),
 * shown as "next"; 0: not shown. */
void events_piece(struct strbuf *b, bool base64, unsigned stream,
		  struct strv data, uint64_t pos);
/* What was held back of both streams, which will not get its rest any more. */
void events_flush(struct events *e, struct strbuf *b);
void events_ping(struct strbuf *b);
void events_dropped(struct strbuf *b, uint64_t bytes);
void events_exit(struct strbuf *b, const struct events_exit *x);

#endif
