/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes one large value out of a JSON message while it comes: the bytes of a
 * member of the outermost object, which JSON has as text in base64, go one
 * way, decoded; everything else stays behind as a message in which that member
 * is empty, to be read as any other. So nobody ever holds, or works on, all of
 * a large message at a time.
 *
 * Only as much of JSON is looked at as this needs: whether what stays behind
 * is JSON at all is found out by who reads it.
 */
#ifndef SBX_GATEWAY_CWCUT_H
#define SBX_GATEWAY_CWCUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/defs.h"
#include "base/str.h"

struct bufq;

enum cwcut_state {
	CUT_PLAIN,
	CUT_STRING, /* within a text that is not ours */
	CUT_KEY,    /* within a name of the outermost object */
	CUT_COLON,  /* after our name */
	CUT_VALUE   /* within our value */
};

struct cwcut {
	enum cwcut_state state;
	struct strv name;
	struct strbuf rest; /* what stays behind */
	size_t rest_max;
	uint64_t size;      /* bytes that were taken out */
	unsigned depth;     /* of objects and lists */
	bool names;         /* a name comes next, at this depth of 1 */
	bool escape;        /* after a backslash */
	size_t key_at;      /* in rest: where the name begins */
	unsigned hex, nhex; /* \uXXXX within our value */
	unsigned bits, nbits;
	unsigned digits; /* of base64, since the last whole group */
	unsigned pads;
	uint8_t digit[256]; /* their values; 64: none */
};

/* name: of the member, borrowed. */
void cwcut_init(struct cwcut *c, struct strv name, size_t rest_max);
void cwcut_clear(struct cwcut *c); /* wipes */

#define CWCUT_BEGINS 1
/* Takes from the front of *v, and adds to out. 0: all of it was taken.
 * CWCUT_BEGINS: our value begins here, what is in rest ends with its opening
 * quote; go on with what is left. E_INVALID: our value is not base64.
 * E_LIMIT: what stays behind is too long. */
int cwcut_feed(struct cwcut *c, struct strv *v, struct bufq *out);

#endif
