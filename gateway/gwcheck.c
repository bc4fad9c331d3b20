/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checks that need more than one key of the configuration, and the values
 * that depend on others (everything below the state directory). Run after the
 * command line had its say.
 */
#include "config.h"

#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/token.h"
#include "gateway/gwconf_sec.h"
#include "gateway/names.h"
#include "gateway/route.h"

static const char *
listen_name(const struct gw_conf *c, const struct gw_listen *l)
{
	const struct sec_listen *s;
	const char *name;

	for (size_t i = 0; (s = conf_named(c->ini, "listen", i, &name)) != NULL;
	     i++)
		if (s->address != NULL && strcmp(s->address, l->text) == 0)
			return name;
	return NULL;
}

static void
set_state_dir(struct gw_conf *c)
{
	const char *xdg = getenv("XDG_STATE_HOME");
	const char *home = getenv("HOME");

	if (c->state_dir != NULL)
		return;
	if (!c->sidecar)
		c->state_dir = xstrdup("/var/lib/sbx");
	else if (xdg != NULL && xdg[0] == '/')
		c->state_dir = xasprintf("%s/sbx", xdg);
	else if (home != NULL && home[0] == '/')
		c->state_dir = xasprintf("%s/.local/state/sbx", home);
	else
		c->state_dir = xstrdup("/var/lib/sbx");
}

static int
derive(struct gw_conf *c, char **msg)
{
	const struct conf_at at = {"admin", NULL, "listen"};
	struct conf_at dir_at = {"gateway", NULL, "state_dir"};
	bool admin = c->no_admin;
	char *text;
	int r;

	set_state_dir(c);
	if (c->state_dir[0] != '/')
		return gwconf_bad(c, msg, &dir_at, "must be an absolute path");
	for (size_t i = 0; i < c->nlistens; i++)
		admin = admin || c->listens[i].admin;
	if (!admin) {
		text = xasprintf("unix:%s/admin.sock", c->state_dir);
		if (strlen(text) > 5 + 107) {
			free(text);
			return gwconf_bad(c, msg, &dir_at,
					  "too long for a unix socket in it");
		}
		r = gwconf_set_admin(c, text, &at, msg);
		free(text);
		if (r != 0)
			return r;
	}
	if (c->token_file == NULL)
		c->token_file = xasprintf("%s/tokens", c->state_dir);
	if (c->agent_homes == NULL)
		c->agent_homes = xasprintf("%s/homes", c->state_dir);
	return 0;
}

static int
check_listens(struct gw_conf *c, char **msg)
{
	size_t open = 0;

	for (size_t i = 0; i < c->nlistens; i++) {
		struct gw_listen *l = &c->listens[i];
		struct conf_at at = {"listen", listen_name(c, l), "address"};

		open += !l->admin;
		if (l->twin != 0 &&
		    (addr_is_unix(&l->addr) || addr_port(&l->addr) != 0))
			return gwconf_bad(c, msg, &at, "%s is there twice",
					  l->text);
		if (l->proxy_protocol)
			return gwconf_bad(
			    c, msg, &at, "the PROXY protocol is not supported");
		at.key = "redirect";
		if (l->redirect != NULL &&
		    !strv_starts(strv_of(l->redirect), STRV("https://")))
			return gwconf_bad(c, msg, &at,
					  "must begin with https://");
	}
	if (open == 0) {
		*msg = xasprintf(
		    "%s%snowhere to listen: %s", c->path != NULL ? c->path : "",
		    c->path != NULL ? ": " : "",
		    c->sidecar ? "give --listen https://127.0.0.1:8443"
			       : "give a [listen NAME] section");
		return E_INVALID;
	}
	return 0;
}

static int
check_agent_addr(struct gw_conf *c, const struct gw_sandbox_conf *s,
		 const struct conf_at *at, char **msg)
{
	struct strv v = strv_of(s->agent), host;
	struct addr a;
	uint16_t port;

	if (strv_starts(v, STRV("unix:")) && addr_parse(v, &a) == 0)
		return 0;
	if (strv_starts(v, STRV("tcp:")) &&
	    addr_split(strv_from(v, 4), &host, &port) == 0 && port != 0)
		return 0;
	return gwconf_bad(c, msg, at, "must be unix:/PATH or tcp:HOST:PORT");
}

