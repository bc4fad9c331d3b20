/* SPDX-License-Identifier: Apache-2.0 */
/* A request to a job's agent; see the header. */
#include "config.h"

#include "gateway/agentcall.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "net/addr.h"
#include "net/buf.h"
#include "net/dialer.h"
#include "net/httpc.h"
#include "net/loop.h"
#include "net/stream.h"

#define MAGIC    0x41434131U
#define DIAL_MS  10000
#define REFUSAL  16384 /* bytes of it that are kept */
#define HELD_MAX 65536 /* of a body, while there is no connection yet */

enum state { DIALING, SENT, REFUSED, OVER };

struct agentcall {
	uint32_t magic;
	enum state state;
	bool freed;
	bool ended; /* all of the request's body was given */
	struct loop *loop;
	const struct agentcall_cbs *cbs;
	void *arg;
	struct dial *dial;
	struct httpc *http;
	struct bufq held;
	struct strbuf refusal;
	unsigned status;
	struct timer deadline;
	struct task bad; /* an address that is none */

	/* what is asked */
	struct agentcall_ask ask;
	char *target, *token;
};

static struct agentcall *
call_of(void *arg)
{
	struct agentcall *a = arg;

	assert(a->magic == MAGIC);
	return a;
}

/* --- the end ----------------------------------------------------------- */

static void
disconnect(struct agentcall *a)
{
	if (a->dial != NULL)
		dial_cancel(a->dial);
	a->dial = NULL;
	if (a->http != NULL)
		httpc_close(a->http);
	a->http = NULL;
	timer_stop(&a->deadline);
	bufq_clear(&a->held);
	a->state = OVER;
}

static void
destroy(void *p)
{
	struct agentcall *a = p;

	a->magic = 0;
	bufq_clear(&a->held);
	strbuf_clear(&a->refusal);
	mem_free_secret(a->token);
	free(a->target);
	free(a);
}

void
agentcall_free(struct agentcall *a)
{
	if (a == NULL || a->freed)
		return;
	a->freed = true;
	disconnect(a);
	timer_clear(&a->deadline);
	task_cancel(&a->bad);
	loop_defer_free(a->loop, a, destroy);
}

static void
fail(struct agentcall *a, int err, const char *what)
{
	if (a->state == OVER)
		return;
	disconnect(a);
	a->cbs->failed(a, err, what != NULL ? what : err_text(err), a->arg);
}

static void
deadline_cb(void *arg)
{
	fail(call_of(arg), E_TIMEOUT, "its time was up");
}

static void
bad_cb(void *arg)
{
	fail(call_of(arg), E_INVALID, "its address is none");
}

/* --- the answer -------------------------------------------------------- */

static void
refuse(struct agentcall *a)
{
	struct strv text = {a->refusal.s, a->refusal.len};
	const struct json *root = NULL;
	struct json_doc *doc = NULL;
	struct agentcall_no no = {.status = a->status};

	if (json_parse(text, &doc, NULL) == 0)
		root = json_root(doc);
	no.code = json_string(json_get(root, "code"));
	no.text = json_string(json_get(root, "error"));
	if (no.code == NULL)
		no.code = "";
	if (no.text == NULL)
		no.text = "the agent refused it";
	disconnect(a);
	a->cbs->refused(a, &no, a->arg);
	json_doc_free(doc);
}

static void
head_cb(struct httpc *c, const struct http_head *h, bool interim, void *arg)
{
	struct agentcall *a = call_of(arg);
	struct stream *st;

	if (interim)
		return;
	a->status = h->status;
	if (h->status == 101) {
		st = httpc_upgrade(c);
		a->http = NULL;
		disconnect(a);
		a->cbs->upgraded(a, st, a->arg);
	} else if (h->status / 100 == 2 && a->ask.upgrade == NULL) {
		a->cbs->head(a, h, a->arg);
	} else {
		a->state = REFUSED;
	}
}

static void
take_refusal(struct agentcall *a, struct bufq *in, bool end)
{
	struct strv v;

	while ((v = bufq_front(in)).len > 0) {
		if (a->refusal.len + v.len <= REFUSAL)
			strbuf_addv(&a->refusal, v);
		bufq_drain(in, v.len);
	}
	if (end)
		refuse(a);
}

static void
body_cb(struct httpc *c, struct bufq *in, bool end, void *arg)
{
	struct agentcall *a = call_of(arg);

	if (a->state == REFUSED) {
		take_refusal(a, in, end);
		return;
	}
	if (end)
		timer_stop(&a->deadline);
	a->cbs->body(a, in, end, a->arg);
	/* What was left comes again when it is asked for. */
	if (!a->freed && end && in->len == 0) {
		a->http = NULL;
		a->state = OVER;
		httpc_release(c);
	}
}

static void
drained_cb(struct httpc *c, void *arg)
{
	struct agentcall *a = call_of(arg);

	(void)c;
	if (a->cbs->drained != NULL && !a->ended)
		a->cbs->drained(a, a->arg);
}

