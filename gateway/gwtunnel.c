/* SPDX-License-Identifier: Apache-2.0 */
/*
 * [tunnel NAME] of the configuration: filled in, checked, dumped and freed.
 * What ends up in the arguments of sbx-tunnel is judged here, so that nothing
 * in it can be taken for an option or for a second field.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/token.h"
#include "gateway/gwconf_sec.h"
#include "gateway/route.h"
#include "net/addr.h"

#define SSH_PORT 22

static char *
dup_or_null(const char *s)
{
	return s != NULL && s[0] != '\0' ? xstrdup(s) : NULL;
}

/* A name or a numeric address, nothing else. */
static bool
plain(struct strv s, const char *more)
{
	if (s.len == 0 || s.len > 253 || s.p[0] == '-')
		return false;
	for (size_t i = 0; i < s.len; i++) {
		char c = s.p[i];

		if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') &&
		    !(c >= '0' && c <= '9') && strchr(more, c) == NULL)
			return false;
	}
	return true;
}

static int
fill_outside(struct gw_conf *c, struct outside *o, const struct conf_list *l,
	     const struct conf_at *at, char **msg)
{
	const char *why;

	for (size_t i = 0; i < l->n; i++)
		if (outside_add(o, strv_of(l->v[i]), &why) != 0)
			return gwconf_bad(c, msg, at, "%s: %s", l->v[i], why);
	return 0;
}

/* "HOST:PORT" -> its parts. */
static int
fill_agent(struct gw_conf *c, struct gw_tunnel *t, const char *text,
	   const struct conf_at *at, char **msg)
{
	struct strv host;

	if (text == NULL || text[0] == '\0')
		return 0;
	if (addr_split(strv_of(text), &host, &t->agent_port) != 0 ||
	    t->agent_port == 0 || !plain(host, ".-_:"))
		return gwconf_bad(c, msg, at,
				  "must be HOST:PORT as seen from the far "
				  "machine");
	t->agent_host = xstrndup(host.p, host.len);
	return 0;
}

static int
fill_tunnel(struct gw_conf *c, const struct sec_tunnel *s, const char *name,
	    char **msg)
{
	struct conf_at at = {"tunnel", name, "agent"};
	struct gw_tunnel *t;
	uint16_t taken[2];
	int r;

	c->tunnels = xreallocarray(c->tunnels, c->ntunnels + 1, sizeof(*t));
	t = &c->tunnels[c->ntunnels++];
	memset(t, 0, sizeof(*t));
	t->name = xstrdup(name);
	t->host = dup_or_null(s->host);
	t->port = s->port != 0 ? (uint16_t)s->port : SSH_PORT;
	t->user = xstrdup(s->user);
	t->key = dup_or_null(s->key);
	t->passphrase_file = dup_or_null(s->passphrase_file);
	t->known_hosts = dup_or_null(s->known_hosts);
	t->fingerprint = dup_or_null(s->fingerprint);
	t->ns = dup_or_null(s->ns);
	t->alive_ms = s->alive_ms;
	t->reclaim = s->reclaim;
	if ((r = fill_agent(c, t, s->agent, &at, msg)) != 0)
		return r;
	at.key = "outside";
	if ((r = fill_outside(c, &t->outside, &s->outside, &at, msg)) != 0)
		return r;
	taken[0] = t->port;
	taken[1] = t->agent_port;
	outside_choose(&t->outside, taken, ARRAY_LEN(taken),
		       strcmp(t->user, "root") == 0 ? 1 : 1024);
	at.key = "agent_token_file";
	return gwconf_read_secret(c, &at, s->agent_token_file, &t->agent_token,
				  msg);
}

int
gwconf_fill_tunnels(struct gw_conf *c, char **msg)
{
	const struct sec_agent *ag = conf_section(c->ini, "agent");
	const struct conf_at at = {"agent", NULL, "outside"};
	const struct sec_tunnel *s;
	const char *name;
	int r;

	if ((r = fill_outside(c, &c->agent_outside, &ag->outside, &at, msg)) !=
	    0)
		return r;
	for (size_t i = 0; (s = conf_named(c->ini, "tunnel", i, &name)) != NULL;
	     i++)
		if ((r = fill_tunnel(c, s, name, msg)) != 0)
			return r;
	return 0;
}

/* --- checks ------------------------------------------------------------ */

static int
check_name(struct gw_conf *c, const struct gw_tunnel *t, char **msg)
{
	const struct conf_at at = {"tunnel", t->name, "NAME"};

	if (!route_id_ok(strv_of(t->name)) || strlen(t->name) > 48)
		return gwconf_bad(c, msg, &at,
				  "must be 1-48 of a-z, 0-9 and single '-' "
				  "inside");
	if (strcmp(t->name, "embedded") == 0)
		return gwconf_bad(c, msg, &at, "is the embedded agent's name");
	for (size_t i = 0; i < c->nsandboxes; i++)
		if (strcmp(c->sandboxes[i].name, t->name) == 0)
			return gwconf_bad(c, msg, &at,
					  "is a sandbox's name, too");
	if (strlen(c->state_dir) + strlen(t->name) + sizeof("/tunnels/.sock") >
	    107)
		return gwconf_bad(c, msg, &at,
				  "too long for a unix socket below the "
				  "state directory");
	return 0;
}

static bool
fingerprint_ok(const char *s)
{
	return strncmp(s, "SHA256:", 7) == 0 && strlen(s) >= 50 &&
	       strspn(s + 7, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
			     "abcdefghijklmnopqrstuvwxyz0123456789+/=") ==
		   strlen(s + 7);
}

/* A file that sbx-tunnel reads: its name goes into an ssh option, where a
 * quote or a blank would mean something. */
