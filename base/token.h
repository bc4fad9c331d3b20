/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random identifiers and secrets, and comparing them without a timing
 * oracle. No OpenSSL here: randomness is getrandom(2).
 */
#ifndef SBX_BASE_TOKEN_H
#define SBX_BASE_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

/* Fills p with n random bytes; aborts if the kernel cannot give them. */
void token_random(void *p, size_t n);
/* nbytes random bytes as lower-case hex, NUL-terminated: out has room for
 * 2 * nbytes + 1. */
void token_hex(char *out, size_t nbytes);
/* n random characters of the alphabet [a-z0-9], NUL-terminated (an id that
 * may stand in a DNS label); out has room for n + 1. */
void token_label(char *out, size_t n);

/* True when a and b are equal. The time depends on b's length only (b is the
 * value presented from outside), never on where they differ. */
bool token_equal(struct strv a, struct strv b);
/* Equal-length raw compare in constant time. */
bool token_equal_raw(const void *a, const void *b, size_t n);

/* 1..max bytes, visible ASCII without blanks, quotes, comma or semicolon:
 * what may stand in a header as a token at all. */
bool token_plausible(struct strv v, size_t max);

void token_hex_encode(char *out, const void *p, size_t n); /* out: 2n + 1 */
/* Exactly 2n hex digits (either case) -> n bytes; E_INVALID otherwise. */
int token_hex_decode(struct strv hex, void *out, size_t n) SBX_MUST_CHECK;

#endif
