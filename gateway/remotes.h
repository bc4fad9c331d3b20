/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All configured tunnels, in the master: a reload changes what changed, a
 * worker's question for news reaches all of them, and everything ends with
 * the gateway.
 */
#ifndef SBX_GATEWAY_REMOTES_H
#define SBX_GATEWAY_REMOTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "gateway/gwconf.h"

struct loop;
struct owner;
struct remote;
struct remotes;

struct remotes_options {
	struct loop *loop;
	struct owner *owner;
	/* What remotes_sync() returned `number` for is in the owner's table,
	 * or cannot be had in time. */
	void (*synced)(uint64_t number, void *arg);
	void (*ended)(void *arg); /* after remotes_stop(): the last one */
	void *arg;
};

/* Starts nothing yet. */
struct remotes *remotes_new(const struct remotes_options *o);
void remotes_free(struct remotes *rs); /* NULL is fine */
/* Starts tunnels that are new in conf, ends those that are not in it any more,
 * and starts those that changed anew. Of conf nothing is kept. */
void remotes_set_conf(struct remotes *rs, const struct gw_conf *conf);
/* 0: there is nothing to wait for. */
uint64_t remotes_sync(struct remotes *rs);
void remotes_reap(struct remotes *rs);          /* after SIGCHLD */
void remotes_stop(struct remotes *rs);          /* ends all, for good */
size_t remotes_count(const struct remotes *rs); /* those that end, too */

/* Those that are configured, by name; *pos starts as 0. */
struct remote *remotes_each(struct remotes *rs, size_t *pos);
/* NULL: none of that name is configured. */
struct remote *remotes_find(struct remotes *rs, struct strv name);
/* Prometheus' text. */
void remotes_metrics(struct remotes *rs, struct strbuf *out);

#endif
