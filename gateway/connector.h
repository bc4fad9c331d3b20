/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Getting a connected descriptor to a server in a sandbox, or to an agent,
 * however that is to be had: a socket file in a configured proxy directory
 * (opened here when we may, else by the master), TCP on loopback, an agent's
 * control channel, or an agent's own address. While nothing listens it tries
 * again until the caller's patience ends.
 */
#ifndef SBX_GATEWAY_CONNECTOR_H
#define SBX_GATEWAY_CONNECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/defs.h"
#include "base/str.h"
#include "net/loop.h"

#define CONNECTOR_PORTS 32 /* told of, at most */

struct connector;
struct dial;
struct route_sandbox;
struct seqpkt;
struct worker;

/* One wish, embedded in who has it. The caller sets the first part (zeroing
 * the rest) and must not touch it until it is done or cancelled. */
struct connect_req {
	struct route_sandbox *sb; /* held by the caller */
	uint16_t port;            /* 0: the address in `http` */
	const char *http;         /* an agent's; copied */
	uint64_t wait_ms;         /* patience while nothing listens */
	uint64_t timeout_ms;      /* for one attempt, and a full backlog */
	/* err 0: fd is the callee's. Else, with fd -1: E_REFUSED (nothing
	 * listens), E_TIMEOUT (nobody accepts), E_DENIED (a socket that is
	 * not the sandbox's), E_NOTFOUND (its agent knows no such sandbox),
	 * E_PEER (its agent or the master cannot be reached), E_UNREACHABLE,
	 * E_SYS. */
	void (*done)(int err, int fd, void *arg);
	void *arg;

	/* What connector_ports() found. */
	uint16_t listening[CONNECTOR_PORTS];
	size_t nlistening;

	/* connector.c */
	struct connector *c;
	bool asks_ports;
	const struct connect_step *steps;
	size_t step;
	bool busy; /* somebody listens, with a full backlog */
	uint64_t give_up_ms, give_up_busy_ms; /* loop_now_ms() */
	uint64_t backoff_ms;
	struct dial *dial;
	struct timer timer;
	uint64_t n; /* the number of the question under way; 0: none */
	struct connect_req *next;
	struct connect_req **prevp;
	void *link; /* the agent's channel that was asked */
};

struct connector *connector_new(struct worker *w);
void connector_free(struct connector *c); /* no request may be open */
/* True when asking an agent for this sandbox's descriptors is possible; else
 * a port of it is reached through the agent's HTTP. */
bool connector_reaches(const struct route_sandbox *sb);
/* 0: *fd is connected, done is not called. E_AGAIN: done will be called, never
 * from inside. Others: as in done. */
int connector_start(struct connector *c, struct connect_req *q,
		    int *fd) SBX_MUST_CHECK;
/* Which ports of q->sb are listened on, into q->listening; q is set as for
 * connector_start(), returns are the same, and fd is -1. */
int connector_ports(struct connector *c, struct connect_req *q) SBX_MUST_CHECK;
void connector_cancel(struct connect_req *q); /* idempotent */
/* The master's `ok`/`fail`; takes fd. */
void connector_message(struct connector *c, struct strv msg, int fd);
/* What q connects to, for the log. */
void connector_text(const struct connect_req *q, char *buf, size_t n);

#endif
