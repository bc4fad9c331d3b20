/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The base environment: variables that whoever holds the agent's token has
 * set for every command of every sandbox (PUT /v1/env), from then on. A
 * gateway tells so where its endpoints outside are to be found.
 */
#ifndef SBX_AGENT_BASEENV_H
#define SBX_AGENT_BASEENV_H

#include <stdbool.h>

#define BASEENV_MAX       256
#define BASEENV_BYTES_MAX 65536

struct baseenv {
	char **v; /* "NAME=value", NULL ends; NULL: none */
	/* Before the place's own (dedicated mode: what the agent inherited),
	 * or after it (a sandbox's, which its creator chose). */
	bool above;
};

/* Takes v. */
void baseenv_take(struct baseenv *b, char **v);
void baseenv_clear(struct baseenv *b);

#endif
