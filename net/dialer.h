/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connecting: a list of addresses tried in order (127.0.0.1 then ::1), each
 * non-blocking, with one absolute deadline, and optionally again and again
 * until something listens there.
 */
#ifndef SBX_NET_DIALER_H
#define SBX_NET_DIALER_H

#include <stddef.h>
#include <stdint.h>

#include "base/defs.h"
#include "net/addr.h"

struct dial;
struct loop;

#define DIAL_ADDRS_MAX 4

struct dial_options {
	struct addr addrs[DIAL_ADDRS_MAX];
	size_t naddrs;
	uint64_t timeout_ms; /* for one attempt on one address (0: 5 s) */
	/* While nobody listens (ECONNREFUSED, ENOENT): try again until this
	 * much time has passed since the start (0: once), waiting 25 ms at
	 * first, then twice as long, at most 250 ms. */
	uint64_t wait_ms;
	/* err 0: fd is the callee's, connected, non-blocking, close-on-exec;
	 * else -1 and E_REFUSED, E_TIMEOUT, E_UNREACHABLE, E_DENIED, E_FULL,
	 * E_SYS. Called once, never from inside dial_start(); the dial is
	 * gone then. */
	void (*done)(int err, int fd, const struct addr *used, void *arg);
	void *arg;
};

struct dial *dial_start(struct loop *l, const struct dial_options *o);
void dial_cancel(struct dial *d); /* no callback after this */

/* Tries addrs once, without waiting for a connection in progress: 0 and a
 * connected *fd when the kernel finished at once (unix sockets, mostly TCP on
 * loopback), E_AGAIN when it takes longer (use dial_start), or why not. */
int dial_now(const struct addr *a, int *fd) SBX_MUST_CHECK;

#endif
