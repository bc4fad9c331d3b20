/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/tlsctx: certificates by name, ALPN, versions, tickets across contexts,
 * errors that name the file. The client is OpenSSL's alone.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cmocka.h>

#include "base/err.h"
#include "net/tlsio.h"
#include "net/tlssha.h"
#include "tests/unit/net_help.h"
#include "tests/unit/tls_help.h"

static struct tls_files files;

struct env {
	struct loop *l;
	SSL_CTX *cli;
	SSL *ssl;
	int fds[2];
	struct owner s;
	SSL_SESSION *sess;
};

static int
setup(void **state)
{
	struct env *e = calloc(1, sizeof(*e));

	e->l = loop_new();
	e->cli = SSL_CTX_new(TLS_client_method());
	e->fds[1] = -1;
	*state = e;
	return 0;
}

static void
disconnect(struct env *e)
{
	/* Else OpenSSL holds the client's session to be tainted. */
	if (e->ssl != NULL)
		SSL_set_shutdown(e->ssl, SSL_SENT_SHUTDOWN);
	SSL_free(e->ssl);
	e->ssl = NULL;
	if (e->fds[1] != -1)
		(void)close(e->fds[1]);
	e->fds[1] = -1;
	stream_close(e->s.st);
	owner_clear(&e->s);
	memset(&e->s, 0, sizeof(e->s));
}

static int
teardown(void **state)
{
	struct env *e = *state;

	disconnect(e);
	SSL_SESSION_free(e->sess);
	SSL_CTX_free(e->cli);
	loop_free(e->l);
	free(e);
	return 0;
}

/* A connection to a server with that context; the handshake is the caller's. */
static void
connect_to(struct env *e, struct tlsctx *srv)
{
	help_pair(e->fds);
	owner_start(&e->s, e->l, e->fds[0]);
	e->s.keep_on_error = true;
	tlsio_accept(e->s.st, srv);
	e->ssl = SSL_new(e->cli);
	assert_int_equal(SSL_set_fd(e->ssl, e->fds[1]), 1);
	SSL_set_connect_state(e->ssl);
}

/* --- names ------------------------------------------------------------- */

/* 1: the default ECDSA certificate, 2: other.test, 3: RSA. */
static int
which_cert(struct env *e, struct tlsctx *srv, const char *sni,
	   const char *sigalgs)
{
	X509 *x;
	int r;

	connect_to(e, srv);
	if (sni != NULL)
		assert_int_equal(SSL_set_tlsext_host_name(e->ssl, sni), 1);
	if (sigalgs != NULL)
		assert_int_equal(SSL_set1_sigalgs_list(e->ssl, sigalgs), 1);
	assert_int_equal(raw_ssl_handshake(e->l, e->ssl), SSL_ERROR_NONE);
	x = SSL_get1_peer_certificate(e->ssl);
	assert_non_null(x);
	if (EVP_PKEY_get_base_id(X509_get0_pubkey(x)) == EVP_PKEY_RSA)
		r = 3;
	else
		r = X509_check_host(x, "other.test", 0, 0, NULL) == 1 ? 2 : 1;
	X509_free(x);
	disconnect(e);
	return r;
}

static void
test_sni(void **state)
{
	struct env *e = *state;
	struct tlsctx *srv = tls_help_server(&files, true);
	const char *rsa = "rsa_pss_rsae_sha256:RSA+SHA256";

	assert_int_equal(which_cert(e, srv, NULL, NULL), 1);
	assert_int_equal(which_cert(e, srv, "other.test", NULL), 2);
	assert_int_equal(which_cert(e, srv, "OTHER.Test", NULL), 2);
	assert_int_equal(which_cert(e, srv, "a.other.test", NULL), 1);
	assert_int_equal(which_cert(e, srv, "unknown.test", NULL), 1);
	assert_int_equal(which_cert(e, srv, "x.example.org", NULL), 1);
	/* The same names under an RSA key, for who can check no other. */
	assert_int_equal(which_cert(e, srv, "x.EXAMPLE.org", rsa), 3);
	assert_int_equal(which_cert(e, srv, "localhost", rsa), 3);
	assert_int_equal(which_cert(e, srv, "localhost", NULL), 1);
	tlsctx_unref(srv);
}

/* --- ALPN -------------------------------------------------------------- */

