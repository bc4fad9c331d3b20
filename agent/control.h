/* SPDX-License-Identifier: Apache-2.0 */
/* The control channel for a gateway on this machine: doc/PROTOCOL.md, 1. */
#ifndef SBX_AGENT_CONTROL_H
#define SBX_AGENT_CONTROL_H

#include <sys/types.h>

#include "base/defs.h"

struct control;
struct host;
struct loop;
struct portscan_own;
struct sandbox;

struct control_options {
	struct loop *loop;
	struct host *host;    /* host mode, or */
	struct sandbox *root; /* dedicated mode, with */
	const struct portscan_own *own;
	const char *path; /* of the socket file, or "fd:N": a listening
			   * one; whoever gets to it may do everything */
	/* Who may connect beside root and ourselves, and who owns the file;
	 * (uid_t)-1: nobody. */
	uid_t uid;
};

/* *why is malloc'ed. */
int control_new(const struct control_options *o, struct control **out,
		char **why) SBX_MUST_CHECK;
void control_free(struct control *c);

#endif
