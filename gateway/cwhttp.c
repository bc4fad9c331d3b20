/* SPDX-License-Identifier: Apache-2.0 */
/* See the header. Bodies may hold secrets, so they are wiped. */
#include "config.h"

#include "gateway/cwhttp.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "gateway/cwraw.h"
#include "gateway/cwsvc_int.h"
#include "net/buf.h"

#define TIMEOUT_DIGITS 10

/* --- answers ----------------------------------------------------------- */

void
cwhttp_add_end(const struct cwerr *e, struct strbuf *b)
{
	size_t at = b->len;
	size_t len;

	strbuf_add(b, "\2\0\0\0\0", 5);
	if (e->code == CW_OK) {
		strbuf_adds(b, "{}");
	} else {
		strbuf_adds(b, "{\"error\":");
		cwerr_add_json(e, b);
		strbuf_addc(b, '}');
	}
	len = b->len - at - 5;
	for (unsigned i = 0; i < 4; i++)
		b->s[at + 1 + i] = (char)(len >> (24 - 8 * i));
}

void
cwhttp_refuse(struct api_req *r, const struct cwerr *e, unsigned status,
	      const char *extra)
{
	struct strbuf b = {0};

	/* Streams have no other place for an error. */
	if (cwhttp_type_is(r, STRV("application/connect+json"))) {
		cwhttp_add_end(e, &b);
		httpd_respond(r->rq, 200, "application/connect+json",
			      STRV("Cache-Control: no-store\r\n"),
			      (struct strv){b.s, b.len});
		strbuf_clear(&b);
		return;
	}
	cwerr_add_json(e, &b);
	strbuf_addc(&b, '\n');
	api_reply_json(r, status, &b, extra);
	strbuf_clear(&b);
}

static void
unary_send(struct cwcall *c, struct strv msg)
{
	struct cwhttp *h = (struct cwhttp *)c;

	httpd_respond(h->r->rq, 200, "application/json",
		      STRV("Cache-Control: no-store\r\n"), msg);
}

static void
unary_end(struct cwcall *c, const struct cwerr *e)
{
	struct cwhttp *h = (struct cwhttp *)c;

	if (h->out_begun)
		cwraw_out_end(h, e->code == CW_OK);
	else if (e->code != CW_OK)
		cwhttp_refuse(h->r, e, cwerr_http(e->code),
			      e->code == CW_UNAVAILABLE ||
				      e->code == CW_RESOURCE_EXHAUSTED
				  ? "Retry-After: 1\r\n"
				  : NULL);
}

static bool
unary_over_high(const struct cwcall *c)
{
	const struct cwhttp *h = (const struct cwhttp *)c;

	return httpd_over_high(h->r->rq);
}

static void
unary_pause(struct cwcall *c, bool on)
{
	cwraw_pause((struct cwhttp *)c, on);
}

const struct cwcall_ops cwhttp_unary = {.send = unary_send,
					.end = unary_end,
					.over_high = unary_over_high,
					.pause = unary_pause,
					.raw_begin = cwraw_out_begin,
					.raw = cwraw_out};

/* --- life -------------------------------------------------------------- */

void
cwhttp_drop(struct cwhttp *h)
{
	h->call.svc->held -= h->in.len;
	if (h->in.s != NULL)
		mem_secure_zero(h->in.s, h->in.cap);
	strbuf_clear(&h->in);
}

void
cwhttp_closed(struct httpd_req *rq, int err, void *arg)
{
	struct cwhttp *h = arg;

	(void)rq;
	(void)err;
	cwraw_clear(h);
	cwhttp_drop(h);
	cwcall_close(&h->call);
}

void
cwhttp_peer_eof(struct httpd_req *rq, void *arg)
{
	(void)arg;
	httpd_abort(rq);
}

/* 0: there is none. False: it makes no sense. */
static bool
read_timeout(struct api_req *r, uint64_t *ms)
{
	struct strv v = http1_find(r->head, STRV("Connect-Timeout-Ms"));

	*ms = 0;
	if (v.p == NULL)
		return true;
	if (v.len > TIMEOUT_DIGITS ||
	    strv_parse_u64(v, UINT64_MAX, false, ms) != 0)
		return false;
	if (*ms == 0) /* it is over already */
		*ms = 1;
	return true;
}

struct cwhttp *
cwhttp_new(struct api_req *r, struct cwsvc *svc, const struct cwcall_method *m,
	   const struct cwcall_ops *ops)
{
	static const struct cwerr bad_timeout = {
	    .code = CW_INVALID_ARGUMENT,
	    .message = "Connect-Timeout-Ms: must be at most 10 digits"};
	static const struct cwerr ending = {.code = CW_UNAVAILABLE,
					    .message = "the gateway is ending",
					    .reason =
						CWERR_BACKEND_UNAVAILABLE};
	struct cwhttp *h;
	uint64_t ms;

	if (!read_timeout(r, &ms)) {
		cwhttp_refuse(r, &bad_timeout, 400, NULL);
		return NULL;
	}
	if (svc->draining) {
		cwhttp_refuse(r, &ending, 503, NULL);
		return NULL;
	}
	h = httpd_alloc(r->rq, sizeof(*h));
	memset(h, 0, sizeof(*h));
	h->r = r;
	h->call.method = m;
	h->call.svc = svc;
	h->call.loop = svc->o.loop;
	h->call.who = &r->who;
	h->call.ops = ops;
	h->call.codec = &cwjson_codec;
	cwcall_begin(&h->call, ms);
	return h;
}

