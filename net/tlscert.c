/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The self-signed certificate of a first start (tlsctx_self_signed). It is an
 * authority for itself and for nothing below it, so that a client can be
 * pointed at the very file.
 */
#include "config.h"

#include "net/tlsctx.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "net/tlsmem.h"

#define CERT_DAYS     825
#define CERT_DAY_S    86400L
#define CERT_NAME_MAX 253

static int
cert_fail(char **msg, const char *what)
{
	const char *why = ERR_reason_error_string(ERR_peek_error());

	*msg = xasprintf("%s: %s", what, why != NULL ? why : "failed");
	ERR_clear_error();
	return E_SYS;
}

static bool
cert_extension(X509 *x, int nid, const char *value)
{
	X509V3_CTX ctx;
	X509_EXTENSION *ext;
	bool ok;

	X509V3_set_ctx_nodb(&ctx);
	X509V3_set_ctx(&ctx, x, x, NULL, NULL, 0);
	if ((ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value)) == NULL)
		return false;
	ok = X509_add_ext(x, ext, -1) == 1;
	X509_EXTENSION_free(ext);
	return ok;
}

/* One subjectAltName entry: an address when the name is one. */
static GENERAL_NAME *
cert_alt_name(struct strv name)
{
	char text[CERT_NAME_MAX + 1];
	unsigned char ip[16];
	GENERAL_NAME *gn;
	ASN1_STRING *s;
	int type = GEN_DNS, n;

	if (name.len == 0 || name.len > CERT_NAME_MAX)
		return NULL;
	memcpy(text, name.p, name.len);
	text[name.len] = '\0';
	n = (int)name.len;
	if (inet_pton(AF_INET, text, ip) == 1)
		n = 4;
	else if (inet_pton(AF_INET6, text, ip) == 1)
		n = 16;
	else
		type = 0;
	s = type != 0 ? ASN1_OCTET_STRING_new() : ASN1_IA5STRING_new();
	gn = GENERAL_NAME_new();
	if (s == NULL || gn == NULL ||
	    ASN1_STRING_set(s, type != 0 ? (char *)ip : text, n) != 1) {
		ASN1_STRING_free(s);
		GENERAL_NAME_free(gn);
		return NULL;
	}
	GENERAL_NAME_set0_value(gn, type != 0 ? GEN_IPADD : GEN_DNS, s);
	return gn;
}

static bool
cert_alt_names(X509 *x, const struct strv *names, size_t n)
{
	GENERAL_NAMES *alt = sk_GENERAL_NAME_new_null();
	GENERAL_NAME *gn;
	bool ok = alt != NULL;
	size_t i;

	for (i = 0; ok && i < n; i++) {
		gn = cert_alt_name(names[i]);
		ok = gn != NULL && sk_GENERAL_NAME_push(alt, gn) > 0;
	}
	ok = ok && X509_add1_ext_i2d(x, NID_subject_alt_name, alt, 0,
				     X509V3_ADD_APPEND) == 1;
	GENERAL_NAMES_free(alt);
	return ok;
}

static bool
cert_serial(X509 *x)
{
	unsigned char b[16];
	BIGNUM *bn;
	bool ok;

	if (RAND_bytes(b, sizeof(b)) != 1)
		return false;
	b[0] = (b[0] & 0x3f) | 0x40; /* positive, and always 16 bytes */
	bn = BN_bin2bn(b, sizeof(b), NULL);
	ok = bn != NULL &&
	     BN_to_ASN1_INTEGER(bn, X509_get_serialNumber(x)) != NULL;
	BN_free(bn);
	return ok;
}

static bool
cert_subject(X509 *x)
{
	static const unsigned char name[] = "sbx-gateway self-signed";
	X509_NAME *n = X509_get_subject_name(x);

	return X509_NAME_add_entry_by_NID(n, NID_commonName, MBSTRING_ASC, name,
					  -1, -1, 0) == 1 &&
	       X509_set_issuer_name(x, n) == 1;
}

static X509 *
cert_make(EVP_PKEY *key, const struct strv *names, size_t n)
{
	X509 *x = X509_new();

	if (x != NULL && X509_set_version(x, X509_VERSION_3) == 1 &&
	    cert_serial(x) &&
	    X509_gmtime_adj(X509_getm_notBefore(x), -CERT_DAY_S) != NULL &&
	    X509_gmtime_adj(X509_getm_notAfter(x),
			    (CERT_DAYS - 1) * CERT_DAY_S) != NULL &&
	    X509_set_pubkey(x, key) == 1 && cert_subject(x) &&
	    cert_extension(x, NID_basic_constraints,
			   "critical,CA:TRUE,pathlen:0") &&
	    cert_extension(x, NID_key_usage,
			   "critical,digitalSignature,keyCertSign") &&
	    cert_extension(x, NID_ext_key_usage, "serverAuth") &&
	    cert_extension(x, NID_subject_key_identifier, "hash") &&
	    cert_alt_names(x, names, n) && X509_sign(x, key, EVP_sha256()) > 0)
		return x;
	X509_free(x);
	return NULL;
}

/* Writes what is in a memory BIO to path. */
static int
cert_write(BIO *mem, const char *path, mode_t mode, char **msg)
{
	char *p;
	long n = BIO_get_mem_data(mem, &p);
	int r = file_write_atomic(path, p, (size_t)n, mode);

	if (r != 0)
		*msg = xasprintf("%s: %s", path, err_text(r));
	return r;
}

int
tlsctx_self_signed(const char *cert_path, const char *key_path,
		   const struct strv *names, size_t nnames, char **msg)
{
	BIO *cert = NULL, *secret = NULL;
	EVP_PKEY *key = NULL;
	X509 *x = NULL;
	int r;

	tlsmem_init();
	if (access(cert_path, F_OK) == 0) {
		*msg = xasprintf("%s: exists", cert_path);
		return E_EXISTS;
	}
	if ((key = EVP_EC_gen("P-256")) == NULL ||
	    (x = cert_make(key, names, nnames)) == NULL ||
	    (cert = BIO_new(BIO_s_mem())) == NULL ||
	    (secret = BIO_new(BIO_s_secmem())) == NULL ||
	    PEM_write_bio_X509(cert, x) != 1 ||
	    PEM_write_bio_PrivateKey(secret, key, NULL, NULL, 0, NULL, NULL) !=
		1) {
		r = cert_fail(msg, cert_path);
		goto out;
	}
	/* The key first: a certificate in place says that both are. */
	if ((r = cert_write(secret, key_path, 0600, msg)) == 0)
		r = cert_write(cert, cert_path, 0644, msg);
out:
	BIO_free(cert);
	BIO_free(secret);
	X509_free(x);
	EVP_PKEY_free(key);
	return r;
}
