/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a request up to the point where it may go inside: what it is for
 * (route), whether it may (auth), and every answer that is the gateway's own.
 */
#include "config.h"

#include "gateway/exchange.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/token.h"
#include "gateway/accesslog.h"
#include "gateway/auth.h"
#include "gateway/connector.h"
#include "gateway/door.h"
#include "gateway/errpage.h"
#include "gateway/exchange_int.h"
#include "gateway/forwarded.h"
#include "gateway/limits.h"
#include "gateway/worker.h"
#include "net/addr.h"
#include "net/httpc.h"
#include "net/httpd.h"
#include "net/stream.h"
#include "net/tlsio.h"

_Static_assert(sizeof(struct conn_state) <= HTTPD_CONN_SCRATCH,
	       "a connection's state must fit its scratch memory");

/* --- small facts ------------------------------------------------------- */

uint64_t
exchange_elapsed_us(const struct exchange *ex)
{
	return loop_clock_us() - httpd_started_us(ex->rq);
}

bool
exchange_https(const struct exchange *ex)
{
	return ex->ls->tls != NULL;
}

struct strv
exchange_host(const struct exchange *ex)
{
	return http1_get(httpd_head(ex->rq), H_HOST);
}

static struct conn_state *
state_of(struct httpd_conn *c)
{
	return httpd_conn_scratch(c);
}

/* --- ending ------------------------------------------------------------ */

void
exchange_stop(struct exchange *ex)
{
	ex->state = EX_DONE;
	if (ex->sync != NULL)
		worker_sync_cancel(ex->sync);
	ex->sync = NULL;
	hub_wait_cancel(&ex->hub);
	hold_stop(ex);
	connector_cancel(&ex->dial);
	proxy_stop(ex);
}

static void
count_failure(struct stats *st, enum gw_error e)
{
	if (e == GE_UNAUTHORIZED || e == GE_FORBIDDEN)
		st->rejected_auth++;
	else if (e == GE_LIMIT)
		st->rejected_limit++;
	else if (errpage_status(e) >= 500 && e != GE_AUTH_UNAVAILABLE)
		st->upstream_failed++;
}

void
exchange_fail(struct exchange *ex, enum gw_error e, const char *detail)
{
	const struct http_head *h = httpd_head(ex->rq);
	struct errpage p = {.e = e, .detail = detail, .request_id = ex->id};

	p.podflare = ex->m.kind == ROUTE_API &&
		     strv_starts(http1_path(h), STRV("/podflare"));
	p.rpc = ex->m.rpc;
	p.html = !p.podflare && !p.rpc && errpage_wants_html(h);
	if (e == GE_PORT_NOT_LISTENING) {
		p.listening = ex->dial.listening;
		p.nlistening = ex->dial.nlistening;
	}

	exchange_stop(ex);
	ex->error = e;
	if (ex->close == NULL)
		ex->close = "gateway";
	count_failure(worker_stats(ex->path->w), e);
	errpage_send(ex->rq, &p);
}

static const char *
close_text(const struct exchange *ex, int err)
{
	switch (err) {
	case 0:
		return ex->close != NULL ? ex->close : "done";
	case E_EOF:
		return "client_fin";
	case E_TIMEOUT:
		return "client_timeout";
	case E_PROTO:
		return "client_proto";
	case E_LIMIT:
		return "limit";
	case E_CANCELLED:
		return ex->close != NULL ? ex->close : "gateway";
	default:
		return "client_rst";
	}
}

void
exchange_entry(struct exchange *ex, struct access_entry *e, char *peer)
{
	const struct http_head *h = httpd_head(ex->rq);
	struct httpd_conn *c = httpd_req_conn(ex->rq);

	memset(e, 0, sizeof(*e));
	e->id = ex->id;
	e->peer = strv_of(addr_ip_text(httpd_conn_peer(c), peer));
	e->user = strv_of(ex->who.name);
	e->method = http1_method(h);
	e->target = http1_target(h);
	e->proto = h->minor == 0 ? STRV("HTTP/1.0") : STRV("HTTP/1.1");
	e->host = http1_get(h, H_HOST);
	e->referer = http1_get(h, H_REFERER);
	e->agent = http1_get(h, H_USER_AGENT);
	e->status = httpd_status(ex->rq);
	e->code = ex->error != GE_NONE ? errpage_code(ex->error) : NULL;
	e->sandbox = ex->sb != NULL ? strv_of(ex->sb->id) : ex->m.id;
	e->port = ex->m.port;
	e->upstream = strv_of(ex->upstream);
	e->reused = ex->reused;
	e->retried = ex->retried;
	e->tls = exchange_https(ex);
	e->bytes_in = httpd_body_bytes(ex->rq);
	e->bytes_out = httpd_sent(ex->rq);
	e->queue_us = ex->queue_us;
	e->connect_us = ex->connect_us;
	e->first_us = ex->first_us;
	e->total_us = exchange_elapsed_us(ex);
}

