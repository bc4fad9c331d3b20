/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ANY proxy/<port>[/path]: a server inside the sandbox. One request at a time
 * goes there, its head written anew; after it the connection is ours again,
 * and what comes next is parsed and authorised like the first. Our token and
 * bearer tokens stay here.
 */
#include "config.h"

#include "agent/api_int.h"

#include <stdlib.h>
#include <string.h>

#include "agent/reach.h"
#include "base/err.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "net/buf.h"
#include "net/dialer.h"
#include "net/httpc.h"
#include "net/loop.h"
#include "net/relay.h"
#include "net/stream.h"

/* A server that was only just started is waited for. */
#define APIPROXY_WAIT_MS   2000
#define APIPROXY_PAUSE_MS  25
#define APIPROXY_PAUSE_MAX 250
/* Nobody misses a WebSocket that was silent so long. */
#define APIPROXY_IDLE_MS (3600 * 1000)

struct apiproxy {
	struct call *c;
	uint16_t port;
	struct strv target;
	struct strv upgrade; /* asked for; empty: none */
	struct dial *dial;
	struct reach *reach;
	struct timer again;
	uint64_t pause_ms, give_up_ms;
	struct httpc *up; /* NULL: not connected, or over */
	bool request_ended;
	struct task flush;
};

struct apitunnel {
	struct apitunnel *next, **prevp;
	struct api *api;
	struct sandbox *sb;
	struct relay *relay;
};

static void apiproxy_connect(void *arg);

static void
apiproxy_fail(struct apiproxy *x, unsigned status, const char *code,
	      const char *what)
{
	if (x->up != NULL) {
		httpc_close(x->up);
		x->up = NULL;
	}
	task_cancel(&x->flush);
	if (httpd_begun(x->c->rq)) /* it must not look whole */
		httpd_abort(x->c->rq);
	else
		api_error(x->c->rq, status, code, "port %u: %s", x->port, what);
}

/* --- tunnels ----------------------------------------------------------- */

static void
apitunnel_done(const struct relay_result *res, void *arg)
{
	struct apitunnel *t = arg;

	(void)res;
	*t->prevp = t->next;
	if (t->next != NULL)
		t->next->prevp = t->prevp;
	t->api->busy--;
	t->api->active_ms = loop_now_ms(t->api->o.loop);
	sandbox_leave(t->sb);
	loop_defer_free(t->api->o.loop, t, NULL);
}

void
api_tunnels_close(struct api *a)
{
	while (a->tunnels != NULL)
		relay_abort(a->tunnels->relay);
	api_attached_close(a);
}

static void
apitunnel_start(struct apitunnel *t, struct stream *client,
		struct stream *inner)
{
	const struct relay_options o = {
	    .idle_ms = APIPROXY_IDLE_MS,
	    .done = apitunnel_done,
	    .arg = t,
	};

	t->prevp = &t->api->tunnels;
	if ((t->next = t->api->tunnels) != NULL)
		t->next->prevp = &t->next;
	t->api->tunnels = t;
	t->relay = relay_start(t->api->o.loop, client, inner, &o);
}

/* --- the response ------------------------------------------------------ */

static void
apiproxy_put_response(const struct http_head *h, struct http_writer *w)
{
	for (size_t i = 0; i < h->nfields; i++) {
		enum http_hdr id = (enum http_hdr)h->fields[i].id;

		if (id == H_CONTENT_LENGTH || http1_is_hop(id) ||
		    (h->connection_other &&
		     http1_connection_names(h, http1_name(h, i))))
			continue;
		http1_put_field(w, h, i);
	}
}

static void
apiproxy_inform(struct apiproxy *x, const struct http_head *h)
{
	struct strbuf b = {0};

	if (h->status == 100)
		return; /* the server side sends its own */
	for (size_t i = 0; i < h->nfields; i++) {
		enum http_hdr id = (enum http_hdr)h->fields[i].id;
		struct strv name = http1_name(h, i), v = http1_value(h, i);

		if (id != H_CONTENT_LENGTH && !http1_is_hop(id))
			strbuf_addf(&b, "%.*s: %.*s\r\n", STRV_ARG(name),
				    STRV_ARG(v));
	}
	httpd_inform(x->c->rq, h->status, (struct strv){b.s, b.len});
	strbuf_clear(&b);
}

