/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of the head parser that hold for every input, for the unit tests and
 * the fuzz targets alike: the answer does not depend on how the input was cut
 * into pieces, views stay inside the head, and what is written from a parsed
 * head parses to the same thing. Aborts when one does not hold.
 */
#ifndef SBX_TESTS_HTTP1_DIFF_H
#define SBX_TESTS_HTTP1_DIFF_H

#include <stddef.h>

#include "net/http1.h"

struct bufpool;

/* Parses p[0..n) whole and in pieces; returns what the whole gave. */
int http1_diff_parse(const char *p, size_t n, bool request,
		     struct http_head *out, struct http_reject *rej);
/* Writes h anew and parses that; h is a parsed head. */
void http1_diff_rewrite(const struct http_head *h, struct bufpool *pool);

#endif
