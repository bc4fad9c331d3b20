/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where clients come in and leave: who may have a connection, what is counted
 * of it, and the answer to what is no request at all.
 */
#ifndef SBX_GATEWAY_DOOR_H
#define SBX_GATEWAY_DOOR_H

#include <stdbool.h>

struct addr;
struct httpd_conn;
struct worker;
struct worker_listener;

/* Takes fd, accepted from ls: checks the limits (connections, per address,
 * handshakes a second), starts TLS if ls has it, and serves the connection.
 * Some of those that are too many are let in all the same, to be told so:
 * door_excess(). */
void door_accept(struct worker *w, const struct worker_listener *ls, int fd,
		 const struct addr *from);
/* True for a connection that is only here to be told that it is too many. */
bool door_excess(struct httpd_conn *c);

/* httpd_handler's functions; arg is the worker. */
void door_ready(struct httpd_conn *c, void *arg);
bool door_refused(struct httpd_conn *c, unsigned status, const char *what,
		  void *arg);
void door_closed(struct httpd_conn *c, void *arg);

#endif