/* The call, and x with it, is gone when the stream has been given away. */
static void
apiproxy_upgraded(struct apiproxy *x, const struct http_head *h)
{
	struct httpd_req *rq = x->c->rq;
	struct strv protocol = x->upgrade;
	struct stream *client, *inner;
	struct apitunnel *t;

	if (protocol.len == 0 ||
	    !strv_eq_nocase(http1_get(h, H_UPGRADE), protocol)) {
		apiproxy_fail(x, 502, "bad_gateway",
			      "an upgrade that nobody asked for");
		return;
	}
	t = xcalloc(1, sizeof(*t));
	t->api = x->c->api;
	t->sb = x->c->sb;
	t->api->busy++;
	sandbox_enter(t->sb);
	apiproxy_put_response(h, httpd_begin(rq, 101, http1_reason(h),
					     BODY_NONE, 0, h->len + 256));
	inner = httpc_upgrade(x->up);
	x->up = NULL;
	client = httpd_upgrade(rq, protocol);
	if (client == NULL) {
		stream_close(inner);
		t->api->busy--;
		sandbox_leave(t->sb);
		free(t);
		return;
	}
	apitunnel_start(t, client, inner);
}

static enum http_body
apiproxy_body_kind(const struct http_head *h)
{
	enum http_body kind = http1_onward_body(h);

	return kind == BODY_CHUNKED ? BODY_UNTIL_CLOSE : kind;
}

static void
apiproxy_head_cb(struct httpc *up, const struct http_head *h, bool interim,
		 void *arg)
{
	struct apiproxy *x = arg;
	struct httpd_req *rq = x->c->rq;

	(void)up;
	if (interim) {
		apiproxy_inform(x, h);
		return;
	}
	if (h->status == 101) {
		apiproxy_upgraded(x, h);
		return;
	}
	apiproxy_put_response(h, httpd_begin(rq, h->status, http1_reason(h),
					     apiproxy_body_kind(h),
					     h->content_length, h->len + 256));
	if (httpd_end_head(rq) != 0)
		apiproxy_fail(x, 502, "bad_gateway",
			      "its head is too large to send on");
	else /* leaves with the body if that is here already */
		task_post(x->c->api->o.loop, &x->flush);
}

static void
apiproxy_body_cb(struct httpc *up, struct bufq *in, bool end, void *arg)
{
	struct apiproxy *x = arg;
	struct httpd_req *rq = x->c->rq;

	if (!end && httpd_over_high(rq))
		return; /* it waits there, and reading stops */
	if (in->len > 0)
		httpd_move(rq, in, in->len);
	if (!end) {
		httpd_flush(rq);
		return;
	}
	x->up = NULL;
	task_cancel(&x->flush);
	httpc_release(up);
	httpd_end(rq);
}

static void
apiproxy_up_drained_cb(struct httpc *up, void *arg)
{
	struct apiproxy *x = arg;

	(void)up;
	if (!x->request_ended)
		httpd_body_resume(x->c->rq);
}

static void
apiproxy_failed_cb(struct httpc *up, int err, bool begun, const char *what,
		   void *arg)
{
	struct apiproxy *x = arg;

	(void)up;
	(void)begun;
	x->up = NULL;
	if (err == E_PROTO || err == E_LIMIT)
		apiproxy_fail(x, 502, "bad_gateway",
			      what != NULL ? what : err_text(err));
	else
		apiproxy_fail(x, 502, "app_closed_early",
			      "the server closed without an answer");
}

static const struct httpc_cbs apiproxy_up_cbs = {
    .head = apiproxy_head_cb,
    .body = apiproxy_body_cb,
    .drained = apiproxy_up_drained_cb,
    .failed = apiproxy_failed_cb,
};

/* --- the request ------------------------------------------------------- */

static bool
apiproxy_is_bearer(struct strv v)
{
	return v.len >= 6 &&
	       strv_eq_nocase((struct strv){v.p, 6}, STRV("Bearer"));
}

