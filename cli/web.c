/* SPDX-License-Identifier: Apache-2.0 */
/* One request at a time; see the header. */
#include "config.h"

#include "cli/web.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "net/addr.h"
#include "net/buf.h"
#include "net/dialer.h"
#include "net/httpc.h"
#include "net/loop.h"
#include "net/origin.h"
#include "net/stream.h"
#include "net/tlsctx.h"
#include "net/tlsio.h"

#define WEB_PIECE   65536
#define WEB_IDLE_MS 60000

struct web {
	struct loop *loop;
	struct origin at;
	char *origin;
	struct tlsctx *tls; /* NULL: plain */
	struct httpc_pool *pool;
	struct addr addrs[DIAL_ADDRS_MAX];
	size_t naddrs; /* 0: not looked up yet */
};

/* One request under way. */
struct talk {
	struct web *w;
	const struct web_ask *q;
	struct web_answer *a;
	struct dial *dial;
	struct httpc *http;
	uint64_t left, moved; /* of the body that is sent */
	bool again;           /* a kept connection was dead: another one */
	int err;
	bool over;
};

/* --- where ------------------------------------------------------------- */

int
web_new(struct loop *l, const char *origin, const char *ca, struct web **out,
	char **msg)
{
	const struct httpc_pool_options po = {
	    .idle_ms = WEB_IDLE_MS, .max_idle = 1, .max_per_key = 1};
	struct web *w = xcalloc(1, sizeof(*w));
	int r;

	w->loop = l;
	w->origin = xstrdup(origin);
	w->pool = httpc_pool_new(l, &po);
	if ((r = origin_parse(&w->at, origin)) != 0) {
		*msg = xasprintf("%s: not an http or https URL", origin);
	} else if (w->at.tls && (r = tlsctx_client(ca, &w->tls, msg)) != 0) {
		/* *msg says it */
	} else {
		*out = w;
		return 0;
	}
	web_free(w);
	return r;
}

void
web_free(struct web *w)
{
	if (w == NULL)
		return;
	httpc_pool_free(w->pool);
	tlsctx_unref(w->tls);
	origin_clear(&w->at);
	free(w->origin);
	free(w);
}

const char *
web_origin(const struct web *w)
{
	return w->origin;
}

const char *
web_authority(const struct web *w)
{
	return w->at.authority;
}

/* --- connecting -------------------------------------------------------- */

static int
web_resolve(struct web *w)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *res = NULL;
	char port[8];

	if (w->naddrs > 0)
		return 0;
	(void)snprintf(port, sizeof(port), "%u", (unsigned)w->at.port);
	if (getaddrinfo(w->at.host, port, &hints, &res) != 0)
		return E_UNREACHABLE;
	for (const struct addrinfo *ai = res;
	     ai != NULL && w->naddrs < DIAL_ADDRS_MAX; ai = ai->ai_next) {
		struct addr *a = &w->addrs[w->naddrs];

		if (ai->ai_addrlen > sizeof(a->u))
			continue;
		memcpy(&a->u, ai->ai_addr, ai->ai_addrlen);
		a->len = ai->ai_addrlen;
		w->naddrs++;
	}
	freeaddrinfo(res);
	return w->naddrs > 0 ? 0 : E_UNREACHABLE;
}

struct dial *
web_dial(struct web *w,
	 void (*done)(int err, int fd, const struct addr *used, void *arg),
	 void *arg)
{
	struct dial_options o = {.done = done, .arg = arg};

	if (web_resolve(w) != 0)
		return NULL;
	memcpy(o.addrs, w->addrs, sizeof(o.addrs));
	o.naddrs = w->naddrs;
	return dial_start(w->loop, &o);
}

struct stream *
web_stream(struct web *w, int fd)
{
	struct stream *st = stream_take_fd(w->loop, fd, NULL, NULL);

	stream_tune_tcp(st);
	if (w->tls != NULL)
		tlsio_connect(st, w->tls, w->at.host);
	return st;
}

/* --- a request --------------------------------------------------------- */

static void
talk_end(struct talk *t, int err, const char *why)
{
	t->over = true;
	t->err = err;
	if (err != 0)
		(void)snprintf(t->a->why, sizeof(t->a->why), "%s", why);
}

static void
talk_head_cb(struct httpc *c, const struct http_head *h, bool interim,
	     void *arg)
{
	struct talk *t = arg;
	struct strv link = http1_find(h, STRV("Link"));

	if (interim)
		return;
	t->a->status = h->status;
	if (h->status == 101 && t->q->stream != NULL) {
		t->http = NULL;
		*t->q->stream = httpc_upgrade(c);
		talk_end(t, 0, NULL);
		return;
	}
	t->a->length = h->content_length;
	t->a->has_length = h->body == BODY_LENGTH;
	(void)snprintf(t->a->link, sizeof(t->a->link), "%.*s", STRV_ARG(link));
}

static void
talk_body_cb(struct httpc *c, struct bufq *in, bool end, void *arg)
{
	struct talk *t = arg;
	bool stream = t->q->data != NULL && t->a->status < 300;
	struct strv v;

	while ((v = bufq_front(in)).len > 0) {
		if (stream)
			t->q->data(v, t->q->arg);
		else if (t->a->body.len + v.len <= WEB_ANSWER_MAX)
			strbuf_addv(&t->a->body, v);
		if (stream && t->q->moved != NULL)
			t->q->moved(v.len, t->q->arg);
		bufq_drain(in, v.len);
	}
	if (!end || t->over)
		return;
	t->http = NULL;
	httpc_release(c);
	talk_end(t, 0, NULL);
}

