/* SPDX-License-Identifier: Apache-2.0 */
/* The query of a request target: "a=1&b=x%20y". */
#ifndef SBX_AGENT_QUERY_H
#define SBX_AGENT_QUERY_H

#include <stdbool.h>

#include "base/str.h"

/* The first parameter with that name, percent-decoded onto *out (may be NULL);
 * false when it is not there. Of "a=1&b", b is there and empty. */
bool query_get(struct strv query, const char *name, struct strbuf *out);

#endif