/* --- bodies ------------------------------------------------------------ */

bool
cwhttp_take(struct cwhttp *h, struct strv piece)
{
	struct cwsvc *svc = h->call.svc;

	/* Five bytes are the head of an envelope. */
	if (piece.len > h->call.method->max + 5 - h->in.len) {
		cwcall_fail(&h->call, CW_RESOURCE_EXHAUSTED, NULL,
			    "the message is longer than %zu bytes",
			    h->call.method->max);
		return false;
	}
	if (svc->held + piece.len > CWHTTP_HELD_MAX) {
		cwcall_fail(&h->call, CW_RESOURCE_EXHAUSTED, NULL,
			    "too many large requests at once");
		return false;
	}
	svc->held += piece.len;
	strbuf_addv(&h->in, piece);
	return true;
}

static void
collect_cb(struct httpd_req *rq, struct bufq *in, bool end, void *arg)
{
	struct cwhttp *h = arg;
	struct strv piece;

	(void)rq;
	while ((piece = bufq_front(in)).len > 0) {
		if (!h->call.ended)
			(void)cwhttp_take(h, piece);
		bufq_drain(in, piece.len);
	}
	if (end && !h->call.ended)
		h->whole(h);
}

void
cwhttp_drained(struct httpd_req *rq, void *arg)
{
	struct cwhttp *h = arg;

	(void)rq;
	cwcall_writable(&h->call);
}

void
cwhttp_collect(struct cwhttp *h, void (*whole)(struct cwhttp *h))
{
	static const struct httpd_req_cbs cbs = {.body = collect_cb,
						 .drained = cwhttp_drained,
						 .peer_eof = cwhttp_peer_eof,
						 .closed = cwhttp_closed};

	if (h->call.method->raw != NULL) {
		cwraw_collect(h, whole);
		return;
	}
	h->whole = whole;
	httpd_set_cbs(h->r->rq, &cbs, h);
}

/* --- JSON -------------------------------------------------------------- */

void
cwhttp_bad_message(struct cwhttp *h, struct cwjson_error *e)
{
	char *path = xstrndup(e->path.s != NULL ? e->path.s : "", e->path.len);

	if (path[0] != '\0')
		cwcall_bad_field(&h->call, path, "%s", e->what);
	else
		cwcall_fail(&h->call, CW_INVALID_ARGUMENT,
			    CWERR_INVALID_REQUEST, "the message %s", e->what);
	free(path);
	cwjson_error_clear(e);
}

static int
read_into(struct cwmsg *m, const char *at, const struct json *v,
	  struct cwjson_error *e)
{
	const struct cwmsg_field *f;
	struct cwmsg *sub = NULL;
	int r;

	if (at == NULL)
		return cwjson_read_into(m, v, e);
	f = cwmsg_field(cwmsg_desc(m), strv_of(at));
	strbuf_adds(&e->path, at);
	if ((r = cwjson_read(f->msg, v, &sub, e)) == 0)
		cwmsg_add(m, f)->msg = sub;
	return r;
}

bool
cwhttp_read(struct cwhttp *h, struct strv text, struct cwmsg *m, const char *at)
{
	struct cwjson_error e = {0};
	struct json_doc *doc;
	const char *why = "";
	int r;

	if (text.len == 0)
		text = STRV("{}");
	r = json_parse(text, &doc, &why);
	cwhttp_drop(h);
	if (r != 0) {
		cwcall_fail(&h->call, CW_INVALID_ARGUMENT,
			    CWERR_INVALID_REQUEST,
			    "the message is not JSON: %s", why);
		return false;
	}
	if ((r = read_into(m, at, json_root(doc), &e)) != 0)
		cwhttp_bad_message(h, &e);
	json_doc_free(doc);
	cwjson_error_clear(&e);
	return r == 0;
}

/* --- fields ------------------------------------------------------------ */

bool
cwhttp_type_is(const struct api_req *r, struct strv type)
{
	struct strv v = http1_get(r->head, H_CONTENT_TYPE), word;

	if (v.p == NULL || !strv_cut(&v, ';', &word))
		return false;
	return strv_eq_nocase(strv_trim(word), type);
}

bool
cwhttp_plain(struct api_req *r, const char *name)
{
	static const struct cwerr e = {
	    .code = CW_UNIMPLEMENTED,
	    .message = "compressed messages are not supported: identity only"};
	struct strv v = http1_find(r->head, strv_of(name));

	if (v.len == 0 || strv_eq_nocase(v, STRV("identity")))
		return true;
	cwhttp_refuse(r, &e, cwerr_http(e.code), NULL);
	return false;
}
