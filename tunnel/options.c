/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ssh_config(5) options into struct options. OPT_NONE rows are options that
 * OpenSSH knows and that change nothing for a tunnel (or that we do not do):
 * they are accepted, so that a command line made for ssh works.
 */
#include "config.h"

#include "tunnel/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "tunnel/spec.h"

enum opt_type {
	OPT_NONE,
	OPT_BOOL,
	OPT_NUMBER,
	OPT_FEW, /* 1 to OPTIONS_CONNECTIONS_MAX */
	OPT_OCTAL,
	OPT_SECONDS,
	OPT_MILLIS,
	OPT_TEXT,
	OPT_LIST,  /* blank-separated, given once */
	OPT_ADD,   /* may be given many times */
	OPT_WORD,  /* one of a table */
	OPT_LOCAL, /* forwards */
	OPT_REMOTE
};

struct word {
	const char *name;
	int value;
};

static const struct word words_strict[] = {
    {"yes", STRICT_YES}, {"true", STRICT_YES},
    {"no", STRICT_NO},   {"false", STRICT_NO},
    {"off", STRICT_NO},  {"accept-new", STRICT_ACCEPT_NEW},
    {"ask", STRICT_ASK}, {NULL, 0}};
static const struct word words_log[] = {
    {"QUIET", OPT_LOG_QUIET},     {"FATAL", OPT_LOG_FATAL},
    {"ERROR", OPT_LOG_ERROR},     {"INFO", OPT_LOG_INFO},
    {"VERBOSE", OPT_LOG_VERBOSE}, {"DEBUG", OPT_LOG_DEBUG},
    {"DEBUG1", OPT_LOG_DEBUG},    {"DEBUG2", OPT_LOG_DEBUG},
    {"DEBUG3", OPT_LOG_DEBUG},    {NULL, 0}};
static const struct word words_family[] = {
    {"any", AF_UNSPEC}, {"inet", AF_INET}, {"inet6", AF_INET6}, {NULL, 0}};

struct opt {
	const char *name;
	enum opt_type type;
	size_t offset;
	const struct word *words;
};

#define FIELD(name, type, f)                                                   \
	{                                                                      \
		name, type, offsetof(struct options, f), NULL                  \
	}
#define WORD(name, f, w)                                                       \
	{                                                                      \
		name, OPT_WORD, offsetof(struct options, f), w                 \
	}
#define NONE(name)                                                             \
	{                                                                      \
		name, OPT_NONE, 0, NULL                                        \
	}

