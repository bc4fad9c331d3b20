/* SPDX-License-Identifier: Apache-2.0 */
/* What libFuzzer and replay.c call; each fuzz_<name>.c defines it. */
#ifndef SBX_TESTS_FUZZ_H
#define SBX_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Aborts when a property does not hold; always returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