/* A name that CGI-like servers cannot tell from our token's. */
static bool
apiproxy_is_disguised(struct strv name)
{
	char plain[16];

	if (name.len != 15)
		return false;
	for (size_t i = 0; i < name.len; i++)
		plain[i] = (char)(name.p[i] == '_' ? '-' : name.p[i]);
	return strv_eq_nocase((struct strv){plain, name.len},
			      STRV("X-Sandbox-Token"));
}

static bool
apiproxy_passes(const struct http_head *h, size_t i)
{
	enum http_hdr id = (enum http_hdr)h->fields[i].id;
	struct strv name = http1_name(h, i);

	if (id == H_CONTENT_LENGTH || id == H_EXPECT ||
	    id == H_X_SANDBOX_TOKEN || http1_is_hop(id))
		return false;
	if (id == H_AUTHORIZATION)
		return !apiproxy_is_bearer(http1_value(h, i));
	if (id == H_OTHER && apiproxy_is_disguised(name))
		return false;
	return !h->connection_other || !http1_connection_names(h, name);
}

static void
apiproxy_request_body(struct call *c, struct bufq *in, bool end)
{
	struct apiproxy *x = c->state;

	if (x->up == NULL) {
		bufq_drain(in, in->len); /* nobody wants it any more */
		return;
	}
	if (in->len > 0)
		httpc_move(x->up, in, in->len);
	if (end) {
		x->request_ended = true;
		httpc_end(x->up);
		return;
	}
	httpc_flush(x->up);
	if (httpc_over_high(x->up))
		httpd_body_pause(c->rq);
}

static void
apiproxy_flush_cb(void *arg)
{
	struct apiproxy *x = arg;

	if (x->up != NULL && !x->request_ended)
		httpc_flush(x->up);
	if (httpd_begun(x->c->rq))
		httpd_flush(x->c->rq);
}

static void
apiproxy_send(struct apiproxy *x)
{
	const struct http_head *h = httpd_head(x->c->rq);
	struct http_writer *w;

	if (h->wants_upgrade && h->method == M_GET && h->body == BODY_NONE &&
	    http1_list_has(http1_get(h, H_UPGRADE), STRV("websocket")))
		x->upgrade = STRV("websocket");
	w = httpc_begin(x->up, &apiproxy_up_cbs, x, http1_method(h), h->method,
			x->target, h->body, h->content_length,
			h->len + x->target.len + 256);
	for (size_t i = 0; i < h->nfields; i++) {
		if (apiproxy_passes(h, i))
			http1_put_field(w, h, i);
	}
	if (httpc_end_head(x->up, x->upgrade) != 0) {
		apiproxy_fail(x, 431, "too_large", "the head is too large");
		return;
	}
	if (!httpd_has_body(x->c->rq)) {
		x->request_ended = true;
		httpc_end(x->up);
		return;
	}
	x->c->on_body = apiproxy_request_body;
	httpd_body_resume(x->c->rq);
	task_post(x->c->api->o.loop, &x->flush);
}

/* --- connecting -------------------------------------------------------- */

static void
apiproxy_connect_failed(struct apiproxy *x, int err)
{
	switch (err) {
	case E_NOTFOUND:
	case E_REFUSED:
		apiproxy_fail(x, 502, "port_not_listening",
			      "nothing listens there");
		break;
	case E_AGAIN:
	case E_FULL:
		apiproxy_fail(x, 503, "limit",
			      "the server takes no more connections");
		break;
	case E_DENIED:
		apiproxy_fail(x, 502, "denied",
			      "its socket file is not a socket of the "
			      "sandbox's own");
		break;
	default:
		apiproxy_fail(x, 502, "connect", err_text(err));
	}
}

static void
apiproxy_connected(struct apiproxy *x, int fd)
{
	struct loop *l = x->c->api->o.loop;
	struct stream *st = stream_take_fd(l, fd, NULL, NULL);

	stream_tune_tcp(st);
	x->up = httpc_take_stream(l, NULL, STRV_NULL, st);
	apiproxy_send(x);
}

static void
apiproxy_dialed(int err, int fd, const struct addr *used, void *arg)
{
	struct apiproxy *x = arg;

	(void)used;
	x->dial = NULL;
	if (err != 0)
		apiproxy_connect_failed(x, err);
	else
		apiproxy_connected(x, fd);
}

