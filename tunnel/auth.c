/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Authentication by key: the agent's keys (unless IdentitiesOnly), then the
 * files named, else the usual ones, each with its certificates first. Keys and
 * passphrases stay in memory, so that a reconnect needs nobody.
 */
#include "config.h"

#include "tunnel/auth.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <libssh2.h>
#include "base/err.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "base/str.h"
#include "tunnel/expand.h"
#include "tunnel/options.h"
#include "tunnel/passphrase.h"
#include "tunnel/rsasign.h"
#include "tunnel/sshkey.h"

#define AUTH_KEYS_MAX  16
#define AUTH_KEY_BYTES 65536

#define AUTH_PROOFS_MAX 48

#if LIBSSH2_VERSION_NUM >= 0x010b00
#define AUTH_RSA_SHA2 true /* it signs with SHA-2, and knows certificates */
#else
#define AUTH_RSA_SHA2 false
#endif

struct identity {
	char *path;
	char *pem; /* secret */
	size_t len;
	char *pass;          /* secret; NULL: none */
	struct rsasign *rsa; /* NULL: libssh2 does it */
};

/* One thing to try: a key by itself, or with a certificate for it. */
struct proof {
	const struct identity *key;
	char *cert; /* as in its file; NULL: none */
};

struct auth {
	struct identity keys[AUTH_KEYS_MAX];
	size_t nkeys;
	struct proof proofs[AUTH_PROOFS_MAX];
	size_t nproofs;
	char *agent; /* its socket; NULL: none */
	bool batch;
};

enum try_state { TRY_LIST, TRY_AGENT, TRY_KEYS, TRY_DONE };

struct auth_try {
	const struct auth *a;
	LIBSSH2_SESSION *ssh;
	char *user;
	char *methods;
	enum try_state state;
	size_t next; /* proof */
	LIBSSH2_AGENT *agent;
	struct libssh2_agent_publickey *agent_key;
	bool agent_fresh; /* the next agent key is to be fetched */
};

static bool
key_mode_ok(const char *path, struct strbuf *warn)
{
	struct stat st;

	if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
		return true; /* reading says what is wrong */
	if (st.st_uid != getuid() || (st.st_mode & 077) == 0)
		return true;
	strbuf_addf(warn,
		    "Permissions 0%03o for '%s' are too open: "
		    "this private key will be ignored.\n",
		    (unsigned)(st.st_mode & 0777), path);
	return false;
}

/* An older libssh2 needs help with RSA. */
static void
auth_rsa(struct identity *id, struct strbuf *warn)
{
	if (AUTH_RSA_SHA2)
		return;
	if (rsasign_new(id->pem, id->pass, &id->rsa) == E_UNSUPPORTED)
		strbuf_addf(warn,
			    "%s: libssh2 " LIBSSH2_VERSION " cannot use RSA "
			    "keys in this form (ssh-keygen -p -m PEM changes "
			    "it; so does libssh2 1.11).\n",
			    id->path);
}

static void
auth_add(struct auth *a, const struct options *o, const char *name, bool named,
	 struct strbuf *warn)
{
	char *path = expand_path(o, name), *pem = NULL, *pass = NULL;
	size_t len;
	int r;

	if (a->nkeys == AUTH_KEYS_MAX)
		goto out;
	if ((r = file_read(path, AUTH_KEY_BYTES, &pem, &len)) != 0) {
		if (named)
			strbuf_addf(warn,
				    "Warning: Identity file %s not "
				    "accessible: %s.\n",
				    path,
				    r == E_NOTFOUND
					? "No such file or directory"
					: err_text(r));
		goto out;
	}
	if (!key_mode_ok(path, warn))
		goto out;
	if (sshkey_encrypted(pem)) {
		r = passphrase_get(o, path, &pass);
		if (r != 0) {
			strbuf_addf(warn, "no passphrase for %s: %s\n", path,
				    err_text(r));
			goto out;
		}
	}
	a->keys[a->nkeys] = (struct identity){path, pem, len, pass, NULL};
	auth_rsa(&a->keys[a->nkeys++], warn);
	return;
out:
	free(path);
	mem_free_secret(pem);
	mem_free_secret(pass);
}

