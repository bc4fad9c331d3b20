/* SPDX-License-Identifier: Apache-2.0 */
/* Walking over bytes that should be UTF-8 (RFC 3629). */
#ifndef SBX_BASE_UTF8_H
#define SBX_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

/* Length of the character at p (n > 0 bytes are there), with *ok true; or,
 * with *ok false, how many bytes make one error: the "maximal subpart" of the
 * Unicode standard, which decoders replace by one U+FFFD. Never 0. */
size_t utf8_step(const char *p, size_t n, bool *ok);
bool utf8_valid(struct strv v);
/* How many bytes at v's end begin a character whose rest may follow: 0 to 3. */
size_t utf8_tail(struct strv v);

#endif
