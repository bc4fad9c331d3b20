/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The key table of the gateway's configuration: every section and key with its
 * type, default, range and meaning. Parsing, checking, --dump-config and the
 * manual page are all made from it or tested against it.
 */
#include "config.h"

#include <stddef.h>

#include "gateway/gwconf_sec.h"

static const char *const label_orders[] = {"id-port", "port-id", "both", NULL};
static const char *const host_policies[] = {"forward", "localhost", NULL};
static const char *const access_formats[] = {"off", "json", "combined", NULL};
static const char *const networks[] = {"private", "host", NULL};
static const char *const isolations[] = {"required", "best-effort", NULL};
static const char *const log_levels[] = {"error", "warn",  "info",
					 "debug", "trace", NULL};

static const struct conf_section sections[] = {
    {"gateway", false, sizeof(struct sec_gateway), "The program as a whole."},
    {"listen", true, sizeof(struct sec_listen),
     "An address to listen on, as many sections as addresses."},
    {"certificate", true, sizeof(struct sec_cert),
     "A further certificate, chosen by the name that a client asks for."},
    {"sandbox", true, sizeof(struct sec_sandbox),
     "A sandbox that no agent told us of."},
    {"auth", false, sizeof(struct sec_auth), "Who may come in."},
    {"agent", false, sizeof(struct sec_agent), "The embedded agent."},
    {"tunnel", true, sizeof(struct sec_tunnel), "A remote machine by SSH."},
    {"local", false, sizeof(struct sec_local), "Jobs on this machine."},
    {"image", true, sizeof(struct sec_image),
     "What a container image's name stands for on this machine."},
    {"launcher", true, sizeof(struct sec_launcher),
     "Commands that start, watch and end jobs."},
    {"jobs", false, sizeof(struct sec_jobs), "Jobs: what runs, and how long."},
    {"flavor", true, sizeof(struct sec_flavor),
     "A size of machine that a job may ask for; the first is the default."},
    {"podflare", false, sizeof(struct gw_podflare),
     "The Podflare API: Python that remembers, and its forks."},
    {"snapshots", false, sizeof(struct gw_snapshots),
     "Archives of what jobs wrote."},
    {"coreweave", false, sizeof(struct gw_coreweave),
     "The CoreWeave sandbox service, on jobs."},
    {"limits", false, sizeof(struct gw_limits), "Upper bounds."},
    {"timeouts", false, sizeof(struct gw_timeouts), "Deadlines."},
    {"log", false, sizeof(struct sec_log), "What is written where."},
    {"admin", false, sizeof(struct sec_admin), "Health and metrics."},
    {0}};

#define KEY(sec, st, field, name, type, def, lo, hi, ch, help)                 \
	{                                                                      \
		sec, name, type, offsetof(struct st, field), def, lo, hi, ch,  \
		    help                                                       \
	}
#define G(f, n, t, d, lo, hi, ch, h)                                           \
	KEY("gateway", sec_gateway, f, n, t, d, lo, hi, ch, h)
#define L(f, n, t, d, h) KEY("listen", sec_listen, f, n, t, d, 0, 0, NULL, h)
#define C(f, n, h)                                                             \
	KEY("certificate", sec_cert, f, n, CONF_STRING, NULL, 0, 0, NULL, h)
#define S(f, n, t, d, ch, h)                                                   \
	KEY("sandbox", sec_sandbox, f, n, t, d, 0, 0, ch, h)
#define A(f, n, t, d, lo, hi, h)                                               \
	KEY("auth", sec_auth, f, n, t, d, lo, hi, NULL, h)
#define AG(f, n, t, d, h) KEY("agent", sec_agent, f, n, t, d, 0, 0, NULL, h)
#define TUN(f, n, t, d, lo, hi, h)                                             \
	KEY("tunnel", sec_tunnel, f, n, t, d, lo, hi, NULL, h)
#define LA(f, n, t, d, lo, hi, h)                                              \
	KEY("launcher", sec_launcher, f, n, t, d, lo, hi, NULL, h)
