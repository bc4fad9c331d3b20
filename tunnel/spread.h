/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The further SSH connections of a tunnel (-o SbxConnections), each in a
 * process (extra.h), because a connection is bound by one core. Local ones go
 * to whichever has least to do. One that ends is started again; the others do
 * not notice.
 */
#ifndef SBX_TUNNEL_SPREAD_H
#define SBX_TUNNEL_SPREAD_H

#include <stddef.h>

#include "base/defs.h"

struct auth;
struct loop;
struct options;
struct session;
struct spread;

struct spread_cbs {
	/* A connection came up, or went down for `reason`. */
	void (*changed)(const char *reason, void *arg);
	/* A local connection for forward fwd comes back; fd is the callee's. */
	void (*back)(size_t fwd, int fd, void *arg);
};

/* Starts the processes. */
struct spread *spread_new(struct loop *l, const struct options *o,
			  const struct auth *a, const struct spread_cbs *cbs,
			  void *arg);
/* Ends them and all that runs over them. NULL is fine. */
void spread_free(struct spread *sd);
unsigned spread_up(const struct spread *sd); /* how many are; NULL: none */
/* Gives fd away unless `own` (NULL: down) has no more to do than the others.
 * E_AGAIN: not given, and still the caller's. */
int spread_give(struct spread *sd, const struct session *own, size_t fwd,
		int fd) SBX_MUST_CHECK;

#endif
