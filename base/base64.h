/* SPDX-License-Identifier: Apache-2.0 */
/* Base64 with padding (RFC 4648, 4). */
#ifndef SBX_BASE_BASE64_H
#define SBX_BASE_BASE64_H

#include "base/defs.h"
#include "base/str.h"

/* Adds v, coded. */
void base64_encode(struct strv v, struct strbuf *out);
/* Adds what text stands for. E_INVALID: it has another character, or a length
 * that is no multiple of 4; what came before may have been added. Bits that
 * stand for nothing are not looked at. */
int base64_decode(struct strv text, struct strbuf *out) SBX_MUST_CHECK;
/* The value of one digit, 0 to 63; -1: c is none. */
int base64_value(char c);

#endif
