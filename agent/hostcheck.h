/* SPDX-License-Identifier: Apache-2.0 */
/* What this machine lets host mode do, in words. */
#ifndef SBX_AGENT_HOSTCHECK_H
#define SBX_AGENT_HOSTCHECK_H

#include <stdbool.h>

#include "base/defs.h"

/* "full": users of their own and Landlock; "uid", "landlock": one of both. */
const char *hostcheck_word(bool uids, bool landlock);
/* E_UNSUPPORTED with the reason unless both are there, or best_effort. */
int hostcheck_isolation(int abi, bool best_effort, char **why) SBX_MUST_CHECK;
/* Sandboxes have users of their own, who must get to their homes: E_DENIED
 * when a directory above homes does not let everybody through, E_LIMIT when
 * paths there are too long for a socket. */
int hostcheck_homes(const char *homes, char **why) SBX_MUST_CHECK;

#endif
