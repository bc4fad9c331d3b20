/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows the frames of a WebSocket stream (RFC 6455, 5.2) without touching
 * them: only to know where one ends and a close of our own may be put.
 */
#ifndef SBX_GATEWAY_WSFRAME_H
#define SBX_GATEWAY_WSFRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed is the start of a stream. */
struct wsframe {
	uint64_t left; /* of the payload */
	uint8_t head[14];
	uint8_t have; /* header bytes so far */
	bool in_payload;
	bool closed; /* a close frame began */
	bool lost;   /* not a stream of frames: never at an end */
};

void wsframe_feed(struct wsframe *f, const void *p, size_t n);
/* Between two frames, and none was a close. */
bool wsframe_at_end(const struct wsframe *f);
/* An unmasked close frame with a status code into out (4 bytes). */
void wsframe_close(uint8_t out[4], uint16_t code);

#endif
