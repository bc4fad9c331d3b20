/* SPDX-License-Identifier: Apache-2.0 */
/* RSA signatures with SHA-256 by OpenSSL. */
#include "config.h"

#include "tunnel/rsasign.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "tunnel/sshkey.h"

#define BLOB_TYPE "rsa-sha2-256"

struct rsasign {
	EVP_PKEY *key;
	struct strbuf blob;
};

static EVP_PKEY *
key_of(BIGNUM *n, BIGNUM *e, BIGNUM *d)
{
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, "RSA", NULL);
	OSSL_PARAM_BLD *b = OSSL_PARAM_BLD_new();
	OSSL_PARAM *params = NULL;
	EVP_PKEY *key = NULL;

	if (ctx != NULL && b != NULL &&
	    OSSL_PARAM_BLD_push_BN(b, OSSL_PKEY_PARAM_RSA_N, n) &&
	    OSSL_PARAM_BLD_push_BN(b, OSSL_PKEY_PARAM_RSA_E, e) &&
	    OSSL_PARAM_BLD_push_BN(b, OSSL_PKEY_PARAM_RSA_D, d) &&
	    (params = OSSL_PARAM_BLD_to_param(b)) != NULL &&
	    EVP_PKEY_fromdata_init(ctx) > 0 &&
	    EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_KEYPAIR, params) <= 0)
		key = NULL;
	OSSL_PARAM_free(params);
	OSSL_PARAM_BLD_free(b);
	EVP_PKEY_CTX_free(ctx);
	return key;
}

/* two check numbers, type, n, e, d, ... */
static int
key_from_openssh(const struct sshkey *k, EVP_PKEY **out)
{
	struct strv rest = strv_from(k->priv, 8), v[4];
	BIGNUM *bn[3] = {NULL, NULL, NULL};

	for (size_t i = 0; i < 4; i++)
		if (k->priv.len < 8 || !sshkey_string(&rest, &v[i]))
			return E_INVALID;
	if (!strv_eq(v[0], STRV("ssh-rsa")))
		return E_NOTFOUND;
	for (size_t i = 0; i < 3; i++)
		bn[i] = BN_bin2bn((const unsigned char *)v[i + 1].p,
				  (int)v[i + 1].len, NULL);
	*out = key_of(bn[0], bn[1], bn[2]);
	BN_free(bn[0]);
	BN_free(bn[1]);
	BN_clear_free(bn[2]);
	return *out != NULL ? 0 : E_INVALID;
}

static int
key_from_pem(const char *pem, const char *pass, EVP_PKEY **out)
{
	BIO *b = BIO_new_mem_buf(pem, -1);

	if (b == NULL)
		return E_INVALID;
	/* an empty passphrase: OpenSSL must not ask for one */
	*out = PEM_read_bio_PrivateKey(
	    b, NULL, NULL, (void *)(uintptr_t)(pass != NULL ? pass : ""));
	BIO_free(b);
	if (*out == NULL)
		return E_INVALID;
	if (EVP_PKEY_is_a(*out, "RSA"))
		return 0;
	EVP_PKEY_free(*out);
	return E_NOTFOUND;
}

static void
put_string(struct strbuf *b, const void *p, size_t n)
{
	unsigned char len[4] = {(unsigned char)(n >> 24),
				(unsigned char)(n >> 16),
				(unsigned char)(n >> 8), (unsigned char)n};

	strbuf_add(b, (char *)len, sizeof(len));
	strbuf_add(b, p, n);
}

/* As SSH writes it: a zero in front when the first bit is set. */
static bool
put_number(struct strbuf *b, const EVP_PKEY *key, const char *name)
{
	unsigned char raw[2049] = {0};
	BIGNUM *bn = NULL;
	bool ok;
	int n;

	ok = EVP_PKEY_get_bn_param(key, name, &bn) &&
	     BN_num_bytes(bn) < (int)sizeof(raw);
	if (ok) {
		n = BN_bn2bin(bn, raw + 1);
		if ((raw[1] & 0x80) != 0)
			put_string(b, raw, (size_t)n + 1);
		else
			put_string(b, raw + 1, (size_t)n);
	}
	BN_free(bn);
	return ok;
}

int
rsasign_new(const char *pem, const char *pass, struct rsasign **out)
{
	struct rsasign *k;
	struct sshkey ssh;
	EVP_PKEY *key = NULL;
	int r;

	if (!sshkey_is_rsa(pem))
		return E_NOTFOUND;
	if (sshkey_read(pem, &ssh) != 0) {
		r = key_from_pem(pem, pass, &key);
	} else {
		r = ssh.encrypted ? E_UNSUPPORTED
				  : key_from_openssh(&ssh, &key);
		sshkey_clear(&ssh);
	}
	if (r != 0)
		return r;
	k = xcalloc(1, sizeof(*k));
	k->key = key;
	put_string(&k->blob, BLOB_TYPE, strlen(BLOB_TYPE));
	if (!put_number(&k->blob, key, OSSL_PKEY_PARAM_RSA_E) ||
	    !put_number(&k->blob, key, OSSL_PKEY_PARAM_RSA_N)) {
		rsasign_free(k);
		return E_INVALID;
	}
	*out = k;
	return 0;
}

void
rsasign_free(struct rsasign *k)
{
	if (k == NULL)
		return;
	EVP_PKEY_free(k->key);
	strbuf_clear(&k->blob);
	free(k);
}

const unsigned char *
rsasign_blob(const struct rsasign *k, size_t *n)
{
	*n = k->blob.len;
	return (const unsigned char *)k->blob.s;
}

int
rsasign_sign(const struct rsasign *k, const void *p, size_t n,
	     unsigned char **sig, size_t *siglen)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	size_t len = (size_t)EVP_PKEY_get_size(k->key);
	unsigned char *s = xmalloc(len);
	int r = E_SYS;

	if (ctx != NULL &&
	    EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, k->key) > 0 &&
	    EVP_DigestSign(ctx, s, &len, p, n) > 0) {
		*sig = s;
		*siglen = len;
		s = NULL;
		r = 0;
	}
	free(s);
	EVP_MD_CTX_free(ctx);
	return r;
}
