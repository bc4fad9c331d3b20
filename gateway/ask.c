/* SPDX-License-Identifier: Apache-2.0 */
/* A question to an agent; see the header. */
#include "config.h"

#include "gateway/ask.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "net/buf.h"
#include "net/dialer.h"
#include "net/httpc.h"
#include "net/loop.h"
#include "net/stream.h"

struct ask {
	struct loop *loop;
	struct dial *dial;
	struct httpc *http;
	struct timer timer;
	struct task end; /* says how it went, after the batch */
	struct strv method;
	enum http_method id;
	char *target, *token, *body;
	size_t body_len, max;
	unsigned status;
	int err;
	struct strbuf answer;
	void (*done)(int err, unsigned status, struct strv body, void *arg);
	void *arg;
};

static void
ask_free(void *p)
{
	struct ask *a = p;

	if (a->answer.s != NULL) /* secrets of sandboxes */
		mem_secure_zero(a->answer.s, a->answer.cap);
	strbuf_clear(&a->answer);
	free(a->target);
	mem_free_secret(a->token);
	free(a->body);
	free(a);
}

void
ask_cancel(struct ask *a)
{
	if (a == NULL)
		return;
	if (a->dial != NULL)
		dial_cancel(a->dial);
	if (a->http != NULL)
		httpc_close(a->http);
	a->dial = NULL;
	a->http = NULL;
	task_cancel(&a->end);
	timer_clear(&a->timer);
	loop_defer_free(a->loop, a, ask_free);
}

static void
end_cb(void *arg)
{
	struct ask *a = arg;
	struct strv body = {a->answer.s, a->answer.len};

	/* The owner has let go of it when done() is called. */
	ask_cancel(a);
	a->done(a->err, a->status, a->err == 0 ? body : STRV_NULL, a->arg);
}

static void
ask_end(struct ask *a, int err)
{
	a->err = err;
	timer_stop(&a->timer);
	task_post(a->loop, &a->end);
}

static void
timer_cb(void *arg)
{
	ask_end(arg, E_TIMEOUT);
}

/* --- the answer -------------------------------------------------------- */

static void
head_cb(struct httpc *c, const struct http_head *h, bool interim, void *arg)
{
	struct ask *a = arg;

	(void)c;
	if (!interim)
		a->status = h->status;
}

static void
body_cb(struct httpc *c, struct bufq *in, bool end, void *arg)
{
	struct ask *a = arg;

	(void)c;
	if (a->err == E_LIMIT || a->answer.len + in->len > a->max) {
		bufq_drain(in, in->len);
		ask_end(a, E_LIMIT);
		return;
	}
	while (in->len > 0) {
		struct strv v = bufq_front(in);

		strbuf_addv(&a->answer, v);
		bufq_drain(in, v.len);
	}
	if (end)
		ask_end(a, 0);
}

static void
failed_cb(struct httpc *c, int err, bool begun, const char *what, void *arg)
{
	struct ask *a = arg;

	(void)c;
	(void)begun;
	(void)what;
	a->http = NULL;
	ask_end(a, err);
}

/* --- the question ------------------------------------------------------ */

static const struct httpc_cbs ask_cbs = {
    .head = head_cb, .body = body_cb, .failed = failed_cb};

static void
dialed(int err, int fd, const struct addr *used, void *arg)
{
	struct ask *a = arg;
	struct http_writer *w;
	size_t room = strlen(a->target) + 512;

	(void)used;
	a->dial = NULL;
	if (err != 0) {
		ask_end(a, err);
		return;
	}
	a->http = httpc_take_stream(a->loop, NULL, STRV_NULL,
				    stream_take_fd(a->loop, fd, NULL, NULL));
	if (a->token != NULL)
		room += strlen(a->token);
	w = httpc_begin(
	    a->http, &ask_cbs, a, a->method, a->id, strv_of(a->target),
	    a->body_len > 0 ? BODY_LENGTH : BODY_NONE, a->body_len, room);
	http1_put(w, STRV("Host"), STRV("agent"));
	if (a->token != NULL)
		http1_put(w, STRV("X-Sandbox-Token"), strv_of(a->token));
	if (a->body_len > 0)
		http1_put(w, STRV("Content-Type"), STRV("application/json"));
	if (httpc_end_head(a->http, STRV_NULL) != 0) {
		ask_end(a, E_INVALID);
		return;
	}
	if (a->body_len > 0)
		httpc_write(a->http, a->body, a->body_len);
	httpc_end(a->http);
}

struct ask *
ask_start(struct loop *l, const struct ask_spec *s)
{
	struct dial_options o = {.addrs = {*s->to},
				 .naddrs = 1,
				 .timeout_ms = s->timeout_ms,
				 .done = dialed};
	struct ask *a = xcalloc(1, sizeof(*a));

	a->loop = l;
	a->method = s->method;
	a->id = s->id;
	a->target = xstrdup(s->target);
	if (s->token != NULL)
		a->token = xstrdup(s->token);
	if (s->body.len > 0)
		a->body = xmemdup(s->body.p, s->body.len);
	a->body_len = s->body.len;
	a->max = s->max;
	a->done = s->done;
	a->arg = s->arg;
	task_init(&a->end, end_cb, a);
	timer_init(&a->timer, l, timer_cb, a);
	timer_set(&a->timer, s->timeout_ms);
	o.arg = a;
	a->dial = dial_start(l, &o);
	return a;
}
