/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A layer under a stream that makes the descriptor behave as badly as a real
 * network may: short reads and writes, EAGAIN out of nowhere, a reset. What it
 * does is decided by a seed, so a failure can be run again.
 */
#ifndef SBX_TEST_FAULT_IO_H
#define SBX_TEST_FAULT_IO_H

#include <stdint.h>

struct stream;

struct fault_script {
	uint32_t seed;
	unsigned short_pct;   /* reads and writes cut to 1..n bytes */
	unsigned again_pct;   /* E_AGAIN although there is something */
	unsigned read_reset;  /* the n-th read fails with E_PEER; 0: none */
	unsigned write_reset; /* the n-th write fails with E_PEER */
};

/* Puts the layer on the descriptor; before any other layer. */
void fault_put(struct stream *st, const struct fault_script *s);
/* A usual mix, seeded. */
void fault_put_mix(struct stream *st, uint32_t seed);

#endif