static void
count_response(struct stats *st, unsigned status)
{
	if (status >= 500)
		st->responses_5xx++;
	else if (status >= 400)
		st->responses_4xx++;
	else if (status >= 300)
		st->responses_3xx++;
	else if (status >= 100)
		st->responses_2xx++;
}

void
exchange_closed(struct httpd_req *rq, int err, void *arg)
{
	struct exchange *ex = arg;
	struct worker *w = ex->path->w;
	struct conn_state *cs = state_of(httpd_req_conn(rq));
	struct stats *st = worker_stats(w);

	exchange_stop(ex);
	cs->ex = NULL;
	st->requests_open--;
	st->bytes_in += httpd_body_bytes(rq);
	st->bytes_out += httpd_sent(rq);
	count_response(st, httpd_status(rq));
	/* A tunnel has its line when it ends. */
	if (accesslog_on(worker_access_log(w)) && !cs->tunnel) {
		char peer[ADDR_TEXT_MAX];
		struct access_entry e;

		exchange_entry(ex, &e, peer);
		e.close = close_text(ex, err);
		accesslog_write(worker_access_log(w), &e);
	}
	route_release(ex->sb);
	ex->sb = NULL;
}

/* The client ended its direction while its request is served. Over TLS that is
 * a client that has gone (nobody half-closes there), and what runs for it is
 * told; over plain TCP and unix sockets it may well be waiting. */
void
exchange_peer_eof(struct httpd_req *rq, void *arg)
{
	struct exchange *ex = arg;

	if (!exchange_https(ex))
		return;
	ex->close = "client_fin";
	exchange_stop(ex);
	httpd_abort(rq);
}

/* --- authorisation ------------------------------------------------------ */

static void authorise(struct exchange *ex);

static void
synced_cb(int err, void *arg)
{
	struct exchange *ex = arg;

	(void)err; /* late or not: now it is decided */
	ex->sync = NULL;
	ex->want.synced = true;
	authorise(ex);
}

static void
hub_cb(void *arg)
{
	authorise(arg);
}

/* Decides, or finds out what it takes to decide. */
static void
authorise(struct exchange *ex)
{
	struct worker *w = ex->path->w;
	struct conn_state *cs = state_of(httpd_req_conn(ex->rq));
	struct route_sandbox *sb = NULL;

	ex->want.now_ms = loop_now_ms(worker_loop(w));
	switch (
	    auth_check(worker_auth(w), &cs->auth, &ex->want, &ex->who, &sb)) {
	case AUTH_OK:
		dispatch_go(ex, sb);
		return;
	case AUTH_REFUSED:
		exchange_fail(ex, GE_UNAUTHORIZED, NULL);
		return;
	case AUTH_FORBIDDEN:
		exchange_fail(ex, GE_FORBIDDEN, NULL);
		return;
	case AUTH_SYNC:
		ex->sync = worker_sync(w, synced_cb, ex);
		return;
	case AUTH_ASK_HUB:
		if (ex->asked_hub)
			break;
		ex->asked_hub = true;
		auth_hub_wait(worker_auth(w), &ex->want, &ex->hub, hub_cb, ex);
		return;
	case AUTH_DOWN:
		break;
	}
	exchange_fail(ex, GE_AUTH_UNAVAILABLE, NULL);
}

void
exchange_again(struct exchange *ex)
{
	route_release(ex->sb);
	ex->sb = NULL;
	authorise(ex);
}

/* --- arrival ----------------------------------------------------------- */

/* Writes "<prefix><seq>" in hex; a peer that we trust brings its own. */
static void
give_id(struct exchange *ex)
{
	static const char digits[] = "0123456789abcdef";
	uint64_t seq = ex->path->seq++;
	size_t n = strlen(ex->path->id_prefix);
	int shift;

	if (ex->trusted) {
		ex->id = forwarded_id(httpd_head(ex->rq));
		if (ex->id.len > 0)
			return;
	}
	memcpy(ex->id_own, ex->path->id_prefix, n);
	for (shift = 28; shift >= 0; shift -= 4)
		ex->id_own[n++] = digits[(seq >> shift) & 15];
	ex->id = (struct strv){ex->id_own, n};
}

