/* SPDX-License-Identifier: Apache-2.0 */
/* Many tunnels in one process group: a process each, kept running. */
#ifndef SBX_TUNNEL_MANY_H
#define SBX_TUNNEL_MANY_H

#include <stddef.h>

/* Runs fn(i, arg) in a process of its own for each i below n, again when one
 * ends, until SIGTERM, SIGINT or SIGHUP; then ends them all. */
void many_run(size_t n, int (*fn)(size_t i, void *arg), void *arg);

#endif
