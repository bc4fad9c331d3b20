/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One message in, one message out: the request's head is written anew for the
 * server inside, the response's for the client, and both bodies flow at the
 * same time, each with back-pressure. Fields are looked at once, by their id.
 *
 * Upstream connections are kept for a moment under sandbox, generation and
 * port. A kept one may have died unnoticed, so it serves only requests that
 * may be repeated (to our own agents, whose idle time is longer, any).
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "gateway/exchange_int.h"
#include "gateway/gwconf.h"
#include "net/buf.h"
#include "net/httpc.h"
#include "net/httpd.h"
#include "net/stream.h"

/* --- the upstream's name ----------------------------------------------- */

#define PORTS_MS 1000 /* for the list of those that there are */
#define KEY_MAX  160

/* "<id>/<generation>/<port>", "@<agent's address>". */
static struct strv
upstream_key(const struct exchange *ex, char key[KEY_MAX])
{
	size_t n;

	if (exchange_to_agent(ex)) {
		n = strlen(ex->agent_http);
		if (n >= KEY_MAX)
			return STRV_NULL; /* then it is not kept */
		key[0] = '@';
		memcpy(key + 1, ex->agent_http, n);
		return (struct strv){key, n + 1};
	}
	n = strlen(ex->sb->id);
	memcpy(key, ex->sb->id, n);
	key[n++] = '/';
	n += str_put_u64(key + n, ex->sb->generation);
	key[n++] = '/';
	n += str_put_u64(key + n, ex->m.port);
	return (struct strv){key, n};
}

static bool
may_repeat(const struct http_head *h)
{
	switch (h->method) {
	case M_GET:
	case M_HEAD:
	case M_OPTIONS:
	case M_TRACE:
	case M_PUT:
	case M_DELETE:
		return true;
	case M_POST:
	case M_PATCH:
	case M_CONNECT:
	case M_OTHER:
		break;
	}
	return false;
}

/* Counts from the end of the request: until then the body's own deadlines do,
 * and an upload may take its time. */
static uint64_t
response_ms(const struct exchange *ex)
{
	return worker_conf(ex->path->w)->t.response;
}

/* --- the two bodies ---------------------------------------------------- */

/* A stream of the control plane that was answered before it was at its end:
 * there may be somebody who types, and a command that reads when it likes. */
static bool
talks_both_ways(const struct exchange *ex)
{
	return ex->to_api && !ex->request_ended && httpd_begun(ex->rq);
}

static void
request_body(struct httpd_req *rq, struct bufq *in, bool end, void *arg)
{
	struct exchange *ex = arg;

	(void)rq;
	if (ex->up == NULL) {
		bufq_drain(in, in->len); /* nobody wants it any more */
		return;
	}
	if (in->len > 0) {
		ex->body_taken = true;
		httpc_move(ex->up, in, in->len);
	}
	if (end) {
		ex->request_ended = true;
		httpc_end(ex->up);
		httpc_set_head_ms(ex->up, response_ms(ex));
		return;
	}
	httpc_flush(ex->up);
	if (httpc_over_high(ex->up)) {
		httpd_body_pause(ex->rq);
		/* The control plane may have it wait for its turn. */
		if (!ex->to_api)
			timer_set(&ex->stall,
				  worker_conf(ex->path->w)->t.write);
	}
}

/* The client is not to blame while it is we who do not read. */
static void
stalled_cb(void *arg)
{
	struct exchange *ex = arg;

	ex->close = "backend_timeout";
	if (!httpd_begun(ex->rq)) {
		exchange_fail(ex, GE_RESPONSE_TIMEOUT,
			      "it stopped reading the request");
		return;
	}
	worker_stats(ex->path->w)->upstream_failed++;
	exchange_stop(ex);
	httpd_abort(ex->rq);
}

static void
upstream_drained(struct httpc *c, void *arg)
{
	struct exchange *ex = arg;

	(void)c;
	timer_stop(&ex->stall);
	if (!ex->request_ended)
		httpd_body_resume(ex->rq);
}

