/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When to try again. The first try comes at once; after that the wait is an
 * eighth of the time the outage has lasted, within bounds and with jitter, so
 * that a far side that comes back is found within an eighth of its absence
 * and a long outage costs little.
 */
#ifndef SBX_TUNNEL_BACKOFF_H
#define SBX_TUNNEL_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

#define BACKOFF_MIN_MS    100
#define BACKOFF_STABLE_MS 5000 /* up for so long: the outage is over */

struct backoff {
	uint64_t cap_ms;
	uint64_t since_ms; /* start of the outage; 0: none */
	uint64_t up_ms;    /* when it last came up; 0: it is down */
	unsigned tries;
};

void backoff_init(struct backoff *b, uint64_t cap_ms);
/* It works again. Going down within BACKOFF_STABLE_MS goes on with the old
 * outage, so that an up that does not last cannot become a fast loop. */
void backoff_up(struct backoff *b, uint64_t now_ms);
/* Milliseconds to wait before the next try; rnd is any random number. */
uint64_t backoff_next(struct backoff *b, uint64_t now_ms, uint32_t rnd);

#endif
