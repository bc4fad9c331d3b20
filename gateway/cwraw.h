/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One large field of a message on HTTP/1.1 with JSON, on its way while it
 * comes or goes (see cwcall.h): no part of it is worked on for longer than a
 * piece takes, and the other side waits when this one does.
 */
#ifndef SBX_GATEWAY_CWRAW_H
#define SBX_GATEWAY_CWRAW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

struct cwcall;
struct cwhttp;

/* As cwhttp_collect(), for a method with a raw field: `whole` is called as
 * soon as what stands before that field is enough to begin, at the end else. */
void cwraw_collect(struct cwhttp *h, void (*whole)(struct cwhttp *h));
void cwraw_pause(struct cwhttp *h, bool on);
void cwraw_clear(struct cwhttp *h);

/* What struct cwcall_ops has for the way out; end(): after the message. */
void cwraw_out_begin(struct cwcall *c, struct strv before, const char *field,
		     uint64_t size);
void cwraw_out(struct cwcall *c, struct strv piece);
void cwraw_out_end(struct cwhttp *h, bool whole);

#endif
