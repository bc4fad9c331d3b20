/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --dump-config: the configuration in force, flags included, as a file that
 * means the same. Secrets are not in it: where one came from a file, the file
 * is named; where it came from the environment, a comment says so.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "gateway/gwconf_sec.h"

static void
put(struct strbuf *b, const char *key, const char *value)
{
	if (value != NULL && value[0] != '\0')
		strbuf_addf(b, "%s = %s\n", key, value);
}

static void
put_u64(struct strbuf *b, const char *key, uint64_t v)
{
	strbuf_addf(b, "%s = %llu\n", key, (unsigned long long)v);
}

static void
put_ms(struct strbuf *b, const char *key, uint64_t ms)
{
	if (ms % 1000 == 0)
		strbuf_addf(b, "%s = %llus\n", key,
			    (unsigned long long)(ms / 1000));
	else
		strbuf_addf(b, "%s = %llums\n", key, (unsigned long long)ms);
}

static void
put_bool(struct strbuf *b, const char *key, bool v)
{
	put(b, key, v ? "yes" : "no");
}

/* The name of an enum's value, from the key table. */
static void
put_enum(struct strbuf *b, const char *section, const char *key, int v)
{
	for (const struct conf_key *k = gwconf_spec.keys; k->key != NULL; k++)
		if (strcmp(k->section, section) == 0 &&
		    strcmp(k->key, key) == 0)
			put(b, key, k->choices[v]);
}

static void
dump_gateway(const struct gw_conf *c, struct strbuf *b)
{
	const struct sec_gateway *s = conf_section(c->ini, "gateway");

	strbuf_adds(b, "[gateway]\n");
	put(b, "user", c->user);
	put_u64(b, "workers", c->workers);
	put(b, "state_dir", c->state_dir);
	put(b, "static_agent", c->static_agent);
	put(b, "domain", c->domain);
	put_enum(b, "gateway", "label_order", (int)c->label_order);
	put_bool(b, "rewrite", c->rewrite);
	put_enum(b, "gateway", "host_policy", (int)c->host_policy);
	put_bool(b, "forward_bearer", c->forward_bearer);
	for (size_t i = 0; c->upgrades[i] != NULL; i++)
		put(b, "upgrade", c->upgrades[i]);
	for (size_t i = 0; i < s->trusted.n; i++)
		put(b, "trusted_proxy", s->trusted.v[i]);
	put_bool(b, "tls12", c->tls12);
	put_ms(b, "ticket_rotate", c->ticket_rotate_ms);
}

static void
dump_listens(const struct gw_conf *c, struct strbuf *b)
{
	const char *admin = "off";
	unsigned n = 0;

	for (size_t i = 0; i < c->nlistens; i++) {
		const struct gw_listen *l = &c->listens[i];

		if (l->admin) {
			admin = l->text;
			continue;
		}
		strbuf_addf(b, "\n[listen l%u]\n", ++n);
		put(b, "address", l->text);
		put(b, "cert", l->cert);
		put(b, "key", l->key);
		put(b, "redirect", l->redirect);
		if (addr_is_unix(&l->addr))
			strbuf_addf(b, "mode = %04o\n", (unsigned)l->mode);
	}
	for (size_t i = 0; i < c->ncerts; i++) {
		strbuf_addf(b, "\n[certificate c%zu]\n", i + 1);
		put(b, "cert", c->certs[i].cert);
		put(b, "key", c->certs[i].key);
	}
	strbuf_adds(b, "\n[admin]\n");
	put(b, "listen", admin);
}

static void
dump_sandbox(const struct gw_conf *c, const struct gw_sandbox_conf *s,
	     struct strbuf *b)
{
	const struct sec_sandbox *sec = NULL, *it;
	const char *name;

