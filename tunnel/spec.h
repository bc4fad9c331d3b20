/* SPDX-License-Identifier: Apache-2.0 */
/* Forward specifications as ssh(1) writes them: what -L and -R take. */
#ifndef SBX_TUNNEL_SPEC_H
#define SBX_TUNNEL_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/defs.h"
#include "base/str.h"

enum spec_kind { SPEC_LOCAL, SPEC_REMOTE };

/* One end: a unix socket when path is set, else host and port. */
struct spec_end {
	char *path;
	char *host; /* listening: NULL when not given; "" or "*": any */
	uint16_t port;
};

struct spec {
	enum spec_kind kind;
	struct spec_end listen;
	struct spec_end target;
	char *text; /* as it was given */
};

/*
 * [bind:]port:host:hostport   [bind:]port:/path
 * /path:host:hostport         /path:/path
 * An IPv6 address stands in brackets; a backslash in a path keeps the colon
 * after it. E_INVALID, or E_UNSUPPORTED (a lone port: dynamic forwarding);
 * the reason is in *why (static).
 */
int spec_parse(enum spec_kind kind, const char *text, struct spec **out,
	       const char **why) SBX_MUST_CHECK;
void spec_free(struct spec *sp);
/* "host:port", "[v6]:port" or the path. */
void spec_end_text(const struct spec_end *e, struct strbuf *out);

#endif
