/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gateway's configuration: one key table (gwconf.c) and the structs it
 * fills. Immutable once loaded; a reload makes a new one. Command line flags
 * and, for secrets, environment variables end up here too, so that the rest of
 * the program has one place to look.
 */
#ifndef SBX_GATEWAY_GWCONF_H
#define SBX_GATEWAY_GWCONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/conf.h"
#include "base/defs.h"
#include "base/str.h"
#include "gateway/outside.h"
#include "gateway/launchconf.h"
#include "gateway/jobconf.h"
#include "net/addr.h"

enum label_order { LABEL_ID_PORT, LABEL_PORT_ID, LABEL_BOTH };
enum host_policy { HOST_FORWARD, HOST_LOCALHOST };
enum access_format { ACCESS_OFF, ACCESS_JSON, ACCESS_COMBINED };

struct port_range {
	uint16_t lo, hi;
};
#define PORT_RANGES_MAX 16

struct gw_listen {
	struct addr addr;
	char *text;    /* as written */
	unsigned twin; /* earlier ones with the same address (port 0) */
	bool tls;
	bool admin;
	char *cert, *key;    /* NULL: the self-signed one in state_dir */
	char *redirect;      /* plain listeners: https origin to send to */
	mode_t mode;         /* unix */
	bool proxy_protocol; /* reserved: refused for now */
};

struct gw_cert {
	char *cert, *key;
};

struct gw_sandbox_conf {
	char *name;
	char *token;     /* secret, from token_file or SBX_TOKEN */
	char *proxy_dir; /* NULL: none */
	int proxy_uid;   /* owner its sockets must have; -1: owner of
			  * the directory; -2: anyone */
	struct port_range tcp[PORT_RANGES_MAX];
	size_t ntcp;
	char *ns;
	enum host_policy host_policy;
	bool forward_bearer; /* Authorization: Bearer is the app's */
	char *agent;         /* address of an agent for /v1/..., or NULL */
	char *agent_token;
};

/* A remote machine behind an SSH server. */
struct gw_tunnel {
	char *name;
	char *host;
	uint16_t port;
	char *user;
	char *key, *passphrase_file, *known_hosts, *fingerprint;
	char *agent_host; /* as seen from there; NULL: no agent */
	uint16_t agent_port;
	char *agent_token; /* secret, NULL: it wants none */
	char *ns;
	uint64_t alive_ms;
	bool reclaim;
	struct outside outside;
};

struct gw_limits {
	uint64_t conns;             /* per worker */
	uint64_t conns_per_ip;      /* per worker and client address; 0: none */
	uint64_t conns_per_sandbox; /* exchanges and tunnels, per worker */
	uint64_t handshakes_per_s;  /* per worker; 0: none */
	uint64_t retired;   /* generations of workers beside the newest */
	uint64_t body;      /* largest request body; 0: none */
	uint64_t body_rate; /* least bytes/s of one; 0: none */
	uint64_t buffer;    /* bytes per direction (64K) */
};

struct gw_podflare {
	bool enabled;
	bool values;      /* show the value of the last expression */
	uint64_t idle_ms; /* 0: for ever */
	uint64_t max_sandboxes, max_per_namespace; /* 0 of these: no bound */
};

struct gw_snapshots {
	char *dir;                     /* NULL: STATE_DIR/snapshots */
	uint64_t max_bytes, max_files; /* in one */
	uint64_t max_count;            /* in one namespace */
	uint64_t concurrent;           /* being written at once */
};

struct gw_coreweave {
	bool enabled;
};

struct gw_timeouts { /* all in ms */
	uint64_t head, idle, handshake, body, write, connect, wait;
	uint64_t wait_max;  /* cap for ?wait= */
	uint64_t job_start; /* for a job that starts */
	uint64_t response;  /* head of a response; 0: none */
	uint64_t tunnel_idle, drain, linger, upstream_idle;
};

struct gw_conf {
	struct conf *ini; /* what it was made from; may be NULL */
	char *path;       /* configuration file, NULL: sidecar */
	bool sidecar;
	bool no_admin; /* no admin listener wanted */
	char *state_dir;
	char *static_agent; /* for jobs to fetch; NULL: found */
	char *user;         /* workers run as, when started as root */
	unsigned workers;   /* 0: one per usable core */
	char *domain;       /* for <id>--<port>.<domain>; NULL: any host
			     * whose first label has that form */
	enum label_order label_order;
	bool rewrite; /* Location and Set-Cookie under a prefix */
	enum host_policy host_policy;
	bool forward_bearer;
	char **upgrades;          /* allowed besides websocket, NULL-ended */
	struct addr_net *trusted; /* peers whose X-Forwarded-* is kept */
	size_t ntrusted;

	struct gw_listen *listens;
	size_t nlistens;
	struct gw_cert *certs; /* additional, by SNI */
	size_t ncerts;
	bool tls12;
	uint64_t ticket_rotate_ms;

	struct gw_sandbox_conf *sandboxes; /* sidecar: one named "" */
	size_t nsandboxes;

	struct gw_tunnel *tunnels;
	size_t ntunnels;

	char *operator_token; /* secret: opens everything */
	char *operator_name;  /* who that is for the API; NULL: operator */
	char *token_file;     /* user tokens, hashed */
	char *hub;            /* origin whose /api/whoami-v2 verifies */
	char *hub_ca;
	uint64_t hub_ttl_ms, hub_negative_ttl_ms;

	bool agent;       /* start the embedded agent */
	char *agent_path; /* NULL: beside our own executable, PATH */
	char *agent_ns;
	char *agent_homes;
	struct outside agent_outside; /* what its sandboxes are told of */

	struct gw_launch launch;
	struct gw_jobs jobs;
	struct gw_podflare podflare;
	struct gw_snapshots snapshots; /* dir is ini's */
	struct gw_coreweave coreweave;

	struct gw_limits limits;
	struct gw_timeouts t;

	int log_level; /* enum log_level */
	char *log_file;
	bool log_json;
	enum access_format access;
	char *access_file; /* NULL: standard output */
};

/* Reads a configuration file. *msg (malloc'ed) names file, line, key and
 * reason on failure. Files it names (tokens) are read too. */
int gwconf_load(const char *path, struct gw_conf **out,
		char **msg) SBX_MUST_CHECK;
/* The defaults, for sidecar use; main.c puts flags on top, then
 * gwconf_finish() checks the whole. */
struct gw_conf *gwconf_new(void);
int gwconf_finish(struct gw_conf *c, char **msg) SBX_MUST_CHECK;
int gwconf_add_listen(struct gw_conf *c, struct strv text,
		      char **msg) SBX_MUST_CHECK;
bool gwconf_same_addr(const struct addr *a, const struct addr *b);
/* "1024-65535,80" */
int gwconf_parse_ports(struct strv s, struct port_range *r,
		       size_t *n) SBX_MUST_CHECK;
bool gwconf_port_allowed(const struct gw_sandbox_conf *s, uint16_t port);
/* NULL: there is none of that name. */
const struct gw_tunnel *gwconf_tunnel(const struct gw_conf *c,
				      const char *name);
void gwconf_free(struct gw_conf *c); /* wipes the secrets */
void gwconf_dump(const struct gw_conf *c, struct strbuf *out);
extern const struct conf_spec gwconf_spec;

#endif
