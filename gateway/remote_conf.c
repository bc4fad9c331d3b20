/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments of sbx-tunnel for one [tunnel NAME]. No secret is in them. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "gateway/remote_int.h"

struct args {
	char **v;
	size_t n;
};

static void
take(struct args *a, char *s)
{
	a->v = xreallocarray(a->v, a->n + 2, sizeof(*a->v));
	a->v[a->n++] = s;
	a->v[a->n] = NULL;
}

static void
add(struct args *a, const char *s)
{
	take(a, xstrdup(s));
}

static void
option(struct args *a, char *text)
{
	add(a, "-o");
	take(a, text);
}

/* host:port, an IPv6 address in brackets. */
static char *
host_port(const char *host, unsigned port)
{
	return xasprintf(strchr(host, ':') != NULL ? "[%s]:%u" : "%s:%u", host,
			 port);
}

/* A path in a forward's specification: its colons are not separators. */
static char *
spec_path(const char *path)
{
	struct strbuf b = {0};

	for (; *path != '\0'; path++) {
		if (*path == ':')
			strbuf_addc(&b, '\\');
		strbuf_addc(&b, *path);
	}
	return strbuf_take(&b);
}

static void
add_trust(struct args *a, const struct gw_tunnel *t)
{
	option(a, xstrdup("StrictHostKeyChecking=yes"));
	option(a, xstrdup("GlobalKnownHostsFile=/dev/null"));
	if (t->fingerprint != NULL) {
		add(a, "--fingerprint");
		add(a, t->fingerprint);
	}
	option(a, xasprintf("UserKnownHostsFile=%s", t->known_hosts != NULL
							 ? t->known_hosts
							 : "/dev/null"));
}

static void
add_key(struct args *a, const struct gw_tunnel *t)
{
	option(a, xstrdup("BatchMode=yes"));
	option(a, xstrdup("IdentitiesOnly=yes"));
	option(a, xstrdup("IdentityAgent=none"));
	add(a, "-i");
	add(a, t->key);
	if (t->passphrase_file != NULL) {
		add(a, "--passphrase-file");
		add(a, t->passphrase_file);
	}
}

static void
add_forwards(struct args *a, struct remote_conf *c, const struct gw_tunnel *t,
	     const char *path)
{
	const struct outside *o = &c->outside;
	char *to, *from;

	if (t->agent_host != NULL) {
		to = host_port(t->agent_host, t->agent_port);
		from = spec_path(path);
		add(a, "-L");
		take(a, xasprintf("%s:%s", from, to));
		free(from);
		free(to);
	}
	c->specs = xcalloc(o->nforwards + 1, sizeof(*c->specs));
	for (size_t i = 0; i < o->nforwards; i++) {
		if (o->forwards[i].far == 0)
			continue;
		to = outside_host_port(&o->forwards[i]);
		c->specs[i] = xasprintf("%u:%s", o->forwards[i].far, to);
		add(a, "-R");
		add(a, c->specs[i]);
		free(to);
	}
}

static void
make_argv(struct remote_conf *c, const struct gw_tunnel *t, const char *path)
{
	struct args a = {0};

	add(&a, "sbx-tunnel");
	add(&a, "-N");
	add(&a, "--retry");
	add(&a, "--status-fd");
	add(&a, "3");
	if (t->reclaim)
		add(&a, "--reclaim");
	/* Status lines say it all, and standard error is the log's. */
	option(&a, xstrdup("LogLevel=QUIET"));
	option(&a, xstrdup("ExitOnForwardFailure=no"));
	/* Who comes while it is down is told so, and does not wait. */
	option(&a, xstrdup("SbxWait=1s"));
	option(&a, xstrdup("StreamLocalBindMask=0117"));
	option(&a, xasprintf("ServerAliveInterval=%llu",
			     (unsigned long long)(t->alive_ms + 999) / 1000));
	option(&a, xstrdup("ServerAliveCountMax=2"));
	add_trust(&a, t);
	add_key(&a, t);
	add(&a, "-p");
	take(&a, xasprintf("%u", t->port));
	add(&a, "-l");
	add(&a, t->user);
	add_forwards(&a, c, t, path);
	add(&a, t->host);
	c->argv = a.v;
}

static void
make_key(struct remote_conf *c)
{
	struct strbuf b = {0};

	for (size_t i = 0; c->argv[i] != NULL; i++)
		strbuf_addf(&b, "%s\n", c->argv[i]);
	strbuf_addf(&b, "%s\n%s\n", c->ns != NULL ? c->ns : "",
		    c->token != NULL ? c->token : "");
	outside_env_json(&c->outside, false, &b);
	c->key = strbuf_take(&b);
}

static char *
dup_or_null(const char *s)
{
	return s != NULL ? xstrdup(s) : NULL;
}

void
remote_conf_fill(struct remote_conf *c, const struct gw_tunnel *t,
		 const char *path)
{
	memset(c, 0, sizeof(*c));
	c->host = xstrdup(t->host);
	c->user = xstrdup(t->user);
	c->port = t->port;
	if (t->agent_host != NULL)
		c->agent = host_port(t->agent_host, t->agent_port);
	c->ns = dup_or_null(t->ns);
	c->token = dup_or_null(t->agent_token);
	outside_copy(&c->outside, &t->outside);
	make_argv(c, t, path);
	make_key(c);
}

static void
free_list(char **v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(v[i]);
	free(v);
}

void
remote_conf_clear(struct remote_conf *c)
{
	size_t n = 0;

	while (c->argv != NULL && c->argv[n] != NULL)
		n++;
	free_list(c->argv, n);
	free_list(c->specs, c->outside.nforwards);
	outside_clear(&c->outside);
	free(c->host);
	free(c->user);
	free(c->agent);
	free(c->ns);
	mem_free_secret(c->token);
	mem_free_secret(c->key);
	memset(c, 0, sizeof(*c));
}
