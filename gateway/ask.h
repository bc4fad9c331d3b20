/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One question of the master to an agent over HTTP, on a connection of its
 * own, with a bounded answer and one deadline for all of it.
 */
#ifndef SBX_GATEWAY_ASK_H
#define SBX_GATEWAY_ASK_H

#include <stddef.h>
#include <stdint.h>

#include "base/defs.h"
#include "base/str.h"
#include "net/addr.h"
#include "net/http1.h"

struct ask;
struct loop;

struct ask_spec {
	const struct addr *to;
	struct strv method;
	enum http_method id;
	const char *target;
	const char *token; /* X-Sandbox-Token; NULL: none */
	struct strv body;  /* JSON; empty: none; copied */
	size_t max;        /* of the answer's body */
	uint64_t timeout_ms;
	/* err 0: status and body (borrowed) are the answer; else why there is
	 * none. Called once, never from inside ask_start(); the ask is gone
	 * then. */
	void (*done)(int err, unsigned status, struct strv body, void *arg);
	void *arg;
};

/* Everything in s but the callback is used now and not kept. */
struct ask *ask_start(struct loop *l, const struct ask_spec *s);
void ask_cancel(struct ask *a); /* NULL is fine; no callback follows */

#endif
