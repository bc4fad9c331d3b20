/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS contexts. A server context is a list of groups, each an SSL_CTX with
 * certificates for the same names (one a key type: OpenSSL then picks the one
 * that the client can check), and a table from name to group for SNI. The
 * first group serves clients that name nothing we know.
 */
#include "config.h"

#include "net/tlsctx_int.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "net/tlsmem.h"

#define TLS_NAME_MAX 253
/* AES-128 first: a quarter cheaper than AES-256 and as good here. A client
 * without AES instructions puts ChaCha first, and gets it. */
#define TLS13_SUITES                                                           \
	"TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256:"                 \
	"TLS_AES_256_GCM_SHA384"
#define TLS12_CIPHERS                                                          \
	"ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:"           \
	"ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305:"           \
	"ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384"
#define TLS_GROUPS "X25519:P-256:P-384"

struct tls_group {
	SSL_CTX *ssl;
	struct hash *names; /* of its first certificate; values: itself */
	unsigned types;     /* bit set of key types held */
};

struct tlsctx {
	unsigned refs;
	struct tls_group *groups;
	size_t ngroups;
	struct hash *names; /* SNI, lower case -> group */
	struct tls_ticket_keys keys;
	EVP_CIPHER *ticket_cipher;
	BIO_METHOD *bio;
	char scratch[TLS_RECORD_MAX];
	struct tls_ahead ahead;
};

/* --- messages ---------------------------------------------------------- */

/* Puts "what: OpenSSL's reason" into *msg and empties OpenSSL's queue. */
static int
tls_fail(char **msg, const char *what)
{
	const char *why = ERR_reason_error_string(ERR_peek_error());

	*msg = xasprintf("%s: %s", what, why != NULL ? why : "failed");
	ERR_clear_error();
	return E_INVALID;
}

/* --- callbacks --------------------------------------------------------- */

static struct tlsctx *
tlsctx_of(SSL *ssl)
{
	return SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
}

static int
tls_alpn_cb(SSL *ssl, const unsigned char **out, unsigned char *outlen,
	    const unsigned char *in, unsigned inlen, void *arg)
{
	static const char want[] = "http/1.1";
	unsigned n;

	(void)ssl;
	(void)arg;
	while (inlen > 0) {
		n = *in++;
		inlen--;
		if (n > inlen)
			break;
		if (n == sizeof(want) - 1 && memcmp(in, want, n) == 0) {
			*out = in;
			*outlen = (unsigned char)n;
			return SSL_TLSEXT_ERR_OK;
		}
		in += n;
		inlen -= n;
	}
	return SSL_TLSEXT_ERR_ALERT_FATAL;
}

/* The group for a name: an exact one, else the wildcard above its first
 * label. */
static struct tls_group *
tlsctx_find(const struct tlsctx *t, const char *name)
{
	char key[TLS_NAME_MAX + 1];
	struct tls_group *g;
	size_t i, n = strlen(name);
	ptrdiff_t dot;

	if (n == 0 || n > TLS_NAME_MAX)
		return NULL;
	for (i = 0; i < n; i++)
		key[i] = (char)(name[i] >= 'A' && name[i] <= 'Z'
				    ? name[i] + ('a' - 'A')
				    : name[i]);
	if (key[n - 1] == '.')
		n--;
	if ((g = hash_get(t->names, (struct strv){key, n})) != NULL)
		return g;
	dot = strv_index((struct strv){key, n}, '.');
	if (dot < 1)
		return NULL;
	key[dot - 1] = '*';
	return hash_get(t->names,
			(struct strv){key + dot - 1, n - (size_t)dot + 1});
}

static int
tls_sni_cb(SSL *ssl, int *alert, void *arg)
{
	const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
	struct tlsctx *t = arg;
	struct tls_group *g;

	(void)alert;
	if (name == NULL)
		return SSL_TLSEXT_ERR_NOACK;
	if ((g = tlsctx_find(t, name)) != NULL && g != &t->groups[0])
		(void)SSL_set_SSL_CTX(ssl, g->ssl);
	return SSL_TLSEXT_ERR_OK;
}

