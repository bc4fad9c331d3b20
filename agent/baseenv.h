/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The base environment: variables that whoever holds the agent's token has
 * set for every command of every sandbox (PUT /v1/env, or SBX_BASE_ENV at the
 * start), from then on. A gateway tells so where its endpoints outside are to
 * be found.
 */
#ifndef SBX_AGENT_BASEENV_H
#define SBX_AGENT_BASEENV_H

#include <stdbool.h>

#include "base/defs.h"

#define BASEENV_MAX       256
#define BASEENV_BYTES_MAX 65536

struct baseenv {
	char **v; /* "NAME=value", NULL ends; NULL: none */
	/* Before the place's own (dedicated mode: what the agent inherited),
	 * or after it (a sandbox's, which its creator chose). */
	bool above;
	/* Endpoints for sandboxes with a network of their own that are made
	 * from now on (jobout.h), NULL ends; NULL: none. */
	char **outside;
};

struct json;

/* Reads {"NAME":"value",…}: a list for baseenv_take(). E_INVALID with *why
 * (malloc'ed). */
int baseenv_read(const struct json *v, char ***out, char **why) SBX_MUST_CHECK;
/* The same from its text. */
int baseenv_parse(const char *text, char ***out, char **why) SBX_MUST_CHECK;
/* A list of entries, or nothing. */
int baseenv_read_outside(const struct json *v, char ***out,
			 char **why) SBX_MUST_CHECK;
/* Takes both. */
void baseenv_take(struct baseenv *b, char **v, char **outside);
void baseenv_clear(struct baseenv *b);

#endif
