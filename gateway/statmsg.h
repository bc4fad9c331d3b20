/* SPDX-License-Identifier: Apache-2.0 */
/* Counters as text: the `stats` message, and Prometheus exposition. */
#ifndef SBX_GATEWAY_STATMSG_H
#define SBX_GATEWAY_STATMSG_H

#include <stdbool.h>

#include "base/defs.h"
#include "base/str.h"
#include "gateway/stats.h"

/* Adds " name=value" for each. */
void statmsg_add(const struct stats *s, struct strbuf *out);
/* "name=value name=value": unknown names are skipped (a retired worker may be
 * of another release); E_INVALID for what is not of that form. */
int statmsg_parse(struct strv text, struct stats *out) SBX_MUST_CHECK;
/* total += s; gauges only when they are wanted (of living workers). */
void statmsg_sum(struct stats *total, const struct stats *s, bool gauges);
/* Prometheus text, version 0.0.4. */
void statmsg_prometheus(const struct stats *s, struct strbuf *out);
void statmsg_json(const struct stats *s, struct strbuf *out);

#endif
