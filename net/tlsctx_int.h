/* SPDX-License-Identifier: Apache-2.0 */
/* What tlsio.c needs of a context; private to the two. */
#ifndef SBX_NET_TLSCTX_INT_H
#define SBX_NET_TLSCTX_INT_H

#include <openssl/ssl.h>

#include "net/tlsctx.h"

#define TLS_RECORD_MAX 16384 /* plaintext bytes of a record */

/* The context that new connections begin with. */
SSL_CTX *tlsctx_ssl(const struct tlsctx *t);
/* Room for one record's plaintext, for gathering small pieces. */
char *tlsctx_scratch(struct tlsctx *t);

/*
 * Ciphertext that was read ahead, for all connections of a context. Whoever
 * reads last leaves there what OpenSSL did not take yet; it is moved away
 * (tlsio.c) only when another connection needs the room. OpenSSL's own
 * read-ahead moves the whole rest of its buffer for each record it takes out,
 * which is quadratic for small ones.
 */
#define TLS_AHEAD_SIZE (65536 + 512) /* four full records at least */
struct tlsio;
struct tls_ahead {
	struct tlsio *owner; /* NULL: nobody */
	size_t off, len;
	char data[TLS_AHEAD_SIZE];
};
struct tls_ahead *tlsctx_ahead(struct tlsctx *t);
/* How OpenSSL reaches the stream's lower layer; made by tlsio.c when first
 * needed, freed with the context. */
BIO_METHOD **tlsctx_bio(struct tlsctx *t);

#endif