static void
failed_cb(struct httpc *c, int err, bool begun, const char *what, void *arg)
{
	struct agentcall *a = call_of(arg);

	(void)c;
	(void)begun;
	a->http = NULL;
	/* The refusal is known, if not all of its words. */
	if (a->state == REFUSED)
		refuse(a);
	else
		fail(a, err, what);
}

/* --- the request ------------------------------------------------------- */

static struct strv
method_name(enum http_method m)
{
	switch (m) {
	case M_POST:
		return STRV("POST");
	case M_PUT:
		return STRV("PUT");
	case M_DELETE:
		return STRV("DELETE");
	default:
		return STRV("GET");
	}
}

static void
send_it(struct agentcall *a)
{
	static const struct httpc_cbs cbs = {.head = head_cb,
					     .body = body_cb,
					     .drained = drained_cb,
					     .failed = failed_cb};
	size_t n = a->token != NULL ? strlen(a->token) : 0;
	struct http_writer *w =
	    httpc_begin(a->http, &cbs, a, method_name(a->ask.method),
			a->ask.method, strv_of(a->target), a->ask.body,
			a->ask.length, 512 + n + strlen(a->target));

	http1_put(w, STRV("Host"), STRV("agent"));
	if (n > 0)
		http1_put(w, STRV("X-Sandbox-Token"),
			  (struct strv){a->token, n});
	if (httpc_end_head(a->http, strv_of(a->ask.upgrade)) != 0) {
		fail(a, E_INVALID, "the request cannot be written");
		return;
	}
	a->state = SENT;
	if (a->held.len > 0)
		httpc_move(a->http, &a->held, a->held.len);
	if (a->ended || a->ask.body == BODY_NONE)
		httpc_end(a->http);
	else
		httpc_flush(a->http);
}

static void
dialed_cb(int err, int fd, const struct addr *used, void *arg)
{
	struct agentcall *a = call_of(arg);
	struct stream *st;

	(void)used;
	a->dial = NULL;
	if (err != 0) {
		fail(a, err, "it cannot be connected to");
		return;
	}
	st = stream_take_fd(a->loop, fd, NULL, NULL);
	stream_tune_tcp(st);
	a->http = httpc_take_stream(a->loop, NULL, STRV_NULL, st);
	send_it(a);
	if (a->cbs->drained != NULL && a->state == SENT && !a->ended &&
	    a->ask.body != BODY_NONE && !agentcall_over_high(a))
		a->cbs->drained(a, a->arg);
}

struct agentcall *
agentcall_start(struct loop *l, const struct agentcall_to *to,
		const struct agentcall_ask *ask,
		const struct agentcall_cbs *cbs, void *arg)
{
	struct dial_options o = {
	    .naddrs = 1, .timeout_ms = DIAL_MS, .done = dialed_cb};
	struct agentcall *a = xcalloc(1, sizeof(*a));

	a->magic = MAGIC;
	a->loop = l;
	a->cbs = cbs;
	a->arg = arg;
	a->ask = *ask;
	a->target = xstrndup(ask->target.p, ask->target.len);
	a->token = to->token != NULL ? xstrdup(to->token) : NULL;
	bufq_init(&a->held, loop_bufpool(l));
	timer_init(&a->deadline, l, deadline_cb, a);
	task_init(&a->bad, bad_cb, a);
	if (ask->ms != 0)
		timer_set(&a->deadline, ask->ms);
	o.arg = a;
	if (addr_parse(strv_of(to->address), &o.addrs[0]) != 0)
		task_post(l, &a->bad);
	else
		a->dial = dial_start(l, &o);
	return a;
}

void
agentcall_move(struct agentcall *a, struct bufq *src, size_t n)
{
	if (a->state == SENT && !a->ended) {
		httpc_move(a->http, src, n);
		httpc_flush(a->http);
	} else if (a->state == DIALING) {
		bufq_move(&a->held, src, n);
	} else {
		bufq_drain(src, n);
	}
}

void
agentcall_end(struct agentcall *a)
{
	if (a->state == SENT && !a->ended)
		httpc_end(a->http);
	a->ended = true;
}

bool
agentcall_over_high(const struct agentcall *a)
{
	if (a->state == DIALING)
		return a->held.len >= HELD_MAX;
	return a->state == SENT && httpc_over_high(a->http);
}

void
agentcall_resume(struct agentcall *a)
{
	if (a->http != NULL)
		httpc_body_resume(a->http);
}

void
agentcall_escape(struct strbuf *b, struct strv v)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "abcdefghijklmnopqrstuvwxyz0123456789-_.~/";

	for (size_t i = 0; i < v.len; i++) {
		unsigned char c = (unsigned char)v.p[i];

		if (c != '\0' && strchr(plain, c) != NULL)
			strbuf_addc(b, (char)c);
		else
			strbuf_addf(b, "%%%02X", c);
	}
}
