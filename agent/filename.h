/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File names are bytes, JSON is text. A byte 80..FF that is not part of UTF-8
 * is shown as U+EF80..U+EFFF, which are for private use: any client can keep
 * such a name, print it and send it back.
 */
#ifndef SBX_AGENT_FILENAME_H
#define SBX_AGENT_FILENAME_H

#include <stdbool.h>

#include "base/str.h"

/* Adds it as a JSON string, with its quotes. */
void filename_add_json(struct strbuf *b, struct strv name);
/* Whether it has one of those characters. */
bool filename_escaped(struct strv name);
/* Adds the bytes that it may stand for. */
void filename_unescape(struct strbuf *b, struct strv name);

#endif