static const struct opt opts[] = {
    WORD("AddressFamily", family, words_family),
    FIELD("BatchMode", OPT_BOOL, batch),
    FIELD("CertificateFile", OPT_ADD, certificates),
    FIELD("Ciphers", OPT_TEXT, ciphers),
    FIELD("ConnectTimeout", OPT_SECONDS, connect_timeout),
    FIELD("ConnectionAttempts", OPT_NUMBER, attempts),
    FIELD("ExitOnForwardFailure", OPT_BOOL, exit_on_failure),
    FIELD("GatewayPorts", OPT_BOOL, gateway_ports),
    FIELD("GlobalKnownHostsFile", OPT_LIST, global_known_hosts),
    FIELD("HostKeyAlgorithms", OPT_TEXT, host_algs),
    FIELD("HostKeyAlias", OPT_TEXT, key_alias),
    FIELD("HostName", OPT_TEXT, hostname),
    FIELD("IdentitiesOnly", OPT_BOOL, identities_only),
    FIELD("IdentityAgent", OPT_TEXT, agent),
    FIELD("IdentityFile", OPT_ADD, identities),
    FIELD("KexAlgorithms", OPT_TEXT, kex),
    FIELD("LocalForward", OPT_LOCAL, forwards),
    WORD("LogLevel", log, words_log),
    FIELD("MACs", OPT_TEXT, macs),
    FIELD("Port", OPT_NUMBER, port),
    FIELD("RemoteForward", OPT_REMOTE, forwards),
    FIELD("ServerAliveCountMax", OPT_NUMBER, alive_max),
    FIELD("ServerAliveInterval", OPT_SECONDS, alive_interval),
    FIELD("StreamLocalBindMask", OPT_OCTAL, bind_mask),
    FIELD("StreamLocalBindUnlink", OPT_BOOL, bind_unlink),
    WORD("StrictHostKeyChecking", strict, words_strict),
    FIELD("User", OPT_TEXT, user),
    FIELD("UserKnownHostsFile", OPT_LIST, known_hosts),
    /* Ours. */
    FIELD("SbxBackoffMax", OPT_MILLIS, backoff_cap),
    FIELD("SbxConnections", OPT_FEW, connections),
    FIELD("SbxFingerprint", OPT_TEXT, fingerprint),
    FIELD("SbxNoDelay", OPT_BOOL, no_delay),
    FIELD("SbxPassphraseFile", OPT_TEXT, passphrase_file),
    FIELD("SbxReclaim", OPT_BOOL, reclaim),
    FIELD("SbxRetryFirst", OPT_BOOL, forever),
    FIELD("SbxWait", OPT_MILLIS, wait_ms),
    /* Without effect here. */
    NONE("AddKeysToAgent"),
    NONE("AfsTokenPassing"),
    NONE("BindAddress"),
    NONE("BindInterface"),
    NONE("CanonicalDomains"),
    NONE("CanonicalizeFallbackLocal"),
    NONE("CanonicalizeHostname"),
    NONE("CanonicalizeMaxDots"),
    NONE("CanonicalizePermittedCNAMEs"),
    NONE("CASignatureAlgorithms"),
    NONE("ChallengeResponseAuthentication"),
    NONE("ChannelTimeout"),
    NONE("CheckHostIP"),
    NONE("Cipher"),
    NONE("ClearAllForwardings"),
    NONE("Compression"),
    NONE("CompressionLevel"),
    NONE("ControlMaster"),
    NONE("ControlPath"),
    NONE("ControlPersist"),
    NONE("EnableEscapeCommandline"),
    NONE("EnableSSHKeysign"),
    NONE("EscapeChar"),
    NONE("FallBackToRsh"),
    NONE("FingerprintHash"),
    NONE("ForkAfterAuthentication"),
    NONE("ForwardAgent"),
    NONE("ForwardX11"),
    NONE("ForwardX11Timeout"),
    NONE("ForwardX11Trusted"),
    NONE("GSSAPIAuthentication"),
    NONE("GSSAPIClientIdentity"),
    NONE("GSSAPIDelegateCredentials"),
    NONE("GSSAPIKeyExchange"),
    NONE("GSSAPIRenewalForcesRekey"),
    NONE("GSSAPIServerIdentity"),
    NONE("GSSAPITrustDns"),
    NONE("HashKnownHosts"),
    NONE("HostbasedAcceptedAlgorithms"),
    NONE("HostbasedAuthentication"),
    NONE("HostbasedKeyTypes"),
    NONE("IgnoreUnknown"),
    NONE("IPQoS"),
    NONE("KbdInteractiveAuthentication"),
    NONE("KbdInteractiveDevices"),
    NONE("KeepAlive"),
    NONE("KnownHostsCommand"),
    NONE("LocalCommand"),
    NONE("LogVerbose"),
    NONE("NoHostAuthenticationForLocalhost"),
    NONE("NumberOfPasswordPrompts"),
    NONE("ObscureKeystrokeTiming"),
    NONE("PasswordAuthentication"),
    NONE("PermitLocalCommand"),
    NONE("PermitRemoteOpen"),
    NONE("PKCS11Provider"),
    NONE("PreferredAuthentications"),
    NONE("Protocol"),
    NONE("ProxyUseFdpass"),
    NONE("PubkeyAcceptedAlgorithms"),
    NONE("PubkeyAcceptedKeyTypes"),
    NONE("PubkeyAuthentication"),
    NONE("RekeyLimit"),
    NONE("RequestTTY"),
    NONE("RequiredRSASize"),
    NONE("RevokedHostKeys"),
    NONE("RhostsRSAAuthentication"),
    NONE("RSAAuthentication"),
    NONE("SecurityKeyProvider"),
    NONE("SendEnv"),
    NONE("SessionType"),
    NONE("SetEnv"),
    NONE("SkeyAuthentication"),
    NONE("SmartcardDevice"),
    NONE("StdinNull"),
    NONE("SyslogFacility"),
    NONE("TCPKeepAlive"),
    NONE("TISAuthentication"),
    NONE("Tunnel"),
    NONE("TunnelDevice"),
    NONE("UpdateHostKeys"),
    NONE("UsePrivilegedPort"),
    NONE("UserAuthKeysFile"),
    NONE("UseRoaming"),
    NONE("UseRsh"),
    NONE("VerifyHostKeyDNS"),
    NONE("VersionAddendum"),
    NONE("VisualHostKey"),
    NONE("XAuthLocation"),
};

#define UNSET UINT64_MAX

