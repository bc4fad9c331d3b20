/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing a message of the CoreWeave service, field by field, in whatever form
 * the transport wants (a codec; cwjson.h has one). What is not written is
 * absent; what is written is there, also when it is 0 or empty.
 *
 *   cwout_begin(w, codec, desc, &buf);
 *   cwout_text(w, "sandbox_id", strv_of(id));
 *   cwout_open(w, "status"); … cwout_close(w);
 *   cwout_end(w);
 *
 * The values of a repeated field are written one after the other. A field that
 * the message does not have, or of another type, is a bug.
 */
#ifndef SBX_GATEWAY_CWOUT_H
#define SBX_GATEWAY_CWOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "gateway/cwmsg.h"

struct cwout;

/* A value as a codec gets it. */
struct cwout_value {
	int64_t num; /* as in struct cwval */
	uint32_t nanos;
	struct strv key, text;
};

struct cwout_codec {
	/* f NULL: the whole message. */
	void (*open)(struct cwout *w, const struct cwmsg_field *f);
	void (*close)(struct cwout *w);
	void (*put)(struct cwout *w, const struct cwmsg_field *f,
		    const struct cwout_value *v);
	/* A repeated field or a map that may stay without values. May be
	 * NULL. */
	void (*list)(struct cwout *w, const struct cwmsg_field *f);
};

#define CWOUT_DEPTH 12

struct cwout_level {
	const struct cwmsg_desc *desc;
	const struct cwmsg_field *list; /* the codec's: what is open */
	size_t n;                       /* the codec's: how many so far */
	size_t start;                   /* the codec's: an offset */
};

struct cwout {
	const struct cwout_codec *codec;
	struct strbuf *b;
	unsigned depth;                 /* 0: before and after */
	const struct cwmsg_field *skip; /* cwout_tree() leaves it out */
	struct cwout_level at[CWOUT_DEPTH];
};

/* Appends to *b. */
void cwout_begin(struct cwout *w, const struct cwout_codec *codec,
		 const struct cwmsg_desc *d, struct strbuf *b);
void cwout_end(struct cwout *w); /* closes what is open */

void cwout_open(struct cwout *w, const char *name); /* of a message */
void cwout_close(struct cwout *w);
/* It is there, even if none follow. */
void cwout_list(struct cwout *w, const char *name);
void cwout_int(struct cwout *w, const char *name, int64_t v); /* and enums */
void cwout_bool(struct cwout *w, const char *name, bool v);
void cwout_text(struct cwout *w, const char *name, struct strv v);
void cwout_bytes(struct cwout *w, const char *name, struct strv v);
void cwout_time(struct cwout *w, const char *name, int64_t ms);
void cwout_pair(struct cwout *w, const char *name, struct strv key,
		struct strv value);
/* All that is in m, which is of the message that is open. */
void cwout_tree(struct cwout *w, const struct cwmsg *m);

#endif