	for (size_t i = 0;
	     (it = conf_named(c->ini, "sandbox", i, &name)) != NULL; i++)
		if (strcmp(name, s->name) == 0)
			sec = it;
	strbuf_addf(b, "\n[sandbox %s]\n",
		    s->name[0] != '\0' ? s->name : "default");
	if (sec != NULL) {
		put(b, "token_file", sec->token_file);
		put(b, "agent_token_file", sec->agent_token_file);
	} else if (s->token != NULL) {
		strbuf_adds(b, "# token_file = (from the environment)\n");
	}
	put(b, "proxy_dir", s->proxy_dir);
	if (s->proxy_uid >= 0)
		put_u64(b, "proxy_uid", (uint64_t)s->proxy_uid);
	else
		put(b, "proxy_uid", s->proxy_uid == -1 ? "owner" : "any");
	if (s->ntcp != 0)
		strbuf_adds(b, "tcp_ports = ");
	for (size_t i = 0; i < s->ntcp; i++)
		strbuf_addf(b, "%s%u-%u", i == 0 ? "" : ",", s->tcp[i].lo,
			    s->tcp[i].hi);
	if (s->ntcp != 0)
		strbuf_addc(b, '\n');
	put(b, "namespace", s->ns);
	put_enum(b, "sandbox", "host_policy", (int)s->host_policy);
	put_bool(b, "forward_bearer", s->forward_bearer);
	put(b, "agent", s->agent);
}

static void
dump_auth(const struct gw_conf *c, struct strbuf *b)
{
	const struct sec_auth *s = conf_section(c->ini, "auth");

	strbuf_adds(b, "\n[auth]\n");
	put(b, "operator_token_file", s->operator_token_file);
	put(b, "operator_name", c->operator_name);
	put(b, "token_file", c->token_file);
	put(b, "hub", c->hub);
	put(b, "hub_ca", c->hub_ca);
	put_ms(b, "hub_ttl", c->hub_ttl_ms);
	put_ms(b, "hub_negative_ttl", c->hub_negative_ttl_ms);
	strbuf_adds(b, "\n[agent]\n");
	put_bool(b, "enabled", c->agent);
	put(b, "path", c->agent_path);
	put(b, "namespace", c->agent_ns);
	put(b, "homes", c->agent_homes);
	gwconf_dump_outside(&c->agent_outside, b);
	gwconf_dump_tunnels(c, b);
}

/* The keys of [limits] and [timeouts] are all numbers. */
static void
dump_numbers(const char *section, const void *from, struct strbuf *b)
{
	uint64_t v;

	strbuf_addf(b, "\n[%s]\n", section);
	for (const struct conf_key *k = gwconf_spec.keys; k->key != NULL; k++) {
		if (strcmp(k->section, section) != 0)
			continue;
		memcpy(&v, (const char *)from + k->offset, sizeof(v));
		if (k->type == CONF_DURATION)
			put_ms(b, k->key, v);
		else
			put_u64(b, k->key, v);
	}
}

static void
dump_podflare(const struct gw_podflare *p, struct strbuf *b)
{
	strbuf_adds(b, "\n[podflare]\n");
	put_bool(b, "enabled", p->enabled);
	put_bool(b, "show_values", p->values);
	put_ms(b, "idle_timeout", p->idle_ms);
	put_u64(b, "max_sandboxes", p->max_sandboxes);
	put_u64(b, "max_per_namespace", p->max_per_namespace);
}

static void
dump_snapshots(const struct gw_snapshots *s, struct strbuf *b)
{
	strbuf_adds(b, "\n[snapshots]\n");
	if (s->dir != NULL)
		put(b, "dir", s->dir);
	put_u64(b, "max_bytes", s->max_bytes);
	put_u64(b, "max_files", s->max_files);
	put_u64(b, "max_count", s->max_count);
	put_u64(b, "concurrent", s->concurrent);
}

void
gwconf_dump(const struct gw_conf *c, struct strbuf *b)
{
	dump_gateway(c, b);
	dump_listens(c, b);
	for (size_t i = 0; i < c->nsandboxes; i++)
		dump_sandbox(c, &c->sandboxes[i], b);
	dump_auth(c, b);
	launchconf_dump(c, b);
	jobconf_dump(&c->jobs, b);
	dump_podflare(&c->podflare, b);
	dump_snapshots(&c->snapshots, b);
	strbuf_adds(b, "\n[coreweave]\n");
	put_bool(b, "enabled", c->coreweave.enabled);
	dump_numbers("limits", &c->limits, b);
	dump_numbers("timeouts", &c->t, b);
	strbuf_adds(b, "\n[log]\n");
	put_enum(b, "log", "level", c->log_level);
	put(b, "file", c->log_file);
	put_bool(b, "json", c->log_json);
	put_enum(b, "log", "access", (int)c->access);
	put(b, "access_file", c->access_file);
}