/* Requests in absolute-form name us twice; both must be the same. */
static bool
authority_ok(const struct http_head *h)
{
	return !h->absolute ||
	       strv_eq_nocase(http1_authority(h), http1_get(h, H_HOST));
}

static void
answer_health(struct exchange *ex)
{
	const struct http_head *h = httpd_head(ex->rq);

	exchange_stop(ex);
	if (h->method != M_GET && h->method != M_HEAD) {
		httpd_respond(ex->rq, 405, "application/json",
			      STRV("Allow: GET, HEAD\r\n"
				   "Cache-Control: no-store\r\n"),
			      STRV("{\"error\":\"only GET\","
				   "\"code\":\"bad_request\"}\n"));
		return;
	}
	httpd_respond(ex->rq, 200, "application/json",
		      STRV("Cache-Control: no-store\r\n"),
		      STRV("{\"status\":\"ok\"}\n"));
}

/* A plain listener that only sends people to the encrypted one. */
static bool
answer_redirect(struct exchange *ex)
{
	const char *to = ex->ls->conf->redirect;
	struct strv path = http1_path(httpd_head(ex->rq));
	struct strbuf extra = {0};

	if (to == NULL || path.len == 0 || path.p[0] != '/')
		return false;
	exchange_stop(ex);
	strbuf_addf(&extra, "Location: %s%.*s\r\n", to, STRV_ARG(path));
	httpd_respond(ex->rq, 308, NULL, (struct strv){extra.s, extra.len},
		      STRV_NULL);
	strbuf_clear(&extra);
	return true;
}

static const struct httpd_req_cbs waiting_cbs = {
    .peer_eof = exchange_peer_eof,
    .closed = exchange_closed,
};

static struct exchange *
exchange_begin(struct httpd_req *rq, struct worker *w)
{
	const struct gw_conf *conf = worker_conf(w);
	struct httpd_conn *c = httpd_req_conn(rq);
	struct exchange *ex = httpd_alloc(rq, sizeof(*ex));
	struct stats *st = worker_stats(w);

	memset(ex, 0, sizeof(*ex));
	ex->path = worker_parts(w)->path;
	ex->rq = rq;
	ex->ls = httpd_conn_tag(c);
	ex->queue_us = ex->connect_us = ex->first_us = ACCESS_NO_TIME;
	ex->trusted =
	    conf->ntrusted > 0 &&
	    forwarded_trusts(conf->trusted, conf->ntrusted, httpd_conn_peer(c));
	st->requests_total++;
	st->requests_open++;
	give_id(ex);
	state_of(c)->ex = ex;
	if (door_excess(c))
		httpd_close_after(rq);
	httpd_set_cbs(rq, &waiting_cbs, ex);
	return ex;
}

static void
request_cb(struct httpd_req *rq, void *arg)
{
	struct worker *w = arg;
	struct exchange *ex = exchange_begin(rq, w);
	const struct http_head *h = httpd_head(rq);

	route_match(worker_conf(w), http1_get(h, H_HOST), http1_path(h),
		    &ex->m);
	if (!authority_ok(h)) {
		exchange_fail(ex, GE_BAD_REQUEST, "Host and target disagree");
		return;
	}
	if (ex->m.kind == ROUTE_HEALTH) {
		answer_health(ex);
		return;
	}
	if (door_excess(httpd_req_conn(rq))) {
		exchange_fail(ex, GE_LIMIT, "connections");
		return;
	}
	if (ex->ls->conf->redirect != NULL && answer_redirect(ex))
		return;
	if (ex->m.kind == ROUTE_BAD) {
		exchange_fail(ex, GE_BAD_REQUEST, ex->m.why);
	} else if (ex->m.kind == ROUTE_NONE) {
		exchange_fail(ex, GE_NO_ROUTE, NULL);
	} else if (dispatch_public(ex)) {
		dispatch_go(ex, NULL);
	} else {
		dispatch_need(ex);
		auth_read(h, &ex->want);
		if (!ex->trusted)
			ex->want.peer = httpd_conn_peer(httpd_req_conn(rq));
		ex->want.writes = dispatch_writes(ex);
		authorise(ex);
	}
}