static int
tls_ticket_mac(EVP_MAC_CTX *mac, struct tls_ticket_key *k)
{
	char digest[] = "SHA256";
	OSSL_PARAM params[3];

	params[0] = OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY,
						      k->hmac, sizeof(k->hmac));
	params[1] =
	    OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0);
	params[2] = OSSL_PARAM_construct_end();
	return EVP_MAC_CTX_set_params(mac, params);
}

static int
tls_ticket_cb(SSL *ssl, unsigned char name[16], unsigned char *iv,
	      EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac, int enc)
{
	struct tlsctx *t = tlsctx_of(ssl);
	struct tls_ticket_key *k = t->keys.k;
	unsigned i;

	if (enc) {
		if (t->keys.n == 0)
			return 0;
		if (RAND_bytes(iv,
			       EVP_CIPHER_get_iv_length(t->ticket_cipher)) != 1)
			return -1;
		memcpy(name, k->name, sizeof(k->name));
		if (EVP_EncryptInit_ex2(cipher, t->ticket_cipher, k->aes, iv,
					NULL) != 1 ||
		    tls_ticket_mac(mac, k) != 1)
			return -1;
		return 1;
	}
	for (i = 0; i < t->keys.n; i++)
		if (memcmp(name, k[i].name, sizeof(k[i].name)) == 0)
			break;
	if (i == t->keys.n)
		return 0;
	if (EVP_DecryptInit_ex2(cipher, t->ticket_cipher, k[i].aes, iv, NULL) !=
		1 ||
	    tls_ticket_mac(mac, &k[i]) != 1)
		return -1;
	/* 2: resume, and issue a new ticket: for one under an older key, and
	 * for TLS 1.3, where clients use a ticket only once. */
	return i == 0 && SSL_version(ssl) < TLS1_3_VERSION ? 1 : 2;
}

/* --- building ---------------------------------------------------------- */

static void
tls_common(SSL_CTX *c, bool tls12)
{
	(void)SSL_CTX_set_min_proto_version(c, tls12 ? TLS1_2_VERSION
						     : TLS1_3_VERSION);
	(void)SSL_CTX_set_options(c, SSL_OP_NO_RENEGOTIATION |
					 SSL_OP_NO_COMPRESSION);
	(void)SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE |
				      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
				      SSL_MODE_RELEASE_BUFFERS |
				      SSL_MODE_NO_AUTO_CHAIN);
	(void)SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
	(void)SSL_CTX_set1_groups_list(c, TLS_GROUPS);
	(void)SSL_CTX_set_ciphersuites(c, TLS13_SUITES);
}

static int
tls_server_ctx(struct tlsctx *t, const struct tlsctx_options *o, SSL_CTX **out,
	       char **msg)
{
	SSL_CTX *c = SSL_CTX_new(TLS_server_method());
	const char *ciphers = o->ciphers != NULL ? o->ciphers : TLS12_CIPHERS;
	static const unsigned char sid[] = "sbx";

	if (c == NULL)
		return tls_fail(msg, "TLS");
	tls_common(c, o->tls12);
	(void)SSL_CTX_set_options(c, SSL_OP_CIPHER_SERVER_PREFERENCE |
					 SSL_OP_PRIORITIZE_CHACHA);
	if (SSL_CTX_set_cipher_list(c, ciphers) != 1) {
		SSL_CTX_free(c);
		return tls_fail(msg, "ciphers");
	}
	(void)SSL_CTX_set_session_id_context(c, sid, sizeof(sid) - 1);
	(void)SSL_CTX_set_num_tickets(c, o->tickets);
	(void)SSL_CTX_set_tlsext_ticket_key_evp_cb(c, tls_ticket_cb);
	(void)SSL_CTX_set_tlsext_servername_callback(c, tls_sni_cb);
	(void)SSL_CTX_set_tlsext_servername_arg(c, t);
	SSL_CTX_set_alpn_select_cb(c, tls_alpn_cb, NULL);
	(void)SSL_CTX_set_app_data(c, t);
	*out = c;
	return 0;
}

/* Loads chain and key, and checks that they belong together. */
static int
tls_load(SSL_CTX *c, const struct tls_cert *cert, char **msg)
{
	const char *key = cert->key != NULL ? cert->key : cert->cert;

	ERR_clear_error();
	if (SSL_CTX_use_certificate_chain_file(c, cert->cert) != 1)
		return tls_fail(msg, cert->cert);
	if (SSL_CTX_use_PrivateKey_file(c, key, SSL_FILETYPE_PEM) != 1)
		return tls_fail(msg, key);
	if (SSL_CTX_check_private_key(c) != 1)
		return tls_fail(msg, key);
	return 0;
}

