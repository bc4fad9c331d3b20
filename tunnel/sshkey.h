/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can be read in key files without libssh2: OpenSSH's private key format
 * (its public half stands there in clear), and user certificates.
 */
#ifndef SBX_TUNNEL_SSHKEY_H
#define SBX_TUNNEL_SSHKEY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/defs.h"
#include "base/str.h"

#define SSHKEY_BLOB_MAX 16384

struct sshkey {
	unsigned char *raw; /* all of it decoded; secret */
	size_t len;
	bool encrypted;
	struct strv pub;  /* the public key's blob, inside raw */
	struct strv priv; /* the private part, unless encrypted */
};

/* Reads "-----BEGIN OPENSSH PRIVATE KEY-----"; E_NOTFOUND: it is not of that
 * kind; E_INVALID. */
int sshkey_read(const char *pem, struct sshkey *out) SBX_MUST_CHECK;
void sshkey_clear(struct sshkey *k);
/* Takes a length-prefixed string off the front; false: there is none. */
bool sshkey_string(struct strv *rest, struct strv *out);
bool sshkey_encrypted(const char *pem); /* of any kind */
bool sshkey_is_rsa(const char *pem);    /* of any kind, as far as one sees */

/* Whether the certificate in text ("TYPE BASE64 ...") is for the private key
 * pem. True, too, when only trying would tell (PEM and PKCS#8). */
bool sshkey_certified(const char *text, const char *pem);

#endif