static void
client_drained(struct httpd_req *rq, void *arg)
{
	struct exchange *ex = arg;

	(void)rq;
	if (ex->up != NULL)
		httpc_body_resume(ex->up);
}

static void
finished(struct exchange *ex, struct httpc *c)
{
	ex->up = NULL;
	ex->state = EX_DONE;
	task_cancel(&ex->flush);
	timer_stop(&ex->stall);
	httpc_release(c);
	httpd_end(ex->rq);
}

static void
response_body(struct httpc *c, struct bufq *in, bool end, void *arg)
{
	struct exchange *ex = arg;

	if (!end && httpd_over_high(ex->rq))
		return; /* it waits there, and reading stops */
	if (in->len > 0)
		httpd_move(ex->rq, in, in->len);
	if (end)
		finished(ex, c);
	else
		httpd_flush(ex->rq);
}

static void
flush_cb(void *arg)
{
	struct exchange *ex = arg;

	if (ex->up != NULL && !ex->request_ended)
		httpc_flush(ex->up);
	if (httpd_begun(ex->rq))
		httpd_flush(ex->rq);
}

/* --- the response ------------------------------------------------------ */

static void
bad_response(struct exchange *ex, const char *what)
{
	ex->close = "backend_proto";
	exchange_fail(ex, GE_BAD_GATEWAY, what);
}

static void
response_head(struct httpc *c, const struct http_head *h, bool interim,
	      void *arg)
{
	struct exchange *ex = arg;
	enum http_body body;
	struct http_writer *w;

	(void)c;
	if (interim) {
		proxy_inform(ex, h);
		return;
	}
	ex->first_us = exchange_elapsed_us(ex);
	if (h->status == 101) {
		tunnel_start(ex, h);
		return;
	}
	body = http1_onward_body(h);
	w = httpd_begin(ex->rq, h->status, http1_reason(h),
			body == BODY_CHUNKED ? BODY_UNTIL_CLOSE : body,
			h->content_length, h->len + 512 + 4 * ex->m.prefix.len);
	proxy_put_response(ex, h, w);
	if (httpd_end_head(ex->rq) != 0) {
		bad_response(ex, "its head is too large to send on");
		return;
	}
	if (talks_both_ways(ex))
		httpd_patient(ex->rq);
	/* Leaves with the body if that is here already. */
	task_post(httpd_loop(ex->rq), &ex->flush);
}

/* --- failures ---------------------------------------------------------- */

static void proxy_connect(struct exchange *ex);

static void
upstream_failed(struct httpc *c, int err, bool begun, const char *what,
		void *arg)
{
	struct exchange *ex = arg;
	bool again =
	    !begun && !ex->retried && httpc_reused(c) && !ex->body_taken;

	ex->up = NULL;
	task_cancel(&ex->flush);
	log_debug("upstream.failed", "id=%.*s err=%s begun=%d what=%s",
		  STRV_ARG(ex->id), err_text(err), begun,
		  what != NULL ? what : "-");
	if (again && may_repeat(httpd_head(ex->rq))) {
		ex->retried = true;
		ex->reused = false;
		worker_stats(ex->path->w)->upstream_retried++;
		proxy_connect(ex);
		return;
	}
	ex->close = err == E_EOF       ? "backend_fin"
		    : err == E_TIMEOUT ? "backend_timeout"
		    : err == E_PROTO   ? "backend_proto"
				       : "backend_rst";
	if (httpd_begun(ex->rq)) {
		/* Let the client see that it is not whole. */
		worker_stats(ex->path->w)->upstream_failed++;
		ex->state = EX_DONE;
		httpd_abort(ex->rq);
	} else if (ex->sb != NULL && ex->sb->gone) {
		exchange_fail(ex, GE_SANDBOX_STOPPED, ex->sb->gone_reason);
	} else if (err == E_TIMEOUT) {
		exchange_fail(ex, GE_RESPONSE_TIMEOUT, NULL);
	} else if (err == E_PROTO || err == E_LIMIT) {
		exchange_fail(ex, GE_BAD_GATEWAY, what);
	} else {
		exchange_fail(ex, GE_APP_CLOSED_EARLY, NULL);
	}
}

