/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors in the form of the Connect protocol. A detail is there twice: as the
 * bytes of its protocol buffer, which clients with a schema read, and as JSON
 * for those without.
 */
#include "config.h"

#include "gateway/cwerr.h"

#include "base/base64.h"
#include "base/defs.h"

static const struct {
	const char *word;
	unsigned http;
} codes[] = {
    [CW_OK] = {"ok", 200},
    [CW_CANCELLED] = {"canceled", 499},
    [CW_UNKNOWN] = {"unknown", 500},
    [CW_INVALID_ARGUMENT] = {"invalid_argument", 400},
    [CW_DEADLINE_EXCEEDED] = {"deadline_exceeded", 504},
    [CW_NOT_FOUND] = {"not_found", 404},
    [CW_ALREADY_EXISTS] = {"already_exists", 409},
    [CW_PERMISSION_DENIED] = {"permission_denied", 403},
    [CW_RESOURCE_EXHAUSTED] = {"resource_exhausted", 429},
    [CW_FAILED_PRECONDITION] = {"failed_precondition", 400},
    [CW_ABORTED] = {"aborted", 409},
    [CW_OUT_OF_RANGE] = {"out_of_range", 400},
    [CW_UNIMPLEMENTED] = {"unimplemented", 501},
    [CW_INTERNAL] = {"internal", 500},
    [CW_UNAVAILABLE] = {"unavailable", 503},
    [CW_DATA_LOSS] = {"data_loss", 500},
    [CW_UNAUTHENTICATED] = {"unauthenticated", 401},
};

const char *
cwerr_word(enum cwerr_code code)
{
	return codes[code].word;
}

unsigned
cwerr_http(enum cwerr_code code)
{
	return codes[code].http;
}

/* --- protocol buffers -------------------------------------------------- */

static void
add_varint(struct strbuf *b, uint64_t v)
{
	while (v >= 0x80) {
		strbuf_addc(b, (char)(v & 0x7f) | (char)0x80);
		v >>= 7;
	}
	strbuf_addc(b, (char)v);
}

/* A field of bytes, text or a message. */
static void
add_bytes(struct strbuf *b, unsigned number, struct strv v)
{
	add_varint(b, number << 3 | 2);
	add_varint(b, v.len);
	strbuf_addv(b, v);
}

static void
add_message(struct strbuf *b, unsigned number, struct strbuf *msg)
{
	add_bytes(b, number, (struct strv){msg->s, msg->len});
	strbuf_clear(msg);
}

static void
info_bytes(const struct cwerr *e, struct strbuf *b)
{
	add_bytes(b, 1, strv_of(e->reason));
	add_bytes(b, 2, STRV(CWERR_DOMAIN));
	for (size_t i = 0; i < CWERR_META_MAX && e->meta[i].key != NULL; i++) {
		struct strbuf entry = {0};

		add_bytes(&entry, 1, strv_of(e->meta[i].key));
		add_bytes(&entry, 2, strv_of(e->meta[i].value));
		add_message(b, 3, &entry);
	}
}

static void
bad_request_bytes(const struct cwerr *e, struct strbuf *b)
{
	struct strbuf violation = {0};

	add_bytes(&violation, 1, e->field);
	add_bytes(&violation, 2, strv_of(e->message));
	add_message(b, 1, &violation);
}

static void
retry_bytes(const struct cwerr *e, struct strbuf *b)
{
	struct strbuf duration = {0};

	add_varint(&duration, 1 << 3);
	add_varint(&duration, e->retry_ms / 1000);
	add_varint(&duration, 2 << 3);
	add_varint(&duration, e->retry_ms % 1000 * 1000000);
	add_message(b, 1, &duration);
}

/* --- JSON -------------------------------------------------------------- */

static void
info_json(const struct cwerr *e, struct strbuf *b)
{
	strbuf_adds(b, "{\"reason\":");
	strbuf_add_json(b, strv_of(e->reason));
	strbuf_adds(b, ",\"domain\":\"" CWERR_DOMAIN "\",\"metadata\":{");
	for (size_t i = 0; i < CWERR_META_MAX && e->meta[i].key != NULL; i++) {
		strbuf_adds(b, i > 0 ? "," : "");
		strbuf_add_json(b, strv_of(e->meta[i].key));
		strbuf_addc(b, ':');
		strbuf_add_json(b, strv_of(e->meta[i].value));
	}
	strbuf_adds(b, "}}");
}

static void
bad_request_json(const struct cwerr *e, struct strbuf *b)
{
	strbuf_adds(b, "{\"fieldViolations\":[{\"field\":");
	strbuf_add_json(b, e->field);
	strbuf_adds(b, ",\"description\":");
	strbuf_add_json(b, strv_of(e->message));
	strbuf_adds(b, "}]}");
}

static void
retry_json(const struct cwerr *e, struct strbuf *b)
{
	strbuf_addf(b, "{\"retryDelay\":\"%llu.%03us\"}",
		    (unsigned long long)(e->retry_ms / 1000),
		    (unsigned)(e->retry_ms % 1000));
}

static void
add_detail(const struct cwerr *e, const char *type,
	   void (*bytes)(const struct cwerr *, struct strbuf *),
	   void (*json)(const struct cwerr *, struct strbuf *), bool *any,
	   struct strbuf *b)
{
	struct strbuf raw = {0};

	bytes(e, &raw);
	strbuf_addf(b, "%s{\"type\":\"google.rpc.%s\",\"value\":\"",
		    *any ? "," : ",\"details\":[", type);
	*any = true;
	base64_encode((struct strv){raw.s, raw.len}, b);
	while (b->s[b->len - 1] == '=') /* without padding */
		b->len--;
	strbuf_adds(b, "\",\"debug\":");
	json(e, b);
	strbuf_addc(b, '}');
	strbuf_clear(&raw);
}

void
cwerr_add_json(const struct cwerr *e, struct strbuf *b)
{
	bool any = false;

	strbuf_addf(b, "{\"code\":\"%s\",\"message\":", cwerr_word(e->code));
	strbuf_add_json(b, strv_of(e->message));
	if (e->reason != NULL)
		add_detail(e, "ErrorInfo", info_bytes, info_json, &any, b);
	if (e->field.p != NULL)
		add_detail(e, "BadRequest", bad_request_bytes, bad_request_json,
			   &any, b);
	if (e->retry_ms != 0)
		add_detail(e, "RetryInfo", retry_bytes, retry_json, &any, b);
	strbuf_adds(b, any ? "]}" : "}");
}
