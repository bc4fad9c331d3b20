/* SPDX-License-Identifier: Apache-2.0 */
/* OpenSSH's key files and certificates, and RSA signatures. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "tunnel/rsasign.h"
#include "tunnel/sshkey.h"

static void
put_u32(struct strbuf *b, uint32_t n)
{
	char raw[4] = {(char)(n >> 24), (char)(n >> 16), (char)(n >> 8),
		       (char)n};

	strbuf_add(b, raw, sizeof(raw));
}

static void
put(struct strbuf *b, const void *p, size_t n)
{
	put_u32(b, (uint32_t)n);
	strbuf_add(b, p, n);
}

static void
puts_text(struct strbuf *b, const char *s)
{
	put(b, s, strlen(s));
}

static char *
base64(const struct strbuf *b)
{
	char *text = xmalloc(b->len * 2 + 8);

	EVP_EncodeBlock((unsigned char *)text, (unsigned char *)b->s,
			(int)b->len);
	return text;
}

/* A private key file with that cipher, public blob and private part. */
static char *
key_file(const char *cipher, const struct strbuf *pub,
	 const struct strbuf *priv)
{
	struct strbuf b = {0}, text = {0};
	char *b64;

	strbuf_add(&b, "openssh-key-v1", 15);
	puts_text(&b, cipher);
	puts_text(&b, "none");
	puts_text(&b, "");
	put_u32(&b, 1);
	put(&b, pub->s, pub->len);
	put(&b, priv->s, priv->len);
	b64 = base64(&b);
	strbuf_adds(&text, "-----BEGIN OPENSSH PRIVATE KEY-----\n");
	for (size_t i = 0; i < strlen(b64); i += 70)
		strbuf_addf(&text, "%.70s\n", b64 + i);
	strbuf_adds(&text, "-----END OPENSSH PRIVATE KEY-----\n");
	free(b64);
	strbuf_clear(&b);
	return strbuf_take(&text);
}

static void
ed25519_pub(struct strbuf *b, char fill)
{
	char point[32];

	memset(point, fill, sizeof(point));
	puts_text(b, "ssh-ed25519");
	put(b, point, sizeof(point));
}

static char *
ed25519_file(const char *cipher, char fill)
{
	struct strbuf pub = {0}, priv = {0};
	char *text;

	ed25519_pub(&pub, fill);
	strbuf_adds(&priv, "whatever");
	text = key_file(cipher, &pub, &priv);
	strbuf_clear(&pub);
	strbuf_clear(&priv);
	return text;
}

static void
test_encrypted(void **state)
{
	char *plain = ed25519_file("none", 'a');
	char *locked = ed25519_file("aes256-ctr", 'a');

	(void)state;
	assert_false(sshkey_encrypted(plain));
	assert_true(sshkey_encrypted(locked));
	assert_false(sshkey_is_rsa(locked));
	assert_true(sshkey_encrypted("-----BEGIN ENCRYPTED PRIVATE KEY-----"));
	assert_false(sshkey_encrypted("-----BEGIN PRIVATE KEY-----"));
	free(plain);
	free(locked);
}

/* Any part of a good file is a bad file, and nothing worse. */
static void
test_cut_short(void **state)
{
	char *text = ed25519_file("none", 'a'), *part;
	struct sshkey k;
	size_t n =
	    strlen(text) - strlen("\n-----END OPENSSH PRIVATE KEY-----\n");

	(void)state;
	for (size_t i = 0; i < n; i++) {
		part = xstrndup(text, i);
		assert_true(sshkey_read(part, &k) != 0);
		free(part);
	}
	free(text);
}

static char *
cert_text(char fill, const char *type)
{
	struct strbuf b = {0}, text = {0};
	char point[32], *b64;

	memset(point, fill, sizeof(point));
	puts_text(&b, type);
	puts_text(&b, "nonce");
	put(&b, point, sizeof(point));
	puts_text(&b, "the rest");
	b64 = base64(&b);
	strbuf_addf(&text, "%s %s comment\n", type, b64);
	free(b64);
	strbuf_clear(&b);
	return strbuf_take(&text);
}

static void
test_certificates(void **state)
{
	static const char good[] = "ssh-ed25519-cert-v01@openssh.com";
	char *key = ed25519_file("aes256-ctr", 'a');
	char *mine = cert_text('a', good), *other = cert_text('b', good);
	char *odd = cert_text('a', "ssh-ed25519");

	(void)state;
	assert_true(sshkey_certified(mine, key));
	assert_false(sshkey_certified(other, key));
	assert_false(sshkey_certified(odd, key));
	assert_false(sshkey_certified("", key));
	assert_false(sshkey_certified("type", key));
	assert_false(sshkey_certified("type !!!!", key));
	/* only trying would tell */
	assert_true(sshkey_certified(other, "-----BEGIN PRIVATE KEY-----"));
	free(key);
	free(mine);
	free(other);
	free(odd);
}

/* --- RSA ---------------------------------------------------------------- */

