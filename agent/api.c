/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which request is what, and who may do it. Paths are looked at raw: nothing
 * in them is decoded before the route is known. A token is judged before it is
 * said whether a sandbox exists.
 */
#include "config.h"

#include "agent/api_int.h"

#include <stdlib.h>
#include <string.h>

#include "agent/walls.h"
#include "base/mem.h"
#include "base/token.h"
#include "net/buf.h"
#include "net/loop.h"

#define API_BODY_MS  120000
#define API_WRITE_MS (24ULL * 3600 * 1000) /* a slow reader is no error */

struct api_route {
	enum http_method method;
	const char *path; /* "*" stands for one segment */
	void (*fn)(struct call *c);
};

/* Below /v1 in dedicated mode, below /v1/sandboxes/<id> in host mode. */
static const struct api_route scoped[] = {
    {M_POST, "exec", api_exec},
    {M_GET, "exec/attach", api_exec_attach},
    {M_GET, "exec/*", api_exec_resume},
    {M_POST, "processes", api_processes},
    {M_POST, "procs", api_processes},
    {M_GET, "processes", api_procs_list},
    {M_GET, "procs", api_procs_list},
    {M_DELETE, "processes/*", api_procs_delete},
    {M_DELETE, "procs/*", api_procs_delete},
    {M_GET, "processes/*/logs", api_procs_logs},
    {M_GET, "procs/*/logs", api_procs_logs},
    {M_GET, "processes/*/wait", api_procs_wait},
    {M_GET, "procs/*/wait", api_procs_wait},
    {M_POST, "processes/*/kill", api_procs_kill},
    {M_POST, "procs/*/kill", api_procs_kill},
    {M_POST, "processes/*/stdin", api_procs_stdin},
    {M_POST, "procs/*/stdin", api_procs_stdin},
    {M_GET, "ports", api_ports},
    {M_GET, "files/read", api_files_read},
    {M_PUT, "files/write", api_files_write},
    {M_GET, "files/list", api_files_list},
    {M_GET, "files/stat", api_files_stat},
    {M_DELETE, "files/delete", api_files_delete},
    {M_POST, "files/mkdir", api_files_mkdir},
    {M_POST, "run_code", api_run_code},
    {M_POST, "run_code/interrupt", api_run_code_interrupt},
    {M_POST, "run_code/fork", api_run_code_fork},
    {M_POST, "run_code/diff", api_run_code_diff},
    {M_POST, "run_code/merge_into", api_run_code_merge},
    {M_GET, "run_code/contexts", api_run_code_list},
    {M_DELETE, "run_code/contexts/*", api_run_code_delete},
    {M_OTHER, NULL, NULL},
};

/* Below /v1 in host mode. */
static const struct api_route of_host[] = {
    {M_POST, "sandboxes", api_sandboxes_create},
    {M_GET, "sandboxes", api_sandboxes_list},
    {M_DELETE, "sandboxes", api_sandboxes_delete_all},
    {M_PUT, "env", api_env_put},
    {M_OTHER, NULL, NULL},
};

/* Below /v1 in dedicated mode, before the scoped ones. */
static const struct api_route of_dedicated[] = {
    {M_PUT, "env", api_env_put},
    {M_OTHER, NULL, NULL},
};

/* Below /v1/sandboxes/<id>, for the host's token only. */
static const struct api_route of_sandbox[] = {
    {M_DELETE, "", api_sandbox_delete},
    {M_GET, "token", api_sandbox_token},
    {M_OTHER, NULL, NULL},
};

/* --- a call ------------------------------------------------------------ */

static void
api_body_cb(struct httpd_req *rq, struct bufq *in, bool end, void *arg)
{
	struct call *c = arg;

	(void)rq;
	if (c->on_body != NULL)
		c->on_body(c, in, end);
	else
		bufq_drain(in, in->len);
}

static void
api_drained_cb(struct httpd_req *rq, void *arg)
{
	struct call *c = arg;

	(void)rq;
	if (c->on_drained != NULL)
		c->on_drained(c);
}

static void
api_closed_cb(struct httpd_req *rq, int err, void *arg)
{
	struct call *c = arg;

	(void)rq;
	if (c->on_closed != NULL)
		c->on_closed(c, err);
	api_unhold(c);
	if (c->sb != NULL) {
		uint64_t active_ms = c->sb->active_ms;

		sandbox_leave(c->sb);
		if (c->quiet) /* nothing has happened */
			c->sb->active_ms = active_ms;
	}
	c->api->busy--;
	if (!c->quiet)
		c->api->active_ms = loop_now_ms(c->api->o.loop);
	strbuf_clear(&c->body);
}

static const struct httpd_req_cbs api_cbs = {
    .body = api_body_cb,
    .drained = api_drained_cb,
    .closed = api_closed_cb,
};

static struct call *
api_call(struct api *a, struct httpd_req *rq, struct sandbox *sb,
	 struct strv rest, struct strv query)
{
	struct call *c = httpd_alloc(rq, sizeof(*c));

