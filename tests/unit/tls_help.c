/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates and a plain OpenSSL client for tests; see tls_help.h. */
#include "config.h"

#include "tests/unit/tls_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tests/unit/net_help.h"

static void
path_in(char out[TLS_HELP_PATH], const char *dir, const char *name)
{
	(void)snprintf(out, TLS_HELP_PATH, "%s/%s", dir, name);
}

/* The self-signed ones are all ECDSA: an RSA one is made here. */
static void
rsa_make(const char *path)
{
	EVP_PKEY *key = EVP_RSA_gen(2048);
	X509 *x = X509_new();
	X509_EXTENSION *ext;
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	assert_int_equal(ASN1_INTEGER_set(X509_get_serialNumber(x), 7), 1);
	assert_int_equal(X509_set_version(x, X509_VERSION_3), 1);
	assert_non_null(X509_gmtime_adj(X509_getm_notBefore(x), -60));
	assert_non_null(X509_gmtime_adj(X509_getm_notAfter(x), 3600));
	assert_int_equal(X509_set_pubkey(x, key), 1);
	ext = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name,
				  "DNS:localhost,DNS:*.example.org");
	assert_non_null(ext);
	assert_int_equal(X509_add_ext(x, ext, -1), 1);
	X509_EXTENSION_free(ext);
	assert_true(X509_sign(x, key, EVP_sha256()) > 0);
	assert_int_equal(PEM_write_X509(f, x), 1);
	assert_int_equal(
	    PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL), 1);
	assert_int_equal(fclose(f), 0);
	X509_free(x);
	EVP_PKEY_free(key);
}

void
tls_files_make(struct tls_files *f)
{
	const struct strv names[] = {STRV("localhost"), STRV("*.Example.org"),
				     STRV("127.0.0.1"), STRV("::1")};
	const struct strv other = STRV("other.test");
	char *msg = NULL;

	(void)snprintf(f->dir, sizeof(f->dir), "/tmp/sbx-tls-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	path_in(f->cert, f->dir, "cert.pem");
	path_in(f->key, f->dir, "key.pem");
	path_in(f->cert2, f->dir, "cert2.pem");
	path_in(f->key2, f->dir, "key2.pem");
	path_in(f->rsa, f->dir, "rsa.pem");
	assert_int_equal(
	    tlsctx_self_signed(f->cert, f->key, names, ARRAY_LEN(names), &msg),
	    0);
	assert_int_equal(tlsctx_self_signed(f->cert2, f->key2, &other, 1, &msg),
			 0);
	rsa_make(f->rsa);
}

void
tls_files_remove(struct tls_files *f)
{
	(void)unlink(f->cert);
	(void)unlink(f->key);
	(void)unlink(f->cert2);
	(void)unlink(f->key2);
	(void)unlink(f->rsa);
	assert_int_equal(rmdir(f->dir), 0);
}

struct tlsctx *
tls_help_server(const struct tls_files *f, bool many)
{
	const struct tls_cert certs[] = {
	    {f->cert, f->key}, {f->cert2, f->key2}, {f->rsa, NULL}};
	struct tlsctx_options o = {.certs = certs,
				   .ncerts = many ? 3 : 1,
				   .tls12 = true,
				   .tickets = 1};
	struct tlsctx *t = NULL;
	char *msg = NULL;

	if (tlsctx_server(&o, &t, &msg) != 0)
		fail_msg("%s", msg);
	return t;
}

struct raw_ssl {
	SSL *ssl;
	int err;
	char *p;
	int n;
};

static bool
raw_ssl_shakes(void *arg)
{
	struct raw_ssl *r = arg;
	int ret;

	ERR_clear_error();
	ret = SSL_do_handshake(r->ssl);
	r->err = ret == 1 ? SSL_ERROR_NONE : SSL_get_error(r->ssl, ret);
	return r->err != SSL_ERROR_WANT_READ && r->err != SSL_ERROR_WANT_WRITE;
}

int
raw_ssl_handshake(struct loop *l, SSL *ssl)
{
	struct raw_ssl r = {.ssl = ssl};

	help_wait(l, raw_ssl_shakes, &r);
	return r.err;
}

static bool
raw_ssl_reads(void *arg)
{
	struct raw_ssl *r = arg;
	int n;

	ERR_clear_error();
	n = SSL_read(r->ssl, r->p, r->n);
	if (n <= 0) {
		assert_int_equal(SSL_get_error(r->ssl, n), SSL_ERROR_WANT_READ);
		return false;
	}
	r->p += n;
	r->n -= n;
	return r->n == 0;
}

void
raw_ssl_read(struct loop *l, SSL *ssl, void *p, int n)
{
	struct raw_ssl r = {.ssl = ssl, .p = p, .n = n};

	help_wait(l, raw_ssl_reads, &r);
}
