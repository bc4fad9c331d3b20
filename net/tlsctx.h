/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS contexts: every OpenSSL option of the project lives in tlsctx.c.
 * A server context holds one or more certificates chosen by SNI, is immutable
 * once made and reference-counted, so that a reload swaps it while old
 * connections keep theirs.
 */
#ifndef SBX_NET_TLSCTX_H
#define SBX_NET_TLSCTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/defs.h"
#include "base/str.h"

struct tlsctx;

struct tls_cert {
	const char *cert; /* PEM chain, leaf first */
	const char *key;  /* PEM key; NULL: in the same file */
};

struct tlsctx_options {
	const struct tls_cert *certs; /* the first is for clients without SNI */
	size_t ncerts;
	bool tls12;          /* allow 1.2 (1.3 always) */
	const char *ciphers; /* TLS 1.2 list; NULL: AEAD + ECDHE only */
	unsigned tickets;    /* TLS 1.3 tickets per full handshake (1) */
};

/* Session ticket keys, shared by all workers: [0] encrypts, all decrypt. */
#define TLS_TICKET_KEYS 3
struct tls_ticket_key {
	uint8_t name[16];
	uint8_t aes[32];
	uint8_t hmac[32];
};
struct tls_ticket_keys {
	unsigned n; /* 0: no tickets are issued */
	struct tls_ticket_key k[TLS_TICKET_KEYS];
};

/* *msg gets a malloc'ed reason on failure (file names, OpenSSL's reason).
 * Certificate and key are checked to belong together. */
int tlsctx_server(const struct tlsctx_options *o, struct tlsctx **out,
		  char **msg) SBX_MUST_CHECK;
/* For connections that we make: verifies against the system's roots, or
 * against ca_file when given. */
int tlsctx_client(const char *ca_file, struct tlsctx **out,
		  char **msg) SBX_MUST_CHECK;
struct tlsctx *tlsctx_ref(struct tlsctx *t);
void tlsctx_unref(struct tlsctx *t);
/* Replaces the ticket keys (copied); a ticket under any of them resumes, one
 * under an older key than [0] is renewed. */
void tlsctx_set_ticket_keys(struct tlsctx *t,
			    const struct tls_ticket_keys *keys);

/* Makes a self-signed certificate for names (DNS names, IP literals) with an
 * ECDSA P-256 key, valid 825 days, CA:TRUE so that a client can be told to
 * trust this very file; key file 0600. E_EXISTS when cert_path is there. */
int tlsctx_self_signed(const char *cert_path, const char *key_path,
		       const struct strv *names, size_t nnames,
		       char **msg) SBX_MUST_CHECK;

/* SHA-256 of p (through OpenSSL), for token hashes. */
void tls_sha256(const void *p, size_t n, uint8_t out[32]);
/* HMAC-SHA-256 (RFC 2104). */
void tls_hmac_sha256(struct strv key, struct strv msg, uint8_t out[32]);

#endif