	memset(c, 0, sizeof(*c));
	c->api = a;
	c->rq = rq;
	c->sb = sb;
	c->method = httpd_head(rq)->method;
	c->rest = rest;
	c->query = query;
	if (sb != NULL)
		sandbox_enter(sb);
	a->busy++;
	httpd_set_cbs(rq, &api_cbs, c);
	return c;
}

/* --- routes ------------------------------------------------------------ */

/* Matches path against a pattern; *id gets what stands for "*". */
static bool
api_matches(const char *pattern, struct strv path, struct strv *id)
{
	struct strv pat = strv_of(pattern), want, have;
	bool a, b;

	for (;;) {
		a = strv_cut(&pat, '/', &want);
		b = strv_cut(&path, '/', &have);
		if (!a || !b)
			return !a && !b;
		if (strv_eq(want, STRV("*")) && have.len > 0)
			*id = have;
		else if (!strv_eq(want, have))
			return false;
	}
}

static bool
api_has_route(struct call *c, const struct api_route *table)
{
	while (table->path != NULL &&
	       !api_matches(table->path, c->rest, &c->id))
		table++;
	return table->path != NULL;
}

/* The path is one of the table's; it says which methods it has. */
static void
api_wrong_method(struct call *c, const struct api_route *table)
{
	struct strbuf allow = {0};

	strbuf_adds(&allow, "Allow: ");
	for (const struct api_route *r = table; r->path != NULL; r++) {
		if (!api_matches(r->path, c->rest, &c->id))
			continue;
		if (!strv_ends((struct strv){allow.s, allow.len}, STRV(": ")))
			strbuf_adds(&allow, ", ");
		strbuf_adds(&allow, r->method == M_GET    ? "GET"
				    : r->method == M_POST ? "POST"
				    : r->method == M_PUT  ? "PUT"
							  : "DELETE");
	}
	strbuf_adds(&allow, "\r\n");
	api_error_with(c->rq, 405, (struct strv){allow.s, allow.len}, "method",
		       "no such method here");
	strbuf_clear(&allow);
}

/* Runs the route; false when none of the table has that path. */
static bool
api_route(struct call *c, const struct api_route *table)
{
	for (const struct api_route *r = table; r->path != NULL; r++) {
		if (r->method == c->method &&
		    api_matches(r->path, c->rest, &c->id)) {
			r->fn(c);
			return true;
		}
	}
	if (!api_has_route(c, table))
		return false;
	api_wrong_method(c, table);
	return true;
}

static void
api_no_route(struct httpd_req *rq)
{
	api_error(rq, 404, "no_such_route", "no such route");
}

static void
api_scoped(struct call *c)
{
	if (strv_starts(c->rest, STRV("proxy/"))) {
		c->rest = strv_from(c->rest, 6);
		api_proxy(c);
	} else if (!api_route(c, scoped)) {
		api_no_route(c->rq);
	}
}

/* --- who --------------------------------------------------------------- */

static bool
api_is_host(struct api *a, struct strv token)
{
	return a->o.token == NULL ||
	       (token.p != NULL && token_equal(strv_of(a->o.token), token));
}

static void
api_refuse(struct httpd_req *rq)
{
	api_error(rq, 403, "unauthorized", "wrong or missing X-Sandbox-Token");
}

static void
api_dedicated(struct api *a, struct httpd_req *rq, struct strv rest,
	      struct strv query)
{
	struct strv token = http1_get(httpd_head(rq), H_X_SANDBOX_TOKEN);
	struct call *c;

	if (!api_is_host(a, token)) {
		api_refuse(rq);
		return;
	}
	c = api_call(a, rq, a->o.root, rest, query);
	if (!api_route(c, of_dedicated))
		api_scoped(c);
}

/* /v1/sandboxes/<id>[/rest] */
static void
api_sandbox(struct api *a, struct httpd_req *rq, struct strv path,
	    struct strv query)
{
	struct strv token = http1_get(httpd_head(rq), H_X_SANDBOX_TOKEN), id;
	bool is_host = api_is_host(a, token);
	struct sandbox *sb;
	struct call *c;

	(void)strv_cut(&path, '/', &id);
	if (path.p == NULL)
		path = STRV("");
	sb = host_find(a->o.host, id);
	if (!is_host && (sb == NULL || token.p == NULL ||
			 !token_equal(strv_of(sb->token), token))) {
		api_refuse(rq);
		return;
	}
	if (sb == NULL) {
		api_error(rq, 404, "no_such_sandbox", "no such sandbox");
		return;
	}
	c = api_call(a, rq, sb, path, query);
	if (!is_host && api_has_route(c, of_sandbox))
		api_error(rq, 403, "unauthorized",
			  "the host's X-Sandbox-Token is wanted");
	else if (!is_host || !api_route(c, of_sandbox))
		api_scoped(c);
}

static void
api_hosted(struct api *a, struct httpd_req *rq, struct strv rest,
	   struct strv query)
{
	struct strv token = http1_get(httpd_head(rq), H_X_SANDBOX_TOKEN);
	struct call *c;

