/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of the CoreWeave service as JSON, by the rules of protocol buffers
 * (proto3's JSON mapping): names in camel case, or as in the schema when read;
 * 64-bit numbers as text; bytes in base64; times as in RFC 3339; enums by name
 * or number. Unknown members are passed over.
 */
#ifndef SBX_GATEWAY_CWJSON_H
#define SBX_GATEWAY_CWJSON_H

#include "base/defs.h"
#include "base/str.h"
#include "gateway/cwmsg.h"
#include "gateway/cwout.h"

struct json;

/* Why a message is not one: where ("sandbox.spec.containers[0].image", of
 * names of the schema; empty: the whole) and what. Never a value. */
struct cwjson_error {
	struct strbuf path;
	const char *what; /* static */
};
void cwjson_error_clear(struct cwjson_error *e);

/* E_INVALID: *e says why. */
int cwjson_read(const struct cwmsg_desc *d, const struct json *v,
		struct cwmsg **out, struct cwjson_error *e) SBX_MUST_CHECK;
/* The same, into a message that is there already (and may have more fields
 * then, also when it fails). */
int cwjson_read_into(struct cwmsg *m, const struct json *v,
		     struct cwjson_error *e) SBX_MUST_CHECK;
/* A field from the text of a path or of a query's parameter; a repeated one
 * once more. E_NOTFOUND: there is no such field. E_INVALID as above. */
int cwjson_read_text(struct cwmsg *m, struct strv name, struct strv text,
		     struct cwjson_error *e) SBX_MUST_CHECK;

extern const struct cwout_codec cwjson_codec;

#endif
