/* SPDX-License-Identifier: Apache-2.0 */
/* Is this text JSON, to the letter of RFC 8259? */
#ifndef SBX_BASE_JSONLEX_H
#define SBX_BASE_JSONLEX_H

#include "base/str.h"

#define JSONLEX_DEPTH_MAX 64
/* A value of two bytes ("1,") costs some 80 in the tree: a long list of them
 * would fill, and for seconds freeze, whoever reads it. */
#define JSONLEX_VALUES_MAX 131072

/* NULL when text is one complete JSON value with nothing but blanks around
 * it, at most JSONLEX_DEPTH_MAX containers deep and of at most
 * JSONLEX_VALUES_MAX values, valid UTF-8, without U+0000 and without lone
 * surrogates; otherwise a static text that says why not. */
const char *jsonlex_check(struct strv text);

#endif
