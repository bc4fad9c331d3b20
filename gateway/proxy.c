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

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "gateway/exchange_int.h"
#include "gateway/forwarded.h"
#include "gateway/gwconf.h"
#include "gateway/rewrite.h"
#include "net/buf.h"
#include "net/httpc.h"
#include "net/httpd.h"
#include "net/stream.h"

/* --- the upstream's name ----------------------------------------------- */

static bool
to_agent(const struct exchange *ex)
{
	return ex->agent_http != NULL;
}

static size_t
put_u64(char *p, uint64_t v)
{
	char digits[24];
	size_t at = sizeof(digits);

	do {
		digits[--at] = (char)('0' + v % 10);
		v /= 10;
	} while (v != 0);
	memcpy(p, digits + at, sizeof(digits) - at);
	return sizeof(digits) - at;
}

#define KEY_MAX 160

/* "<id>/<generation>/<port>", "@<agent's address>". */
static struct strv
upstream_key(const struct exchange *ex, char key[KEY_MAX])
{
	size_t n;

	if (to_agent(ex)) {
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
	n += put_u64(key + n, ex->sb->generation);
	key[n++] = '/';
	n += put_u64(key + n, ex->m.port);
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

/* --- the request ------------------------------------------------------- */

static enum host_policy
host_policy(const struct exchange *ex)
{
	if (to_agent(ex))
		return HOST_FORWARD;
	if (ex->sb->conf != NULL)
		return ex->sb->conf->host_policy;
	return worker_conf(ex->path->w)->host_policy;
}

static struct rewrite
rewriting(const struct exchange *ex)
{
	return (struct rewrite){
	    .prefix = ex->m.keep_prefix ? STRV_NULL : ex->m.prefix,
	    .host = exchange_host(ex),
	    .https = exchange_https(ex),
	    .port = ex->m.port,
	};
}

/* The protocol to ask for inside, empty: none. Only websocket, and what
 * configuration adds; h2c would be a way around everything here. */
static struct strv
wanted_upgrade(const struct exchange *ex, const struct http_head *h)
{
	char **extra = worker_conf(ex->path->w)->upgrades;
	struct strv asked;

	if (!h->wants_upgrade || h->method != M_GET || h->minor == 0 ||
	    h->body != BODY_NONE)
		return STRV_NULL;
	asked = http1_get(h, H_UPGRADE);
	if (http1_list_has(asked, STRV("websocket")))
		return STRV("websocket");
	for (; extra != NULL && *extra != NULL; extra++) {
		struct strv name = strv_of(*extra);

		if (!strv_eq_nocase(name, STRV("h2c")) &&
		    http1_list_has(asked, name))
			return name;
	}
	return STRV_NULL;
}

/* Authorization is the application's own unless it is a bearer (which may be
 * somebody's account), and never goes to an agent. */
static bool
passes_authorization(const struct exchange *ex, struct strv v)
{
	const struct gw_conf *conf = worker_conf(ex->path->w);
	bool forward = conf->forward_bearer;

	if (to_agent(ex) || !ex->who.by_token)
		return false;
	if (ex->sb->conf != NULL)
		forward = ex->sb->conf->forward_bearer;
	return forward || v.len < 6 ||
	       !strv_eq_nocase((struct strv){v.p, 6}, STRV("Bearer"));
}

/* A name that some servers cannot tell from one that is ours to set: with
 * underscores for hyphens, as in CGI. */
static bool
is_disguised(struct strv name)
{
	char plain[32];
	enum http_hdr id;
	size_t i;

	if (name.len > sizeof(plain) || memchr(name.p, '_', name.len) == NULL)
		return false;
	for (i = 0; i < name.len; i++)
		plain[i] = (char)(name.p[i] == '_' ? '-' : name.p[i]);
	id = http1_hdr_id((struct strv){plain, name.len});
	return forwarded_owns(id) || id == H_X_SANDBOX_TOKEN ||
	       id == H_AUTHORIZATION || id == H_HOST || id == H_ORIGIN ||
	       id == H_CONTENT_LENGTH || id == H_TRANSFER_ENCODING;
}

static bool
is_ours(struct strv name)
{
	return (name.len == 10 && strv_eq_nocase(name, STRV("X-Sbx-Wait"))) ||
	       is_disguised(name);
}

static void
put_origin(struct exchange *ex, struct http_writer *w, struct strv v)
{
	struct rewrite r = rewriting(ex);
	char buf[32];
	struct strv inner;

	if (host_policy(ex) == HOST_LOCALHOST &&
	    rewrite_origin(&r, v, buf, &inner))
		v = inner;
	http1_put(w, STRV("Origin"), v);
}

/* The fields that go on as they came. */
static void
put_request_fields(struct exchange *ex, const struct http_head *h,
		   struct http_writer *w)
{
	size_t i;

	for (i = 0; i < h->nfields; i++) {
		enum http_hdr id = (enum http_hdr)h->fields[i].id;
		struct strv name = http1_name(h, i), v = http1_value(h, i);

		if (id == H_OTHER ? is_ours(name)
				  : http1_is_hop(id) || forwarded_owns(id))
			continue;
		if (h->connection_other && http1_connection_names(h, name))
			continue;
		switch ((int)id) {
		case H_HOST:
		case H_CONTENT_LENGTH:
		case H_EXPECT: /* httpd has seen to it */
		case H_X_SANDBOX_TOKEN:
			break;
		case H_AUTHORIZATION:
			if (passes_authorization(ex, v))
				http1_put_field(w, h, i);
			break;
		case H_ORIGIN:
			put_origin(ex, w, v);
			break;
		default:
			http1_put_field(w, h, i);
		}
	}
}

static void
put_host(const struct exchange *ex, struct http_writer *w)
{
	struct strv host = exchange_host(ex);
	char local[24];

	if (host_policy(ex) == HOST_LOCALHOST || host.len == 0)
		host =
		    rewrite_local_host(to_agent(ex) ? 80 : ex->m.port, local);
	http1_put(w, STRV("Host"), host);
}

/* Ours to an agent: the client's own token where it is the sandbox's, else
 * what the agent wants of us. */
static void
put_agent_token(const struct exchange *ex, struct http_writer *w)
{
	bool own = ex->who.kind == AUTH_SANDBOX;

	if (own && (ex->sb->conf == NULL || ex->agent_token == NULL))
		http1_put(w, STRV("X-Sandbox-Token"), ex->want.token);
	else if (ex->agent_token != NULL)
		http1_put(w, STRV("X-Sandbox-Token"), strv_of(ex->agent_token));
}

static void
put_request(struct exchange *ex, const struct http_head *h,
	    struct http_writer *w)
{
	struct forwarded f = {
	    .head = h,
	    .peer = httpd_conn_peer(httpd_req_conn(ex->rq)),
	    .trusted = ex->trusted,
	    .https = exchange_https(ex),
	    .host = exchange_host(ex),
	    .prefix = ex->m.keep_prefix ? STRV_NULL : ex->m.prefix,
	    .id = ex->id,
	};

	put_host(ex, w);
	put_request_fields(ex, h, w);
	forwarded_put(w, &f);
	if (to_agent(ex))
		put_agent_token(ex, w);
}

static size_t
request_room(const struct exchange *ex, const struct http_head *h)
{
	return h->len + ex->target.len + ex->m.prefix.len + 1024 +
	       2 * exchange_host(ex).len + ex->id.len;
}

/* --- the two bodies ---------------------------------------------------- */

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
		return;
	}
	httpc_flush(ex->up);
	if (httpc_over_high(ex->up))
		httpd_body_pause(ex->rq);
}