static void
proof_add(struct auth *a, const struct identity *key, const char *cert)
{
	if (a->nproofs < AUTH_PROOFS_MAX)
		a->proofs[a->nproofs++] =
		    (struct proof){key, cert != NULL ? xstrdup(cert) : NULL};
}

/* name: of a certificate; only those named must be there. */
static void
proof_cert(struct auth *a, const struct identity *key, const char *path,
	   struct strbuf *warn)
{
	char *text;
	size_t len;
	int r = file_read(path, AUTH_KEY_BYTES, &text, &len);

	if (r != 0) {
		if (warn != NULL)
			strbuf_addf(warn, "Certificate file %s: %s\n", path,
				    err_text(r));
		return;
	}
	if (!AUTH_RSA_SHA2) {
		if (warn != NULL)
			strbuf_addf(warn,
				    "%s: libssh2 " LIBSSH2_VERSION " cannot "
				    "use certificates (1.11 can).\n",
				    path);
	} else if (sshkey_certified(text, key->pem)) {
		proof_add(a, key, text);
	}
	free(text);
}

static void
auth_proofs(struct auth *a, const struct options *o, struct strbuf *warn)
{
	char *path;

	for (size_t i = 0; i < a->nkeys; i++) {
		for (size_t j = 0; j < o->certificates.n; j++) {
			path = expand_path(o, o->certificates.v[j]);
			proof_cert(a, &a->keys[i], path, i == 0 ? warn : NULL);
			free(path);
		}
		path = xasprintf("%s-cert.pub", a->keys[i].path);
		proof_cert(a, &a->keys[i], path, NULL);
		free(path);
		proof_add(a, &a->keys[i], NULL);
	}
}

struct auth *
auth_load(const struct options *o, struct strbuf *warn)
{
	static const char *const usual[] = {"~/.ssh/id_rsa", "~/.ssh/id_ecdsa",
					    "~/.ssh/id_ed25519"};
	struct auth *a = xcalloc(1, sizeof(*a));
	const char *sock = o->agent;

	for (size_t i = 0; i < o->identities.n; i++)
		auth_add(a, o, o->identities.v[i], true, warn);
	if (o->identities.n == 0)
		for (size_t i = 0; i < ARRAY_LEN(usual); i++)
			auth_add(a, o, usual[i], false, warn);
	auth_proofs(a, o, warn);
	if (sock == NULL || strcmp(sock, "SSH_AUTH_SOCK") == 0)
		sock = getenv("SSH_AUTH_SOCK");
	if (sock != NULL && *sock != '\0' && strcmp(sock, "none") != 0 &&
	    !o->identities_only)
		a->agent = expand_path(o, sock);
	return a;
}

void
auth_free(struct auth *a)
{
	if (a == NULL)
		return;
	for (size_t i = 0; i < a->nkeys; i++) {
		free(a->keys[i].path);
		mem_secure_zero(a->keys[i].pem, a->keys[i].len);
		free(a->keys[i].pem);
		mem_free_secret(a->keys[i].pass);
		rsasign_free(a->keys[i].rsa);
	}
	for (size_t i = 0; i < a->nproofs; i++)
		free(a->proofs[i].cert);
	free(a->agent);
	free(a);
}

struct auth_try *
auth_try_new(const struct auth *a, void *ssh, const char *user)
{
	struct auth_try *t = xcalloc(1, sizeof(*t));

	t->a = a;
	t->ssh = ssh;
	t->user = xstrdup(user);
	t->methods = xstrdup("publickey");
	return t;
}

static void
agent_done(struct auth_try *t)
{
	if (t->agent == NULL)
		return;
	libssh2_agent_disconnect(t->agent);
	libssh2_agent_free(t->agent);
	t->agent = NULL;
}

void
auth_try_free(struct auth_try *t)
{
	if (t == NULL)
		return;
	agent_done(t);
	free(t->user);
	free(t->methods);
	free(t);
}

const char *
auth_try_methods(const struct auth_try *t)
{
	return t->methods;
}

