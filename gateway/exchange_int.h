/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What exchange.c (arrival, authorisation, errors, log), proxy.c (upstream and
 * the two messages) and tunnel.c (after a 101) share; private to them.
 *
 * An exchange is in one state:
 *   AUTH     waits for the table or the hub, or for a job to start
 *   CONNECT  waits for a connection
 *   PROXY    the request is on its way, the response awaited or flowing
 *   DONE     answered (by us or to the end), or given up; only `closed` is left
 */
#ifndef SBX_GATEWAY_EXCHANGE_INT_H
#define SBX_GATEWAY_EXCHANGE_INT_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/auth.h"
#include "gateway/connector.h"
#include "gateway/errpage.h"
#include "gateway/exchange.h"
#include "gateway/hub.h"
#include "gateway/rewrite.h"
#include "gateway/route.h"
#include "gateway/worker.h"
#include "net/http1.h"
#include "net/loop.h"

struct httpc;
struct httpd;
struct httpd_conn;
struct httpd_req;
struct stream;
struct tunnel;

/* exchange.c's own, one a worker. */
struct path {
	struct worker *w;
	struct httpd *s;
	char id_prefix[16];
	uint64_t seq;
	struct tunnel *tunnels;
	size_t excess; /* connections that no limit allows, see door.c */
	char *api;     /* the control plane's address */
	struct exchange *held; /* those that wait for a job to start */
};

/* In a connection's scratch memory. */
struct conn_state {
	struct auth_cache auth;
	struct exchange *ex; /* whose line is to come; NULL: none */
	bool tunnel;         /* its stream went to a tunnel, its count too */
	bool counted;        /* its handshake is in the statistics */
	bool excess;         /* only here to be told so */
};

enum exchange_state { EX_AUTH, EX_CONNECT, EX_PROXY, EX_DONE };

struct exchange {
	struct path *path;
	struct httpd_req *rq;
	const struct worker_listener *ls;
	enum exchange_state state;
	struct route_match m;
	struct auth_req want;
	struct auth_who who;
	struct route_sandbox *sb;  /* held; NULL: none is meant */
	struct route_agent *agent; /* whose HTTP is meant; NULL: a port */
	const char *agent_http;
	const char *agent_token;      /* what it wants, NULL: nothing */
	struct strv target;           /* for the inner server */
	bool by_label;                /* m.label is a sandbox or a job */
	bool to_api;                  /* that is the control plane */
	struct strv user, namespaces; /* said to it; empty: nobody */
	bool trusted; /* the peer's forwarding fields are kept */
	bool asked_hub;

	struct exchange *next_held, **prev_held;
	struct timer hold;
	struct worker_wait *sync;
	struct hub_wait hub;
	struct connect_req dial;
	struct httpc *up;
	struct task flush;   /* a head that no body followed in its batch */
	struct timer stall;  /* while the inner server takes no request body */
	struct strv upgrade; /* the protocol asked for, as it goes on */
	bool body_taken;     /* bytes of the request body went on */
	bool request_ended;
	bool reused, retried;
	bool response_begun;

	enum gw_error error;
	const char *close; /* why it ended, when not by the client */
	char id_own[32];
	struct strv id;
	uint64_t queue_us, connect_us, first_us;
	char upstream[128]; /* "": not sought */
};

/* Answers with an error; ends the exchange's other activities. */
void exchange_fail(struct exchange *ex, enum gw_error e, const char *detail);
/* httpd's, for whatever callbacks are set. */
void exchange_closed(struct httpd_req *rq, int err, void *arg);
void exchange_peer_eof(struct httpd_req *rq, void *arg);
/* Stops waiting for anything and lets go of the upstream. */
void exchange_stop(struct exchange *ex);
uint64_t exchange_elapsed_us(const struct exchange *ex);
bool exchange_https(const struct exchange *ex);
struct strv exchange_host(const struct exchange *ex);

/* --- access log entry: filled from an exchange (tunnel.c keeps copies) --- */
struct access_entry;
void exchange_entry(struct exchange *ex, struct access_entry *e, char *peer);

/* Decides anew, from the table as it is. */
void exchange_again(struct exchange *ex);

/* hold.c: it waits until the job that it is for has an address or has ended;
 * for so long, at most, as configuration says. */
void hold_start(struct exchange *ex);
void hold_stop(struct exchange *ex);
/* That sandbox or job has ended: who waits for it or for its port is told. */
void hold_gone(struct path *p, struct strv id, uint64_t generation);
/* That job's row has changed. */
void hold_wake(struct path *p, struct strv id);

/* dispatch.c: what must be open for the request, from the way it is routed. */
void dispatch_need(struct exchange *ex);
/* Whether it takes more than the right to read. */
bool dispatch_writes(const struct exchange *ex);
/* True for the few routes of the control plane that need no credential. */
bool dispatch_public(const struct exchange *ex);
/* That is open (sb NULL: it is not in the table): sends the request on. */
void dispatch_go(struct exchange *ex, struct route_sandbox *sb);

/* proxy.c: the request is authorised, its target is known. */
void proxy_start(struct exchange *ex);
/* The client went away, or the exchange ends otherwise. */
void proxy_stop(struct exchange *ex);

/* proxy_head.c. */
static inline bool
exchange_to_agent(const struct exchange *ex)
{
	return ex->agent_http != NULL;
}
/* The protocol to ask for inside, empty: none. Only websocket, and what
 * configuration adds; h2c would be a way around everything here. */
struct strv proxy_wanted_upgrade(const struct exchange *ex,
				 const struct http_head *h);
size_t proxy_request_room(const struct exchange *ex, const struct http_head *h);
void proxy_put_request(struct exchange *ex, const struct http_head *h,
		       struct http_writer *w);
/* Passes an interim response. */
void proxy_inform(struct exchange *ex, const struct http_head *h);
/* Writes a response's fields for the client. */
void proxy_put_response(struct exchange *ex, const struct http_head *h,
			struct http_writer *w);

/* tunnel.c: takes both streams. */
void tunnel_start(struct exchange *ex, const struct http_head *h);
/* Those that a user's token opened; how many. */
unsigned tunnel_close_revoked(struct path *p, uint64_t token_id);
void tunnel_close_gone(struct path *p, struct strv id, uint64_t generation);
/* Says goodbye where the framing allows, soon. */
void tunnel_drain(struct path *p);
void tunnel_close_all(struct path *p); /* now */

#endif
