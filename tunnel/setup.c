/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Setting up a session: algorithms, handshake, host key, authentication.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "tunnel/auth.h"
#include "tunnel/options.h"
#include "tunnel/say.h"
#include "tunnel/session_int.h"
#include "tunnel/verify.h"

/* Fast ones first, as measured with this libssh2. */
#define SETUP_CIPHERS                                                          \
	"chacha20-poly1305@openssh.com,aes128-ctr,aes128-gcm@openssh.com,"     \
	"aes256-ctr,aes256-gcm@openssh.com,aes192-ctr"
#define SETUP_MACS                                                             \
	"hmac-sha2-256-etm@openssh.com,hmac-sha2-512-etm@openssh.com,"         \
	"hmac-sha2-256,hmac-sha2-512"
/* No certificates: known_hosts names plain keys. */
#define SETUP_HOSTKEYS                                                         \
	"ssh-ed25519,ecdsa-sha2-nistp256,ecdsa-sha2-nistp384,"                 \
	"ecdsa-sha2-nistp521,rsa-sha2-512,rsa-sha2-256,ssh-rsa"

static void
setup_prefer(struct session *s, int what, const char *given, const char *deflt)
{
	if (given != NULL && strchr("+-^", *given) == NULL &&
	    libssh2_session_method_pref(s->ssh, what, given) == 0)
		return;
	(void)!libssh2_session_method_pref(s->ssh, what, deflt);
}

void
setup_methods(struct session *s)
{
	struct strbuf keys = {0};

	setup_prefer(s, LIBSSH2_METHOD_CRYPT_CS, s->o->ciphers, SETUP_CIPHERS);
	setup_prefer(s, LIBSSH2_METHOD_CRYPT_SC, s->o->ciphers, SETUP_CIPHERS);
	setup_prefer(s, LIBSSH2_METHOD_MAC_CS, s->o->macs, SETUP_MACS);
	setup_prefer(s, LIBSSH2_METHOD_MAC_SC, s->o->macs, SETUP_MACS);
	if (s->o->kex != NULL)
		(void)!libssh2_session_method_pref(s->ssh, LIBSSH2_METHOD_KEX,
						   s->o->kex);
	/* A known key first: asking for another kind would look changed. */
	if (s->o->fingerprint == NULL)
		verify_types(s->o, &keys);
	if (keys.len > 0)
		strbuf_addc(&keys, ',');
	strbuf_adds(&keys, SETUP_HOSTKEYS);
	setup_prefer(s, LIBSSH2_METHOD_HOSTKEY, s->o->host_algs, keys.s);
	strbuf_clear(&keys);
}

static int
setup_verify(struct session *s)
{
	const char *key;
	char *text = NULL;
	size_t n;
	int type, r;

	key = libssh2_session_hostkey(s->ssh, &n, &type);
	if (key == NULL) {
		session_fail(s, SESSION_END_HANDSHAKE, "no host key");
		return E_PROTO;
	}
	r = verify_host(s->o, key, n, &text);
	if (r != 0)
		session_fail(s, SESSION_END_HOSTKEY, text);
	else if (text != NULL)
		say(s->o, OPT_LOG_ERROR, "%s", text);
	free(text);
	return r;
}

static void
setup_log(struct session *s)
{
	const char *kex = libssh2_session_methods(s->ssh, LIBSSH2_METHOD_KEX);
	const char *c =
	    libssh2_session_methods(s->ssh, LIBSSH2_METHOD_CRYPT_CS);
	const char *m = libssh2_session_methods(s->ssh, LIBSSH2_METHOD_MAC_CS);
	const char *h = libssh2_session_methods(s->ssh, LIBSSH2_METHOD_HOSTKEY);

	log_debug("session.kex", "kex=%s hostkey=%s cipher=%s mac=%s",
		  kex ? kex : "?", h ? h : "?", c ? c : "?", m ? m : "?");
}

static void
setup_handshake(struct session *s)
{
	char *msg = NULL, *text;
	int rc = libssh2_session_handshake(s->ssh, stream_fd(s->st));

	if (rc == LIBSSH2_ERROR_EAGAIN)
		return;
	if (rc != 0) {
		libssh2_session_last_error(s->ssh, &msg, NULL, 0);
		if (rc == LIBSSH2_ERROR_SOCKET_DISCONNECT ||
		    rc == LIBSSH2_ERROR_SOCKET_RECV ||
		    rc == LIBSSH2_ERROR_BANNER_RECV)
			text = xstrdup("kex_exchange_identification: "
				       "Connection closed by remote host");
		else
			text = xasprintf("Unable to negotiate with %s port "
					 "%u: %s",
					 options_host(s->o), options_port(s->o),
					 msg != NULL ? msg : "?");
		session_fail(s, SESSION_END_HANDSHAKE, text);
		free(text);
		return;
	}
	setup_log(s);
	if (setup_verify(s) != 0)
		return;
	s->try = auth_try_new(s->auth, s->ssh, s->o->user);
	s->state = SESSION_AUTH;
}

static void
setup_auth(struct session *s)
{
	char *text;
	int r = auth_try_step(s->try);

	if (r == E_AGAIN)
		return;
	if (r == 0) {
		auth_try_free(s->try);
		s->try = NULL;
		s->state = SESSION_UP;
		timer_stop(&s->setup);
		s->cbs->up(s->arg);
		if (s->state == SESSION_UP)
			exec_nudge(s);
		return;
	}
	if (r == E_DENIED) {
		text = xasprintf("%s@%s: Permission denied (%s).", s->o->user,
				 s->o->host, auth_try_methods(s->try));
		session_fail(s, SESSION_END_DENIED, text);
	} else {
		text = xasprintf("Connection closed by %s port %u",
				 options_host(s->o), options_port(s->o));
		session_fail(s, SESSION_END_LOST, text);
	}
	free(text);
}

void
setup_run(struct session *s)
{
	if (s->state == SESSION_HANDSHAKE)
		setup_handshake(s);
	if (s->state == SESSION_AUTH)
		setup_auth(s);
}
