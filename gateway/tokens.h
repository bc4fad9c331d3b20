/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of user tokens: a line "sha256 name namespace role created" for
 * each, so that reading it gives nobody a token. `sbx-gateway token` edits it,
 * the master reads it again when it changed.
 */
#ifndef SBX_GATEWAY_TOKENS_H
#define SBX_GATEWAY_TOKENS_H

#include <stddef.h>
#include <stdint.h>

#include "base/defs.h"
#include "gateway/names.h"

#define TOKENS_MAX     10000
#define TOKEN_NAME_MAX NAMES_MAX
#define TOKEN_NS_MAX   255 /* bytes of a list of namespaces */

struct token_row {
	char hash[2 * 32 + 1]; /* hex, lower case */
	char name[TOKEN_NAME_MAX + 1];
	char ns[TOKEN_NS_MAX + 1]; /* comma-separated, the default first */
	char role[16];
	uint64_t created; /* unix time */
};

struct token_list {
	struct token_row *v;
	size_t n;
};

/* A file that is not there is an empty list. *msg: "file:line: reason". */
int tokens_read(const char *path, struct token_list *out,
		char **msg) SBX_MUST_CHECK;
void tokens_clear(struct token_list *l);
/* Makes a new token under the name; it is in *token (hf_…, a secret) and
 * nowhere else. E_INVALID with *msg for a name that cannot be. */
int tokens_add(const char *path, const char *name, const char *ns,
	       const char *role, char **token, char **msg) SBX_MUST_CHECK;
/* Removes all with that name; *n: how many. */
int tokens_revoke(const char *path, const char *name, size_t *n,
		  char **msg) SBX_MUST_CHECK;

#endif