static bool
session_broken(int rc)
{
	switch (rc) {
	case LIBSSH2_ERROR_SOCKET_DISCONNECT:
	case LIBSSH2_ERROR_SOCKET_RECV:
	case LIBSSH2_ERROR_SOCKET_SEND:
	case LIBSSH2_ERROR_SOCKET_TIMEOUT:
	case LIBSSH2_ERROR_TIMEOUT:
	case LIBSSH2_ERROR_DECRYPT:
	case LIBSSH2_ERROR_INVALID_MAC:
	case LIBSSH2_ERROR_PROTO:
		return true;
	}
	return false;
}

/* What the server offers; it may already let us in. */
static int
try_list(struct auth_try *t)
{
	const char *m;
	int rc;

	m = libssh2_userauth_list(t->ssh, t->user, (unsigned)strlen(t->user));
	if (m == NULL) {
		if (libssh2_userauth_authenticated(t->ssh))
			return 0;
		rc = libssh2_session_last_errno(t->ssh);
		if (rc == LIBSSH2_ERROR_EAGAIN)
			return E_AGAIN;
		return E_PEER;
	}
	free(t->methods);
	t->methods = xstrdup(m);
	t->state = t->a->agent != NULL ? TRY_AGENT : TRY_KEYS;
	return E_DENIED; /* so far */
}

static bool
agent_open(struct auth_try *t)
{
	t->agent = libssh2_agent_init(t->ssh);
	if (t->agent == NULL)
		return false;
	libssh2_agent_set_identity_path(t->agent, t->a->agent);
	if (libssh2_agent_connect(t->agent) != 0 ||
	    libssh2_agent_list_identities(t->agent) != 0) {
		agent_done(t);
		return false;
	}
	t->agent_key = NULL;
	t->agent_fresh = true;
	return true;
}

static int
try_agent(struct auth_try *t)
{
	int rc;

	if (t->agent == NULL && !agent_open(t)) {
		t->state = TRY_KEYS;
		return E_DENIED;
	}
	for (;;) {
		if (t->agent_fresh &&
		    libssh2_agent_get_identity(t->agent, &t->agent_key,
					       t->agent_key) != 0)
			break;
		t->agent_fresh = false;
		rc = libssh2_agent_userauth(t->agent, t->user, t->agent_key);
		if (rc == 0)
			return 0;
		if (rc == LIBSSH2_ERROR_EAGAIN)
			return E_AGAIN;
		if (session_broken(rc))
			return E_PEER;
		t->agent_fresh = true;
	}
	agent_done(t);
	t->state = TRY_KEYS;
	return E_DENIED;
}

static int
sign_rsa_cb(LIBSSH2_SESSION *ssh, unsigned char **sig, size_t *siglen,
	    const unsigned char *p, size_t n, void **abstract)
{
	(void)ssh;
	/* libssh2 frees *sig with its own allocator, which is malloc's */
	return rsasign_sign(*abstract, p, n, sig, siglen);
}

static int
try_proof(struct auth_try *t, const struct proof *p)
{
	const struct identity *id = p->key;
	const unsigned char *blob;
	void *rsa = id->rsa;
	size_t n;

	if (id->rsa != NULL) {
		blob = rsasign_blob(id->rsa, &n);
		return libssh2_userauth_publickey(t->ssh, t->user, blob, n,
						  sign_rsa_cb, &rsa);
	}
	return libssh2_userauth_publickey_frommemory(
	    t->ssh, t->user, strlen(t->user), p->cert,
	    p->cert != NULL ? strlen(p->cert) : 0, id->pem, id->len, id->pass);
}

static int
try_keys(struct auth_try *t)
{
	int rc;

	for (; t->next < t->a->nproofs; t->next++) {
		rc = try_proof(t, &t->a->proofs[t->next]);
		if (rc == 0)
			return 0;
		if (rc == LIBSSH2_ERROR_EAGAIN)
			return E_AGAIN;
		if (session_broken(rc))
			return E_PEER;
	}
	t->state = TRY_DONE;
	return E_DENIED;
}

int
auth_try_step(struct auth_try *t)
{
	int r = E_DENIED;

	if (t->state == TRY_LIST && (r = try_list(t)) != E_DENIED)
		return r;
	if (t->state == TRY_AGENT && (r = try_agent(t)) != E_DENIED)
		return r;
	if (t->state == TRY_KEYS)
		r = try_keys(t);
	return r;
}
