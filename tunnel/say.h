/* SPDX-License-Identifier: Apache-2.0 */
/* What the user is told on stderr: OpenSSH's words, little of it. */
#ifndef SBX_TUNNEL_SAY_H
#define SBX_TUNNEL_SAY_H

#include "base/defs.h"

struct options;

/* One line (its end is added), when LogLevel lets it through. level is an
 * enum options_log. */
void say(const struct options *o, int level, const char *fmt, ...)
    SBX_PRINTF(3, 4);

#endif
