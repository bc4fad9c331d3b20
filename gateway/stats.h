/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters and gauges of one worker, named once in STATS_LIST; the master
 * sums them for /-/metrics.
 */
#ifndef SBX_GATEWAY_STATS_H
#define SBX_GATEWAY_STATS_H

#include <stdint.h>

/* name, prometheus type, help */
#define STATS_LIST(X)                                                          \
	X(conns_total, counter, "Accepted client connections")                 \
	X(conns_open, gauge, "Open client connections")                        \
	X(conns_refused, counter, "Connections refused by a limit")            \
	X(handshakes_full, counter, "Full TLS handshakes")                     \
	X(handshakes_resumed, counter, "Resumed TLS handshakes")               \
	X(handshakes_failed, counter, "Failed TLS handshakes")                 \
	X(requests_total, counter, "Requests with a parsed head")              \
	X(requests_open, gauge, "Requests in progress")                        \
	X(responses_2xx, counter, "Final responses 2xx and 101")               \
	X(responses_3xx, counter, "Final responses 3xx")                       \
	X(responses_4xx, counter, "Final responses 4xx")                       \
	X(responses_5xx, counter, "Final responses 5xx")                       \
	X(rejected_malformed, counter, "Requests refused as malformed")        \
	X(rejected_auth, counter, "Requests refused for their credential")     \
	X(rejected_limit, counter, "Requests refused by a limit")              \
	X(upstream_connects, counter, "Connections made to inner servers")     \
	X(upstream_reused, counter, "Requests on a kept upstream connection")  \
	X(upstream_failed, counter, "Requests that failed upstream")           \
	X(upstream_retried, counter,                                           \
	  "Requests repeated on a fresh connection")                           \
	X(tunnels_total, counter, "Upgraded connections")                      \
	X(tunnels_open, gauge, "Open upgraded connections")                    \
	X(bytes_in, counter, "Request body and tunnel bytes from clients")     \
	X(bytes_out, counter, "Response body and tunnel bytes to clients")

struct stats {
#define X(name, type, help) uint64_t name;
	STATS_LIST(X)
#undef X
};

#endif