	if (strv_starts(rest, STRV("sandboxes/"))) {
		api_sandbox(a, rq, strv_from(rest, 10), query);
		return;
	}
	if (!api_is_host(a, token)) {
		api_refuse(rq);
		return;
	}
	c = api_call(a, rq, NULL, rest, query);
	if (!api_route(c, of_host))
		api_no_route(rq);
}

/* --- requests ---------------------------------------------------------- */

static void
api_health(struct api *a, struct httpd_req *rq)
{
	struct strbuf b = {0};
	static const struct walls none = {0};
	const struct walls *w =
	    a->o.host != NULL ? host_walls(a->o.host) : &none;
	size_t n = a->o.host != NULL ? host_count(a->o.host) : 0;

	strbuf_addf(
	    &b,
	    "{\"status\":\"ok\",\"version\":\"%s\",\"uptime_ms\":%llu,"
	    "\"sandboxes\":%zu,\"landlock_abi\":%d,"
	    "\"isolation\":\"%s\",\"namespaces\":%s,\"cgroup\":%s,\"seccomp\":%"
	    "s}",
	    PACKAGE_VERSION,
	    (unsigned long long)((loop_clock_us() - a->started_us) / 1000), n,
	    walls_landlock_abi(w),
	    a->o.host != NULL ? host_isolation(a->o.host) : "none",
	    w->borrow != NULL ? "true" : "false",
	    w->cgroup != NULL ? "true" : "false",
	    w->seccomp ? "true" : "false");
	httpd_respond(rq, 200, API_JSON_TYPE, STRV_NULL,
		      (struct strv){b.s, b.len});
	strbuf_clear(&b);
}

static void
api_request_cb(struct httpd_req *rq, void *arg)
{
	const struct http_head *h = httpd_head(rq);
	struct strv query = http1_path(h), path;
	struct api *a = arg;

	(void)strv_cut(&query, '?', &path);
	if (strv_eq(path, STRV("/health"))) {
		if (h->method == M_GET || h->method == M_HEAD)
			api_health(a, rq);
		else
			api_error_with(rq, 405, STRV("Allow: GET, HEAD\r\n"),
				       "method", "no such method here");
	} else if (!strv_starts(path, STRV("/v1/"))) {
		api_no_route(rq);
	} else if (a->o.host != NULL) {
		api_hosted(a, rq, strv_from(path, 4), query);
	} else {
		api_dedicated(a, rq, strv_from(path, 4), query);
	}
}

/* Malformed requests get JSON as well. */
static bool
api_refused_cb(struct httpd_conn *conn, unsigned status, const char *what,
	       void *arg)
{
	struct strbuf b = {0};

	(void)arg;
	strbuf_adds(&b, "{\"error\":");
	strbuf_add_json(&b, strv_of(what));
	strbuf_adds(&b, ",\"code\":\"bad_request\"}");
	httpd_conn_respond(conn, status, API_JSON_TYPE, STRV_NULL,
			   (struct strv){b.s, b.len});
	strbuf_clear(&b);
	return true;
}

struct api *
api_new(const struct api_options *o)
{
	static const struct httpd_handler handler = {
	    .request = api_request_cb,
	    .refused = api_refused_cb,
	};
	static const struct httpd_options options = {
	    .head_ms = 10000,
	    .idle_ms = 75000,
	    .handshake_ms = 10000,
	    .body_ms = API_BODY_MS,
	    .write_ms = API_WRITE_MS,
	    .linger_ms = 2000,
	    .max_body = API_SMALL_MAX,
	};
	struct api *a = xcalloc(1, sizeof(*a));

	a->o = *o;
	a->started_us = loop_clock_us();
	a->active_ms = loop_now_ms(o->loop);
	work_lane_init(&a->closing, o->work, WORK_THREADS);
	a->httpd = httpd_new(o->loop, &options, &handler, a);
	return a;
}

void
api_free(struct api *a)
{
	if (a == NULL)
		return;
	httpd_free(a->httpd);
	free(a);
}

struct httpd *
api_httpd(struct api *a)
{
	return a->httpd;
}

bool
api_idle(const struct api *a)
{
	if (a->busy > 0)
		return false;
	if (a->o.root != NULL)
		return sandbox_idle(a->o.root);
	for (struct sandbox *sb = host_next(a->o.host, NULL); sb != NULL;
	     sb = host_next(a->o.host, sb)) {
		if (!sandbox_idle(sb))
			return false;
	}
	return true;
}

uint64_t
api_active_ms(const struct api *a)
{
	uint64_t ms = a->active_ms;

	if (a->o.root != NULL)
		return sandbox_active_ms(a->o.root) > ms
			   ? sandbox_active_ms(a->o.root)
			   : ms;
	for (struct sandbox *sb = host_next(a->o.host, NULL); sb != NULL;
	     sb = host_next(a->o.host, sb)) {
		if (sandbox_active_ms(sb) > ms)
			ms = sandbox_active_ms(sb);
	}
	return ms;
}