static void
tls_add_name(struct hash *names, const ASN1_STRING *s, void *value)
{
	const char *p = (const char *)ASN1_STRING_get0_data(s);
	int i, n = ASN1_STRING_length(s);
	char low[TLS_NAME_MAX];

	if (n < 1 || n > TLS_NAME_MAX || memchr(p, '\0', (size_t)n) != NULL)
		return;
	for (i = 0; i < n; i++)
		low[i] = (char)(p[i] >= 'A' && p[i] <= 'Z' ? p[i] + ('a' - 'A')
							   : p[i]);
	(void)hash_set(names, (struct strv){low, (size_t)n}, value);
}

/* The DNS names of a certificate, each with value; the table is the
 * caller's. Without a subjectAltName the common name counts. */
static struct hash *
tls_names(X509 *x, void *value)
{
	struct hash *names = hash_new();
	GENERAL_NAMES *alt;
	X509_NAME_ENTRY *e;
	int i, type;

	alt = X509_get_ext_d2i(x, NID_subject_alt_name, NULL, NULL);
	if (alt != NULL) {
		for (i = 0; i < sk_GENERAL_NAME_num(alt); i++) {
			void *v = GENERAL_NAME_get0_value(
			    sk_GENERAL_NAME_value(alt, i), &type);

			if (type == GEN_DNS)
				tls_add_name(names, v, value);
		}
		GENERAL_NAMES_free(alt);
		return names;
	}
	i = X509_NAME_get_index_by_NID(X509_get_subject_name(x), NID_commonName,
				       -1);
	if (i >= 0) {
		e = X509_NAME_get_entry(X509_get_subject_name(x), i);
		tls_add_name(names, X509_NAME_ENTRY_get_data(e), value);
	}
	return names;
}

/* True when every name in a is also in b. */
static bool
tls_names_within(const struct hash *a, const struct hash *b)
{
	struct strv name;
	size_t pos = 0;

	while (hash_next(a, &pos, &name) != NULL)
		if (hash_get(b, name) == NULL)
			return false;
	return hash_count(a) > 0;
}

static unsigned
tls_key_type(SSL_CTX *c)
{
	switch (EVP_PKEY_get_base_id(SSL_CTX_get0_privatekey(c))) {
	case EVP_PKEY_RSA:
		return 1;
	case EVP_PKEY_EC:
		return 2;
	}
	return 4;
}

/* The same names under another kind of key: one more certificate for an SNI
 * group that is there. */
static int
tlsctx_join(struct tlsctx *t, const struct tls_cert *cert,
	    struct tls_group *fresh, char **msg)
{
	struct tls_group *g;
	size_t i;
	int r;

	for (i = 0; i < t->ngroups; i++) {
		g = &t->groups[i];
		if ((g->types & fresh->types) != 0 ||
		    !tls_names_within(fresh->names, g->names))
			continue;
		if ((r = tls_load(g->ssl, cert, msg)) != 0)
			return r;
		g->types |= fresh->types;
		return 0;
	}
	return E_NOTFOUND;
}

static void
tls_group_clear(struct tls_group *g)
{
	SSL_CTX_free(g->ssl);
	hash_free(g->names);
	g->ssl = NULL;
	g->names = NULL;
}

static int
tlsctx_add_cert(struct tlsctx *t, const struct tlsctx_options *o, size_t i,
		char **msg)
{
	struct tls_group g = {0}, *slot = &t->groups[t->ngroups];
	struct strv name;
	size_t pos = 0;
	int r;

	if ((r = tls_server_ctx(t, o, &g.ssl, msg)) != 0)
		return r;
	if ((r = tls_load(g.ssl, &o->certs[i], msg)) != 0)
		goto out;
	g.types = tls_key_type(g.ssl);
	g.names = tls_names(SSL_CTX_get0_certificate(g.ssl), slot);
	if ((r = tlsctx_join(t, &o->certs[i], &g, msg)) != E_NOTFOUND)
		goto out;
	while (hash_next(g.names, &pos, &name) != NULL)
		if (hash_get(t->names, name) == NULL) /* the first one wins */
			(void)hash_set(t->names, name, slot);
	*slot = g;
	t->ngroups++;
	return 0;
out:
	tls_group_clear(&g);
	return r;
}

