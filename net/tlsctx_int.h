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
/* How OpenSSL reaches the stream's lower layer; made by tlsio.c when first
 * needed, freed with the context. */
BIO_METHOD **tlsctx_bio(struct tlsctx *t);

#endif