static void talk_start(struct talk *t);

static void
talk_failed_cb(struct httpc *c, int err, bool begun, const char *what,
	       void *arg)
{
	struct talk *t = arg;

	t->http = NULL;
	if (!begun && !t->again && httpc_reused(c) && t->moved == 0) {
		t->again = true;
		talk_start(t);
		return;
	}
	talk_end(t, err, what != NULL ? what : err_text(err));
}

/* Sends what the connection takes of the file. */
static void
talk_push(struct talk *t)
{
	char buf[WEB_PIECE];
	ssize_t n;

	while (t->left > 0 && !httpc_over_high(t->http)) {
		size_t want =
		    t->left < sizeof(buf) ? (size_t)t->left : sizeof(buf);

		do
			n = read(t->q->fd, buf, want);
		while (n < 0 && errno == EINTR);
		if (n <= 0) {
			httpc_close(t->http);
			t->http = NULL;
			talk_end(t, E_SYS,
				 n < 0 ? strerror(errno)
				       : "the file became shorter");
			return;
		}
		httpc_write(t->http, buf, (size_t)n);
		httpc_flush(t->http);
		t->left -= (uint64_t)n;
		t->moved += (uint64_t)n;
		if (t->q->moved != NULL)
			t->q->moved((uint64_t)n, t->q->arg);
	}
	if (t->left == 0)
		httpc_end(t->http);
}

static void
talk_drained_cb(struct httpc *c, void *arg)
{
	struct talk *t = arg;

	(void)c;
	if (t->left > 0)
		talk_push(t);
}

static const struct httpc_cbs talk_cbs = {
    .head = talk_head_cb,
    .body = talk_body_cb,
    .drained = talk_drained_cb,
    .failed = talk_failed_cb,
};

static enum http_method
talk_method(const char *name)
{
	static const struct {
		const char *name;
		enum http_method id;
	} all[] = {{"GET", M_GET},
		   {"POST", M_POST},
		   {"PUT", M_PUT},
		   {"DELETE", M_DELETE}};

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		if (strcmp(all[i].name, name) == 0)
			return all[i].id;
	}
	return M_OTHER;
}

static void
talk_send(struct talk *t)
{
	const struct web_ask *q = t->q;
	bool file = q->fd != 0, body = file || q->json.p != NULL;
	uint64_t length = file ? q->length : q->json.len;
	struct http_writer *w;

	t->left = file ? length : 0;
	w = httpc_begin(t->http, &talk_cbs, t, strv_of(q->method),
			talk_method(q->method), strv_of(q->target),
			body ? BODY_LENGTH : BODY_NONE, length, 4096);
	http1_put(w, STRV("Host"), strv_of(t->w->at.authority));
	http1_put(w, STRV("User-Agent"), STRV("sbx/" PACKAGE_VERSION));
	if (q->bearer != NULL)
		http1_put_f(w, STRV("Authorization"), "Bearer %s", q->bearer);
	if (q->token != NULL)
		http1_put(w, STRV("X-Sandbox-Token"), strv_of(q->token));
	if (q->json.p != NULL)
		http1_put(w, STRV("Content-Type"), STRV("application/json"));
	if (httpc_end_head(t->http, strv_of(q->upgrade)) != 0) {
		httpc_close(t->http);
		t->http = NULL;
		talk_end(t, E_INVALID, "a token or path cannot be sent");
		return;
	}
	if (file && length > 0) {
		httpc_flush(t->http);
		talk_push(t);
		return;
	}
	if (q->json.p != NULL)
		httpc_write(t->http, q->json.p, q->json.len);
	httpc_end(t->http);
}

static void
talk_dialed(int err, int fd, const struct addr *used, void *arg)
{
	struct talk *t = arg;

	(void)used;
	t->dial = NULL;
	if (err != 0) {
		talk_end(t, err, err_text(err));
		return;
	}
	t->http = httpc_take_stream(t->w->loop, t->w->pool, STRV("it"),
				    web_stream(t->w, fd));
	talk_send(t);
}

static void
talk_start(struct talk *t)
{
	t->http = t->again ? NULL : httpc_pool_get(t->w->pool, STRV("it"));
	if (t->http != NULL) {
		talk_send(t);
		return;
	}
	t->dial = web_dial(t->w, talk_dialed, t);
	if (t->dial == NULL)
		talk_end(t, E_UNREACHABLE, "its name does not resolve");
}

int
web_ask(struct web *w, const struct web_ask *q, struct web_answer *a)
{
	struct talk t = {.w = w, .q = q, .a = a};

	memset(a, 0, sizeof(*a));
	talk_start(&t);
	while (!t.over && (q->stop == NULL || *q->stop == 0))
		loop_once(w->loop, true);
	if (t.over)
		return t.err;
	if (t.dial != NULL)
		dial_cancel(t.dial);
	if (t.http != NULL)
		httpc_close(t.http);
	return E_CANCELLED;
}

void
web_answer_clear(struct web_answer *a)
{
	strbuf_clear(&a->body);
}
