/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RSA keys for a libssh2 that signs with SHA-1 only (1.10), which servers have
 * long refused: the signature is made here, with SHA-256.
 */
#ifndef SBX_TUNNEL_RSASIGN_H
#define SBX_TUNNEL_RSASIGN_H

#include <stddef.h>

#include "base/defs.h"

struct rsasign;

/* pass may be NULL. E_NOTFOUND: not an RSA key; E_UNSUPPORTED: OpenSSH's own
 * encrypted form, which only libssh2 1.11 reads with SHA-2; E_INVALID. */
int rsasign_new(const char *pem, const char *pass,
		struct rsasign **out) SBX_MUST_CHECK;
void rsasign_free(struct rsasign *k);
/* Its public half as the server wants to see it, of the type rsa-sha2-256. */
const unsigned char *rsasign_blob(const struct rsasign *k, size_t *n);
/* *sig is malloc'ed. */
int rsasign_sign(const struct rsasign *k, const void *p, size_t n,
		 unsigned char **sig, size_t *siglen) SBX_MUST_CHECK;

#endif
