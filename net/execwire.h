/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frames of an interactive command (PROTOCOL.md, 5.7): a byte that says
 * what it is, three zero bytes, a length of four bytes, big-endian, and so many
 * bytes. Neither side trusts the other: what comes in is bounded by its type.
 */
#ifndef SBX_NET_EXECWIRE_H
#define SBX_NET_EXECWIRE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/defs.h"
#include "base/str.h"
#include "net/buf.h"

#define EXECWIRE_PROTOCOL STRV("sbx-exec") /* in Upgrade */
#define EXECWIRE_MAX      65536            /* bytes in a frame, but for... */
#define EXECWIRE_INIT_MAX (1U << 20)

/* From the client: */
#define EXECWIRE_INIT   'I' /* JSON: what is to be run; the first frame */
#define EXECWIRE_STDIN  '0'
#define EXECWIRE_CLOSE  'C' /* stdin ends */
#define EXECWIRE_RESIZE 'R' /* columns, rows: two bytes each, big-endian */
#define EXECWIRE_SIGNAL 'S' /* one byte: its number */
/* From the agent: */
#define EXECWIRE_ACCEPTED 'A' /* JSON: pid */
#define EXECWIRE_STDOUT   '1'
#define EXECWIRE_STDERR   '2'
#define EXECWIRE_EXIT     'X' /* JSON: the event; the last frame, or */
#define EXECWIRE_ERROR    'E' /* JSON: code, message */

/* Where in the frames of one direction a reader is; zeroed is the start. */
struct execwire {
	bool from_agent; /* else from a client */
	bool open;       /* within a frame... */
	char type;       /* of that type... */
	size_t left;     /* with so many bytes still to be taken */
};

/* Takes the next frame's head out of q, unless one is open already. 0: one is
 * open now. E_AGAIN: its head is not all there. E_PROTO: that is no frame, or
 * none for this direction. E_LIMIT: it is longer than its type may be. */
int execwire_open(struct execwire *w, struct bufq *q) SBX_MUST_CHECK;
/* Bytes of the open frame that are in q. */
size_t execwire_here(const struct execwire *w, const struct bufq *q);
/* n of them were taken out; the frame is over when none is left. */
void execwire_took(struct execwire *w, size_t n);
/* Moves what is here of the open frame to b: 0 when that was all of it, else
 * E_AGAIN. */
int execwire_whole(struct execwire *w, struct bufq *q,
		   struct strbuf *b) SBX_MUST_CHECK;

/* Queues one frame; as many for v as its length takes. */
void execwire_put(struct bufq *q, char type, struct strv v);
/* Only a head: n bytes are to follow. */
void execwire_put_head(struct bufq *q, char type, size_t n);

#endif