static const struct httpc_cbs upstream_cbs = {
    .head = response_head,
    .body = response_body,
    .drained = upstream_drained,
    .failed = upstream_failed,
};

/* --- sending ----------------------------------------------------------- */

/* The client ended its side. Over TLS that is its end; on plain TCP it may
 * still read, which only a write would show: an agent writes a few pings when
 * it sees the same. */
static void
client_eof(struct httpd_req *rq, void *arg)
{
	struct exchange *ex = arg;

	if (exchange_https(ex))
		exchange_peer_eof(rq, ex);
	else if (exchange_to_agent(ex) && ex->up != NULL && ex->request_ended)
		stream_shutdown(httpc_stream(ex->up));
}

static const struct httpd_req_cbs plain_cbs = {.drained = client_drained,
					       .peer_eof = client_eof,
					       .closed = exchange_closed};
static const struct httpd_req_cbs body_cbs = {.body = request_body,
					      .drained = client_drained,
					      .peer_eof = client_eof,
					      .closed = exchange_closed};

static void
proxy_send(struct exchange *ex)
{
	const struct http_head *h = httpd_head(ex->rq);
	struct http_writer *w;

	ex->state = EX_PROXY;
	ex->upgrade = proxy_wanted_upgrade(ex, h);
	w = httpc_begin(ex->up, &upstream_cbs, ex, http1_method(h), h->method,
			ex->target, h->body, h->content_length,
			proxy_request_room(ex, h));
	proxy_put_request(ex, h, w);
	if (httpc_end_head(ex->up, ex->upgrade) != 0) {
		exchange_fail(ex, GE_TOO_LARGE, NULL);
		return;
	}
	if (!httpd_has_body(ex->rq)) {
		httpd_set_cbs(ex->rq, &plain_cbs, ex);
		ex->request_ended = true;
		httpc_end(ex->up);
		httpc_set_head_ms(ex->up, response_ms(ex));
		return;
	}
	/* What has arrived of the body comes before the flush. */
	httpd_set_cbs(ex->rq, &body_cbs, ex);
	task_post(httpd_loop(ex->rq), &ex->flush);
}

/* --- connecting -------------------------------------------------------- */

static void
say_not_listening(struct exchange *ex)
{
	char detail[32];

	(void)snprintf(detail, sizeof(detail), "port %u", ex->m.port);
	exchange_fail(ex, GE_PORT_NOT_LISTENING, detail);
}

static void
ports_known(int err, int fd, void *arg)
{
	(void)err; /* then it is said without */
	(void)fd;
	say_not_listening(arg);
}

/* Which ports there are helps who mistook one. */
static void
not_listening(struct exchange *ex)
{
	struct connect_req *q = &ex->dial;

	memset(q, 0, sizeof(*q));
	q->sb = ex->sb;
	q->port = ex->m.port;
	q->timeout_ms = PORTS_MS;
	q->done = ports_known;
	q->arg = ex;
	if (connector_ports(worker_connector(ex->path->w), q) != E_AGAIN)
		say_not_listening(ex);
}

static void
connect_failed(struct exchange *ex, int err)
{
	switch (err) {
	case E_REFUSED:
		if (exchange_to_agent(ex))
			exchange_fail(ex, GE_UNREACHABLE, NULL);
		else
			not_listening(ex);
		break;
	case E_TIMEOUT:
		exchange_fail(ex, GE_CONNECT_TIMEOUT, NULL);
		break;
	case E_DENIED:
		exchange_fail(ex,
			      exchange_to_agent(ex) ? GE_UNREACHABLE
						    : GE_CONNECT_DENIED,
			      NULL);
		break;
	case E_NOTFOUND:
		/* a host of many has no ports of its own */
		if (ex->sb != NULL && ex->sb->job && !ex->sb->gone)
			exchange_fail(ex, GE_NO_ROUTE,
				      "this job's ports are below "
				      "/v1/sandboxes/<id>/proxy/");
		else
			exchange_fail(ex, GE_SANDBOX_STOPPED, NULL);
		break;
	default:
		exchange_fail(ex, GE_UNREACHABLE, NULL);
	}
}

