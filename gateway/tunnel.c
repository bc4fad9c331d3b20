/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After a 101: both streams in a relay, bytes only. No read timeout, one idle
 * timeout over both directions. Pings, pongs and compression are nobody's
 * business here; the frames from inside are only counted, so that a drain can
 * say goodbye (close 1001) between two of them.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "gateway/accesslog.h"
#include "gateway/exchange_int.h"
#include "gateway/gwconf.h"
#include "gateway/limits.h"
#include "gateway/wsframe.h"
#include "net/buf.h"
#include "net/httpc.h"
#include "net/httpd.h"
#include "net/relay.h"
#include "net/stream.h"

#define WS_GOING_AWAY 1001
#define FAREWELL_MS   400 /* to come to the end of a frame */

struct tunnel {
	struct path *path;
	struct tunnel *next, **prevp;
	struct relay *relay;
	struct route_sandbox *sb; /* held */
	uint64_t token_id;        /* auth_who's */
	struct addr peer;
	bool websocket;
	const char *reason;    /* why we end it; NULL: we do not */
	struct wsframe frames; /* from inside */
	struct task task;
	struct timer timer;
	uint64_t started_us;
	struct access_entry entry; /* its views point into text */
	char *text;
};

/* --- the line for the log ---------------------------------------------- */

/* Copies *v to *at, at most max bytes of it. */
static void
keep(struct strv *v, size_t max, char **at)
{
	if (v->len > max)
		v->len = max;
	if (v->len > 0)
		memcpy(*at, v->p, v->len);
	v->p = *at;
	*at += v->len;
}

static void
keep_entry(struct tunnel *t, struct exchange *ex)
{
	char peer[ADDR_TEXT_MAX];
	struct access_entry *e = &t->entry;
	char *at;

	exchange_entry(ex, e, peer);
	t->started_us = loop_clock_us() - e->total_us;
	e->tunnel = true;
	e->status = 101;
	/* proto is static text */
	at = t->text =
	    xmalloc(e->id.len + e->peer.len + e->user.len + e->method.len +
		    e->target.len + e->host.len + e->referer.len +
		    e->agent.len + e->sandbox.len + e->upstream.len + 1);
	keep(&e->id, 128, &at);
	keep(&e->peer, 128, &at);
	keep(&e->user, 128, &at);
	keep(&e->method, 32, &at);
	keep(&e->target, 8192, &at);
	keep(&e->host, 256, &at);
	keep(&e->referer, 2048, &at);
	keep(&e->agent, 256, &at);
	keep(&e->sandbox, SANDBOX_ID_MAX, &at);
	keep(&e->upstream, 256, &at);
}

static void
write_line(struct tunnel *t, const char *close, uint64_t in, uint64_t out)
{
	struct access_entry *e = &t->entry;

	if (t->text == NULL)
		return;
	e->close = close;
	e->bytes_in = in;
	e->bytes_out = out;
	e->total_us = loop_clock_us() - t->started_us;
	accesslog_write(worker_access_log(t->path->w), e);
}

/* --- the end ----------------------------------------------------------- */

static void
tunnel_free(struct tunnel *t)
{
	struct worker *w = t->path->w;

	*t->prevp = t->next;
	if (t->next != NULL)
		t->next->prevp = t->prevp;
	task_cancel(&t->task);
	timer_clear(&t->timer);
	route_release(t->sb);
	free(t->text);
	loop_defer_free(worker_loop(w), t, NULL);
}

static const char *
close_text(const struct tunnel *t, const struct relay_result *r)
{
	bool client = r->side == RELAY_A;

	switch (r->end) {
	case RELAY_END_FIN:
		return client ? "client_fin" : "backend_fin";
	case RELAY_END_RESET:
		return client ? "client_rst" : "backend_rst";
	case RELAY_END_IDLE:
		return "idle";
	case RELAY_END_ABORT:
		break;
	}
	return t->reason != NULL ? t->reason : "gateway";
}

static void
done_cb(const struct relay_result *r, void *arg)
{
	struct tunnel *t = arg;
	struct worker *w = t->path->w;
	struct stats *st = worker_stats(w);

	st->bytes_in += r->a_to_b;
	st->bytes_out += r->b_to_a;
	st->tunnels_open--;
	st->conns_open--;
	limits_close(worker_limits(w), &t->peer);
	write_line(t, close_text(t, r), r->a_to_b, r->b_to_a);
	tunnel_free(t);
}

/* Ends it now; in a WebSocket between two frames with a close. */
static void
farewell(struct tunnel *t)
{
	struct stream *client = relay_stream(t->relay, RELAY_A);
	uint8_t frame[4];

	if (t->websocket && wsframe_at_end(&t->frames) &&
	    !stream_shut(client)) {
		wsframe_close(frame, WS_GOING_AWAY);
		bufq_add(stream_output(client), frame, sizeof(frame));
		stream_flush(client);
	}
	relay_abort(t->relay);
}

static void
farewell_cb(void *arg)
{
	farewell(arg);
}

