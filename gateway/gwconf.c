/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gateway's configuration: what base/conf parsed by the table in gwspec.c,
 * translated into struct gw_conf. The defaults stand in that table alone: a
 * sidecar without a file is an empty file. What depends on more than one key
 * is checked in gwcheck.c.
 */
#include "config.h"

#include "gateway/gwconf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "gateway/gwconf_sec.h"

int
gwconf_bad(const struct gw_conf *c, char **msg, const struct conf_at *at,
	   const char *fmt, ...)
{
	struct strbuf b = {0};
	va_list ap;
	unsigned line = 0;
	char *why;

	if (c->path != NULL && at->section != NULL)
		line = conf_line(c->ini, at->section, at->name, at->key);
	if (line != 0)
		strbuf_addf(&b, "%s:%u: ", conf_file_name(c->ini), line);
	else if (c->path != NULL)
		strbuf_addf(&b, "%s: ", c->path);
	if (line == 0 && at->name != NULL && at->name[0] != '\0')
		strbuf_addf(&b, "[%s %s] ", at->section, at->name);
	va_start(ap, fmt);
	if (vasprintf(&why, fmt, ap) < 0)
		abort();
	va_end(ap);
	strbuf_addf(&b, "%s: %s", at->key, why);
	free(why);
	*msg = strbuf_take(&b);
	return E_INVALID;
}

int
gwconf_parse_ports(struct strv s, struct port_range *r, size_t *n)
{
	struct port_range out[PORT_RANGES_MAX] = {{0}};
	struct strv part, lo;
	uint64_t a, b;
	size_t k = 0;

	while (strv_cut(&s, ',', &part)) {
		part = strv_trim(part);
		if (k == PORT_RANGES_MAX)
			return E_LIMIT;
		(void)strv_cut(&part, '-', &lo);
		if (strv_parse_u64(strv_trim(lo), 65535, true, &a) != 0)
			return E_INVALID;
		b = a;
		if (part.p != NULL &&
		    strv_parse_u64(strv_trim(part), 65535, true, &b) != 0)
			return E_INVALID;
		if (a == 0 || b < a)
			return E_INVALID;
		out[k].lo = (uint16_t)a;
		out[k++].hi = (uint16_t)b;
	}
	memcpy(r, out, k * sizeof(out[0]));
	*n = k;
	return 0;
}

bool
gwconf_port_allowed(const struct gw_sandbox_conf *s, uint16_t port)
{
	for (size_t i = 0; i < s->ntcp; i++)
		if (port >= s->tcp[i].lo && port <= s->tcp[i].hi)
			return true;
	return false;
}

/* HOST:PORT with the two names that are worth knowing without a resolver. */
static int
parse_host_port(struct strv s, struct addr *a)
{
	struct strv host;
	uint16_t port;
	char *text;
	int r;

	if (strv_ends(s, STRV("/")))
		s.len--;
	if ((r = addr_split(s, &host, &port)) != 0)
		return r;
	if (strv_eq_nocase(host, STRV("localhost")))
		text = xasprintf("127.0.0.1:%u", port);
	else if (strv_eq(host, STRV("*")))
		text = xasprintf("0.0.0.0:%u", port);
	else
		text = xstrndup(s.p, s.len);
	r = addr_parse(strv_of(text), a);
	free(text);
	return r;
}

int
gwconf_parse_listen(struct strv text, struct gw_listen *l, const char **why)
{
	struct strv rest;
	int r;

	l->mode = 0660;
	if (strv_starts(text, STRV("unix:"))) {
		*why = "not a unix:/PATH of at most 107 bytes";
		r = addr_parse(text, &l->addr);
	} else {
		*why = "must be https://HOST:PORT, http://HOST:PORT or "
		       "unix:/PATH, with a numeric HOST";
		l->tls = strv_starts(text, STRV("https://"));
		if (!l->tls && !strv_starts(text, STRV("http://")))
			return E_INVALID;
		rest = strv_from(text, l->tls ? 8 : 7);
		r = parse_host_port(rest, &l->addr);
	}
	if (r == 0)
		l->text = xstrndup(text.p, text.len);
	return r;
}

bool
gwconf_same_addr(const struct addr *a, const struct addr *b)
{
	return a->len == b->len && memcmp(&a->u, &b->u, a->len) == 0;
}

void
gwconf_push_listen(struct gw_conf *c, const struct gw_listen *l)
{
	struct gw_listen *to;

	c->listens = xreallocarray(c->listens, c->nlistens + 1, sizeof(*l));
	to = &c->listens[c->nlistens];
	*to = *l;
	to->twin = 0;
	for (size_t i = 0; i < c->nlistens; i++)
		to->twin += gwconf_same_addr(&c->listens[i].addr, &l->addr);
	c->nlistens++;
}