/* --- life -------------------------------------------------------------- */

static void
open_log(struct worker *w, struct worker_parts *parts)
{
	const struct gw_conf *conf = worker_conf(w);
	int r;

	r = accesslog_open(worker_loop(w), conf->access, conf->access_file,
			   &parts->access_log);
	if (r == 0)
		return;
	log_error("access.open", "path=%s err=%s", conf->access_file,
		  err_text(r));
	r = accesslog_open(worker_loop(w), ACCESS_OFF, NULL,
			   &parts->access_log);
	assert(r == 0);
}

struct httpd *
exchange_httpd_new(struct worker *w)
{
	static const struct httpd_handler handler = {
	    .ready = door_ready,
	    .request = request_cb,
	    .refused = door_refused,
	    .conn_closed = door_closed,
	};
	const struct gw_conf *conf = worker_conf(w);
	struct worker_parts *parts = worker_parts(w);
	struct path *p = xcalloc(1, sizeof(*p));
	struct httpc_pool_options po = {.idle_ms = conf->t.upstream_idle,
					.max_idle = 512,
					.max_per_key = 32};
	struct httpd_options o = {.head_ms = conf->t.head,
				  .idle_ms = conf->t.idle,
				  .handshake_ms = conf->t.handshake,
				  .body_ms = conf->t.body,
				  .body_rate = conf->limits.body_rate,
				  .write_ms = conf->t.write,
				  .linger_ms = conf->t.linger,
				  .max_body = conf->limits.body};

	p->w = w;
	p->api = xasprintf("unix:%s/api.sock", conf->state_dir);
	token_hex(p->id_prefix, 6);
	parts->path = p;
	parts->pool = httpc_pool_new(worker_loop(w), &po);
	parts->limits = limits_new(&conf->limits);
	parts->auth = auth_new(worker_loop(w), conf, worker_routes(w));
	parts->connector = connector_new(w);
	open_log(w, parts);
	p->s = httpd_new(worker_loop(w), &o, &handler, w);
	return p->s;
}

void
exchange_httpd_free(struct worker *w, struct httpd *s)
{
	struct worker_parts *parts = worker_parts(w);

	tunnel_close_all(parts->path);
	httpd_close_all(s);
	httpd_free(s);
	connector_free(parts->connector);
	auth_free(parts->auth);
	httpc_pool_free(parts->pool);
	limits_free(parts->limits);
	accesslog_free(parts->access_log);
	free(((struct path *)parts->path)->api);
	free(parts->path);
	memset(parts, 0, sizeof(*parts));
}

size_t
exchange_count(struct worker *w)
{
	const struct path *p = worker_parts(w)->path;

	return limits_count(worker_limits(w)) + p->excess;
}

void
exchange_retire(struct worker *w)
{
	httpd_retire(worker_httpd(w));
}

void
exchange_drain(struct worker *w)
{
	httpd_drain(worker_httpd(w));
}

void
exchange_close_all(struct worker *w)
{
	tunnel_drain(worker_parts(w)->path);
	httpd_close_all(worker_httpd(w));
}

void
exchange_connected(struct worker *w, struct strv msg, int fd)
{
	connector_message(worker_connector(w), msg, fd);
}

void
exchange_job(struct worker *w, struct strv id)
{
	hold_wake(worker_parts(w)->path, id);
}

/* What is kept to the agent that a job had to itself. */
static void
forget_agent(struct worker *w, const struct route_sandbox *s)
{
	char *key = xasprintf("@%s", s->http);

	httpc_pool_flush(worker_pool(w), strv_of(key));
	free(key);
}

void
exchange_gone(struct worker *w, struct strv id, uint64_t generation)
{
	const struct route_sandbox *s = route_lookup(worker_routes(w), id);
	char key[SANDBOX_ID_MAX + 24];
	int n;

	if (s != NULL && s->http != NULL)
		forget_agent(w, s);
	hold_gone(worker_parts(w)->path, id, generation);

	n = snprintf(key, sizeof(key), "%.*s/%" PRIu64 "/", STRV_ARG(id),
		     generation);
	httpc_pool_flush(worker_pool(w), (struct strv){key, (size_t)n});
	tunnel_close_gone(worker_parts(w)->path, id, generation);
}

void
exchange_reopen_logs(struct worker *w)
{
	accesslog_reopen(worker_access_log(w));
}