/* Dedicated mode: servers listen on TCP, many on one family only. */
static void
apiproxy_dial(struct apiproxy *x)
{
	struct dial_options o = {
	    .naddrs = 2,
	    .wait_ms = APIPROXY_WAIT_MS,
	    .done = apiproxy_dialed,
	    .arg = x,
	};

	addr_loopback(&o.addrs[0], false, x->port);
	addr_loopback(&o.addrs[1], true, x->port);
	x->dial = dial_start(x->c->api->o.loop, &o);
}

static void apiproxy_reached(int err, int fd, void *arg);

static void
apiproxy_connect(void *arg)
{
	struct apiproxy *x = arg;
	int fd = -1, r = E_NOTFOUND;

	if (x->c->sb->state == SANDBOX_LIVE)
		r = sandbox_connect(x->c->sb, x->port, &fd);
	if (r == E_BUSY)
		x->reach = reach_start(x->c->sb, x->port, apiproxy_reached, x);
	else
		apiproxy_reached(r, fd, x);
}

static void
apiproxy_reached(int r, int fd, void *arg)
{
	struct apiproxy *x = arg;

	x->reach = NULL;
	if (r == 0) {
		apiproxy_connected(x, fd);
	} else if (r == E_UNSUPPORTED) {
		apiproxy_dial(x);
	} else if ((r == E_NOTFOUND || r == E_REFUSED || r == E_AGAIN) &&
		   x->c->sb->state == SANDBOX_LIVE &&
		   loop_now_ms(x->c->api->o.loop) < x->give_up_ms) {
		timer_set(&x->again, x->pause_ms);
		x->pause_ms *= 2;
		if (x->pause_ms > APIPROXY_PAUSE_MAX)
			x->pause_ms = APIPROXY_PAUSE_MAX;
	} else {
		apiproxy_connect_failed(x, r);
	}
}

/* --- start and end ----------------------------------------------------- */

static void
apiproxy_drained(struct call *c)
{
	struct apiproxy *x = c->state;

	if (x->up != NULL)
		httpc_body_resume(x->up);
}

static void
apiproxy_closed(struct call *c, int err)
{
	struct apiproxy *x = c->state;

	(void)err;
	if (x->up != NULL)
		httpc_close(x->up);
	if (x->dial != NULL)
		dial_cancel(x->dial);
	reach_cancel(x->reach);
	timer_clear(&x->again);
	task_cancel(&x->flush);
}

/* The path behind the port with the query, as they came. */
static struct strv
apiproxy_target(const struct call *c, struct strv tail)
{
	size_t n = c->query.p != NULL ? c->query.len + 1 : 0;
	char *p;

	if (tail.p != NULL) /* with the slash before it */
		return (struct strv){tail.p - 1, tail.len + 1 + n};
	p = httpd_alloc(c->rq, n + 1);
	*p = '/';
	if (n > 0) {
		p[1] = '?';
		memcpy(p + 2, c->query.p, c->query.len);
	}
	return (struct strv){p, n + 1};
}

void
api_proxy(struct call *c)
{
	struct strv tail = c->rest, text;
	struct apiproxy *x;
	uint64_t port = 0;

	(void)strv_cut(&tail, '/', &text);
	if (strv_parse_u64(text, 65535, true, &port) != 0 || port == 0) {
		api_error(c->rq, 400, "bad_port",
			  "a port from 1 to 65535 is wanted");
		return;
	}
	x = httpd_alloc(c->rq, sizeof(*x));
	memset(x, 0, sizeof(*x));
	x->c = c;
	x->port = (uint16_t)port;
	x->target = apiproxy_target(c, tail);
	x->pause_ms = APIPROXY_PAUSE_MS;
	x->give_up_ms = loop_now_ms(c->api->o.loop) + APIPROXY_WAIT_MS;
	timer_init(&x->again, c->api->o.loop, apiproxy_connect, x);
	task_init(&x->flush, apiproxy_flush_cb, x);
	c->state = x;
	c->on_drained = apiproxy_drained;
	c->on_closed = apiproxy_closed;
	httpd_set_max_body(c->rq, 0);
	httpd_body_pause(c->rq);
	apiproxy_connect(x);
}