int
gwconf_add_listen(struct gw_conf *c, struct strv text, char **msg)
{
	struct gw_listen l = {0};
	const char *why;

	if (gwconf_parse_listen(text, &l, &why) != 0) {
		*msg = xasprintf("--listen %.*s: %s", STRV_ARG(text), why);
		return E_INVALID;
	}
	gwconf_push_listen(c, &l);
	return 0;
}

static char *
dup_or_null(const char *s)
{
	return s != NULL && s[0] != '\0' ? xstrdup(s) : NULL;
}

int
gwconf_read_secret(struct gw_conf *c, const struct conf_at *at,
		   const char *path, char **out, char **msg)
{
	int r;

	if (path == NULL || path[0] == '\0')
		return 0;
	if ((r = file_read_secret(path, out)) != 0)
		return gwconf_bad(c, msg, at, "%s: %s", path,
				  r == E_INVALID ? "not one line of text"
						 : err_text(r));
	return 0;
}

static int
fill_listens(struct gw_conf *c, char **msg)
{
	const struct sec_listen *s;
	const char *name;
	struct gw_listen l;
	struct strv mode;
	const char *why;

	for (size_t i = 0; (s = conf_named(c->ini, "listen", i, &name)) != NULL;
	     i++) {
		struct conf_at at = {"listen", name, "address"};

		memset(&l, 0, sizeof(l));
		if (s->address == NULL)
			return gwconf_bad(c, msg, &at, "is missing");
		if (gwconf_parse_listen(strv_of(s->address), &l, &why) != 0)
			return gwconf_bad(c, msg, &at, "%s", why);
		l.cert = dup_or_null(s->cert);
		l.key = dup_or_null(s->key);
		l.redirect = dup_or_null(s->redirect);
		mode = strv_of(s->mode);
		at.key = "mode";
		l.mode = 0;
		for (size_t k = 0; k < mode.len; k++)
			l.mode = mode.p[k] >= '0' && mode.p[k] <= '7'
				     ? l.mode * 8 + (mode_t)(mode.p[k] - '0')
				     : 01000;
		gwconf_push_listen(c, &l);
		if (mode.len == 0 || mode.len > 4 || l.mode > 0777)
			return gwconf_bad(c, msg, &at,
					  "must be octal, like 0660");
		at.key = "cert";
		if (!l.tls && l.cert != NULL)
			return gwconf_bad(c, msg, &at,
					  "only for https:// listeners");
		at.key = "key";
		if (l.key != NULL && l.cert == NULL)
			return gwconf_bad(c, msg, &at, "needs a cert");
		at.key = "redirect";
		if (l.redirect != NULL && (l.tls || addr_is_unix(&l.addr)))
			return gwconf_bad(c, msg, &at,
					  "only for http:// listeners");
	}
	return 0;
}

static int
fill_certs(struct gw_conf *c, char **msg)
{
	const struct sec_cert *s;
	const char *name;

	for (size_t i = 0;
	     (s = conf_named(c->ini, "certificate", i, &name)) != NULL; i++) {
		struct conf_at at = {"certificate", name, "cert"};

		if (s->cert == NULL)
			return gwconf_bad(c, msg, &at, "is missing");
		c->certs =
		    xreallocarray(c->certs, c->ncerts + 1, sizeof(*c->certs));
		c->certs[c->ncerts].cert = xstrdup(s->cert);
		c->certs[c->ncerts++].key = dup_or_null(s->key);
	}
	return 0;
}

static int
parse_uid(const char *s, int *out)
{
	uint64_t v;
	int r;

	if (strcmp(s, "owner") == 0) {
		*out = -1;
	} else if (strcmp(s, "any") == 0) {
		*out = -2;
	} else {
		r = strv_parse_u64(strv_of(s), INT32_MAX, true, &v);
		if (r != 0)
			return r;
		*out = (int)v;
	}
	return 0;
}

