/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker inside: worker.c is its life, worker_ctx.c what the request path
 * sees of it, worker_sync.c its questions whether the replica is complete.
 */
#ifndef SBX_GATEWAY_WORKER_INT_H
#define SBX_GATEWAY_WORKER_INT_H

#include "gateway/worker.h"
#include "net/loop.h"

struct worker_port;

enum worker_state { WORKER_RUNNING, WORKER_RETIRED, WORKER_GONE };

struct worker {
	struct worker_options o;
	enum worker_state state;
	struct seqpkt *channel;
	struct route_table *routes;
	struct worker_port *ports;
	struct httpd *httpd;
	struct worker_parts parts;
	struct stats stats;
	struct timer drain_timer;
	uint64_t drain_due_ms; /* 0: no deadline */
	uint64_t poll_ms;
	bool ended_all;

	uint64_t sync_sent; /* highest number asked for */
	uint64_t sync_done;
	struct worker_wait *waits; /* in order of need */
	struct worker_wait **waits_end;
	struct timer sync_timer;
	struct task sync_task;
};

void worker_sync_init(struct worker *w);
/* Tells all who still wait E_CANCELLED; the timer and the task stay. */
void worker_sync_clear(struct worker *w);
/* The master has answered "synced <number>". */
void worker_synced(struct worker *w, struct strv number);

#endif
