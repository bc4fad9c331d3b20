/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What gwconf.c, gwcheck.c and gwdump.c share: the structs that base/conf
 * fills, section by section, and the way an error is worded.
 */
#ifndef SBX_GATEWAY_GWCONF_SEC_H
#define SBX_GATEWAY_GWCONF_SEC_H

#include "gateway/gwconf.h"

struct sec_gateway {
	char *user, *state_dir, *domain, *static_agent;
	uint64_t workers, ticket_rotate_ms;
	int label_order, host_policy;
	bool rewrite, forward_bearer, tls12;
	struct conf_list upgrades, trusted;
};

struct sec_listen {
	char *address, *cert, *key, *redirect, *mode;
};

struct sec_cert {
	char *cert, *key;
};

struct sec_sandbox {
	char *token_file, *proxy_dir, *proxy_uid, *tcp_ports, *ns, *agent,
	    *agent_token_file;
	int host_policy;
	bool forward_bearer;
};

struct sec_auth {
	char *operator_token_file, *operator_name, *token_file, *hub, *hub_ca;
	uint64_t hub_ttl_ms, hub_negative_ttl_ms;
};

struct sec_agent {
	bool enabled;
	char *path, *ns, *homes;
	struct conf_list outside;
};

struct sec_tunnel {
	char *host, *user, *key, *passphrase_file, *known_hosts, *fingerprint,
	    *agent, *agent_token_file, *ns;
	uint64_t port, alive_ms;
	bool reclaim;
	struct conf_list outside;
};

struct sec_log {
	int level, access;
	bool json;
	char *file, *access_file;
};

struct sec_admin {
	char *listen;
};

/* Where a value came from, for messages. name: NULL for unnamed sections. */
struct conf_at {
	const char *section, *name, *key;
};

/* Puts "file:line: key: reason" into *msg; returns E_INVALID. */
int gwconf_bad(const struct gw_conf *c, char **msg, const struct conf_at *at,
	       const char *fmt, ...) SBX_PRINTF(4, 5);
/* Fills *l from "https://…"; *why is static text. */
int gwconf_parse_listen(struct strv text, struct gw_listen *l,
			const char **why) SBX_MUST_CHECK;
void gwconf_push_listen(struct gw_conf *c, const struct gw_listen *l);
void gwconf_clear_listen(struct gw_listen *l);
void gwconf_clear_sandbox(struct gw_sandbox_conf *s);
/* A secret from the file that a key names, if it does. */
int gwconf_read_secret(struct gw_conf *c, const struct conf_at *at,
		       const char *path, char **out, char **msg) SBX_MUST_CHECK;
/* gwtunnel.c; the first one also reads `outside` of [agent]. */
int gwconf_fill_tunnels(struct gw_conf *c, char **msg) SBX_MUST_CHECK;
int gwconf_check_tunnels(struct gw_conf *c, char **msg) SBX_MUST_CHECK;
void gwconf_dump_tunnels(const struct gw_conf *c, struct strbuf *b);
void gwconf_dump_outside(const struct outside *o, struct strbuf *b);
void gwconf_clear_tunnels(struct gw_conf *c);
/* text NULL: keeps what is there; "off": none. */
int gwconf_set_admin(struct gw_conf *c, const char *text,
		     const struct conf_at *at, char **msg) SBX_MUST_CHECK;

#endif
