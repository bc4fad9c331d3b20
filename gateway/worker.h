/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One worker: accepts, terminates TLS, authenticates, routes and proxies.
 * Usually a process of its own without root; with workers = 1 in the
 * foreground it shares the master's process and loop. struct worker is the
 * context that the request path (exchange, auth, proxy, tunnel) is given.
 */
#ifndef SBX_GATEWAY_WORKER_H
#define SBX_GATEWAY_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/defs.h"
#include "gateway/gwconf.h"
#include "gateway/route.h"
#include "gateway/stats.h"

struct access_log;
struct auth;
struct connector;
struct httpc_pool;
struct httpd;
struct limits;
struct loop;
struct seqpkt;
struct tls_ticket_keys;
struct tlsctx;
struct worker;

struct worker_listener {
	const struct gw_listen *conf;
	int fd;             /* taken by worker_start(): a duplicate, or a worker
			     * process's inherited one */
	struct tlsctx *tls; /* NULL: plain */
};

struct worker_options {
	struct loop *loop;
	const struct gw_conf *conf;
	unsigned index;
	int channel; /* our end of the pair with the master; taken */
	const struct worker_listener *listeners;
	size_t nlisteners;
	bool direct; /* same uid as the master: opens sockets itself */
	struct route_table *routes;            /* copied: where to begin */
	const struct tls_ticket_keys *tickets; /* copied */
	/* Drained, or the master is gone. The callee frees w, then or
	 * later. */
	void (*exited)(struct worker *w, void *arg);
	void *arg;
};

struct worker *worker_start(const struct worker_options *o);
void worker_free(struct worker *w);

/* --- for the request path ---------------------------------------------- */
struct loop *worker_loop(struct worker *w);
const struct gw_conf *worker_conf(struct worker *w);
struct route_table *worker_routes(struct worker *w);
struct httpc_pool *worker_pool(struct worker *w);
struct stats *worker_stats(struct worker *w);
struct access_log *worker_access_log(struct worker *w);
struct auth *worker_auth(struct worker *w);
struct connector *worker_connector(struct worker *w);
struct limits *worker_limits(struct worker *w);
struct seqpkt *worker_channel(struct worker *w);
/* It may open the sockets of configured sandboxes itself; else the connector
 * asks the master (`connect`). */
bool worker_direct(const struct worker *w);
struct httpd *worker_httpd(struct worker *w);
unsigned worker_index(const struct worker *w);
/* What the request path made for itself (exchange_httpd_new() fills it and
 * exchange_httpd_free() empties it); the accessors above read it. */
struct worker_parts {
	struct httpc_pool *pool;
	struct access_log *access_log;
	struct auth *auth;
	struct connector *connector;
	struct limits *limits;
	void *path; /* anything else of exchange.c */
};
struct worker_parts *worker_parts(struct worker *w);
/* Calls fn once the replica holds everything that existed when this was
 * called (one round trip to the master and its agents, shared by all who
 * wait), or after 1 s with err E_TIMEOUT. Never from inside the call. The
 * returned handle cancels. */
struct worker_wait;
struct worker_wait *worker_sync(struct worker *w,
				void (*fn)(int err, void *arg), void *arg);
void worker_sync_cancel(struct worker_wait *h);

#endif