static void
upstream_drained(struct httpc *c, void *arg)
{
	struct exchange *ex = arg;

	(void)c;
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
put_location(struct exchange *ex, struct http_writer *w, struct strv v)
{
	struct rewrite r = rewriting(ex);
	struct rewrite_value out;

	if (rewrite_location(&r, v, &out))
		http1_put_parts(w, STRV("Location"), out.part, out.n);
	else
		http1_put(w, STRV("Location"), v);
}

static void
put_set_cookie(struct exchange *ex, struct http_writer *w, struct strv v)
{
	struct rewrite r = rewriting(ex);
	struct rewrite_value out;

	if (rewrite_set_cookie(&r, v, &out))
		http1_put_parts(w, STRV("Set-Cookie"), out.part, out.n);
	else
		http1_put(w, STRV("Set-Cookie"), v);
}

void
proxy_put_response(struct exchange *ex, const struct http_head *h,
		   struct http_writer *w)
{
	bool rewrite = worker_conf(ex->path->w)->rewrite && !to_agent(ex);
	size_t i;

	for (i = 0; i < h->nfields; i++) {
		enum http_hdr id = (enum http_hdr)h->fields[i].id;
		struct strv name = http1_name(h, i), v = http1_value(h, i);

		if (id == H_CONTENT_LENGTH ||
		    (id != H_OTHER && http1_is_hop(id)))
			continue;
		if (h->connection_other && http1_connection_names(h, name))
			continue;
		if (id == H_LOCATION && rewrite)
			put_location(ex, w, v);
		else if (id == H_SET_COOKIE && rewrite)
			put_set_cookie(ex, w, v);
		else
			http1_put_field(w, h, i);
	}
}

static void
inform(struct exchange *ex, const struct http_head *h)
{
	struct strbuf b = {0};
	size_t i;

	if (h->status == 100)
		return; /* httpd sends its own */
	for (i = 0; i < h->nfields; i++) {
		struct strv name = http1_name(h, i), v = http1_value(h, i);

		if (http1_is_hop((enum http_hdr)h->fields[i].id) ||
		    h->fields[i].id == H_CONTENT_LENGTH ||
		    (h->connection_other && http1_connection_names(h, name)))
			continue;
		strbuf_addf(&b, "%.*s: %.*s\r\n", STRV_ARG(name), STRV_ARG(v));
	}
	httpd_inform(ex->rq, h->status, (struct strv){b.s, b.len});
	strbuf_clear(&b);
}

/* How the body goes to the client: as it came. An answer to HEAD says what
 * the one to GET would say. */
static enum http_body
client_body(const struct http_head *h)
{
	if (h->body != BODY_NONE)
		return h->body;
	if (h->status == 204)
		return BODY_NONE;
	if (h->has_content_length)
		return BODY_LENGTH;
	return h->status == 304 ? BODY_NONE : BODY_UNTIL_CLOSE;
}

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
		inform(ex, h);
		return;
	}
	ex->first_us = exchange_elapsed_us(ex);
	if (h->status == 101) {
		tunnel_start(ex, h);
		return;
	}
	body = client_body(h);
	w = httpd_begin(ex->rq, h->status, http1_reason(h),
			body == BODY_CHUNKED ? BODY_UNTIL_CLOSE : body,
			h->content_length, h->len + 512 + 4 * ex->m.prefix.len);
	proxy_put_response(ex, h, w);
	if (httpd_end_head(ex->rq) != 0) {
		bad_response(ex, "its head is too large to send on");
		return;
	}
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

