/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one worker lets in: connections in all and per client address, TLS
 * handshakes a second. (Exchanges per sandbox are counted where the sandbox
 * is, route_sandbox.conns.) An IPv6 client is its /64: more is not somebody
 * else. Clients on unix sockets are not counted by address.
 */
#ifndef SBX_GATEWAY_LIMITS_H
#define SBX_GATEWAY_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct addr;
struct gw_limits;
struct limits;

/* g is borrowed. */
struct limits *limits_new(const struct gw_limits *g);
void limits_free(struct limits *l);
#define LIMITS_CLIENT 16

/* The bytes that name a client; false: it has no address. */
bool limits_client(const struct addr *peer, uint8_t key[LIMITS_CLIENT]);
/* A connection wants in. True: it is counted, until limits_close(). */
bool limits_open(struct limits *l, const struct addr *peer);
void limits_close(struct limits *l, const struct addr *peer);
size_t limits_count(const struct limits *l); /* open connections */
/* A handshake wants to start at now_ms (any monotonic clock). A burst of one
 * second's worth is fine. */
bool limits_handshake(struct limits *l, uint64_t now_ms);

#endif
