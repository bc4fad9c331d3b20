/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by api.c and apijson.c. */
#ifndef SBX_GATEWAY_API_INT_H
#define SBX_GATEWAY_API_INT_H

#include <stdbool.h>

#include "base/defs.h"
#include "base/str.h"

struct httpd_req;

/* v without its percent signs (plus: '+' is a blank), in the request's memory
 * and NUL-terminated; E_INVALID: malformed, or a NUL. */
int api_decode(struct httpd_req *rq, struct strv v, bool plus,
	       struct strv *out) SBX_MUST_CHECK;

#endif
