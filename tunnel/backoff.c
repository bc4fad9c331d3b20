/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting times between tries: proportional to the outage, jittered. */
#include "config.h"

#include "tunnel/backoff.h"

#include <string.h>

void
backoff_init(struct backoff *b, uint64_t cap_ms)
{
	memset(b, 0, sizeof(*b));
	b->cap_ms = cap_ms > BACKOFF_MIN_MS ? cap_ms : BACKOFF_MIN_MS;
}

void
backoff_up(struct backoff *b, uint64_t now_ms)
{
	b->up_ms = now_ms;
}

uint64_t
backoff_next(struct backoff *b, uint64_t now_ms, uint32_t rnd)
{
	uint64_t wait;

	if (b->since_ms == 0 ||
	    (b->up_ms != 0 && now_ms - b->up_ms >= BACKOFF_STABLE_MS)) {
		b->since_ms = now_ms;
		b->tries = 0;
	}
	b->up_ms = 0;
	if (b->tries++ == 0)
		return 0;
	wait = (now_ms - b->since_ms) / 8;
	if (wait < BACKOFF_MIN_MS)
		wait = BACKOFF_MIN_MS;
	if (wait > b->cap_ms)
		wait = b->cap_ms;
	return wait / 2 + rnd % (wait / 2 + 1);
}
