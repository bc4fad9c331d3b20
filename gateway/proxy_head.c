/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two heads, written anew: the request's for the server inside or its
 * agent, the response's for the client. What is not looked at here by its id
 * goes on as it came.
 */
#include "config.h"

#include <string.h>

#include "gateway/exchange_int.h"
#include "gateway/forwarded.h"
#include "gateway/gwconf.h"
#include "gateway/rewrite.h"
#include "net/execwire.h"
#include "net/httpd.h"

/* --- the request ------------------------------------------------------- */

static enum host_policy
host_policy(const struct exchange *ex)
{
	if (exchange_to_agent(ex))
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

struct strv
proxy_wanted_upgrade(const struct exchange *ex, const struct http_head *h)
{
	char **extra = worker_conf(ex->path->w)->upgrades;
	struct strv asked;

	if (!h->wants_upgrade || h->method != M_GET || h->minor == 0 ||
	    h->body != BODY_NONE)
		return STRV_NULL;
	asked = http1_get(h, H_UPGRADE);
	if (http1_list_has(asked, STRV("websocket")))
		return STRV("websocket");
	if (exchange_to_agent(ex) && http1_list_has(asked, EXECWIRE_PROTOCOL))
		return EXECWIRE_PROTOCOL;
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

	if (exchange_to_agent(ex) || !ex->who.by_token)
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

/* "X-Sbx-" and whatever: said by us, or to us. */
static bool
is_ours(struct strv name)
{
	return (name.len > 6 && (name.p[0] == 'X' || name.p[0] == 'x') &&
		(name.p[1] == '-' || name.p[1] == '_') &&
		strv_eq_nocase((struct strv){name.p + 2, 3}, STRV("sbx")) &&
		(name.p[5] == '-' || name.p[5] == '_')) ||
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
		host = rewrite_local_host(
		    exchange_to_agent(ex) ? 80 : ex->m.port, local);
	http1_put(w, STRV("Host"), host);
}

/* Ours to an agent: the client's own token where it is the sandbox's, else
 * what the agent wants of us. */
static void
put_agent_token(const struct exchange *ex, struct http_writer *w)
{
	bool own = ex->who.kind == AUTH_SANDBOX;

	if (ex->sb != NULL && ex->sb->job) {
		/* Not looked at here: it is between the two of them. */
		if (ex->want.token.p != NULL)
			http1_put(w, STRV("X-Sandbox-Token"), ex->want.token);
		return;
	}
	if (own && ex->sb != NULL &&
	    (ex->sb->conf == NULL || ex->agent_token == NULL))
		http1_put(w, STRV("X-Sandbox-Token"), ex->want.token);
	else if (ex->agent_token != NULL)
		http1_put(w, STRV("X-Sandbox-Token"), strv_of(ex->agent_token));
}

/* Who asks, for the control plane, and by which origin it was reached. */
static void
put_identity(const struct exchange *ex, const struct forwarded *f,
	     struct http_writer *w)
{
	struct strv origin[3], role;

	forwarded_origin(f, origin);
	http1_put_parts(w, STRV("X-Sbx-Origin"), origin, 3);
	if (ex->user.len == 0)
		return;
	role = ex->who.kind == AUTH_OPERATOR ? STRV("operator")
	       : ex->who.kind == AUTH_ADMIN  ? STRV("admin")
	       : ex->who.readonly            ? STRV("readonly")
					     : STRV("user");
	http1_put(w, STRV("X-Sbx-User"), ex->user);
	http1_put(w, STRV("X-Sbx-Namespaces"), ex->namespaces);
	http1_put(w, STRV("X-Sbx-Role"), role);
}

void
proxy_put_request(struct exchange *ex, const struct http_head *h,
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
	if (ex->to_api)
		put_identity(ex, &f, w);
	else if (exchange_to_agent(ex))
		put_agent_token(ex, w);
}

size_t
proxy_request_room(const struct exchange *ex, const struct http_head *h)
{
	return h->len + ex->target.len + ex->m.prefix.len + 1024 +
	       3 * exchange_host(ex).len + ex->id.len + ex->user.len +
	       ex->namespaces.len;
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
	bool rewrite =
	    worker_conf(ex->path->w)->rewrite && !exchange_to_agent(ex);
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

void
proxy_inform(struct exchange *ex, const struct http_head *h)
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