static int
fill_sandbox(struct gw_conf *c, const struct sec_sandbox *s, const char *name,
	     char **msg)
{
	struct conf_at at = {"sandbox", name, "proxy_uid"};
	struct gw_sandbox_conf *sb;
	int r;

	c->sandboxes =
	    xreallocarray(c->sandboxes, c->nsandboxes + 1, sizeof(*sb));
	sb = &c->sandboxes[c->nsandboxes++];
	memset(sb, 0, sizeof(*sb));
	sb->name = xstrdup(name);
	sb->proxy_dir = dup_or_null(s->proxy_dir);
	sb->ns = dup_or_null(s->ns);
	sb->agent = dup_or_null(s->agent);
	sb->host_policy = conf_line(c->ini, "sandbox", name, "host_policy") != 0
			      ? (enum host_policy)s->host_policy
			      : c->host_policy;
	sb->forward_bearer =
	    conf_line(c->ini, "sandbox", name, "forward_bearer") != 0
		? s->forward_bearer
		: c->forward_bearer;
	if (parse_uid(s->proxy_uid, &sb->proxy_uid) != 0)
		return gwconf_bad(c, msg, &at, "must be owner, any or a uid");
	at.key = "tcp_ports";
	if (s->tcp_ports != NULL && strcmp(s->tcp_ports, "none") != 0 &&
	    gwconf_parse_ports(strv_of(s->tcp_ports), sb->tcp, &sb->ntcp) != 0)
		return gwconf_bad(c, msg, &at,
				  "must be ports and ranges (1024-65535,80), "
				  "at most %d of them",
				  PORT_RANGES_MAX);
	at.key = "token_file";
	if ((r = gwconf_read_secret(c, &at, s->token_file, &sb->token, msg)) !=
	    0)
		return r;
	at.key = "agent_token_file";
	return gwconf_read_secret(c, &at, s->agent_token_file, &sb->agent_token,
				  msg);
}

static int
fill_gateway(struct gw_conf *c, char **msg)
{
	const struct sec_gateway *s = conf_section(c->ini, "gateway");
	struct conf_at at = {"gateway", NULL, "trusted_proxy"};

	c->user = dup_or_null(s->user);
	c->workers = (unsigned)s->workers;
	c->state_dir = dup_or_null(s->state_dir);
	c->static_agent = dup_or_null(s->static_agent);
	c->domain = dup_or_null(s->domain);
	c->label_order = (enum label_order)s->label_order;
	c->rewrite = s->rewrite;
	c->host_policy = (enum host_policy)s->host_policy;
	c->forward_bearer = s->forward_bearer;
	c->tls12 = s->tls12;
	c->ticket_rotate_ms = s->ticket_rotate_ms;
	c->upgrades = xcalloc(s->upgrades.n + 1, sizeof(*c->upgrades));
	for (size_t i = 0; i < s->upgrades.n; i++)
		c->upgrades[i] = xstrdup(s->upgrades.v[i]);
	c->trusted = xcalloc(s->trusted.n + 1, sizeof(*c->trusted));
	for (; c->ntrusted < s->trusted.n; c->ntrusted++)
		if (addr_net_parse(strv_of(s->trusted.v[c->ntrusted]),
				   &c->trusted[c->ntrusted]) != 0)
			return gwconf_bad(c, msg, &at,
					  "%s is not an address, a network "
					  "(10.0.0.0/8) or unix",
					  s->trusted.v[c->ntrusted]);
	return 0;
}

static int
fill_admin(struct gw_conf *c, char **msg)
{
	const struct sec_admin *s = conf_section(c->ini, "admin");
	struct conf_at at = {"admin", NULL, "listen"};

	/* "" until gwconf_finish() knows the state directory. */
	return gwconf_set_admin(c, s->listen, &at, msg);
}

int
gwconf_set_admin(struct gw_conf *c, const char *text, const struct conf_at *at,
		 char **msg)
{
	struct gw_listen l = {0};
	const char *why;

	if (text == NULL)
		return 0;
	for (size_t i = 0; i < c->nlistens; i++)
		if (c->listens[i].admin) {
			gwconf_clear_listen(&c->listens[i]);
			c->listens[i] = c->listens[--c->nlistens];
		}
	c->no_admin = strcmp(text, "off") == 0;
	if (c->no_admin)
		return 0;
	if (gwconf_parse_listen(strv_of(text), &l, &why) != 0 || l.tls) {
		gwconf_clear_listen(&l);
		return gwconf_bad(c, msg, at,
				  "must be unix:/PATH, http://HOST:PORT or "
				  "off");
	}
	l.admin = true;
	l.mode = 0600;
	gwconf_push_listen(c, &l);
	return 0;
}

