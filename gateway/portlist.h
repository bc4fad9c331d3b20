/* SPDX-License-Identifier: Apache-2.0 */
/* Which ports of a configured sandbox are listened on, for those who asked for
 * another one. */
#ifndef SBX_GATEWAY_PORTLIST_H
#define SBX_GATEWAY_PORTLIST_H

#include <stddef.h>
#include <stdint.h>

struct gw_sandbox_conf;

/* At most max, sorted, each once; how many. Socket files may be abandoned ones;
 * of TCP those on loopback or any address that may be reached. */
size_t portlist_conf(const struct gw_sandbox_conf *conf, uint16_t *out,
		     size_t max);

#endif