static void
test_alpn(void **state)
{
	static const unsigned char both[] = "\x02h2\x08http/1.1";
	static const unsigned char h2[] = "\x02h2";
	struct env *e = *state;
	struct tlsctx *srv = tls_help_server(&files, false);
	const unsigned char *got;
	unsigned n;

	connect_to(e, srv);
	assert_int_equal(SSL_set_alpn_protos(e->ssl, both, sizeof(both) - 1),
			 0);
	assert_int_equal(raw_ssl_handshake(e->l, e->ssl), SSL_ERROR_NONE);
	SSL_get0_alpn_selected(e->ssl, &got, &n);
	assert_int_equal(n, 8);
	assert_memory_equal(got, "http/1.1", 8);
	disconnect(e);

	connect_to(e, srv);
	assert_int_equal(SSL_set_alpn_protos(e->ssl, h2, sizeof(h2) - 1), 0);
	assert_int_equal(raw_ssl_handshake(e->l, e->ssl), SSL_ERROR_SSL);
	assert_int_equal(ERR_GET_REASON(ERR_peek_error()),
			 SSL_AD_REASON_OFFSET +
			     TLS1_AD_NO_APPLICATION_PROTOCOL);
	help_wait(e->l, owner_saw_error, &e->s);
	assert_int_equal(e->s.err, E_TLS);
	assert_string_equal(tlsio_error(e->s.st), "no application protocol");
	disconnect(e);
	tlsctx_unref(srv);
}

/* --- versions ---------------------------------------------------------- */

static void
test_versions(void **state)
{
	const struct tls_cert cert = {files.cert, files.key};
	struct tlsctx_options only13 = {.certs = &cert, .ncerts = 1};
	struct env *e = *state;
	struct tlsctx *srv = tls_help_server(&files, false);
	struct tls_info info;
	char *msg = NULL;

	SSL_CTX_set_max_proto_version(e->cli, TLS1_2_VERSION);
	connect_to(e, srv);
	assert_int_equal(raw_ssl_handshake(e->l, e->ssl), SSL_ERROR_NONE);
	help_wait(e->l, owner_saw_ready, &e->s);
	assert_true(tlsio_info(e->s.st, &info));
	assert_string_equal(info.version, "TLSv1.2");
	assert_string_equal(info.cipher, "ECDHE-ECDSA-AES128-GCM-SHA256");
	/* Renegotiation is refused, the connection goes on. */
	assert_int_equal(SSL_renegotiate(e->ssl), 1);
	assert_int_equal(raw_ssl_handshake(e->l, e->ssl), SSL_ERROR_SSL);
	disconnect(e);
	tlsctx_unref(srv);

	assert_int_equal(tlsctx_server(&only13, &srv, &msg), 0);
	connect_to(e, srv);
	assert_int_equal(raw_ssl_handshake(e->l, e->ssl), SSL_ERROR_SSL);
	disconnect(e);
	tlsctx_unref(srv);
}

/* --- tickets ----------------------------------------------------------- */

static struct env *ticket_env;

static int
session_cb(SSL *ssl, SSL_SESSION *sess)
{
	(void)ssl;
	SSL_SESSION_free(ticket_env->sess);
	ticket_env->sess = sess;
	return 1; /* it is ours now */
}

/* One connection, with the ticket of the last one if there is one: whether it
 * was resumed. */
static bool
resumes(struct env *e, struct tlsctx *srv)
{
	bool resumed;
	char b[2];

	ticket_env = e;
	SSL_CTX_set_session_cache_mode(e->cli, SSL_SESS_CACHE_CLIENT |
						   SSL_SESS_CACHE_NO_INTERNAL);
	SSL_CTX_sess_set_new_cb(e->cli, session_cb);
	connect_to(e, srv);
	if (e->sess != NULL)
		assert_int_equal(SSL_set_session(e->ssl, e->sess), 1);
	assert_int_equal(raw_ssl_handshake(e->l, e->ssl), SSL_ERROR_NONE);
	help_wait(e->l, owner_saw_ready, &e->s);
	/* The ticket comes before this. */
	bufq_add(stream_output(e->s.st), "ok", 2);
	stream_flush(e->s.st);
	raw_ssl_read(e->l, e->ssl, b, 2);
	resumed = SSL_session_reused(e->ssl) == 1;
	if (SSL_version(e->ssl) < TLS1_3_VERSION) {
		/* The callback does not tell of renewed ones. */
		SSL_SESSION_free(e->sess);
		e->sess = SSL_get1_session(e->ssl);
	}
	disconnect(e);
	return resumed;
}

static void
random_key(struct tls_ticket_keys *k, unsigned i, unsigned salt)
{
	memset(&k->k[i], (int)(17 * salt + 3), sizeof(k->k[i]));
}

static void
check_tickets(struct env *e)
{
	struct tlsctx *one = tls_help_server(&files, true);
	struct tlsctx *two = tls_help_server(&files, true);
	struct tls_ticket_keys k = {.n = 1};

	/* Without keys there are no tickets. */
	assert_false(resumes(e, one));
	assert_false(resumes(e, one));
	random_key(&k, 0, 1);
	tlsctx_set_ticket_keys(one, &k);
	tlsctx_set_ticket_keys(two, &k);
	(void)resumes(e, one);
	assert_non_null(e->sess);
	/* Another worker has the same keys. */
	assert_true(resumes(e, two));
	/* A new key in front: the old ticket still works, and is renewed. */
	k.n = 2;
	random_key(&k, 1, 1);
	random_key(&k, 0, 2);
	tlsctx_set_ticket_keys(one, &k);
	assert_true(resumes(e, one));
	k.n = 1;
	tlsctx_set_ticket_keys(two, &k); /* knows only the new key */
	assert_true(resumes(e, two));
	random_key(&k, 0, 3);
	tlsctx_set_ticket_keys(one, &k);
	assert_false(resumes(e, one));
	tlsctx_unref(one);
	tlsctx_unref(two);
}