void
options_init(struct options *o)
{
	memset(o, 0, sizeof(*o));
	o->port = o->connect_timeout = o->alive_interval = o->alive_max = UNSET;
	o->attempts = o->backoff_cap = o->wait_ms = o->bind_mask = UNSET;
	o->connections = UNSET;
	o->no_delay = true;
	o->strict = o->log = o->family = -1;
}

static void
unset_to(uint64_t *v, uint64_t deflt)
{
	if (*v == UNSET)
		*v = deflt;
}

void
options_finish(struct options *o)
{
	unset_to(&o->port, 22);
	unset_to(&o->connect_timeout, 15);
	unset_to(&o->alive_interval, 15);
	unset_to(&o->alive_max, 2);
	unset_to(&o->attempts, 1);
	unset_to(&o->backoff_cap, 30000);
	unset_to(&o->wait_ms, 30000);
	unset_to(&o->bind_mask, 0177);
	unset_to(&o->connections, 1);
	if (o->connect_timeout == 0)
		o->connect_timeout = 15;
	if (o->alive_max == 0)
		o->alive_max = 1;
	if (o->strict < 0)
		o->strict = STRICT_ASK;
	if (o->log < 0)
		o->log = OPT_LOG_INFO;
	if (o->family < 0)
		o->family = AF_UNSPEC;
	if (o->known_hosts.n == 0) {
		options_add(&o->known_hosts, "~/.ssh/known_hosts");
		options_add(&o->known_hosts, "~/.ssh/known_hosts2");
	}
	if (o->global_known_hosts.n == 0) {
		options_add(&o->global_known_hosts, "/etc/ssh/ssh_known_hosts");
		options_add(&o->global_known_hosts,
			    "/etc/ssh/ssh_known_hosts2");
	}
}

static void
list_clear(struct options_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i]);
	free(l->v);
	*l = (struct options_list){NULL, 0};
}

void
options_clear(struct options *o)
{
	for (size_t i = 0; i < ARRAY_LEN(opts); i++)
		if (opts[i].type == OPT_TEXT)
			free(*(char **)((char *)o + opts[i].offset));
	free(o->host);
	list_clear(&o->identities);
	list_clear(&o->certificates);
	list_clear(&o->known_hosts);
	list_clear(&o->global_known_hosts);
	for (size_t i = 0; i < o->nforwards; i++)
		spec_free(o->forwards[i]);
	free(o->forwards);
	memset(o, 0, sizeof(*o));
}

void
options_add(struct options_list *l, const char *s)
{
	l->v = xreallocarray(l->v, l->n + 1, sizeof(*l->v));
	l->v[l->n++] = xstrdup(s);
}

int
options_forward(struct options *o, int kind, const char *text, char **why)
{
	const char *reason = "";
	struct spec *sp;
	int r;

	r = spec_parse((enum spec_kind)kind, text, &sp, &reason);
	if (r != 0) {
		*why = xasprintf("Bad %s forwarding specification '%s': %s",
				 kind == SPEC_LOCAL ? "local" : "remote", text,
				 reason);
		return E_INVALID;
	}
	o->forwards =
	    xreallocarray(o->forwards, o->nforwards + 1, sizeof(struct spec *));
	o->forwards[o->nforwards++] = sp;
	return 0;
}

/* "listen target", as ssh_config has it: blanks become the colon. */
static int
set_forward(struct options *o, int kind, const char *value, char **why)
{
	char *text = xstrdup(value), *gap;
	int r;

	if ((gap = strpbrk(text, " \t")) != NULL) {
		char *to = gap + strspn(gap, " \t");

		*gap = ':';
		memmove(gap + 1, to, strlen(to) + 1);
	}
	r = options_forward(o, kind, text, why);
	free(text);
	return r;
}

static int
set_bool(const char *value, bool *out)
{
	if (strcasecmp(value, "yes") == 0 || strcasecmp(value, "true") == 0)
		*out = true;
	else if (strcasecmp(value, "no") == 0 ||
		 strcasecmp(value, "false") == 0)
		*out = false;
	else
		return E_INVALID;
	return 0;
}

static int
set_number(const struct opt *op, const char *value, uint64_t *out)
{
	uint64_t v;
	char *end;

	if (op->type == OPT_NUMBER) {
		if (strv_parse_u64(strv_of(value), 65535, false, &v) != 0)
			return E_INVALID;
	} else if (op->type == OPT_FEW) {
		if (strv_parse_u64(strv_of(value), OPTIONS_CONNECTIONS_MAX,
				   true, &v) != 0 ||
		    v == 0)
			return E_INVALID;
	} else if (op->type == OPT_OCTAL) {
		v = strtoul(value, &end, 8);
		if (*value == '\0' || *end != '\0' || v > 0777)
			return E_INVALID;
	} else if (strcasecmp(value, "none") == 0) {
		v = 0;
	} else if (strv_parse_duration(strv_of(value), &v) != 0 ||
		   v > 7 * 86400000ULL) {
		return E_INVALID;
	} else if (op->type == OPT_SECONDS) {
		v = (v + 999) / 1000;
	}
	if (*out == UNSET)
		*out = v;
	return 0;
}