#define LO(f, t, d, lo, hi, ch, h)                                             \
	KEY("local", sec_local, f, #f, t, d, lo, hi, ch, h)
#define J(f, n, t, d, lo, hi, h)                                               \
	KEY("jobs", sec_jobs, f, n, t, d, lo, hi, NULL, h)
#define FL(f, n, t, d, lo, hi, h)                                              \
	KEY("flavor", sec_flavor, f, n, t, d, lo, hi, NULL, h)
#define POD(f, n, t, d, lo, hi, h)                                             \
	KEY("podflare", gw_podflare, f, n, t, d, lo, hi, NULL, h)
#define SN(f, t, d, lo, hi, h)                                                 \
	KEY("snapshots", gw_snapshots, f, #f, t, d, lo, hi, NULL, h)
#define CW(f, n, t, d, lo, hi, h)                                              \
	KEY("coreweave", gw_coreweave, f, n, t, d, lo, hi, NULL, h)
#define LIM(f, t, d, lo, hi, h)                                                \
	KEY("limits", gw_limits, f, #f, t, d, lo, hi, NULL, h)
#define T(f, d, lo, h)                                                         \
	KEY("timeouts", gw_timeouts, f, #f, CONF_DURATION, d, lo, DAY, NULL, h)
#define LOG(f, n, t, d, ch, h) KEY("log", sec_log, f, n, t, d, 0, 0, ch, h)

#define DAY    (24ULL * 3600 * 1000)
#define MAX_4G (4ULL << 30)

/* clang-format off */
static const struct conf_key keys[] = {
	G(user, "user", CONF_STRING, NULL, 0, 0, NULL,
	  "user of the workers when started as root (sbx if it exists, else nobody)"),
	G(workers, "workers", CONF_U64, "0", 0, 256, NULL,
	  "worker processes; 0: one for each usable core"),
	G(state_dir, "state_dir", CONF_STRING, NULL, 0, 0, NULL,
	  "directory for what the gateway keeps (/var/lib/sbx)"),
	G(static_agent, "static_agent", CONF_STRING, NULL, 0, 0, NULL,
	  "agent that jobs fetch (sbx-agent-static beside this program, or installed)"),
	G(domain, "domain", CONF_STRING, NULL, 0, 0, NULL,
	  "names <id>--<port>.DOMAIN lead into sandboxes; empty: any domain"),
	G(label_order, "label_order", CONF_ENUM, "id-port", 0, 0, label_orders,
	  "what stands first in such a name"),
	G(rewrite, "rewrite", CONF_BOOL, "yes", 0, 0, NULL,
	  "adapt Location and Set-Cookie paths to a stripped prefix"),
	G(host_policy, "host_policy", CONF_ENUM, "forward", 0, 0, host_policies,
	  "Host that inner servers see: the client's, or localhost:PORT"),
	G(forward_bearer, "forward_bearer", CONF_BOOL, "no", 0, 0, NULL,
	  "Authorization: Bearer is the inner server's, never ours"),
	G(upgrades, "upgrade", CONF_LIST, NULL, 0, 0, NULL,
	  "protocol that may be upgraded to besides websocket (repeatable)"),
	G(trusted, "trusted_proxy", CONF_LIST, NULL, 0, 0, NULL,
	  "peer (address or network) whose X-Forwarded fields are kept (repeatable)"),
	G(tls12, "tls12", CONF_BOOL, "yes", 0, 0, NULL,
	  "allow TLS 1.2 besides 1.3"),
	G(ticket_rotate_ms, "ticket_rotate", CONF_DURATION, "8h", 60000,
	  30 * DAY, NULL, "age at which the TLS session ticket key is replaced"),

	L(address, "address", CONF_STRING, NULL,
	  "https://HOST:PORT, http://HOST:PORT or unix:/PATH"),
	L(cert, "cert", CONF_STRING, NULL,
	  "PEM file with the certificate chain (self-signed one in state_dir)"),
	L(key, "key", CONF_STRING, NULL,
	  "PEM file with the private key (the file of cert)"),
	L(redirect, "redirect", CONF_STRING, NULL,
	  "http listeners: https origin that every request is sent on to"),
	L(mode, "mode", CONF_STRING, "0660",
	  "unix listeners: mode of the socket file, octal"),

	C(cert, "cert", "PEM file with the certificate chain"),
	C(key, "key", "PEM file with the private key (the file of cert)"),

	S(token_file, "token_file", CONF_STRING, NULL, NULL,
	  "file with the secret that X-Sandbox-Token must have"),
	S(proxy_dir, "proxy_dir", CONF_STRING, NULL, NULL,
	  "directory where servers put their sockets, PORT.sock"),
	S(proxy_uid, "proxy_uid", CONF_STRING, "owner", NULL,
	  "uid that those sockets must belong to; owner: the directory's; any"),
	S(tcp_ports, "tcp_ports", CONF_STRING, NULL, NULL,
	  "ports on 127.0.0.1 and ::1 that may be reached: 1024-65535,80"),
	S(ns, "namespace", CONF_STRING, NULL, NULL,
	  "namespace whose user tokens open it too"),
	S(host_policy, "host_policy", CONF_ENUM, "forward", host_policies,
	  "as in [gateway], whose value is the default"),
	S(forward_bearer, "forward_bearer", CONF_BOOL, "no", NULL,
	  "as in [gateway], whose value is the default"),
	S(agent, "agent", CONF_STRING, NULL, NULL,
	  "address of an agent for its other /v1 requests: unix:/PATH or tcp:HOST:PORT"),
	S(agent_token_file, "agent_token_file", CONF_STRING, NULL, NULL,
	  "file with the secret that this agent wants"),

	A(operator_token_file, "operator_token_file", CONF_STRING, NULL, 0, 0,
	  "file with the operator's secret, which opens everything"),
	A(operator_name, "operator_name", CONF_STRING, NULL, 0, 0,
	  "name and namespace of the operator in the API (operator)"),
	A(token_file, "token_file", CONF_STRING, NULL, 0, 0,
	  "hashes of user tokens, see sbx-gateway token (STATE_DIR/tokens)"),
	A(hub, "hub", CONF_STRING, NULL, 0, 0,
	  "origin whose /api/whoami-v2 says whose a user token is"),
	A(hub_ca, "hub_ca", CONF_STRING, NULL, 0, 0,
	  "PEM file with the roots to verify that origin by (the system's)"),
	A(hub_ttl_ms, "hub_ttl", CONF_DURATION, "5m", 1000, DAY,
	  "how long a verified token is believed"),
	A(hub_negative_ttl_ms, "hub_negative_ttl", CONF_DURATION, "30s", 1000,
	  DAY, "how long a refused token stays refused"),

	AG(enabled, "enabled", CONF_BOOL, "no",
	  "start sbx-agent in host mode and watch over it"),
	AG(path, "path", CONF_STRING, NULL,
	  "its program (sbx-agent beside this one, else in PATH)"),
	AG(ns, "namespace", CONF_STRING, NULL,
	  "namespace of its sandboxes"),
	AG(homes, "homes", CONF_STRING, NULL,
	  "where its sandboxes live (STATE_DIR/homes)"),
	AG(outside, "outside", CONF_LIST, NULL,
	  "NAME URL: what its sandboxes find in their environment (repeatable)"),

	TUN(host, "host", CONF_STRING, NULL, 0, 0,
	  "the SSH server: a name or an address"),
	TUN(port, "port", CONF_U64, "22", 1, 65535, "its port"),
	TUN(user, "user", CONF_STRING, "root", 0, 0, "whom to log in as"),
	TUN(key, "key", CONF_STRING, NULL, 0, 0, "file with the private key"),
	TUN(passphrase_file, "passphrase_file", CONF_STRING, NULL, 0, 0,
	  "file with the passphrase of that key"),
	TUN(known_hosts, "known_hosts", CONF_STRING, NULL, 0, 0,
	  "file with the server's host key, as ssh keeps it"),
	TUN(fingerprint, "fingerprint", CONF_STRING, NULL, 0, 0,
	  "SHA256:... of the server's host key, instead of known_hosts"),
	TUN(agent, "agent", CONF_STRING, NULL, 0, 0,
	  "HOST:PORT of the agent there, as seen from there"),
	TUN(agent_token_file, "agent_token_file", CONF_STRING, NULL, 0, 0,
	  "file with the secret that this agent wants"),
	TUN(ns, "namespace", CONF_STRING, NULL, 0, 0,
	  "namespace of its sandboxes"),
	TUN(outside, "outside", CONF_LIST, NULL, 0, 0,
	  "NAME URL: an endpoint here that sandboxes there may call (repeatable)"),
	TUN(alive_ms, "keepalive", CONF_DURATION, "15s", 1000, 3600000,
	  "the server is asked so often whether it is there; twice unanswered: down"),
	TUN(reclaim, "reclaim", CONF_BOOL, "yes", 0, 0,
	  "after a reconnect end our own lost session there, which holds our ports"),

	LO(agent, CONF_STRING, NULL, 0, 0, NULL,
	   "the program that jobs run (sbx-agent beside this one, else in PATH)"),
	LO(cgroup, CONF_STRING, NULL, 0, 0, NULL,
	   "directory (cgroup v2, ours alone) for the limits of flavors (none)"),
	LO(network, CONF_ENUM, "private", 0, 0, networks,
	   "a network of its own for each job, or this machine's"),
	LO(outbound, CONF_STRING, "auto", 0, 0, NULL,
	   "connects private networks: pasta or slirp4netns, by path; auto; none"),
	LO(isolation, CONF_ENUM, "required", 0, 0, isolations,
	   "of the sandboxes of one job; best-effort takes what there is"),
	LO(expose, CONF_LIST, NULL, 0, 0, NULL,
	   "directory that jobs without an image see, read-only (repeatable)"),
	LO(outside, CONF_LIST, NULL, 0, 0, NULL,
	   "NAME URL: an endpoint on this machine that jobs may call (repeatable)"),
	LO(uid_base, CONF_U64, "1879048192", 65536, 4294901760ULL, NULL,
	   "first of the user and group ids that jobs run under"),
	LO(uid_jobs, CONF_U64, "4096", 1, 32768, NULL,
	   "65536 ids are set aside for each of so many jobs"),
	LO(parallel, CONF_U64, "8", 1, 1000, NULL,
	   "jobs being started at the same time; others wait"),

	KEY("image", sec_image, rootfs, "rootfs", CONF_STRING, NULL, 0, 0,
	    NULL, "directory with its files, which stay as they are"),

	LA(start, "start", CONF_STRING, NULL, 0, 0,
	   "command that starts a job and returns"),
	LA(status, "status", CONF_STRING, NULL, 0, 0,
	   "command that prints what has become of it"),
	LA(stop, "stop", CONF_STRING, NULL, 0, 0, "command that ends it"),
	LA(remove, "remove", CONF_STRING, NULL, 0, 0,
	   "command that is run when it has ended"),
	LA(agent, "agent", CONF_STRING, NULL, 0, 0,
	   "where its agent listens, unless it registers"),
	LA(register_url, "register_url", CONF_STRING, NULL, 0, 0,
	   "https://HOST:PORT of this gateway for jobs that register"),
	LA(addresses, "addresses", CONF_LIST, NULL, 0, 0,
	   "address or network that jobs may register (repeatable)"),
	LA(timeout_ms, "timeout", CONF_DURATION, "60s", 100, DAY,
	   "for each of these commands"),
	LA(poll_ms, "poll", CONF_DURATION, "5s", 100, DAY,
	   "longest pause between two looks at the status"),

	J(enabled, "enabled", CONF_BOOL, "yes", 0, 0,
	  "serve the Jobs API, /api/jobs"),
	J(launcher, "launcher", CONF_STRING, "local", 0, 0,
	  "what starts jobs: local, or the NAME of a [launcher]"),
	J(max_jobs, "max_jobs", CONF_U64, "1000", 1, 100000,
	  "jobs at once"),
	J(max_per_namespace, "max_per_namespace", CONF_U64, "0", 0, 100000,
	  "of them, in one namespace; 0: no bound"),
	J(max_streams, "max_streams", CONF_U64, "1000", 1, 100000,
	  "logs and events that are followed, and waits, at once"),
	J(retention_ms, "retention", CONF_DURATION, "7d", 1000, 3650 * DAY,
	  "how long a job that has ended stays listed, with its log"),
	J(retention_max, "retention_max", CONF_U64, "1000", 1, 1000000,
	  "jobs of a namespace that have ended; the oldest go first"),
	J(default_timeout_ms, "default_timeout", CONF_DURATION, "24h", 0,
	  366 * DAY, "for jobs that name none; 0: none"),
	J(max_timeout_ms, "max_timeout", CONF_DURATION, "0", 0, 366 * DAY,
	  "longer ones are cut to this; 0: no bound"),
	J(grace_ms, "stop_grace", CONF_DURATION, "10s", 0, 3600 * 1000,
	  "between TERM and KILL when a job is canceled"),
	J(log_max, "log_max", CONF_SIZE, "64M", 65536, 1ULL << 40,
	  "of a job's log on disk; beyond it the oldest part goes"),

	FL(cpus, "cpus", CONF_STRING, NULL, 0, 0,
	  "cores, like 2 or 0.5 (no bound)"),
	FL(memory, "memory", CONF_SIZE, "0", 0, 0,
	  "memory; 0: no bound"),
	FL(pids, "pids", CONF_U64, "0", 0, 4194304,
	  "processes and threads; 0: no bound"),

	POD(enabled, "enabled", CONF_BOOL, "no", 0, 0,
	  "serve the Podflare API below /podflare, by the embedded agent"),
	POD(values, "show_values", CONF_BOOL, "yes", 0, 0,
	  "print the value of the last expression, as an interactive Python does"),
	POD(idle_ms, "idle_timeout", CONF_DURATION, "30m", 0, 366 * DAY,
	  "a sandbox that nobody uses for so long ends; 0: none does"),
	POD(max_sandboxes, "max_sandboxes", CONF_U64, "200", 1, 100000,
	  "sandboxes at once; forks share the one of their parent"),
	POD(max_per_namespace, "max_per_namespace", CONF_U64, "0", 0, 100000,
	  "of them, in one namespace; 0: no bound"),

	SN(dir, CONF_STRING, NULL, 0, 0,
	   "directory for them, ours alone (STATE_DIR/snapshots)"),
	SN(max_bytes, CONF_SIZE, "64G", 1, 1ULL << 50,
	   "of files in one of them, holes not counted"),
	SN(max_files, CONF_U64, "2000000", 1, 100000000,
	   "files and directories in one of them"),
	SN(max_count, CONF_U64, "100", 1, 100000,
	   "snapshots of one namespace"),
	SN(concurrent, CONF_U64, "2", 1, 64,
	   "being written at the same time; others wait"),

	CW(enabled, "enabled", CONF_BOOL, "no", 0, 0,
	  "serve coreweave.sandbox.v1.SandboxService, as REST and Connect"),

	LIM(conns, CONF_U64, "16384", 1, 1000000,
	  "connections per worker"),
	LIM(conns_per_ip, CONF_U64, "4096", 0, 1000000,
	  "connections per worker from one address; 0: no bound"),
	LIM(conns_per_sandbox, CONF_U64, "4096", 0, 1000000,
	  "requests and tunnels per worker into one sandbox; 0: no bound"),
	LIM(handshakes_per_s, CONF_U64, "0", 0, 1000000,
	  "TLS handshakes per worker and second; 0: no bound"),
	LIM(retired, CONF_U64, "16", 1, 1000,
	  "older configurations whose workers may go on serving what is open"),
	LIM(body, CONF_SIZE, "0", 0, 0,
	  "largest request body; 0: no bound"),
	LIM(body_rate, CONF_SIZE, "0", 0, 1U << 30,
	  "least bytes a second of a request body, once it took [timeouts] body; 0: any"),
	LIM(buffer, CONF_SIZE, "64K", 32768, 16777216,
	  "bytes held for each direction of a connection"),

	T(head, "10s", 100, "from the first byte of a request head to its end"),
	T(idle, "75s", 100, "between two requests of a connection"),
	T(handshake, "10s", 100, "TLS handshake, and the first byte after it"),
	T(body, "60s", 100, "longest pause within a request body"),
	T(write, "60s", 100, "longest time one side takes nothing of what waits for it"),
	T(connect, "5s", 10, "one attempt to connect to an inner server"),
	T(wait, "2s", 0, "how long a port that nobody listens on is waited for"),
	T(wait_max, "60s", 0, "most that ?wait= may ask for"),
	T(job_start, "4s", 0, "how long requests to a job that starts wait for it"),
	T(response, "0", 0, "from a request's end to the beginning of the response; 0: none"),
	T(tunnel_idle, "1h", 1000, "upgraded connection without a byte either way"),
	T(drain, "30s", 0, "for open requests and tunnels when the gateway ends"),
	T(linger, "2s", 0, "for a last answer to reach a client that still sends"),
	T(upstream_idle, "4s", 0, "idle connection to an inner server is kept"),

	LOG(level, "level", CONF_ENUM, "info", log_levels, "how much"),
	LOG(file, "file", CONF_STRING, NULL, NULL, "log file (standard error)"),
	LOG(json, "json", CONF_BOOL, "no", NULL, "JSON lines instead of key=value"),
	LOG(access, "access", CONF_ENUM, "json", access_formats,
	  "a line for each request, in this format"),
	LOG(access_file, "access_file", CONF_STRING, NULL, NULL,
	  "file for these lines (standard output)"),

	KEY("admin", sec_admin, listen, "listen", CONF_STRING, NULL, 0, 0, NULL,
	  "unix:/PATH or http://HOST:PORT (unix:STATE_DIR/admin.sock); off: none"),
	{0}
};
/* clang-format on */

const struct conf_spec gwconf_spec = {sections, keys};
