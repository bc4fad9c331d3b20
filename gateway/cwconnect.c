/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Connect protocol with JSON: a method that does not stream is a POST of
 * its message. One that does is a POST of envelopes (a byte of flags, four of
 * length, a message), answered with 200 and envelopes, of which the last one
 * says how it went. Both directions of a stream run at the same time.
 */
#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "gateway/cwhttp.h"
#include "gateway/cwsvc_int.h"
#include "net/buf.h"

#define ENVELOPE        5
#define FLAG_COMPRESSED 1

/* --- without streams --------------------------------------------------- */

static void
unary_whole(struct cwhttp *h)
{
	struct cwmsg *m = cwmsg_new(h->call.method->in);

	if (cwhttp_read(h, (struct strv){h->in.s, h->in.len}, m, NULL))
		cwcall_run(&h->call, m);
	else
		cwmsg_free(m);
}

/* --- streams: what we say ---------------------------------------------- */

static void
put_envelope(struct cwhttp *h, struct strv msg)
{
	unsigned char head[ENVELOPE] = {
	    0, (unsigned char)(msg.len >> 24), (unsigned char)(msg.len >> 16),
	    (unsigned char)(msg.len >> 8), (unsigned char)msg.len};

	httpd_write(h->r->rq, head, sizeof(head));
	httpd_write(h->r->rq, msg.p, msg.len);
}

static void
stream_send(struct cwcall *c, struct strv msg)
{
	struct cwhttp *h = (struct cwhttp *)c;

	put_envelope(h, msg);
	httpd_flush(h->r->rq);
}

static void
stream_end(struct cwcall *c, const struct cwerr *e)
{
	struct cwhttp *h = (struct cwhttp *)c;
	struct strbuf b = {0};

	cwhttp_add_end(e, &b);
	httpd_write(h->r->rq, b.s, b.len);
	strbuf_clear(&b);
	httpd_end(h->r->rq);
}

static bool
stream_over_high(const struct cwcall *c)
{
	const struct cwhttp *h = (const struct cwhttp *)c;

	return httpd_over_high(h->r->rq);
}

static void
stream_pause(struct cwcall *c, bool on)
{
	struct cwhttp *h = (struct cwhttp *)c;

	if (h->paused == on)
		return;
	h->paused = on;
	if (!on)
		httpd_body_resume(h->r->rq);
}

static const struct cwcall_ops stream_ops = {.send = stream_send,
					     .end = stream_end,
					     .over_high = stream_over_high,
					     .pause = stream_pause};

/* --- streams: what the client says ------------------------------------- */