static int
set_word(const struct word *w, const char *value, int *out)
{
	for (; w->name != NULL; w++) {
		if (strcasecmp(w->name, value) != 0)
			continue;
		if (*out < 0)
			*out = w->value;
		return 0;
	}
	return E_INVALID;
}

static void
set_list(struct options_list *l, const char *value)
{
	struct strv rest = strv_of(value), w;
	char *s;

	if (l->n > 0)
		return; /* the first one wins */
	while (strv_cut(&rest, ' ', &w)) {
		if (w.len == 0)
			continue;
		s = xstrndup(w.p, w.len);
		options_add(l, s);
		free(s);
	}
}

static int
opt_apply(struct options *o, const struct opt *op, const char *value,
	  char **why)
{
	void *field = (char *)o + op->offset;

	switch (op->type) {
	case OPT_NONE:
		return E_UNSUPPORTED;
	case OPT_BOOL:
		return set_bool(value, field);
	case OPT_NUMBER:
	case OPT_FEW:
	case OPT_OCTAL:
	case OPT_SECONDS:
	case OPT_MILLIS:
		return set_number(op, value, field);
	case OPT_TEXT:
		if (*value == '\0')
			return E_INVALID;
		if (*(char **)field == NULL)
			*(char **)field = xstrdup(value);
		return 0;
	case OPT_LIST:
		set_list(field, value);
		return 0;
	case OPT_ADD:
		options_add(field, value);
		return 0;
	case OPT_WORD:
		return set_word(op->words, value, field);
	case OPT_LOCAL:
		return set_forward(o, SPEC_LOCAL, value, why);
	case OPT_REMOTE:
		return set_forward(o, SPEC_REMOTE, value, why);
	}
	return E_INVALID;
}

/* Options whose meaning would be lost, not just unused: refused, unless they
 * say "none". */
static bool
opt_none_only(const char *name)
{
	static const char *const names[] = {"ProxyCommand", "ProxyJump",
					    "DynamicForward", "RemoteCommand"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strcasecmp(names[i], name) == 0)
			return true;
	return false;
}

int
options_set(struct options *o, const char *name, const char *value, char **why)
{
	int r;

	*why = NULL;
	if (opt_none_only(name)) {
		if (strcasecmp(value, "none") == 0)
			return 0;
		*why = xasprintf("option %s is not done here", name);
		return E_INVALID;
	}
	for (size_t i = 0; i < ARRAY_LEN(opts); i++) {
		if (strcasecmp(opts[i].name, name) != 0)
			continue;
		r = opt_apply(o, &opts[i], value, why);
		if (r == E_UNSUPPORTED)
			*why =
			    xasprintf("option %s has no effect", opts[i].name);
		else if (r != 0 && *why == NULL)
			*why = xasprintf("Bad value for %s: '%s'", opts[i].name,
					 value);
		return r;
	}
	*why = xasprintf("Bad configuration option: %s", name);
	return E_NOTFOUND;
}

int
options_set_text(struct options *o, const char *text, char **why)
{
	size_t n = strcspn(text, "= \t");
	char *name, *value;
	const char *p = text + n;
	size_t len;
	int r;

	p += strspn(p, " \t");
	if (*p == '=')
		p++;
	p += strspn(p, " \t");
	len = strlen(p);
	while (len > 0 && strchr(" \t\r\n", p[len - 1]) != NULL)
		len--;
	if (len >= 2 && p[0] == '"' && p[len - 1] == '"') {
		p++;
		len -= 2;
	}
	name = xstrndup(text, n);
	value = xstrndup(p, len);
	if (n == 0 || *value == '\0') {
		*why = xasprintf("missing argument: '%s'", text);
		r = E_INVALID;
	} else {
		r = options_set(o, name, value, why);
	}
	free(name);
	free(value);
	return r;
}

const char *
options_host(const struct options *o)
{
	return o->hostname != NULL ? o->hostname : o->host;
}

uint16_t
options_port(const struct options *o)
{
	return o->port == UNSET || o->port == 0 ? 22 : (uint16_t)o->port;
}
