/* SPDX-License-Identifier: Apache-2.0 */
/* The query of a request target: "a=1&b=x%20y". */
#ifndef SBX_BASE_QUERY_H
#define SBX_BASE_QUERY_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/defs.h"
#include "base/str.h"

/* The first parameter with that name, percent-decoded onto *out (may be NULL);
 * false when it is not there. Of "a=1&b", b is there and empty. A percent sign
 * that begins nothing stands for itself. */
bool query_get(struct strv query, const char *name, struct strbuf *out);

/* The next parameter, as it was sent, off the front of *rest; both are empty
 * and not NULL where nothing is. False: there is none. */
bool query_next(struct strv *rest, struct strv *name, struct strv *value);

enum query_how {
	QUERY_LENIENT, /* see query_get() */
	QUERY_STRICT,  /* E_INVALID for that, and for %00 */
	QUERY_PATH     /* as strict; '+' is no blank */
};
/* Decodes v into out, which has room for v.len bytes; how many it took, or
 * E_INVALID. */
ssize_t query_decode(struct strv v, enum query_how how,
		     char *out) SBX_MUST_CHECK;

#endif
