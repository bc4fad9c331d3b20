/* SPDX-License-Identifier: Apache-2.0 */
/* The control channel for a gateway on this machine: doc/PROTOCOL.md, 1. */
#ifndef SBX_AGENT_CONTROL_H
#define SBX_AGENT_CONTROL_H

#include <sys/types.h>

#include "base/defs.h"

struct control;
struct host;
struct loop;

/* path: of the socket file. uid: who may connect beside root and ourselves,
 * and who owns the file; (uid_t)-1: nobody. *why is malloc'ed. */
int control_new(struct loop *l, struct host *h, const char *path, uid_t uid,
		struct control **out, char **why) SBX_MUST_CHECK;
void control_free(struct control *c);

#endif