static size_t
message_len(const struct cwhttp *h)
{
	const unsigned char *p = (const unsigned char *)h->in.s;

	return (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 |
	       p[4];
}

/* The head of an envelope is there. */
static void
check_envelope(struct cwhttp *h)
{
	unsigned flags = (unsigned char)h->in.s[0];

	if ((flags & FLAG_COMPRESSED) != 0)
		cwcall_fail(&h->call, CW_INTERNAL, NULL,
			    "a compressed message, without an encoding that "
			    "was agreed on");
	else if (flags != 0)
		cwcall_fail(&h->call, CW_INVALID_ARGUMENT, NULL,
			    "an envelope with flags that clients do not send");
	else if (message_len(h) > h->call.method->max)
		cwcall_fail(&h->call, CW_RESOURCE_EXHAUSTED, NULL,
			    "the message is longer than %zu bytes",
			    h->call.method->max);
}

static void
take_message(struct cwhttp *h)
{
	struct cwmsg *m = cwmsg_new(h->call.method->in);
	struct strv text = {h->in.s + ENVELOPE, h->in.len - ENVELOPE};

	if (!cwhttp_read(h, text, m, NULL)) {
		cwmsg_free(m);
	} else if (h->call.method->client_streams) {
		cwcall_message(&h->call, m);
	} else if (!h->got_one) {
		h->got_one = true;
		cwcall_run(&h->call, m);
	} else {
		cwmsg_free(m);
		cwcall_fail(&h->call, CW_INVALID_ARGUMENT, NULL,
			    "this method takes one message");
	}
}

/* As much of what has come as belongs to the envelope that is being read. */
static void
take_some(struct cwhttp *h, struct bufq *in)
{
	struct strv piece = bufq_front(in);
	size_t want = ENVELOPE;

	if (h->in.len >= ENVELOPE)
		want += message_len(h);
	want -= h->in.len;
	if (piece.len > want)
		piece.len = want;
	if (!cwhttp_take(h, piece))
		return;
	bufq_drain(in, piece.len);
	if (h->in.len == ENVELOPE)
		check_envelope(h);
	if (!h->call.ended && h->in.len >= ENVELOPE &&
	    h->in.len == ENVELOPE + message_len(h))
		take_message(h);
}

static void
all_there(struct cwhttp *h)
{
	if (h->half_closed)
		return;
	h->half_closed = true;
	if (h->in.len > 0)
		cwcall_fail(&h->call, CW_INVALID_ARGUMENT, NULL,
			    "the request ends within a message");
	else if (h->call.method->client_streams)
		cwcall_half_close(&h->call);
	else if (!h->got_one)
		cwcall_fail(&h->call, CW_UNIMPLEMENTED, NULL,
			    "this method takes one message, not none");
}

static void
stream_body(struct httpd_req *rq, struct bufq *in, bool end, void *arg)
{
	struct cwhttp *h = arg;

	(void)rq;
	while (in->len > 0 && !h->paused && !h->call.ended)
		take_some(h, in);
	if (h->call.ended)
		bufq_drain(in, in->len);
	else if (end && in->len == 0)
		all_there(h);
}

static void
stream_drained(struct httpd_req *rq, void *arg)
{
	struct cwhttp *h = arg;

	(void)rq;
	cwcall_writable(&h->call);
}

static void
stream_begin(struct cwhttp *h)
{
	static const struct httpd_req_cbs cbs = {.body = stream_body,
						 .drained = stream_drained,
						 .peer_eof = cwhttp_peer_eof,
						 .closed = cwhttp_closed};
	struct http_writer *w =
	    httpd_begin(h->r->rq, 200, STRV_NULL, BODY_UNTIL_CLOSE, 0, 256);

	http1_put(w, STRV("Content-Type"), STRV("application/connect+json"));
	http1_put(w, STRV("Cache-Control"), STRV("no-store"));
	http1_put(w, STRV("X-Accel-Buffering"), STRV("no"));
	httpd_set_cbs(h->r->rq, &cbs, h);
	if (httpd_end_head(h->r->rq) != 0) {
		httpd_abort(h->r->rq);
		return;
	}
	httpd_flush(h->r->rq);
	if (!h->call.method->client_streams)
		return;
	httpd_patient(h->r->rq);
	cwcall_run(&h->call, NULL);
}

/* --- requests ---------------------------------------------------------- */

static bool
version_ok(struct api_req *r)
{
	static const struct cwerr e = {
	    .code = CW_INVALID_ARGUMENT,
	    .message = "Connect-Protocol-Version: only 1 is known"};
	struct strv v = http1_find(r->head, STRV("Connect-Protocol-Version"));

	if (v.p == NULL || strv_eq(v, STRV("1")))
		return true;
	cwhttp_refuse(r, &e, 400, NULL);
	return false;
}

/* 415 without a body, as the protocol wants it. */
static bool
type_ok(struct api_req *r, bool streams)
{
	struct strv type = streams ? STRV("application/connect+json")
				   : STRV("application/json");
	struct strbuf extra = {0};

	if (cwhttp_type_is(r, type))
		return true;
	strbuf_addf(&extra, "Accept-Post: %.*s\r\nCache-Control: no-store\r\n",
		    STRV_ARG(type));
	httpd_respond(r->rq, 415, NULL, (struct strv){extra.s, extra.len},
		      STRV_NULL);
	strbuf_clear(&extra);
	return false;
}

static void
connect_post(struct api_req *r)
{
	static const struct cwerr unknown = {
	    .code = CW_UNIMPLEMENTED,
	    .message = "the service has no such method"};
	const struct cwcall_method *m = cwsvc_method(r->param[0]);
	struct cwhttp *h;
	bool streams;

	if (m == NULL) {
		cwhttp_refuse(r, &unknown, 404, NULL);
		return;
	}
	streams = m->client_streams || m->server_streams;
	if (!type_ok(r, streams) || !version_ok(r) ||
	    !cwhttp_plain(r, streams ? "Connect-Content-Encoding"
				     : "Content-Encoding"))
		return;
	h = cwhttp_new(r, r->arg, m, streams ? &stream_ops : &cwhttp_unary);
	if (h == NULL)
		return;
	if (streams)
		stream_begin(h);
	else
		cwhttp_collect(h, unary_whole);
}

void
cwconnect_add(struct api *a, struct cwsvc *svc)
{
	(void)api_route(a, "POST", "/" CWSVC_NAME "/:method", connect_post,
			svc);
	(void)api_route(a, "POST", "/coreweave/" CWSVC_NAME "/:method",
			connect_post, svc);
}
