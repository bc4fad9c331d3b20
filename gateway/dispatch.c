/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the way a request is routed to where it is sent: which credential it
 * takes, which agent or port inside is meant, and the target that is asked for
 * there. The sandbox that was authorised is the only one that the request can
 * get to, whatever its path says.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "gateway/exchange_int.h"
#include "gateway/gwconf.h"
#include "gateway/rewrite.h"
#include "net/httpd.h"

/* --- what must be open ------------------------------------------------- */

/* "/v1/sandboxes" and what is below. */
static bool
is_list(struct strv tail)
{
	const struct strv list = STRV("/v1/sandboxes");

	if (!strv_starts(tail, list))
		return false;
	return tail.len == list.len || tail.p[list.len] == '/' ||
	       tail.p[list.len] == '?';
}

/* "/v1/sandboxes" itself: creating, listing, deleting all of them. */
static bool
is_whole_list(struct strv tail)
{
	struct strv rest;

	if (!is_list(tail))
		return false;
	rest = strv_from(tail, STRV("/v1/sandboxes").len);
	if (rest.len > 0 && rest.p[0] == '/')
		rest = strv_from(rest, 1);
	return rest.len == 0 || rest.p[0] == '?';
}

/* "/v1/exec" of one sandbox, as an agent of many wants it. */
static struct strv
scoped_target(struct exchange *ex, const char *id, struct strv tail)
{
	struct strv rest;
	size_t n;
	char *p;

	if (!strv_starts(tail, STRV("/v1/")))
		return tail;
	rest = strv_from(tail, 4);
	n = STRV("/v1/sandboxes/").len + strlen(id) + 1 + rest.len;
	p = httpd_alloc(ex->rq, n + 1);
	(void)snprintf(p, n + 1, "/v1/sandboxes/%s/%.*s", id, STRV_ARG(rest));
	return (struct strv){p, n};
}

/* The default sandbox, if it has an agent to itself. */
static const struct gw_sandbox_conf *
default_with_agent(struct route_table *t)
{
	struct route_sandbox *sb = route_lookup(t, STRV_NULL);

	if (sb == NULL || sb->conf == NULL || sb->conf->agent == NULL)
		return NULL;
	return sb->conf;
}

void
dispatch_need(struct exchange *ex)
{
	struct route_table *t = worker_routes(ex->path->w);
	struct route_match *m = &ex->m;
	struct auth_req *q = &ex->want;

	/* By name it is a sandbox or a job, whatever the path says. */
	ex->by_label =
	    m->label.len > 0 && (route_agent(t, m->label) == NULL ||
				 route_is_machine(route_lookup(t, m->label)));
	q->id = ex->by_label ? m->label : m->id;
	q->need = AUTH_NEED_SANDBOX;
	if (m->kind == ROUTE_API)
		q->need = AUTH_NEED_USER;
	else if (m->kind == ROUTE_AGENT && is_whole_list(m->tail))
		q->need = ex->by_label ? AUTH_NEED_LIST : AUTH_NEED_OPERATOR;
	else if (m->kind == ROUTE_AGENT && q->id.len == 0 &&
		 (m->label.len > 0 || default_with_agent(t) == NULL))
		q->need = AUTH_NEED_OPERATOR;
}

/* What answers with a secret gives away more than may be read. */
static bool
is_secret(const struct route_match *m)
{
	struct strv path = m->tail, query;

	if (m->kind != ROUTE_AGENT)
		return false;
	query = path;
	(void)strv_cut(&query, '?', &path);
	while (path.len > 0 && path.p[path.len - 1] == '/')
		path.len--;
	return strv_ends(path, STRV("/token"));
}

bool
dispatch_writes(const struct exchange *ex)
{
	const struct http_head *h = httpd_head(ex->rq);

	/* Reading is a POST there, too: the service knows what it may. */
	if (ex->m.rpc)
		return false;
	return (h->method != M_GET && h->method != M_HEAD &&
		h->method != M_OPTIONS) ||
	       h->wants_upgrade || is_secret(&ex->m);
}

/* For the request's life: the table may drop the agent meanwhile. */
static const char *
keep_string(struct exchange *ex, const char *s)
{
	size_t n = s != NULL ? strlen(s) + 1 : 0;

	return n > 0 ? memcpy(httpd_alloc(ex->rq, n), s, n) : NULL;
}

/* The agent whose HTTP serves this; false when there is none. */
static bool
find_agent(struct exchange *ex)
{
	struct route_table *t = worker_routes(ex->path->w);
	const struct gw_sandbox_conf *conf;

	if (ex->sb != NULL)
		ex->agent = ex->sb->agent;
	else if (ex->m.label.len > 0)
		ex->agent = route_agent(t, ex->m.label);
	if (ex->sb == NULL && ex->agent == NULL)
		ex->agent = route_default_agent(t);
	conf = ex->sb != NULL ? ex->sb->conf : NULL;
	if (ex->sb == NULL && ex->agent == NULL)
		conf = default_with_agent(t);
	if (conf != NULL) {
		ex->agent_http = conf->agent;
		ex->agent_token = conf->agent_token;
		return conf->agent != NULL;
	}
	if (ex->agent == NULL)
		return false;
	ex->agent_http = keep_string(ex, ex->agent->http);
	ex->agent_token = keep_string(ex, ex->agent->token);
	return true;
}

