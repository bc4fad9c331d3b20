/* SPDX-License-Identifier: Apache-2.0 */
/* Names to addresses without stopping the loop. */
#ifndef SBX_TUNNEL_RESOLVE_H
#define SBX_TUNNEL_RESOLVE_H

#include <stddef.h>
#include <stdint.h>

#include "net/addr.h"

struct loop;
struct resolve;

/* err: 0, or getaddrinfo's code (for gai_strerror); never called from inside
 * resolve_start(). */
typedef void (*resolve_cb)(int err, const struct addr *addrs, size_t n,
			   void *arg);

/* At most DIAL_ADDRS_MAX addresses; numeric ones and "localhost" need no
 * look-up. */
struct resolve *resolve_start(struct loop *l, const char *host, uint16_t port,
			      int family, resolve_cb cb, void *arg);
void resolve_cancel(struct resolve *r); /* no callback after this */

#endif
