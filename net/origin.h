/* SPDX-License-Identifier: Apache-2.0 */
/* Where an HTTP server is (RFC 6454): scheme, host and port of a URL. */
#ifndef SBX_NET_ORIGIN_H
#define SBX_NET_ORIGIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/defs.h"

struct origin {
	bool tls;
	char *host; /* without brackets */
	char *authority;
	uint16_t port;
};

/* An http or https origin (RFC 6454, 4), a slash behind it at most; else
 * E_INVALID. 0: *o is origin_clear()'s. */
int origin_parse(struct origin *o, const char *url) SBX_MUST_CHECK;
void origin_clear(struct origin *o);

#endif
