/* SPDX-License-Identifier: Apache-2.0 */
/* What handlers of the control plane read and say: query parameters, JSON
 * bodies, JSON answers, and errors in the Hub's form. */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/query.h"
#include "gateway/api.h"
#include "gateway/api_int.h"
#include "net/buf.h"

#define WAIT_DEFAULT_MS 30000
#define WAIT_MAX_MS     600000

/* --- percent ----------------------------------------------------------- */

int
api_decode(struct httpd_req *rq, struct strv v, bool plus, struct strv *out)
{
	char *p = httpd_alloc(rq, v.len + 1);
	ssize_t n = query_decode(v, plus ? QUERY_STRICT : QUERY_PATH, p);

	if (n < 0)
		return E_INVALID;
	p[n] = '\0';
	*out = (struct strv){p, (size_t)n};
	return 0;
}

bool
api_query_next(const struct api_req *r, size_t *pos, struct strv *name,
	       struct strv *value)
{
	struct strv rest = strv_from(r->query, *pos), key, one;

	while (query_next(&rest, &key, &one)) {
		*pos = rest.p != NULL ? (size_t)(rest.p - r->query.p)
				      : r->query.len;
		if (api_decode(r->rq, key, true, name) == 0 &&
		    api_decode(r->rq, one, true, value) == 0)
			return true;
	}
	return false;
}

struct strv
api_query(const struct api_req *r, const char *name)
{
	struct strv key, value;
	size_t pos = 0;

	while (api_query_next(r, &pos, &key, &value))
		if (strv_eq(key, strv_of(name)))
			return value;
	return STRV_NULL;
}

bool
api_timeout(struct api_req *r, uint64_t *ms)
{
	struct strv v = api_query(r, "timeout");

	*ms = WAIT_DEFAULT_MS;
	if (v.p != NULL && strv_parse_duration(v, ms) != 0) {
		api_error(r, 400, "bad_request",
			  "timeout: must be a duration, like 30s");
		return false;
	}
	if (*ms > WAIT_MAX_MS)
		*ms = WAIT_MAX_MS;
	return true;
}

/* --- answers ----------------------------------------------------------- */

void
api_reply_json(struct api_req *r, unsigned status, const struct strbuf *b,
	       const char *extra)
{
	struct strbuf fields = {0};

	strbuf_adds(&fields, "Cache-Control: no-store\r\n");
	if (extra != NULL)
		strbuf_adds(&fields, extra);
	httpd_respond(r->rq, status, "application/json",
		      (struct strv){fields.s, fields.len},
		      (struct strv){b->s, b->len});
	strbuf_clear(&fields);
}

/* A field's value must be plain text on one line. */
static void
add_error_field(struct strbuf *fields, struct strv text)
{
	strbuf_adds(fields, "X-Error-Message: ");
	for (size_t i = 0; i < text.len && i < 500; i++) {
		unsigned char c = (unsigned char)text.p[i];

		strbuf_addc(fields, c >= 0x20 && c < 0x7f ? (char)c : '?');
	}
	strbuf_adds(fields, "\r\n");
}

void
api_error(struct api_req *r, unsigned status, const char *code, const char *fmt,
	  ...)
{
	struct strbuf b = {0}, fields = {0};
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	strbuf_adds(&b, "{\"error\":");
	strbuf_add_json(&b, strv_of(text));
	strbuf_addf(&b, ",\"code\":\"%s\"}\n", code);
	add_error_field(&fields, strv_of(text));
	if (status == 503 || status == 429)
		strbuf_adds(&fields, "Retry-After: 1\r\n");
	api_reply_json(r, status, &b, fields.s);
	strbuf_clear(&b);
	strbuf_clear(&fields);
}

/* --- bodies ------------------------------------------------------------ */

struct collected {
	struct api_req *r;
	api_body_handler *fn;
	struct strbuf text;
};

static void
wipe(struct collected *c)
{
	/* Bodies have secrets in them. */
	if (c->text.s != NULL)
		mem_secure_zero(c->text.s, c->text.cap);
	strbuf_clear(&c->text);
}

static void
collect_done(struct collected *c)
{
	static const struct httpd_req_cbs none = {0};
	struct api_req *r = c->r;
	struct json_doc *doc;
	const char *why = "";
	struct strv text = {c->text.s, c->text.len};

	httpd_set_cbs(r->rq, &none, NULL);
	if (text.len == 0)
		text = STRV("{}");
	if (json_parse(text, &doc, &why) != 0) {
		wipe(c);
		api_error(r, 400, "bad_request", "the body is not JSON: %s",
			  why);
		return;
	}
	wipe(c);
	if (json_type(json_root(doc)) == JSON_OBJECT)
		c->fn(r, json_root(doc));
	else
		api_error(r, 400, "bad_request",
			  "the body must be a JSON object");
	json_doc_free(doc);
}

static void
body_cb(struct httpd_req *rq, struct bufq *in, bool end, void *arg)
{
	struct collected *c = arg;
	struct strv piece;

	(void)rq;
	while ((piece = bufq_front(in)).len > 0) { /* the bound is httpd's */
		strbuf_addv(&c->text, piece);
		bufq_drain(in, piece.len);
	}
	if (end)
		collect_done(c);
}

static void
closed_cb(struct httpd_req *rq, int err, void *arg)
{
	(void)rq;
	(void)err;
	wipe(arg);
}

void
api_body_json(struct api_req *r, size_t max, api_body_handler *fn)
{
	static const struct httpd_req_cbs cbs = {.body = body_cb,
						 .closed = closed_cb};
	struct collected *c = httpd_alloc(r->rq, sizeof(*c));

	memset(c, 0, sizeof(*c));
	c->r = r;
	c->fn = fn;
	httpd_set_max_body(r->rq, max != 0 ? max : API_BODY_MAX);
	httpd_set_cbs(r->rq, &cbs, c);
}
