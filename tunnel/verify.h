/* SPDX-License-Identifier: Apache-2.0 */
/* Is this the host that was meant? known_hosts files, or a fingerprint. */
#ifndef SBX_TUNNEL_VERIFY_H
#define SBX_TUNNEL_VERIFY_H

#include <stddef.h>

#include "base/defs.h"
#include "base/str.h"

struct options;

/* 0, or E_DENIED. *text (malloc'ed, may be NULL) has lines for the user. A new
 * key that the options accept is added to the first file. */
int verify_host(const struct options *o, const void *key, size_t n,
		char **text) SBX_MUST_CHECK;
/* Key types known for this host, comma-separated: to be asked for first. */
void verify_types(const struct options *o, struct strbuf *out);

#endif
