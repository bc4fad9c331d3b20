/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host keys: fingerprints, and the known_hosts format of sshd(8): plain and
 * hashed names, patterns, [host]:port, @revoked and @cert-authority.
 */
#ifndef SBX_TUNNEL_HOSTKEY_H
#define SBX_TUNNEL_HOSTKEY_H

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

#define HOSTKEY_PRINT_MAX 64

enum hostkey_verdict {
	HOSTKEY_UNKNOWN, /* no line names this host */
	HOSTKEY_MATCH,
	HOSTKEY_CHANGED, /* the host is known, with other keys only */
	HOSTKEY_REVOKED
};

struct hostkey_found {
	enum hostkey_verdict verdict;
	unsigned line;                    /* that decided it */
	char expected[HOSTKEY_PRINT_MAX]; /* CHANGED: of a known key */
};

/* "SHA256:..." as ssh-keygen -l shows it. */
void hostkey_print(const void *key, size_t n, char out[HOSTKEY_PRINT_MAX]);
/* The type inside a key blob ("ssh-ed25519"); empty when malformed. */
struct strv hostkey_type(const void *key, size_t n);
/* host in lower case, or "[host]:port" when the port is not 22; malloc'ed. */
char *hostkey_name(const char *host, uint16_t port);

/* Looks name up in the text of a known_hosts file. */
void hostkey_check(struct strv text, const char *name, const void *key,
		   size_t n, struct hostkey_found *out);
/* Adds the types of the keys known for name to out, comma-separated. */
void hostkey_types(struct strv text, const char *name, struct strbuf *out);
/* A line for a known_hosts file, with its end of line; malloc'ed. */
char *hostkey_line(const char *name, const void *key, size_t n);

#endif
