/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /podflare/v1/sandboxes/:id/exec: the agent's run_code, whose events are
 * told in the API's own form as they come. What the client does not take is
 * not read from the agent, which then stops the code at its pipe; a client
 * that goes away ends the connection to the agent, which interrupts the code.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "gateway/podapi_int.h"
#include "gateway/podlines.h"
#include "net/buf.h"
#include "net/dialer.h"
#include "net/httpc.h"
#include "net/loop.h"
#include "net/stream.h"

#define CODE_MAX    (16U << 20)
#define CALLS_MAX   4000
#define CALLS_ONE   1000 /* in one sandbox, forks included */
#define REFUSAL_MAX 16384
#define DIAL_MS     10000
#define PIECE       32768 /* of the agent's events at a time */

struct podexec {
	struct api_req *r;
	struct podapi *pa;
	struct podbox *box; /* held */
	struct dial *dial;
	struct httpc *http;
	struct strbuf ask, out, refusal;
	struct podlines lines;
	struct task end;
	unsigned status; /* the agent's */
	bool ended;      /* all that the agent says is there */
	int err;
};

/* --- the end ----------------------------------------------------------- */

static void
closed_cb(struct httpd_req *rq, int err, void *arg)
{
	struct podexec *x = arg;

	(void)rq;
	(void)err;
	if (x->dial != NULL)
		dial_cancel(x->dial);
	if (x->http != NULL)
		httpc_close(x->http);
	task_cancel(&x->end);
	podlines_clear(&x->lines);
	podbox_release(x->box);
	x->pa->calls--;
	strbuf_clear(&x->ask);
	strbuf_clear(&x->out);
	strbuf_clear(&x->refusal);
	free(x);
}

static void
gone_cb(struct httpd_req *rq, void *arg)
{
	(void)arg;
	httpd_abort(rq);
}

/* The agent did not take the call. */
static void
refuse(struct podexec *x)
{
	struct strv text = {x->refusal.s, x->refusal.len};
	const struct json *root = NULL;
	struct json_doc *doc = NULL;
	const char *why, *code;
	unsigned status = x->status;

	if (json_parse(text, &doc, NULL) == 0)
		root = json_root(doc);
	why = json_string(json_get(root, "error"));
	code = json_string(json_get(root, "code"));
	if (status == 404) {
		if (strv_eq(strv_of(code), STRV("no_such_sandbox")))
			podbox_lost(x->box);
		podapi_not_found(x->r);
	} else if (status == 400 || status == 413 || status == 429) {
		api_error(x->r, status, status == 429 ? "limit" : "bad_request",
			  "%s", why != NULL ? why : "the agent refused it");
	} else {
		api_error(x->r, 500, "internal", "%s",
			  why != NULL ? why : "the agent failed");
	}
	json_doc_free(doc);
}

static void
end_cb(void *arg)
{
	struct podexec *x = arg;

	if (x->http != NULL)
		httpc_close(x->http);
	x->http = NULL;
	if (httpd_begun(x->r->rq)) {
		if (x->lines.ended)
			httpd_end(x->r->rq);
		else
			httpd_abort(x->r->rq); /* it must not look whole */
	} else if (x->err == 0 && x->status != 200) {
		refuse(x);
	} else {
		api_error(x->r, 500, "internal", "the agent did not answer");
	}
}

static void
end(struct podexec *x, int err)
{
	x->err = err;
	task_post(podflare_loop(x->pa->p), &x->end);
}

/* --- the agent's answer ------------------------------------------------ */

static void
begin_answer(struct podexec *x)
{
	struct http_writer *w =
	    httpd_begin(x->r->rq, 200, STRV_NULL, BODY_UNTIL_CLOSE, 0, 256);

	http1_put(w, STRV("Content-Type"), STRV("application/x-ndjson"));
	http1_put(w, STRV("Cache-Control"), STRV("no-store"));
	if (httpd_end_head(x->r->rq) != 0)
		httpd_abort(x->r->rq);
	else
		httpd_flush(x->r->rq);
}

static void
head_cb(struct httpc *c, const struct http_head *h, bool interim, void *arg)
{
	struct podexec *x = arg;

	(void)c;
	if (interim)
		return;
	x->status = h->status;
	if (x->status == 200)
		begin_answer(x);
}

/* E_PROTO: the agent makes no sense. */
static int
take_piece(struct podexec *x, struct strv v)
{
	int r;

	if (x->status != 200) {
		if (x->refusal.len + v.len <= REFUSAL_MAX)
			strbuf_addv(&x->refusal, v);
		return 0;
	}
	r = podlines_feed(&x->lines, v, &x->out);
	if (x->out.len > 0) {
		httpd_write(x->r->rq, x->out.s, x->out.len);
		httpd_flush(x->r->rq);
		if (x->out.cap > 4 * PIECE)
			strbuf_clear(&x->out);
		else
			strbuf_reset(&x->out);
	}
	return r;
}

static void
body_cb(struct httpc *c, struct bufq *in, bool last, void *arg)
{
	struct podexec *x = arg;
	struct strv v;

	(void)c;
	while (in->len > 0 && !x->ended && !httpd_over_high(x->r->rq)) {
		v = bufq_front(in);
		if (v.len > PIECE)
			v.len = PIECE;
		if (take_piece(x, v) != 0) {
			x->ended = true;
			end(x, E_PROTO);
		}
		bufq_drain(in, v.len);
	}
	if (x->ended)
		bufq_drain(in, in->len);
	else if (last && in->len == 0) {
		x->ended = true;
		end(x, 0);
	}
}

