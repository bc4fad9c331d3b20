/* SPDX-License-Identifier: Apache-2.0 */
/* See the header. */
#include "config.h"

#include "gateway/cwraw.h"

#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "gateway/cwcut.h"
#include "gateway/cwhttp.h"
#include "gateway/cwsvc_int.h"
#include "net/buf.h"
#include "net/loop.h"

#define BODY_MAX (100U << 20) /* as clients have it for any message */
#define HIGH     65536        /* decoded, not taken yet */
/* Held in memory, when what says where it is to go comes after it. */
#define EARLY_MAX (33U << 20)

struct cwraw {
	struct cwhttp *h;
	struct cwcut cut;
	struct bufq out;
	size_t held; /* of it, counted */
	bool started, paused;
	bool all;    /* the whole message has come */
	bool taking; /* inside the body's callback */
	void (*whole)(struct cwhttp *h);
	struct task turn;
};

/* --- on its way in ----------------------------------------------------- */

static void
count(struct cwraw *r)
{
	r->h->call.svc->held += r->out.len - r->held;
	r->held = r->out.len;
}

static void
deliver(struct cwraw *r)
{
	if (r->started && !r->paused)
		cwcall_raw_in(&r->h->call, &r->out, r->all);
	if (r->h->call.ended)
		bufq_clear(&r->out);
	count(r);
}

static void
start(struct cwraw *r, struct strv text)
{
	r->started = true;
	if (cwhttp_take(r->h, text))
		r->whole(r->h);
	cwhttp_drop(r->h);
}

/* Says what stands before the field where it is to go? */
static bool
is_enough(struct cwraw *r, const struct strbuf *text)
{
	const struct json *root;
	struct json_doc *doc;
	bool yes;

	if (json_parse((struct strv){text->s, text->len}, &doc, NULL) != 0)
		return false;
	root = json_root(doc);
	yes = json_get(root, "path") != NULL &&
	      (r->h->rule != NULL || json_get(root, "sandboxId") != NULL ||
	       json_get(root, "sandbox_id") != NULL);
	json_doc_free(doc);
	return yes;
}

static void
start_early(struct cwraw *r)
{
	struct strbuf text = {0};

	if (r->started)
		return;
	strbuf_addv(&text, (struct strv){r->cut.rest.s, r->cut.rest.len});
	strbuf_adds(&text, "\"}");
	if (is_enough(r, &text))
		start(r, (struct strv){text.s, text.len});
	mem_secure_zero(text.s, text.cap);
	strbuf_clear(&text);
}

static void
feed(struct cwraw *r, struct bufq *in)
{
	struct cwcall *c = &r->h->call;
	struct strv v = bufq_front(in);
	size_t n = v.len;
	int e = cwcut_feed(&r->cut, &v, &r->out);

	bufq_drain(in, n - v.len);
	count(r);
	if (e == CWCUT_BEGINS)
		start_early(r);
	else if (e == E_INVALID)
		cwcall_bad_field(c, c->method->raw, "is not base64");
	else if (e == E_LIMIT)
		cwcall_fail(c, CW_RESOURCE_EXHAUSTED, NULL,
			    "the message is too long, without its %s",
			    c->method->raw);
	else if (r->held > EARLY_MAX || c->svc->held > CWHTTP_HELD_MAX)
		cwcall_fail(c, CW_RESOURCE_EXHAUSTED, NULL,
			    "%s is too large to be held: put it last",
			    c->method->raw);
}

/* The rest of the message is a message, too. */
static void
all_there(struct cwraw *r)
{
	struct cwcall *c = &r->h->call;
	struct strv text = {r->cut.rest.s, r->cut.rest.len};
	struct cwmsg *m = cwmsg_new(c->method->in);

	r->all = true;
	if (!cwhttp_read(r->h, text, m, NULL)) {
		cwmsg_free(m);
		return;
	}
	c->late_req = m;
	if (!r->started)
		start(r, text);
}

static void
body_cb(struct httpd_req *rq, struct bufq *in, bool end, void *arg)
{
	struct cwhttp *h = arg;
	struct cwraw *r = h->raw;

	(void)rq;
	while (in->len > 0 && !h->call.ended) {
		if (r->started && r->out.len >= HIGH) {
			deliver(r);
			if (r->out.len >= HIGH)
				return; /* turn_cb() goes on */
		}
		feed(r, in);
	}
	if (h->call.ended)
		bufq_drain(in, in->len);
	else if (end && !r->all)
		all_there(r);
	deliver(r);
}

