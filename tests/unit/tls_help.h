/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates in a temporary directory, and a TLS client that is OpenSSL's
 * alone, for the tests of tlsctx and tlsio. */
#ifndef SBX_TEST_TLS_HELP_H
#define SBX_TEST_TLS_HELP_H

#include <openssl/ssl.h>

#include "net/loop.h"
#include "net/tlsctx.h"

#define TLS_HELP_PATH 128

struct tls_files {
	char dir[64];
	char cert[TLS_HELP_PATH];
	char key[TLS_HELP_PATH];
	char cert2[TLS_HELP_PATH]; /* for other names */
	char key2[TLS_HELP_PATH];
	char rsa[TLS_HELP_PATH]; /* RSA, for the names of cert; key inside */
};
/* cert: localhost, *.Example.org, 127.0.0.1, ::1; cert2: other.test. */
void tls_files_make(struct tls_files *f);
void tls_files_remove(struct tls_files *f);

/* A server context with cert (and all others when many). */
struct tlsctx *tls_help_server(const struct tls_files *f, bool many);

/* A client on a non-blocking fd, driven while the loop runs. Returns what
 * SSL_get_error() said last: SSL_ERROR_NONE when the handshake is done. */
int raw_ssl_handshake(struct loop *l, SSL *ssl);
/* Reads exactly n bytes of application data. */
void raw_ssl_read(struct loop *l, SSL *ssl, void *p, int n);

#endif