static void
connected(int err, int fd, void *arg)
{
	struct exchange *ex = arg;
	struct worker *w = ex->path->w;
	uint64_t buffer = worker_conf(w)->limits.buffer;
	char key[KEY_MAX];
	struct stream *st;

	ex->connect_us = exchange_elapsed_us(ex);
	if (err != 0) {
		connect_failed(ex, err);
		return;
	}
	worker_stats(w)->upstream_connects++;
	st = stream_take_fd(worker_loop(w), fd, NULL, NULL);
	stream_tune_tcp(st);
	stream_set_input_limit(st, buffer);
	stream_set_high(st, buffer);
	ex->up = httpc_take_stream(worker_loop(w), worker_pool(w),
				   upstream_key(ex, key), st);
	proxy_send(ex);
}

/* How long the client is ready to wait for the port: `X-Sbx-Wait`, or `wait=`
 * in the query (which also goes on, being maybe the application's). */
static uint64_t
patience(const struct exchange *ex, const struct http_head *h)
{
	const struct gw_timeouts *t = &worker_conf(ex->path->w)->t;
	struct strv v = http1_find(h, STRV("X-Sbx-Wait"));
	struct strv query = ex->target, param;
	uint64_t ms = t->wait;

	if (v.p != NULL) {
		if (strv_parse_duration(v, &ms) != 0)
			ms = t->wait;
		return ms < t->wait_max ? ms : t->wait_max;
	}
	if (!strv_cut(&query, '?', &param))
		return ms;
	while (strv_cut(&query, '&', &param)) {
		if (!strv_starts(param, STRV("wait=")))
			continue;
		if (strv_parse_duration(strv_from(param, 5), &ms) != 0)
			ms = t->wait;
		return ms < t->wait_max ? ms : t->wait_max;
	}
	return ms;
}

static void
proxy_connect(struct exchange *ex)
{
	struct worker *w = ex->path->w;
	struct connect_req *q = &ex->dial;
	int fd = -1, r;

	ex->state = EX_CONNECT;
	memset(q, 0, sizeof(*q));
	q->sb = ex->sb;
	q->port = exchange_to_agent(ex) ? 0 : ex->m.port;
	q->http = ex->agent_http;
	q->wait_ms = patience(ex, httpd_head(ex->rq));
	q->timeout_ms = worker_conf(w)->t.connect;
	q->done = connected;
	q->arg = ex;
	r = connector_start(worker_connector(w), q, &fd);
	connector_text(q, ex->upstream, sizeof(ex->upstream));
	if (r != E_AGAIN)
		connected(r, fd, ex);
}

void
proxy_start(struct exchange *ex)
{
	struct worker *w = ex->path->w;
	char key[KEY_MAX];

	task_init(&ex->flush, flush_cb, ex);
	timer_init(&ex->stall, worker_loop(w), stalled_cb, ex);
	if (exchange_to_agent(ex) || may_repeat(httpd_head(ex->rq)))
		ex->up = httpc_pool_get(worker_pool(w), upstream_key(ex, key));
	if (ex->up == NULL) {
		proxy_connect(ex);
		return;
	}
	worker_stats(w)->upstream_reused++;
	ex->reused = true;
	proxy_send(ex);
}

void
proxy_stop(struct exchange *ex)
{
	struct httpc *c = ex->up;

	if (ex->flush.fn != NULL) { /* proxy_start() was reached */
		task_cancel(&ex->flush);
		timer_clear(&ex->stall);
	}
	ex->up = NULL;
	if (c != NULL)
		httpc_close(c);
}