static int
fill_rest(struct gw_conf *c, char **msg)
{
	const struct sec_auth *au = conf_section(c->ini, "auth");
	const struct sec_agent *ag = conf_section(c->ini, "agent");
	const struct sec_log *lo = conf_section(c->ini, "log");
	const struct conf_at at = {"auth", NULL, "operator_token_file"};

	c->token_file = dup_or_null(au->token_file);
	c->hub = dup_or_null(au->hub);
	c->hub_ca = dup_or_null(au->hub_ca);
	c->operator_name = dup_or_null(au->operator_name);
	c->hub_ttl_ms = au->hub_ttl_ms;
	c->hub_negative_ttl_ms = au->hub_negative_ttl_ms;
	c->agent = ag->enabled;
	c->agent_path = dup_or_null(ag->path);
	c->agent_ns = dup_or_null(ag->ns);
	c->agent_homes = dup_or_null(ag->homes);
	memcpy(&c->limits, conf_section(c->ini, "limits"), sizeof(c->limits));
	memcpy(&c->t, conf_section(c->ini, "timeouts"), sizeof(c->t));
	memcpy(&c->podflare, conf_section(c->ini, "podflare"),
	       sizeof(c->podflare));
	memcpy(&c->snapshots, conf_section(c->ini, "snapshots"),
	       sizeof(c->snapshots));
	memcpy(&c->coreweave, conf_section(c->ini, "coreweave"),
	       sizeof(c->coreweave));
	c->log_level = lo->level;
	c->log_file = dup_or_null(lo->file);
	c->log_json = lo->json;
	c->access = (enum access_format)lo->access;
	c->access_file = dup_or_null(lo->access_file);
	return gwconf_read_secret(c, &at, au->operator_token_file,
				  &c->operator_token, msg);
}

static int
fill(struct gw_conf *c, char **msg)
{
	const struct sec_sandbox *sb;
	const char *name;
	int r;

	if ((r = fill_gateway(c, msg)) != 0 ||
	    (r = fill_listens(c, msg)) != 0 || (r = fill_certs(c, msg)) != 0 ||
	    (r = fill_admin(c, msg)) != 0 || (r = fill_rest(c, msg)) != 0 ||
	    (r = launchconf_fill(c, msg)) != 0 ||
	    (r = jobconf_fill(c, msg)) != 0)
		return r;
	for (size_t i = 0;
	     (sb = conf_named(c->ini, "sandbox", i, &name)) != NULL; i++)
		if ((r = fill_sandbox(c, sb, name, msg)) != 0)
			return r;
	return gwconf_fill_tunnels(c, msg);
}

int
gwconf_load(const char *path, struct gw_conf **out, char **msg)
{
	struct gw_conf *c = xcalloc(1, sizeof(*c));
	int r;

	c->path = xstrdup(path);
	if ((r = conf_read(&gwconf_spec, path, &c->ini, msg)) == 0)
		r = fill(c, msg);
	if (r != 0) {
		gwconf_free(c);
		return r;
	}
	*out = c;
	return 0;
}

struct gw_conf *
gwconf_new(void)
{
	struct gw_conf *c = xcalloc(1, sizeof(*c));
	char *msg = NULL;

	if (conf_parse(&gwconf_spec, "(defaults)", STRV(""), &c->ini, &msg) !=
		0 ||
	    fill(c, &msg) != 0)
		log_fatal("conf.defaults", "%s", msg);
	c->sidecar = true;
	c->access = ACCESS_OFF;
	return c;
}

void
gwconf_clear_listen(struct gw_listen *l)
{
	free(l->text);
	free(l->cert);
	free(l->key);
	free(l->redirect);
	memset(l, 0, sizeof(*l));
}

void
gwconf_clear_sandbox(struct gw_sandbox_conf *s)
{
	free(s->name);
	mem_free_secret(s->token);
	free(s->proxy_dir);
	free(s->ns);
	free(s->agent);
	mem_free_secret(s->agent_token);
}

void
gwconf_free(struct gw_conf *c)
{
	if (c == NULL)
		return;
	for (size_t i = 0; i < c->nlistens; i++)
		gwconf_clear_listen(&c->listens[i]);
	for (size_t i = 0; i < c->ncerts; i++) {
		free(c->certs[i].cert);
		free(c->certs[i].key);
	}
	for (size_t i = 0; i < c->nsandboxes; i++)
		gwconf_clear_sandbox(&c->sandboxes[i]);
	for (size_t i = 0; c->upgrades != NULL && c->upgrades[i] != NULL; i++)
		free(c->upgrades[i]);
	gwconf_clear_tunnels(c);
	mem_free_secret(c->operator_token);
	free(c->listens);
	free(c->certs);
	free(c->sandboxes);
	free(c->upgrades);
	free(c->trusted);
	free(c->path);
	free(c->state_dir);
	free(c->static_agent);
	free(c->user);
	free(c->domain);
	free(c->token_file);
	free(c->hub);
	free(c->hub_ca);
	free(c->operator_name);
	free(c->agent_path);
	free(c->agent_ns);
	free(c->agent_homes);
	launchconf_clear(&c->launch);
	jobconf_clear(&c->jobs);
	free(c->log_file);
	free(c->access_file);
	conf_free(c->ini);
	free(c);
}