/* Answers when that agent is known to be out of reach. */
static bool
agent_down(struct exchange *ex)
{
	if (ex->agent == NULL || ex->agent->down == NULL)
		return false;
	exchange_fail(ex, GE_TUNNEL_DOWN, ex->agent->down);
	return true;
}

/* A request for an agent: everything but a port inside. */
static void
go_agent(struct exchange *ex)
{
	struct strv tail = ex->m.tail;

	if (!route_plain_path(tail)) {
		exchange_fail(ex, GE_BAD_REQUEST,
			      "that path could be read in two ways");
		return;
	}
	if (!find_agent(ex)) {
		exchange_fail(ex,
			      ex->sb == NULL && ex->m.id.len > 0
				  ? GE_NO_SUCH_SANDBOX
				  : GE_NO_ROUTE,
			      NULL);
		return;
	}
	if (agent_down(ex))
		return;
	if (ex->m.label.len > 0 && ex->sb != NULL && ex->sb->conf == NULL &&
	    !route_is_machine(ex->sb) && !is_list(tail))
		tail = scoped_target(ex, ex->sb->id, tail);
	ex->target = tail;
	proxy_start(ex);
}

/* All that is behind a job's label is for its agent, which looks at the
 * X-Sandbox-Token. What is meant for a port goes on below its prefix there. */
static void
go_job(struct exchange *ex)
{
	const struct route_match *m = &ex->m;

	if (m->kind == ROUTE_PORT ? !route_stays_below(m->tail)
				  : !route_plain_path(m->inner)) {
		exchange_fail(ex, GE_BAD_REQUEST,
			      "that path could be read in two ways");
		return;
	}
	if (ex->sb->http == NULL) {
		exchange_fail(ex, GE_NO_ROUTE, "this job has no agent");
		return;
	}
	ex->agent_http = ex->sb->http;
	ex->target = m->inner;
	proxy_start(ex);
}

/* A port that only its agent can connect to: below that one's own route. */
static void
go_port_there(struct exchange *ex)
{
	const struct route_sandbox *sb = ex->sb;
	bool machine = route_is_machine(sb);
	struct strv tail = ex->m.tail;
	char *p;

	if (ex->m.keep_prefix) /* all of it is the inner server's */
		tail = http1_path(httpd_head(ex->rq));
	if (!route_stays_below(tail)) {
		exchange_fail(ex, GE_BAD_REQUEST,
			      "dot segments cannot be sent on there");
		return;
	}
	(void)find_agent(ex);
	if (agent_down(ex))
		return;
	p = httpd_alloc(ex->rq, tail.len + 128);
	tail.len =
	    (size_t)snprintf(p, tail.len + 128, "/v1/%s%s%sproxy/%u%.*s",
			     machine ? "" : "sandboxes/", machine ? "" : sb->id,
			     machine ? "" : "/", ex->m.port, STRV_ARG(tail));
	tail.p = p;
	ex->target = tail;
	proxy_start(ex);
}

/* A port: what the server inside gets as its target. */
static void
go_port(struct exchange *ex)
{
	struct strv tail = ex->m.tail, rest;
	char *p;

	if (ex->sb == NULL) {
		exchange_fail(ex, GE_NO_SUCH_SANDBOX, NULL);
		return;
	}
	if (ex->sb->job && ex->sb->control == NULL) {
		exchange_fail(ex, GE_NO_ROUTE,
			      "this job has no ports of its own");
		return;
	}
	if (!connector_reaches(ex->sb)) {
		go_port_there(ex);
		return;
	}
	if (ex->m.keep_prefix) {
		tail = http1_path(httpd_head(ex->rq));
	} else if (tail.len == 0) {
		tail = STRV("/");
	} else if (tail.p[0] == '?') {
		rest = tail;
		p = httpd_alloc(ex->rq, rest.len + 1);
		p[0] = '/';
		memcpy(p + 1, rest.p, rest.len);
		tail = (struct strv){p, rest.len + 1};
	}
	ex->target = tail;
	proxy_start(ex);
}

/* --- the control plane ------------------------------------------------- */

/* "/api/jobs/ID/register", which has a token of its own. */
static bool
is_register(struct strv path)
{
	const struct strv head = STRV("/api/jobs/"), tail = STRV("/register");

	return strv_starts(path, head) && strv_ends(path, tail) &&
	       path.len > head.len + tail.len &&
	       memchr(path.p + head.len, '/', path.len - head.len - tail.len) ==
		   NULL;
}