static struct tlsctx *
tlsctx_new(size_t ngroups)
{
	struct tlsctx *t = xcalloc(1, sizeof(*t));

	tlsmem_init();
	t->refs = 1;
	t->groups = xcalloc(ngroups, sizeof(*t->groups));
	t->names = hash_new();
	/* Fetched once: looking an algorithm up is slow in OpenSSL 3.0. */
	t->ticket_cipher = EVP_CIPHER_fetch(NULL, "AES-256-CBC", NULL);
	assert(t->ticket_cipher != NULL);
	return t;
}

int
tlsctx_server(const struct tlsctx_options *o, struct tlsctx **out, char **msg)
{
	struct tlsctx *t;
	size_t i;
	int r;

	if (o->ncerts == 0) {
		*msg = xstrdup("no certificate given");
		return E_INVALID;
	}
	t = tlsctx_new(o->ncerts);
	for (i = 0; i < o->ncerts; i++) {
		if ((r = tlsctx_add_cert(t, o, i, msg)) != 0) {
			tlsctx_unref(t);
			return r;
		}
	}
	*out = t;
	return 0;
}

int
tlsctx_client(const char *ca_file, struct tlsctx **out, char **msg)
{
	struct tlsctx *t = tlsctx_new(1);
	SSL_CTX *c = SSL_CTX_new(TLS_client_method());
	int ok;

	if (c == NULL) {
		tlsctx_unref(t);
		return tls_fail(msg, "TLS");
	}
	t->groups[0].ssl = c;
	t->ngroups = 1;
	tls_common(c, true);
	SSL_CTX_set_verify(c, SSL_VERIFY_PEER, NULL);
	(void)SSL_CTX_set_app_data(c, t);
	ERR_clear_error();
	if (ca_file != NULL)
		ok = SSL_CTX_load_verify_file(c, ca_file);
	else
		ok = SSL_CTX_set_default_verify_paths(c);
	if (ok != 1) {
		tlsctx_unref(t);
		return tls_fail(msg, ca_file != NULL ? ca_file : "CA store");
	}
	*out = t;
	return 0;
}

/* --- life -------------------------------------------------------------- */

struct tlsctx *
tlsctx_ref(struct tlsctx *t)
{
	t->refs++;
	return t;
}

void
tlsctx_unref(struct tlsctx *t)
{
	size_t i;

	if (t == NULL || --t->refs > 0)
		return;
	for (i = 0; i < t->ngroups; i++)
		tls_group_clear(&t->groups[i]);
	free(t->groups);
	hash_free(t->names);
	EVP_CIPHER_free(t->ticket_cipher);
	BIO_meth_free(t->bio);
	mem_secure_zero(&t->keys, sizeof(t->keys));
	assert(t->ahead.owner == NULL);
	mem_secure_zero(t->scratch, sizeof(t->scratch));
	free(t);
}

void
tlsctx_set_ticket_keys(struct tlsctx *t, const struct tls_ticket_keys *keys)
{
	assert(keys->n <= TLS_TICKET_KEYS);
	t->keys = *keys;
}

SSL_CTX *
tlsctx_ssl(const struct tlsctx *t)
{
	return t->groups[0].ssl;
}

char *
tlsctx_scratch(struct tlsctx *t)
{
	return t->scratch;
}

struct tls_ahead *
tlsctx_ahead(struct tlsctx *t)
{
	return &t->ahead;
}

BIO_METHOD **
tlsctx_bio(struct tlsctx *t)
{
	return &t->bio;
}

void
tls_sha256(const void *p, size_t n, uint8_t out[32])
{
	tlsmem_init();
	(void)SHA256(p, n, out);
}

void
tls_hmac_sha256(struct strv key, struct strv msg, uint8_t out[32])
{
	tlsmem_init();
	(void)HMAC(EVP_sha256(), key.p, (int)key.len,
		   (const unsigned char *)msg.p, msg.len, out, NULL);
}
