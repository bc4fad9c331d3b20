/* SPDX-License-Identifier: Apache-2.0 */
/* Is this text JSON, to the letter of RFC 8259? */
#ifndef SBX_BASE_JSONLEX_H
#define SBX_BASE_JSONLEX_H

#include "base/str.h"

#define JSONLEX_DEPTH_MAX 64

/* NULL when text is one complete JSON value with nothing but blanks around
 * it, at most JSONLEX_DEPTH_MAX containers deep, valid UTF-8, without U+0000
 * and without lone surrogates; otherwise a static text that says why not. */
const char *jsonlex_check(struct strv text);

#endif
