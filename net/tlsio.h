/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS under a stream. One record of up to 16 KiB per write (small pieces are
 * gathered first, so that head and body leave as one record), read-ahead
 * without a second read after a short one, buffers released when idle.
 */
#ifndef SBX_NET_TLSIO_H
#define SBX_NET_TLSIO_H

#include <stdbool.h>

#include "base/defs.h"
#include "base/str.h"

struct stream;
struct tlsctx;

/* Makes st a TLS server or client connection; the handshake starts at once.
 * ctx is referenced. */
void tlsio_accept(struct stream *st, struct tlsctx *ctx);
/* host: for SNI and for the name check (an IP literal is checked as one). */
void tlsio_connect(struct stream *st, struct tlsctx *ctx, const char *host);

struct tls_info {
	const char *version; /* "TLSv1.3" */
	const char *cipher;
	const char *sni; /* NULL: none */
	bool resumed;
};
/* False when st is not TLS or not ready. Strings live as long as st. */
bool tlsio_info(struct stream *st, struct tls_info *out);
bool tlsio_is(struct stream *st);
/* Why the handshake failed, in words for the log; "" when unknown. Valid in
 * the error callback. */
const char *tlsio_error(struct stream *st);

#endif