static void
test_tickets_13(void **state)
{
	check_tickets(*state);
}

static void
test_tickets_12(void **state)
{
	struct env *e = *state;

	SSL_CTX_set_max_proto_version(e->cli, TLS1_2_VERSION);
	check_tickets(e);
}

/* --- building ---------------------------------------------------------- */

static void
check_refused(const char *cert, const char *key, const char *part)
{
	const struct tls_cert c = {cert, key};
	struct tlsctx_options o = {.certs = &c, .ncerts = 1};
	struct tlsctx *t = NULL;
	char *msg = NULL;

	assert_int_equal(tlsctx_server(&o, &t, &msg), E_INVALID);
	assert_null(t);
	assert_non_null(msg);
	if (strstr(msg, part) == NULL)
		fail_msg("\"%s\" does not say \"%s\"", msg, part);
	free(msg);
}

static void
test_bad_files(void **state)
{
	struct tlsctx_options none = {0};
	struct tlsctx *t = NULL;
	char *msg = NULL;

	(void)state;
	check_refused("/nonexistent.pem", NULL, "/nonexistent.pem: ");
	check_refused(files.cert, "/nonexistent.pem", "/nonexistent.pem: ");
	check_refused(files.cert, files.key2, "mismatch");
	check_refused(files.key, files.key, files.key);
	assert_int_equal(tlsctx_server(&none, &t, &msg), E_INVALID);
	free(msg);
	msg = NULL;
	assert_int_equal(tlsctx_client("/nonexistent.pem", &t, &msg),
			 E_INVALID);
	free(msg);
	assert_int_equal(tlsctx_client(NULL, &t, &msg), 0);
	tlsctx_unref(tlsctx_ref(t));
	tlsctx_unref(t);
}

static void
test_self_signed(void **state)
{
	const struct strv name = STRV("localhost");
	struct stat sb;
	char *msg = NULL;
	X509 *x;
	FILE *f;

	(void)state;
	assert_int_equal(stat(files.key, &sb), 0);
	assert_int_equal(sb.st_mode & 0777, 0600);
	assert_int_equal(
	    tlsctx_self_signed(files.cert, files.key, &name, 1, &msg),
	    E_EXISTS);
	free(msg);
	f = fopen(files.cert, "re");
	x = PEM_read_X509(f, NULL, NULL, NULL);
	(void)fclose(f);
	assert_non_null(x);
	assert_int_equal(X509_check_ca(x), 1);
	assert_int_equal(X509_check_host(x, "localhost", 0, 0, NULL), 1);
	assert_int_equal(X509_check_host(x, "a.example.org", 0, 0, NULL), 1);
	assert_int_equal(X509_check_ip_asc(x, "127.0.0.1", 0), 1);
	assert_int_equal(X509_check_ip_asc(x, "::1", 0), 1);
	assert_int_equal(X509_check_ip_asc(x, "10.0.0.1", 0), 0);
	assert_int_equal(EVP_PKEY_get_bits(X509_get0_pubkey(x)), 256);
	assert_int_equal(X509_verify(x, X509_get0_pubkey(x)), 1);
	X509_free(x);
}

static void
test_sha256(void **state)
{
	static const uint8_t want[] = {0xba, 0x78, 0x16, 0xbf};
	uint8_t out[32];

	(void)state;
	tls_sha256("abc", 3, out);
	assert_memory_equal(out, want, sizeof(want));
}

/* In pieces of any length it is the same. */
static void
test_sha256_pieces(void **state)
{
	uint8_t data[1000], whole[TLSSHA_LEN], out[TLSSHA_LEN];
	struct tlssha *h;

	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7);
	for (size_t len = 0; len < sizeof(data); len += 111) {
		tls_sha256(data, len, whole);
		assert_non_null(h = tlssha_new());
		for (size_t at = 0, n = 0; at < len; at += n) {
			n = at % 64 + 1 < len - at ? at % 64 + 1 : len - at;
			tlssha_add(h, data + at, n);
		}
		tlssha_end(h, out);
		tlssha_free(h);
		assert_memory_equal(out, whole, sizeof(out));
	}
	tlssha_free(NULL);
}

static int
files_setup(void **state)
{
	(void)state;
	tls_files_make(&files);
	return 0;
}

static int
files_teardown(void **state)
{
	(void)state;
	tls_files_remove(&files);
	return 0;
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    T(test_sni),         T(test_alpn),       T(test_versions),
	    T(test_tickets_13),  T(test_tickets_12), T(test_bad_files),
	    T(test_self_signed), T(test_sha256),     T(test_sha256_pieces),
	};

	return cmocka_run_group_tests_name("tlsctx", tests, files_setup,
					   files_teardown);
}
