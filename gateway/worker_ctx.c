/* SPDX-License-Identifier: Apache-2.0 */
/* What the request path sees of a worker; it calls nothing of its life. */
#include "config.h"

#include "gateway/worker_int.h"

struct loop *
worker_loop(struct worker *w)
{
	return w->o.loop;
}

const struct gw_conf *
worker_conf(struct worker *w)
{
	return w->o.conf;
}

struct route_table *
worker_routes(struct worker *w)
{
	return w->routes;
}

struct httpc_pool *
worker_pool(struct worker *w)
{
	return w->parts.pool;
}

struct stats *
worker_stats(struct worker *w)
{
	return &w->stats;
}

struct access_log *
worker_access_log(struct worker *w)
{
	return w->parts.access_log;
}

struct auth *
worker_auth(struct worker *w)
{
	return w->parts.auth;
}

struct connector *
worker_connector(struct worker *w)
{
	return w->parts.connector;
}

struct limits *
worker_limits(struct worker *w)
{
	return w->parts.limits;
}

struct seqpkt *
worker_channel(struct worker *w)
{
	return w->channel;
}

struct httpd *
worker_httpd(struct worker *w)
{
	return w->httpd;
}

struct worker_parts *
worker_parts(struct worker *w)
{
	return &w->parts;
}

unsigned
worker_index(const struct worker *w)
{
	return w->o.index;
}

bool
worker_direct(const struct worker *w)
{
	return w->o.direct;
}