static EVP_PKEY *
rsa_new(void **state)
{
	if (*state == NULL)
		*state = EVP_RSA_gen(1024);
	assert_non_null(*state);
	return *state;
}

static int
rsa_teardown(void **state)
{
	EVP_PKEY_free(*state);
	*state = NULL;
	return 0;
}

static char *
rsa_pem(EVP_PKEY *key, const char *pass)
{
	BIO *b = BIO_new(BIO_s_mem());
	char *p, *text;
	long n;

	assert_true(PEM_write_bio_PrivateKey(
	    b, key, pass != NULL ? EVP_aes_128_cbc() : NULL,
	    (const unsigned char *)pass, pass != NULL ? (int)strlen(pass) : 0,
	    NULL, NULL));
	n = BIO_get_mem_data(b, &p);
	text = xstrndup(p, (size_t)n);
	BIO_free(b);
	return text;
}

static void
put_number(struct strbuf *b, EVP_PKEY *key, const char *name)
{
	unsigned char raw[1024] = {0};
	BIGNUM *bn = NULL;
	int n;

	assert_true(EVP_PKEY_get_bn_param(key, name, &bn));
	n = BN_bn2bin(bn, raw + 1);
	put(b, raw[1] & 0x80 ? raw : raw + 1,
	    (size_t)n + (raw[1] & 0x80 ? 1 : 0));
	BN_free(bn);
}

static char *
rsa_openssh(EVP_PKEY *key, const char *cipher)
{
	struct strbuf pub = {0}, priv = {0};
	char *text;

	puts_text(&pub, "ssh-rsa");
	put_number(&pub, key, OSSL_PKEY_PARAM_RSA_E);
	put_number(&pub, key, OSSL_PKEY_PARAM_RSA_N);
	put_u32(&priv, 1);
	put_u32(&priv, 1);
	puts_text(&priv, "ssh-rsa");
	put_number(&priv, key, OSSL_PKEY_PARAM_RSA_N);
	put_number(&priv, key, OSSL_PKEY_PARAM_RSA_E);
	put_number(&priv, key, OSSL_PKEY_PARAM_RSA_D);
	text = key_file(cipher, &pub, &priv);
	strbuf_clear(&pub);
	strbuf_clear(&priv);
	return text;
}

static void
rsa_check(EVP_PKEY *key, const char *pem, const char *pass)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	struct strbuf want = {0};
	const unsigned char *blob;
	unsigned char *sig;
	struct rsasign *k;
	size_t n;

	assert_true(sshkey_is_rsa(pem));
	assert_int_equal(rsasign_new(pem, pass, &k), 0);
	puts_text(&want, "rsa-sha2-256");
	put_number(&want, key, OSSL_PKEY_PARAM_RSA_E);
	put_number(&want, key, OSSL_PKEY_PARAM_RSA_N);
	blob = rsasign_blob(k, &n);
	assert_int_equal(n, want.len);
	assert_memory_equal(blob, want.s, n);
	assert_int_equal(rsasign_sign(k, "data", 4, &sig, &n), 0);
	assert_true(EVP_DigestVerifyInit(ctx, NULL, EVP_sha256(), NULL, key) >
		    0);
	assert_int_equal(
	    EVP_DigestVerify(ctx, sig, n, (const unsigned char *)"data", 4), 1);
	EVP_MD_CTX_free(ctx);
	strbuf_clear(&want);
	free(sig);
	rsasign_free(k);
}

static void
test_rsa_signs(void **state)
{
	EVP_PKEY *key = rsa_new(state);
	char *pem = rsa_pem(key, NULL), *locked = rsa_pem(key, "sesame");
	char *ssh = rsa_openssh(key, "none");
	struct rsasign *k;

	rsa_check(key, pem, NULL);
	rsa_check(key, locked, "sesame");
	rsa_check(key, ssh, NULL);
	assert_int_equal(rsasign_new(locked, "wrong", &k), E_INVALID);
	assert_int_equal(rsasign_new(locked, NULL, &k), E_INVALID);
	free(pem);
	free(locked);
	free(ssh);
}

static void
test_rsa_refused(void **state)
{
	EVP_PKEY *key = rsa_new(state), *ec = EVP_EC_gen("P-256");
	char *locked = rsa_openssh(key, "aes256-ctr");
	char *other = ed25519_file("none", 'a'), *pem = rsa_pem(ec, NULL);
	struct rsasign *k;

	assert_int_equal(rsasign_new(locked, "x", &k), E_UNSUPPORTED);
	assert_int_equal(rsasign_new(other, NULL, &k), E_NOTFOUND);
	assert_int_equal(rsasign_new(pem, NULL, &k), E_NOTFOUND);
	EVP_PKEY_free(ec);
	free(locked);
	free(other);
	free(pem);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_encrypted),
	    cmocka_unit_test(test_cut_short),
	    cmocka_unit_test(test_certificates),
	    cmocka_unit_test_setup_teardown(test_rsa_signs, NULL, rsa_teardown),
	    cmocka_unit_test_setup_teardown(test_rsa_refused, NULL,
					    rsa_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
