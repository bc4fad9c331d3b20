/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the local listeners of a forward. */
#ifndef SBX_TUNNEL_BINDSPEC_H
#define SBX_TUNNEL_BINDSPEC_H

#include <stdint.h>

#include "base/defs.h"
#include "net/listener.h"

#define BINDSPEC_MAX 2 /* 127.0.0.1 and ::1 */

struct addr;
struct loop;
struct options;
struct spec;

struct bindspec {
	struct loop *loop;
	const struct options *o;
	const struct spec *sp;
	void (*accepted)(int fd, const struct addr *peer, void *arg);
	void *arg;
	/* What came of it; the caller's to close. */
	struct listener *ls[BINDSPEC_MAX];
	uint16_t port;
};

/* 0 when at least one listens; what failed is said. */
int bindspec_open(struct bindspec *w) SBX_MUST_CHECK;

#endif