static const struct httpd_req_cbs plain_cbs = {.drained = client_drained,
					       .closed = exchange_closed};
static const struct httpd_req_cbs body_cbs = {
    .body = request_body, .drained = client_drained, .closed = exchange_closed};

static void
proxy_send(struct exchange *ex)
{
	const struct http_head *h = httpd_head(ex->rq);
	struct http_writer *w;

	ex->state = EX_PROXY;
	ex->upgrade = wanted_upgrade(ex, h);
	w = httpc_begin(ex->up, &upstream_cbs, ex, http1_method(h), h->method,
			ex->target, h->body, h->content_length,
			request_room(ex, h));
	put_request(ex, h, w);
	if (httpc_end_head(ex->up, ex->upgrade) != 0) {
		exchange_fail(ex, GE_TOO_LARGE, NULL);
		return;
	}
	httpc_set_head_ms(ex->up, worker_conf(ex->path->w)->t.response);
	if (!httpd_has_body(ex->rq)) {
		httpd_set_cbs(ex->rq, &plain_cbs, ex);
		ex->request_ended = true;
		httpc_end(ex->up);
		return;
	}
	/* What has arrived of the body comes before the flush. */
	httpd_set_cbs(ex->rq, &body_cbs, ex);
	task_post(httpd_loop(ex->rq), &ex->flush);
}

/* --- connecting -------------------------------------------------------- */

static void
connect_failed(struct exchange *ex, int err)
{
	char detail[64];

	(void)snprintf(detail, sizeof(detail), "port %u", ex->m.port);
	switch (err) {
	case E_REFUSED:
		if (to_agent(ex))
			exchange_fail(ex, GE_UNREACHABLE, NULL);
		else
			exchange_fail(ex, GE_PORT_NOT_LISTENING, detail);
		break;
	case E_TIMEOUT:
		exchange_fail(ex, GE_CONNECT_TIMEOUT, NULL);
		break;
	case E_DENIED:
		exchange_fail(ex,
			      to_agent(ex) ? GE_UNREACHABLE : GE_CONNECT_DENIED,
			      NULL);
		break;
	case E_NOTFOUND:
		exchange_fail(ex, GE_SANDBOX_STOPPED, NULL);
		break;
	case E_LIMIT:
		exchange_fail(ex, GE_LIMIT, NULL);
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
	q->port = to_agent(ex) ? 0 : ex->m.port;
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
	if (to_agent(ex) || may_repeat(httpd_head(ex->rq)))
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

	if (ex->flush.fn != NULL)
		task_cancel(&ex->flush);
	ex->up = NULL;
	if (c != NULL)
		httpc_close(c);
}
