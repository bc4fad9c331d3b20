/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chacha20-poly1305@openssh.com by OpenSSL's assembly, in place of libssh2's
 * portable C, which takes three times the CPU. libssh2 has no hook for that,
 * but its static library keeps the cipher in an object of its own: these
 * functions have that object's names, so the linker never takes it. They are
 * built only with the static libssh2 1.11.1 that tools/build-libssh2.sh makes
 * (configure tests for it), and a mistake here fails every handshake.
 *
 * libssh2 frees its context without a word, so the context holds keys only and
 * OpenSSL's objects are kept here. All of it runs in one thread.
 */
#include "config.h"

#include "tunnel/chachapoly.h"

#include <stdint.h>
#include <string.h>

#include <libssh2.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>

#define TAG_LEN   16
#define BLOCK_LEN 64

static EVP_CIPHER_CTX *chachapoly_cipher;
static EVP_MAC_CTX *chachapoly_mac;

static int
chachapoly_setup(void)
{
	EVP_MAC *mac;

	if (chachapoly_mac != NULL)
		return 0;
	if (chachapoly_cipher == NULL)
		chachapoly_cipher = EVP_CIPHER_CTX_new();
	if (chachapoly_cipher == NULL ||
	    !EVP_EncryptInit_ex(chachapoly_cipher, EVP_chacha20(), NULL, NULL,
				NULL))
		return -1;
	mac = EVP_MAC_fetch(NULL, "POLY1305", NULL);
	if (mac != NULL)
		chachapoly_mac = EVP_MAC_CTX_new(mac);
	EVP_MAC_free(mac);
	return chachapoly_mac != NULL ? 0 : -1;
}

/* At block 0 of the packet's key stream. */
static int
stream_begin(const unsigned char *key, unsigned seq)
{
	unsigned char iv[16] = {0};

	iv[12] = (unsigned char)(seq >> 24);
	iv[13] = (unsigned char)(seq >> 16);
	iv[14] = (unsigned char)(seq >> 8);
	iv[15] = (unsigned char)seq;
	return EVP_EncryptInit_ex(chachapoly_cipher, NULL, NULL, key, iv) ? 0
									  : -1;
}

static int
stream_crypt(unsigned char *dest, const unsigned char *src, size_t n)
{
	int out;

	return n == 0 || EVP_EncryptUpdate(chachapoly_cipher, dest, &out, src,
					   (int)n)
		   ? 0
		   : -1;
}

static int
stream_tag(const unsigned char *key, const unsigned char *p, size_t n,
	   unsigned char tag[TAG_LEN])
{
	size_t len;

	return EVP_MAC_init(chachapoly_mac, key, CHACHAPOLY_KEY, NULL) &&
		       EVP_MAC_update(chachapoly_mac, p, n) &&
		       EVP_MAC_final(chachapoly_mac, tag, &len, TAG_LEN)
		   ? 0
		   : -1;
}

int
chachapoly_init(struct chachapoly_ctx *c, const unsigned char *key,
		unsigned keylen)
{
	if (keylen != sizeof(c->main) + sizeof(c->header) ||
	    chachapoly_setup() != 0)
		return LIBSSH2_ERROR_INVAL;
	memcpy(c->main, key, sizeof(c->main));
	memcpy(c->header, key + sizeof(c->main), sizeof(c->header));
	return 0;
}

/* The key stream's first block makes the tag's key; the packet is crypted
 * from the second one on. */
int
chachapoly_crypt(struct chachapoly_ctx *c, unsigned seq, unsigned char *dest,
		 const unsigned char *src, unsigned len, unsigned aadlen,
		 int encrypt)
{
	static const unsigned char zero[BLOCK_LEN];
	unsigned char first[BLOCK_LEN], tag[TAG_LEN];
	size_t n = (size_t)aadlen + len;
	int r = LIBSSH2_ERROR_DECRYPT;

	if (stream_begin(c->main, seq) != 0 ||
	    stream_crypt(first, zero, sizeof(first)) != 0)
		goto out;
	if (!encrypt && (stream_tag(first, src, n, tag) != 0 ||
			 CRYPTO_memcmp(tag, src + n, TAG_LEN) != 0))
		goto out;
	if (stream_crypt(dest + aadlen, src + aadlen, len) != 0 ||
	    stream_begin(c->header, seq) != 0 ||
	    stream_crypt(dest, src, aadlen) != 0)
		goto out;
	if (encrypt && stream_tag(first, dest, n, dest + n) != 0)
		goto out;
	r = 0;
out:
	OPENSSL_cleanse(first, sizeof(first));
	return r;
}

int
chachapoly_get_length(struct chachapoly_ctx *c, unsigned *out, unsigned seq,
		      const unsigned char *p, unsigned n)
{
	unsigned char b[4];

	if (n < sizeof(b) || stream_begin(c->header, seq) != 0 ||
	    stream_crypt(b, p, sizeof(b)) != 0)
		return -1;
	*out = (unsigned)b[0] << 24 | (unsigned)b[1] << 16 |
	       (unsigned)b[2] << 8 | b[3];
	return 0;
}
