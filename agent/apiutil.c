/* SPDX-License-Identifier: Apache-2.0 */
/* Answers, bodies and query parameters: what every route needs. */
#include "config.h"

#include "agent/api_int.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/query.h"
#include "net/buf.h"

#define API_LONG 65536

/* --- memory ------------------------------------------------------------ */

bool
api_hold(struct call *c, size_t n)
{
	if (c->sb != NULL && c->sb->held + n > API_HELD_SANDBOX) {
		api_error(c->rq, 429, "limit",
			  "too many large requests to this sandbox");
		return false;
	}
	if (c->api->held + n > API_HELD_ALL) {
		api_error(c->rq, 503, "busy", "too many large requests");
		return false;
	}
	c->held += n;
	c->api->held += n;
	if (c->sb != NULL)
		c->sb->held += n;
	return true;
}

void
api_unhold(struct call *c)
{
	c->api->held -= c->held;
	if (c->sb != NULL)
		c->sb->held -= c->held;
	c->held = 0;
}

/* --- answers ----------------------------------------------------------- */

void
api_answer(struct call *c, unsigned status, struct strbuf *json)
{
	/* It stays in memory until the client has taken it. */
	if (json->len > API_LONG && !api_hold(c, json->len)) {
		strbuf_clear(json);
		return;
	}
	httpd_respond(c->rq, status, API_JSON_TYPE, STRV_NULL,
		      (struct strv){json->s, json->len});
	strbuf_clear(json);
}

void
api_error_with(struct httpd_req *rq, unsigned status, struct strv fields,
	       const char *code, const char *text)
{
	struct strbuf b = {0};

	strbuf_adds(&b, "{\"error\":");
	strbuf_add_json(&b, strv_of(text));
	strbuf_addf(&b, ",\"code\":\"%s\"}", code);
	httpd_respond(rq, status, API_JSON_TYPE, fields,
		      (struct strv){b.s, b.len});
	strbuf_clear(&b);
}

void
api_error(struct httpd_req *rq, unsigned status, const char *code,
	  const char *fmt, ...)
{
	char line[512];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	api_error_with(rq, status, STRV_NULL, code, line);
}

/* --- body -------------------------------------------------------------- */

static void
api_collect_cb(struct call *c, struct bufq *in, bool end)
{
	struct strv v;

	if (!api_hold(c, in->len)) {
		c->on_body = NULL;
		strbuf_clear(&c->body);
		bufq_drain(in, in->len);
		return;
	}
	while ((v = bufq_front(in)).len > 0) {
		strbuf_addv(&c->body, v);
		bufq_drain(in, v.len);
	}
	if (end) {
		c->on_body = NULL;
		c->run(c);
	}
}

void
api_collect(struct call *c, size_t max, void (*run)(struct call *c))
{
	httpd_set_max_body(c->rq, max);
	if (!httpd_has_body(c->rq)) {
		run(c);
		return;
	}
	c->run = run;
	c->on_body = api_collect_cb;
}

struct json_doc *
api_json(struct call *c, bool empty_ok)
{
	struct strv text = {c->body.s, c->body.len};
	struct json_doc *d = NULL;
	const char *why;

	if (text.len == 0 && empty_ok)
		text = STRV("{}");
	if (json_parse(text, &d, &why) != 0) {
		api_error(c->rq, 400, "bad_json", "body: not JSON: %s", why);
		return NULL;
	}
	strbuf_clear(&c->body);
	if (json_type(json_root(d)) != JSON_OBJECT) {
		api_error(c->rq, 400, "bad_json", "body: not a JSON object");
		json_doc_free(d);
		return NULL;
	}
	return d;
}

/* --- query ------------------------------------------------------------- */

bool
api_query(const struct call *c, const char *name, struct strbuf *out)
{
	return query_get(c->query, name, out);
}

bool
api_query_flag(const struct call *c, const char *name)
{
	struct strbuf b = {0};
	bool on = false;

	if (api_query(c, name, &b)) {
		struct strv v = {b.s, b.len};

		on = strv_eq(v, STRV("1")) || strv_eq(v, STRV("true")) ||
		     strv_eq(v, STRV("True")) || strv_eq(v, STRV("yes"));
	}
	strbuf_clear(&b);
	return on;
}

int
api_query_u64(struct call *c, const char *name, uint64_t *out)
{
	struct strbuf b = {0};
	int r = E_NOTFOUND;

	if (api_query(c, name, &b)) {
		r = strv_parse_u64((struct strv){b.s, b.len}, INT64_MAX, false,
				   out);
		if (r != 0) {
			api_error(c->rq, 400, "bad_query",
				  "%s: not a number in range", name);
			r = E_INVALID;
		}
	}
	strbuf_clear(&b);
	return r;
}
