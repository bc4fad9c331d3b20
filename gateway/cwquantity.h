/* SPDX-License-Identifier: Apache-2.0 */
/* Quantities as Kubernetes writes them: "500m", "1.5", "512Mi", "2G". */
#ifndef SBX_GATEWAY_CWQUANTITY_H
#define SBX_GATEWAY_CWQUANTITY_H

#include <stdint.h>

#include "base/defs.h"
#include "base/str.h"

/* In thousandths, rounded up. E_INVALID: it is none, or negative; E_LIMIT. */
int cwquantity_milli(struct strv s, uint64_t *out) SBX_MUST_CHECK;
/* In whole units, rounded up. The same errors. */
int cwquantity_whole(struct strv s, uint64_t *out) SBX_MUST_CHECK;
/* The other way round: "2", "500m". */
void cwquantity_add_milli(struct strbuf *b, uint64_t milli);
/* "512Mi", "1000". */
void cwquantity_add_bytes(struct strbuf *b, uint64_t bytes);

#endif