bool
dispatch_public(const struct exchange *ex)
{
	static const char *const open[] = {
	    "/api/agent-harnesses", "/podflare/v1/healthz",
	    "/buckets/huggingface/sbx-server/resolve/sbx-server"};
	const struct http_head *h = httpd_head(ex->rq);
	struct strv path, rest = http1_path(h);

	if (ex->m.kind != ROUTE_API)
		return false;
	(void)strv_cut(&rest, '?', &path);
	if (h->method == M_POST)
		return is_register(path);
	if (h->method != M_GET && h->method != M_HEAD)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(open); i++)
		if (strv_eq(path, strv_of(open[i])))
			return true;
	return false;
}

static struct strv
keep_text(struct exchange *ex, const char *s)
{
	size_t n = s != NULL ? strlen(s) : 0;
	char *p;

	if (n == 0)
		return STRV_NULL;
	p = httpd_alloc(ex->rq, n);
	memcpy(p, s, n);
	return (struct strv){p, n};
}

static void
go_api(struct exchange *ex)
{
	ex->to_api = true;
	ex->agent_http = ex->path->api;
	ex->target = http1_path(httpd_head(ex->rq));
	ex->user = keep_text(ex, ex->who.user);
	ex->namespaces = keep_text(ex, ex->who.namespaces);
	proxy_start(ex);
}

/* --- authorised -------------------------------------------------------- */

/* A page whose relative links would go wrong without the slash. */
static void
add_slash(struct exchange *ex)
{
	struct strbuf extra = {0};
	struct strv prefix = ex->m.prefix, tail = ex->m.tail;

	exchange_stop(ex);
	strbuf_addf(&extra,
		    "Location: %.*s/%.*s\r\nCache-Control: no-store\r\n",
		    STRV_ARG(prefix), STRV_ARG(tail));
	httpd_respond(ex->rq, 308, NULL, (struct strv){extra.s, extra.len},
		      STRV_NULL);
	strbuf_clear(&extra);
}

static bool
is_gone(struct exchange *ex)
{
	const struct http_head *h = httpd_head(ex->rq);

	if (ex->sb == NULL || !ex->sb->gone)
		return false;
	/* Deleting once more is the agent's to answer. */
	return ex->sb->job ||
	       !(ex->m.kind == ROUTE_AGENT && h->method == M_DELETE &&
		 ex->who.kind >= AUTH_ADMIN);
}

/* A sandbox by name: the path may name no other. */
static bool
contradicts(struct exchange *ex)
{
	struct route_match *m = &ex->m;

	if (m->label.len == 0 || (ex->sb != NULL && ex->sb->job))
		return false;
	if (ex->by_label) {
		if (m->id.len > 0 && !strv_eq_nocase(m->id, m->label)) {
			exchange_fail(ex, GE_BAD_REQUEST,
				      "the path names another sandbox");
			return true;
		}
		m->id = m->label;
	}
	if (ex->sb != NULL && ex->sb->agent != NULL &&
	    !strv_eq_nocase(m->label, strv_of(ex->sb->id)) &&
	    !strv_eq_nocase(m->label, strv_of(ex->sb->agent->name))) {
		exchange_fail(ex, GE_NO_SUCH_SANDBOX, NULL);
		return true;
	}
	return false;
}

/* To where it was asked to go. */
static void
go(struct exchange *ex)
{
	bool job = ex->sb != NULL && ex->sb->job;

	if (ex->m.kind == ROUTE_API)
		go_api(ex);
	else if (ex->m.kind == ROUTE_PORT && ex->m.no_slash &&
		 !ex->m.keep_prefix &&
		 rewrite_is_navigation(httpd_head(ex->rq)))
		add_slash(ex);
	else if (job && ex->by_label)
		go_job(ex);
	else if (ex->m.kind == ROUTE_PORT)
		go_port(ex);
	else if (job)
		exchange_fail(ex, GE_NO_ROUTE,
			      "a job's agent is at /<job>--49983.<any>/");
	else
		go_agent(ex);
}

void
dispatch_go(struct exchange *ex, struct route_sandbox *sb)
{
	const struct gw_conf *conf = worker_conf(ex->path->w);
	uint64_t most = conf->limits.conns_per_sandbox;

	ex->queue_us = exchange_elapsed_us(ex);
	if (sb != NULL) {
		bool full = most != 0 && sb->conns >= most;

		route_hold(sb);
		ex->sb = sb;
		if (full) {
			exchange_fail(ex, GE_LIMIT,
				      "requests for this sandbox");
			return;
		}
	}
	if (is_gone(ex))
		exchange_fail(ex, GE_SANDBOX_STOPPED, ex->sb->gone_reason);
	else if (ex->sb != NULL && route_starts(ex->sb))
		hold_start(ex);
	else if (!contradicts(ex))
		go(ex);
}
