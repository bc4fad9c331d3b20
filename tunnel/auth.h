/* SPDX-License-Identifier: Apache-2.0 */
/* Proving who we are: key files, their passphrases, and the agent. */
#ifndef SBX_TUNNEL_AUTH_H
#define SBX_TUNNEL_AUTH_H

#include "base/defs.h"

struct auth; /* the identities, loaded once: they serve every reconnect */
struct auth_try;
struct options;
struct strbuf;

/* Reads the key files; asks for passphrases on the terminal where that is
 * possible and allowed. What could not be used is said in warn, a line each. */
struct auth *auth_load(const struct options *o, struct strbuf *warn);
void auth_free(struct auth *a);

/* One authentication on a libssh2 session (LIBSSH2_SESSION *). */
struct auth_try *auth_try_new(const struct auth *a, void *ssh,
			      const char *user);
void auth_try_free(struct auth_try *t);
/* 0: in; E_AGAIN; E_DENIED (auth_try_methods() says what would have been
 * accepted); E_PEER: the session is broken. */
int auth_try_step(struct auth_try *t) SBX_MUST_CHECK;
const char *auth_try_methods(const struct auth_try *t);

#endif