static void
failed_cb(struct httpc *c, int err, bool begun, const char *what, void *arg)
{
	struct podexec *x = arg;

	(void)c;
	(void)begun;
	(void)what;
	x->http = NULL;
	if (!x->ended)
		end(x, err);
	x->ended = true;
}

static void
drained_cb(struct httpd_req *rq, void *arg)
{
	struct podexec *x = arg;

	(void)rq;
	if (x->http != NULL && !x->ended)
		httpc_body_resume(x->http);
}

/* --- asking it --------------------------------------------------------- */

static void
send_ask(struct podexec *x, const char *token)
{
	static const struct httpc_cbs cbs = {
	    .head = head_cb, .body = body_cb, .failed = failed_cb};
	char *target = xasprintf("/v1/sandboxes/%s/run_code", x->box->id);
	struct http_writer *w = httpc_begin(
	    x->http, &cbs, x, STRV("POST"), M_POST, strv_of(target),
	    BODY_LENGTH, x->ask.len, 512 + strlen(token) + strlen(target));

	http1_put(w, STRV("Host"), STRV("agent"));
	http1_put(w, STRV("X-Sandbox-Token"), strv_of(token));
	http1_put(w, STRV("Content-Type"), STRV("application/json"));
	free(target);
	if (httpc_end_head(x->http, STRV_NULL) != 0) {
		end(x, E_INVALID);
		return;
	}
	httpc_write(x->http, x->ask.s, x->ask.len);
	strbuf_clear(&x->ask);
	httpc_end(x->http);
}

static void
dialed_cb(int err, int fd, const struct addr *used, void *arg)
{
	struct podexec *x = arg;
	struct podflare_agent a;

	(void)used;
	x->dial = NULL;
	if (err != 0) {
		end(x, err);
		return;
	}
	x->http = httpc_take_stream(
	    podflare_loop(x->pa->p), NULL, STRV_NULL,
	    stream_take_fd(podflare_loop(x->pa->p), fd, NULL, NULL));
	if (podflare_agent(x->pa->p, &a) && a.epoch == x->box->epoch)
		send_ask(x, a.token);
	else
		end(x, E_PEER);
}

/* --- the request ------------------------------------------------------- */

/* The text of a member, NULL when it is missing; *ok false: it is no text. */
static const char *
text_of(const struct json *root, const char *key, bool *ok)
{
	const struct json *v = json_get(root, key);

	if (v == NULL || json_type(v) == JSON_NULL)
		return NULL;
	if (json_type(v) != JSON_STRING)
		*ok = false;
	return json_string(v);
}

/* What the agent is asked; false: answered. */
static bool
make_ask(struct api_req *r, const struct json *root, const char *context,
	 struct strbuf *b)
{
	const struct json *timeout = json_get(root, "timeout");
	bool ok = true;
	const char *code = text_of(root, "code", &ok);
	const char *lang = text_of(root, "language", &ok);

	if (lang == NULL)
		lang = text_of(root, "lang", &ok);
	if (code == NULL || !ok) {
		api_error(r, 400, "bad_request",
			  "code, language: strings are wanted");
		return false;
	}
	if (timeout != NULL && json_type(timeout) != JSON_NUMBER &&
	    json_type(timeout) != JSON_NULL) {
		api_error(r, 400, "bad_request",
			  "timeout: a number of seconds is wanted");
		return false;
	}
	strbuf_adds(b, "{\"encoding\":\"base64\",\"code\":");
	strbuf_add_json(b, strv_of(code));
	strbuf_adds(b, ",\"language\":");
	strbuf_add_json(b, strv_of(lang != NULL ? lang : "python"));
	strbuf_adds(b, ",\"context\":");
	strbuf_add_json(b, strv_of(context));
	if (timeout != NULL && json_type(timeout) == JSON_NUMBER) {
		char *text = json_scalar_text(timeout);

		strbuf_addf(b, ",\"timeout\":%s", text);
		free(text);
	}
	strbuf_addc(b, '}');
	return true;
}

static void
exec_body(struct api_req *r, const struct json *root)
{
	static const struct httpd_req_cbs cbs = {
	    .drained = drained_cb, .peer_eof = gone_cb, .closed = closed_cb};
	struct podapi *pa = r->arg;
	struct pod *pod = podapi_find(r, 0);
	struct dial_options o = {
	    .naddrs = 1, .timeout_ms = DIAL_MS, .done = dialed_cb};
	struct strbuf ask = {0};
	struct podflare_agent a;
	struct podexec *x;

	if (pod == NULL || !make_ask(r, root, pod->context, &ask))
		return;
	if (pa->calls >= CALLS_MAX || !podflare_agent(pa->p, &a) ||
	    addr_parse(strv_of(a.http), &o.addrs[0]) != 0) {
		strbuf_clear(&ask);
		api_error(r, 503, "limit", "too many calls at once");
		return;
	}
	if (pod->box->calls >= CALLS_ONE) {
		strbuf_clear(&ask);
		api_error(r, 429, "limit", "too many calls at once");
		return;
	}
	x = xcalloc(1, sizeof(*x));
	x->r = r;
	x->pa = pa;
	x->box = podbox_hold(pod->box);
	x->ask = ask;
	pa->calls++;
	podlines_init(&x->lines, podflare_conf(pa->p)->values, &pa->held);
	task_init(&x->end, end_cb, x);
	httpd_set_cbs(r->rq, &cbs, x);
	o.arg = x;
	x->dial = dial_start(podflare_loop(pa->p), &o);
}

void
podexec_post(struct api_req *r)
{
	if (podapi_find(r, 0) != NULL)
		api_body_json(r, CODE_MAX, exec_body);
}
