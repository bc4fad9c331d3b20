/* SPDX-License-Identifier: Apache-2.0 */
/* Times as RFC 3339 writes them, from year 1 to 9999. */
#ifndef SBX_GATEWAY_CWTIME_H
#define SBX_GATEWAY_CWTIME_H

#include <stdint.h>

#include "base/defs.h"
#include "base/str.h"

/* "2026-11-21T03:51:53.123Z", "…+02:00"; at most 9 digits after the point.
 * Seconds since 1970, and nanoseconds on top of them. E_INVALID. */
int cwtime_parse(struct strv s, int64_t *seconds,
		 uint32_t *nanos) SBX_MUST_CHECK;
/* In UTC, with 0, 3, 6 or 9 digits after the point. What is outside of those
 * years becomes the nearest one. */
void cwtime_add(struct strbuf *b, int64_t seconds, uint32_t nanos);

#endif