static int
check_file(struct gw_conf *c, const struct gw_tunnel *t, const char *key,
	   const char *path, char **msg)
{
	const struct conf_at at = {"tunnel", t->name, key};

	if (path == NULL)
		return 0;
	if (path[0] != '/' || strpbrk(path, " \t\"'%") != NULL)
		return gwconf_bad(c, msg, &at,
				  "must be an absolute path without blanks, "
				  "quotes and '%%'");
	if (access(path, R_OK) != 0)
		return gwconf_bad(c, msg, &at, "%s cannot be read", path);
	return 0;
}

static int
check_files(struct gw_conf *c, const struct gw_tunnel *t, char **msg)
{
	struct conf_at at = {"tunnel", t->name, "key"};
	int r;

	if (t->key == NULL)
		return gwconf_bad(c, msg, &at, "is missing");
	if ((r = check_file(c, t, "key", t->key, msg)) != 0 ||
	    (r = check_file(c, t, "passphrase_file", t->passphrase_file,
			    msg)) != 0 ||
	    (r = check_file(c, t, "known_hosts", t->known_hosts, msg)) != 0)
		return r;
	at.key = "known_hosts";
	if (t->known_hosts == NULL && t->fingerprint == NULL)
		return gwconf_bad(c, msg, &at,
				  "it or fingerprint must say which host key "
				  "is the right one");
	at.key = "fingerprint";
	if (t->fingerprint != NULL && !fingerprint_ok(t->fingerprint))
		return gwconf_bad(c, msg, &at,
				  "must be SHA256:..., as ssh-keygen -l says "
				  "it");
	return 0;
}

static int
check_tunnel(struct gw_conf *c, const struct gw_tunnel *t, char **msg)
{
	struct conf_at at = {"tunnel", t->name, "host"};
	int r;

	if ((r = check_name(c, t, msg)) != 0)
		return r;
	if (t->host == NULL)
		return gwconf_bad(c, msg, &at, "is missing");
	if (!plain(strv_of(t->host), ".-_:"))
		return gwconf_bad(c, msg, &at,
				  "must be a host name or an address, "
				  "without brackets");
	at.key = "user";
	if (!plain(strv_of(t->user), ".-_"))
		return gwconf_bad(c, msg, &at, "is not a user's name");
	if ((r = check_files(c, t, msg)) != 0)
		return r;
	at.key = "agent_token_file";
	if (t->agent_token != NULL &&
	    !token_plausible(strv_of(t->agent_token), 1024))
		return gwconf_bad(c, msg, &at,
				  "the secret must be visible ASCII without "
				  "blanks, quotes, ',' and ';'");
	if (t->agent_token != NULL && t->agent_host == NULL)
		return gwconf_bad(c, msg, &at, "needs an agent");
	at.key = "agent";
	if (t->agent_host == NULL && t->outside.nends == 0)
		return gwconf_bad(c, msg, &at,
				  "a tunnel needs agent or outside");
	return 0;
}

int
gwconf_check_tunnels(struct gw_conf *c, char **msg)
{
	int r;

	for (size_t i = 0; i < c->ntunnels; i++)
		if ((r = check_tunnel(c, &c->tunnels[i], msg)) != 0)
			return r;
	return 0;
}

/* --- the rest ---------------------------------------------------------- */

static void
put(struct strbuf *b, const char *key, const char *value)
{
	if (value != NULL && value[0] != '\0')
		strbuf_addf(b, "%s = %s\n", key, value);
}

void
gwconf_dump_outside(const struct outside *o, struct strbuf *b)
{
	for (size_t i = 0; i < o->nends; i++)
		strbuf_addf(b, "outside = %s %s\n", o->ends[i].name,
			    o->ends[i].url);
}

void
gwconf_dump_tunnels(const struct gw_conf *c, struct strbuf *b)
{
	const struct sec_tunnel *s;
	const char *name;

	for (size_t i = 0; i < c->ntunnels; i++) {
		const struct gw_tunnel *t = &c->tunnels[i];

		s = conf_named(c->ini, "tunnel", i, &name);
		strbuf_addf(b, "\n[tunnel %s]\n", t->name);
		put(b, "host", t->host);
		strbuf_addf(b, "port = %u\n", t->port);
		put(b, "user", t->user);
		put(b, "key", t->key);
		put(b, "passphrase_file", t->passphrase_file);
		put(b, "known_hosts", t->known_hosts);
		put(b, "fingerprint", t->fingerprint);
		put(b, "agent", s->agent);
		put(b, "agent_token_file", s->agent_token_file);
		put(b, "namespace", t->ns);
		gwconf_dump_outside(&t->outside, b);
		strbuf_addf(b, "keepalive = %llums\n",
			    (unsigned long long)t->alive_ms);
		put(b, "reclaim", t->reclaim ? "yes" : "no");
	}
}

const struct gw_tunnel *
gwconf_tunnel(const struct gw_conf *c, const char *name)
{
	for (size_t i = 0; i < c->ntunnels; i++)
		if (strcmp(c->tunnels[i].name, name) == 0)
			return &c->tunnels[i];
	return NULL;
}

void
gwconf_clear_tunnels(struct gw_conf *c)
{
	for (size_t i = 0; i < c->ntunnels; i++) {
		struct gw_tunnel *t = &c->tunnels[i];

		free(t->name);
		free(t->host);
		free(t->user);
		free(t->key);
		free(t->passphrase_file);
		free(t->known_hosts);
		free(t->fingerprint);
		free(t->agent_host);
		mem_free_secret(t->agent_token);
		free(t->ns);
		outside_clear(&t->outside);
	}
	free(c->tunnels);
	outside_clear(&c->agent_outside);
}
