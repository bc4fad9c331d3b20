/* SPDX-License-Identifier: Apache-2.0 */
/* Private keys and certificates in OpenSSH's formats, as far as we read them.
 */
#include "config.h"

#include "tunnel/sshkey.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "base/err.h"
#include "base/mem.h"

#define BEGIN  "-----BEGIN OPENSSH PRIVATE KEY-----"
#define END    "-----END"
#define MAGIC  "openssh-key-v1" /* with its NUL */
#define SUFFIX "-cert-v01@openssh.com"

/* Base64 with white space in it, up to a character that is neither. */
static int
decode(const char *p, unsigned char **out, size_t *n)
{
	char *text = xmalloc(SSHKEY_BLOB_MAX);
	unsigned char *raw = xmalloc(SSHKEY_BLOB_MAX);
	size_t len = 0;
	int got = -1;

	for (; *p != '\0' && strncmp(p, END, strlen(END)) != 0; p++)
		if (strchr("\r\n\t ", *p) == NULL && len < SSHKEY_BLOB_MAX)
			text[len++] = *p;
	if (len % 4 == 0 && len < SSHKEY_BLOB_MAX)
		got = EVP_DecodeBlock(raw, (unsigned char *)text, (int)len);
	while (got > 0 && len > 0 && text[--len] == '=')
		got--;
	mem_secure_zero(text, SSHKEY_BLOB_MAX);
	free(text);
	if (got <= 0) {
		free(raw);
		return E_INVALID;
	}
	*out = raw;
	*n = (size_t)got;
	return 0;
}

static bool
take_u32(struct strv *rest, uint32_t *out)
{
	const unsigned char *p = (const unsigned char *)rest->p;

	if (rest->len < 4)
		return false;
	*out = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 |
	       (uint32_t)p[2] << 8 | p[3];
	*rest = strv_from(*rest, 4);
	return true;
}

bool
sshkey_string(struct strv *rest, struct strv *out)
{
	uint32_t n;

	if (!take_u32(rest, &n) || n > rest->len)
		return false;
	*out = (struct strv){rest->p, n};
	*rest = strv_from(*rest, n);
	return true;
}

/* magic, cipher, kdf, its options, number of keys (1), public, private */
static int
sshkey_parse(struct sshkey *k)
{
	struct strv rest = {(const char *)k->raw, k->len}, cipher, skip;
	uint32_t n;

	if (k->len < sizeof(MAGIC) || memcmp(k->raw, MAGIC, sizeof(MAGIC)) != 0)
		return E_INVALID;
	rest = strv_from(rest, sizeof(MAGIC));
	if (!sshkey_string(&rest, &cipher) || !sshkey_string(&rest, &skip) ||
	    !sshkey_string(&rest, &skip) || !take_u32(&rest, &n) || n != 1 ||
	    !sshkey_string(&rest, &k->pub) || !sshkey_string(&rest, &k->priv))
		return E_INVALID;
	k->encrypted = !strv_eq(cipher, STRV("none"));
	return 0;
}

int
sshkey_read(const char *pem, struct sshkey *out)
{
	const char *p = strstr(pem, BEGIN);
	struct sshkey k = {0};
	int r;

	if (p == NULL)
		return E_NOTFOUND;
	if ((r = decode(p + strlen(BEGIN), &k.raw, &k.len)) != 0)
		return r;
	if ((r = sshkey_parse(&k)) != 0) {
		sshkey_clear(&k);
		return r;
	}
	*out = k;
	return 0;
}

void
sshkey_clear(struct sshkey *k)
{
	if (k->raw != NULL)
		mem_secure_zero(k->raw, k->len);
	free(k->raw);
	memset(k, 0, sizeof(*k));
}

bool
sshkey_encrypted(const char *pem)
{
	struct sshkey k;
	bool yes;

	if (sshkey_read(pem, &k) != 0)
		return strstr(pem, "ENCRYPTED") != NULL;
	yes = k.encrypted;
	sshkey_clear(&k);
	return yes;
}

bool
sshkey_is_rsa(const char *pem)
{
	struct sshkey k;
	struct strv type, rest;
	bool yes;

	if (sshkey_read(pem, &k) != 0)
		return strstr(pem, "BEGIN RSA PRIVATE KEY") != NULL ||
		       strstr(pem, "BEGIN PRIVATE KEY") != NULL ||
		       strstr(pem, "BEGIN ENCRYPTED PRIVATE KEY") != NULL;
	rest = k.pub;
	yes = sshkey_string(&rest, &type) && strv_eq(type, STRV("ssh-rsa"));
	sshkey_clear(&k);
	return yes;
}

/* A certificate has its type, a nonce, and then what the key's blob has after
 * its type. */
static bool
certifies(struct strv cert, struct strv pub)
{
	struct strv ctype, ptype, nonce;

	return sshkey_string(&cert, &ctype) && sshkey_string(&pub, &ptype) &&
	       ctype.len == ptype.len + strlen(SUFFIX) &&
	       strv_starts(ctype, ptype) &&
	       strv_eq(strv_from(ctype, ptype.len), STRV(SUFFIX)) &&
	       sshkey_string(&cert, &nonce) && strv_starts(cert, pub);
}

bool
sshkey_certified(const char *text, const char *pem)
{
	struct strv rest = strv_of(text), type, b64 = STRV_NULL;
	unsigned char *raw = NULL;
	struct sshkey k;
	char *copy;
	size_t n;
	bool yes;
	int r = sshkey_read(pem, &k);

	if (r != 0)
		return r == E_NOTFOUND;
	(void)strv_cut(&rest, ' ', &type);
	(void)strv_cut(&rest, ' ', &b64);
	copy = xstrndup(b64.p != NULL ? b64.p : "", b64.len);
	yes = decode(copy, &raw, &n) == 0 &&
	      certifies((struct strv){(char *)raw, n}, k.pub);
	free(copy);
	free(raw);
	sshkey_clear(&k);
	return yes;
}