static int
check_sandbox(struct gw_conf *c, const struct gw_sandbox_conf *s, char **msg)
{
	struct conf_at at = {"sandbox", s->name, "NAME"};
	int r;

	if (s->name[0] != '\0' && !route_id_ok(strv_of(s->name)))
		return gwconf_bad(c, msg, &at,
				  "must be 1-63 of a-z, 0-9 and single '-' "
				  "inside");
	at.key = "token_file";
	if (s->token != NULL && !token_plausible(strv_of(s->token), 1024))
		return gwconf_bad(c, msg, &at,
				  "the secret must be visible ASCII without "
				  "blanks, quotes, ',' and ';'");
	at.key = "proxy_dir";
	if (s->proxy_dir != NULL && s->proxy_dir[0] != '/')
		return gwconf_bad(c, msg, &at, "must be an absolute path");
	if (s->proxy_dir == NULL && s->ntcp == 0 && s->agent == NULL)
		return gwconf_bad(c, msg, &at,
				  "a sandbox needs proxy_dir, tcp_ports or "
				  "agent");
	at.key = "agent";
	if (s->agent != NULL && (r = check_agent_addr(c, s, &at, msg)) != 0)
		return r;
	return 0;
}

static int
check_auth(struct gw_conf *c, char **msg)
{
	struct conf_at at = {"auth", NULL, "hub"};

	if (c->hub != NULL && !strv_starts(strv_of(c->hub), STRV("https://")) &&
	    !strv_starts(strv_of(c->hub), STRV("http://")))
		return gwconf_bad(c, msg, &at,
				  "must begin with https:// or http://");
	at.key = "hub_ca";
	if (c->hub_ca != NULL && access(c->hub_ca, R_OK) != 0)
		return gwconf_bad(c, msg, &at, "%s cannot be read", c->hub_ca);
	at.key = "operator_name";
	if (c->operator_name != NULL && !names_ok(strv_of(c->operator_name)))
		return gwconf_bad(c, msg, &at,
				  "must be 1-64 of a-z A-Z 0-9 - _ . @");
	at.key = "operator_token_file";
	if (c->operator_token != NULL &&
	    !token_plausible(strv_of(c->operator_token), 1024))
		return gwconf_bad(c, msg, &at,
				  "the secret must be visible ASCII without "
				  "blanks, quotes, ',' and ';'");
	if (c->sidecar && !c->agent && c->nsandboxes != 0 &&
	    c->sandboxes[0].token == NULL) {
		*msg = xstrdup("no token: set SBX_TOKEN or SBX_TOKEN_FILE "
			       "(clients send it as X-Sandbox-Token)");
		return E_INVALID;
	}
	return 0;
}

static int
check_gateway(struct gw_conf *c, char **msg)
{
	struct conf_at at = {"gateway", NULL, "domain"};

	if (c->domain != NULL) {
		struct strv d = strv_of(c->domain);

		for (size_t i = 0; i < d.len; i++)
			if (strchr("abcdefghijklmnopqrstuvwxyz0123456789.-",
				   d.p[i]) == NULL)
				return gwconf_bad(c, msg, &at,
						  "must be a lower-case "
						  "domain name");
		if (d.len > 190 || d.p[0] == '.' || d.p[d.len - 1] == '.')
			return gwconf_bad(c, msg, &at,
					  "must be a domain name without "
					  "outer dots");
	}
	at.key = "user";
	if (c->user != NULL && geteuid() == 0 && getpwnam(c->user) == NULL)
		return gwconf_bad(c, msg, &at, "there is no user %s", c->user);
	at.key = "upgrade";
	for (size_t i = 0; c->upgrades[i] != NULL; i++)
		if (strv_eq_nocase(strv_of(c->upgrades[i]), STRV("h2c")))
			return gwconf_bad(c, msg, &at, "h2c is never allowed");
	at.section = "podflare";
	at.key = "enabled";
	if (c->podflare.enabled && !c->agent)
		return gwconf_bad(c, msg, &at,
				  "needs the embedded agent: enabled = yes in "
				  "[agent]");
	at.section = "snapshots";
	at.key = "dir";
	if (c->snapshots.dir != NULL && c->snapshots.dir[0] != '/')
		return gwconf_bad(c, msg, &at, "must be an absolute path");
	at.section = "coreweave";
	at.key = "enabled";
	if (c->coreweave.enabled && !c->jobs.enabled)
		return gwconf_bad(c, msg, &at,
				  "needs jobs: enabled = yes in [jobs]");
	at.section = "timeouts";
	at.key = "wait";
	if (c->t.wait > c->t.wait_max)
		return gwconf_bad(c, msg, &at, "is more than wait_max");
	return 0;
}

int
gwconf_finish(struct gw_conf *c, char **msg)
{
	int r;

	if ((r = derive(c, msg)) != 0 || (r = check_listens(c, msg)) != 0 ||
	    (r = check_gateway(c, msg)) != 0 || (r = check_auth(c, msg)) != 0)
		return r;
	for (size_t i = 0; i < c->nsandboxes; i++)
		if ((r = check_sandbox(c, &c->sandboxes[i], msg)) != 0)
			return r;
	return gwconf_check_tunnels(c, msg);
}
