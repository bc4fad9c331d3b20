/* SPDX-License-Identifier: Apache-2.0 */
/* Host patterns of ssh_config and known_hosts: *, ? and lists with !. */
#ifndef SBX_TUNNEL_PATTERN_H
#define SBX_TUNNEL_PATTERN_H

#include <stdbool.h>

#include "base/str.h"

/* The pattern's letters match either case; s is in lower case. */
bool pattern_match(struct strv pattern, struct strv s);
/* True when one matches and none behind a ! does. */
bool pattern_list(struct strv list, char sep, struct strv s);

#endif