static void
turn_cb(void *arg)
{
	struct cwraw *r = arg;

	deliver(r);
	if (!r->all)
		httpd_body_resume(r->h->r->rq);
}

void
cwraw_pause(struct cwhttp *h, bool on)
{
	struct cwraw *r = h->raw;

	if (r == NULL || r->paused == on)
		return;
	r->paused = on;
	if (!on)
		task_post(h->call.loop, &r->turn);
}

void
cwraw_clear(struct cwhttp *h)
{
	struct cwraw *r = h->raw;

	if (r == NULL)
		return;
	bufq_clear(&r->out);
	count(r);
	task_cancel(&r->turn);
	cwcut_clear(&r->cut);
	h->raw = NULL;
	free(r);
}

void
cwraw_collect(struct cwhttp *h, void (*whole)(struct cwhttp *h))
{
	static const struct httpd_req_cbs cbs = {.body = body_cb,
						 .drained = cwhttp_drained,
						 .peer_eof = cwhttp_peer_eof,
						 .closed = cwhttp_closed};
	struct cwraw *r = xcalloc(1, sizeof(*r));

	h->raw = r;
	r->h = h;
	r->whole = whole;
	bufq_init(&r->out, loop_bufpool(h->call.loop));
	cwcut_init(&r->cut, strv_of(h->call.method->raw), h->call.method->max);
	task_init(&r->turn, turn_cb, r);
	httpd_set_max_body(h->r->rq, BODY_MAX);
	httpd_set_cbs(h->r->rq, &cbs, h);
}

/* --- on its way out ---------------------------------------------------- */

/* False: the head could not be written. */
static bool
begin_out(struct cwhttp *h, struct strv before)
{
	struct http_writer *w =
	    httpd_begin(h->r->rq, 200, STRV_NULL, BODY_UNTIL_CLOSE, 0, 256);

	h->out_begun = true;
	http1_put(w, STRV("Content-Type"), STRV("application/json"));
	http1_put(w, STRV("Cache-Control"), STRV("no-store"));
	if (httpd_end_head(h->r->rq) != 0) {
		httpd_abort(h->r->rq);
		return false;
	}
	/* Its last brace comes when all is said. */
	if (before.len > 0)
		httpd_write(h->r->rq, before.p, before.len - 1);
	httpd_write(h->r->rq, before.len > 2 ? "," : "{",
		    before.len == 2 ? 0 : 1);
	return true;
}

/* The end of a field. */
static void
end_field(struct cwhttp *h)
{
	struct strbuf b = {0};

	base64_encode((struct strv){h->carry, h->ncarry}, &b);
	strbuf_addc(&b, '"');
	httpd_write(h->r->rq, b.s, b.len);
	strbuf_clear(&b);
	h->ncarry = 0;
}

void
cwraw_out_begin(struct cwcall *c, struct strv before, const char *field,
		uint64_t size)
{
	struct cwhttp *h = (struct cwhttp *)c;
	struct strbuf name = {0};

	(void)size; /* JSON need not know it */
	if (h->out_begun) {
		end_field(h);
		httpd_write(h->r->rq, ",", 1);
	} else if (!begin_out(h, before)) {
		return;
	}
	strbuf_addf(&name, "\"%s\":\"", field);
	httpd_write(h->r->rq, name.s, name.len);
	strbuf_clear(&name);
}

/* Whole groups of three go out; what is over waits. */
void
cwraw_out(struct cwcall *c, struct strv piece)
{
	struct cwhttp *h = (struct cwhttp *)c;
	struct strbuf b = {0};
	size_t n;

	while (h->ncarry > 0 && h->ncarry < 3 && piece.len > 0) {
		h->carry[h->ncarry++] = piece.p[0];
		piece = strv_from(piece, 1);
	}
	if (h->ncarry == 3) {
		base64_encode((struct strv){h->carry, 3}, &b);
		h->ncarry = 0;
	}
	if (h->ncarry == 0) {
		n = piece.len - piece.len % 3;
		base64_encode((struct strv){piece.p, n}, &b);
		piece = strv_from(piece, n);
		memcpy(h->carry, piece.p, piece.len);
		h->ncarry = (unsigned)piece.len;
	}
	httpd_write(h->r->rq, b.s, b.len);
	httpd_flush(h->r->rq);
	strbuf_clear(&b);
}

void
cwraw_out_end(struct cwhttp *h, bool whole)
{
	if (!whole) { /* it must not look as if it were */
		httpd_abort(h->r->rq);
		return;
	}
	end_field(h);
	httpd_write(h->r->rq, "}", 1);
	httpd_end(h->r->rq);
}