/* Soon: at the end of the frame that is on its way. */
static void
tunnel_end(struct tunnel *t, const char *reason)
{
	t->reason = reason;
	if (!t->websocket || wsframe_at_end(&t->frames) || t->frames.closed ||
	    t->frames.lost)
		farewell(t);
	else
		timer_set(&t->timer, FAREWELL_MS);
}

static void
tap_cb(const struct bufq *q, void *arg)
{
	struct tunnel *t = arg;
	struct iovec iov[16];
	size_t total;
	int i, n = bufq_iovec(q, iov, 16, &total);

	for (i = 0; i < n; i++)
		wsframe_feed(&t->frames, iov[i].iov_base, iov[i].iov_len);
	if (total < q->len)
		t->frames.lost = true; /* more pieces than a turn brings */
	if (t->reason != NULL && wsframe_at_end(&t->frames))
		task_post(worker_loop(t->path->w), &t->task);
}

/* --- the start --------------------------------------------------------- */

static struct tunnel *
tunnel_new(struct exchange *ex)
{
	struct worker *w = ex->path->w;
	struct tunnel *t = xcalloc(1, sizeof(*t));

	t->path = ex->path;
	t->next = t->path->tunnels;
	t->prevp = &t->path->tunnels;
	if (t->next != NULL)
		t->next->prevp = &t->next;
	t->path->tunnels = t;
	t->peer = *httpd_conn_peer(httpd_req_conn(ex->rq));
	t->websocket = strv_eq(ex->upgrade, STRV("websocket"));
	if (ex->sb != NULL)
		route_hold(ex->sb);
	t->sb = ex->sb;
	t->token_id = ex->who.token_id;
	task_init(&t->task, farewell_cb, t);
	timer_init(&t->timer, worker_loop(w), farewell_cb, t);
	if (accesslog_on(worker_access_log(w)))
		keep_entry(t, ex);
	return t;
}

static void
run(struct tunnel *t, struct stream *client, struct stream *inner)
{
	struct worker *w = t->path->w;
	struct relay_options o = {
	    .idle_ms = worker_conf(w)->t.tunnel_idle,
	    .done = done_cb,
	    .arg = t,
	};

	worker_stats(w)->tunnels_total++;
	worker_stats(w)->tunnels_open++;
	t->relay = relay_start(worker_loop(w), client, inner, &o);
	if (t->websocket)
		relay_tap_b(t->relay, tap_cb, t);
}

void
tunnel_start(struct exchange *ex, const struct http_head *h)
{
	struct conn_state *cs = httpd_conn_scratch(httpd_req_conn(ex->rq));
	struct stream *client, *inner;
	struct http_writer *w;
	struct tunnel *t;

	if (ex->upgrade.len == 0 ||
	    !strv_eq_nocase(http1_get(h, H_UPGRADE), ex->upgrade)) {
		ex->close = "backend_proto";
		exchange_fail(ex, GE_BAD_GATEWAY,
			      "an upgrade nobody asked for");
		return;
	}
	w = httpd_begin(ex->rq, 101, http1_reason(h), BODY_NONE, 0,
			h->len + 256);
	proxy_put_response(ex, h, w);
	t = tunnel_new(ex);
	inner = httpc_upgrade(ex->up);
	ex->up = NULL;
	ex->state = EX_DONE;
	cs->tunnel = true;
	/* `closed` comes in here: ex is gone after it */
	client = httpd_upgrade(ex->rq, ex->upgrade);
	if (client == NULL) {
		cs->tunnel = false; /* conn_closed comes, and counts */
		stream_close(inner);
		write_line(t, "client_rst", 0, 0);
		tunnel_free(t);
		return;
	}
	run(t, client, inner);
}

/* --- all of them ------------------------------------------------------- */

void
tunnel_close_gone(struct path *p, struct strv id, uint64_t generation)
{
	struct tunnel *t, *next;

	for (t = p->tunnels; t != NULL; t = next) {
		next = t->next;
		if (t->sb != NULL && t->sb->generation == generation &&
		    strv_eq(strv_of(t->sb->id), id) && t->reason == NULL)
			tunnel_end(t, "gone");
	}
}

unsigned
tunnel_close_revoked(struct path *p, uint64_t token_id)
{
	struct tunnel *t, *next;
	unsigned n = 0;

	for (t = p->tunnels; t != NULL; t = next) {
		next = t->next;
		if (t->token_id == token_id && t->reason == NULL) {
			tunnel_end(t, "revoked");
			n++;
		}
	}
	return n;
}

void
tunnel_drain(struct path *p)
{
	struct tunnel *t, *next;

	for (t = p->tunnels; t != NULL; t = next) {
		next = t->next;
		if (t->reason == NULL)
			tunnel_end(t, "drain");
	}
}

void
tunnel_close_all(struct path *p)
{
	while (p->tunnels != NULL) {
		p->tunnels->reason = "drain";
		farewell(p->tunnels);
	}
}
