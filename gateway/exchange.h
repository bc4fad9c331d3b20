/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entry to the request path: the HTTP server of a worker with the handler
 * that authenticates, routes and proxies. worker.c calls all of these;
 * exchange.c has them.
 */
#ifndef SBX_GATEWAY_EXCHANGE_H
#define SBX_GATEWAY_EXCHANGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct httpd;
struct worker;

/* The worker's HTTP server, for all of its listeners. Made once, by
 * worker_start(), when everything that worker.h offers is there except
 * worker_parts(), which this fills (access log, auth, connector, limits,
 * upstream pool). */
struct httpd *exchange_httpd_new(struct worker *w);
/* The opposite: frees worker_parts() and the server, closing what is open. */
void exchange_httpd_free(struct worker *w, struct httpd *s);

/* Open connections, tunnels included: 0 means that a retired worker may go. */
size_t exchange_count(struct worker *w);
/* Every connection ends with its next response; tunnels stay, and so do idle
 * connections, as long as they may. */
void exchange_retire(struct worker *w);
/* The same with a deadline ahead: idle connections end now. */
void exchange_drain(struct worker *w);
/* The deadline has passed: tunnels end now (WebSocket close 1001 where the
 * framing allows), other connections are closed. */
void exchange_close_all(struct worker *w);

/* `ok <n>` (with a descriptor, taken) or `fail <n> <code> <text>`: the
 * master's answer to a `connect` that the connector sent. */
void exchange_connected(struct worker *w, struct strv msg, int fd);
/* That sandbox was stopped (the replica says so already): its kept upstream
 * connections and its tunnels end. */
void exchange_gone(struct worker *w, struct strv id, uint64_t generation);
/* That job has an address now, maybe: who waited for it goes on. */
void exchange_job(struct worker *w, struct strv id);
/* The token with that hash (hex) was taken back: what it opened ends. */
void exchange_revoked(struct worker *w, struct strv hex);
/* Opens the access log anew (logrotate). */
void exchange_reopen_logs(struct worker *w);

#endif
