/* SPDX-License-Identifier: Apache-2.0 */
/* The command line and the environment, put on top of the configuration. */
#include "config.h"

#include "gateway/options.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "gateway/gwconf_sec.h"

const char options_usage[] =
    "usage: sbx-gateway [-c FILE] [options]\n"
    "       sbx-gateway token add NAME [--namespace N] [--role R]\n"
    "       sbx-gateway token list | revoke NAME   [-c FILE | --state-dir D]\n"
    "\n"
    "Without -c it is a sidecar for one sandbox, in the foreground:\n"
    "  SBX_TOKEN=... SBX_PROXY_DIR=/run/app \\\n"
    "      sbx-gateway --listen https://127.0.0.1:8443\n"
    "\n"
    "  -c, --config FILE      configuration (sbx-gateway.conf(5))\n"
    "  -t, --test             check the configuration and exit\n"
    "      --dump-config      print the whole configuration and exit\n"
    "      --listen URL       https://HOST:PORT, http://HOST:PORT, "
    "unix:/PATH;\n"
    "                         repeatable; port 0: any free one\n"
    "      --cert FILE        certificate chain (else a self-signed one is "
    "made)\n"
    "      --key FILE         its private key, if not in the same file\n"
    "      --workers N        worker processes (one for each core)\n"
    "      --tcp-ports LIST   loopback ports that may be reached, "
    "1024-65535,80\n"
    "                         or none (sidecar: 1024-65535)\n"
    "      --proxy-dir DIR    where servers put PORT.sock (SBX_PROXY_DIR)\n"
    "      --state-dir DIR    for certificate, tokens and sockets\n"
    "      --user NAME        user of the workers when started as root\n"
    "      --domain NAME      <id>--<port>.NAME leads into sandboxes\n"
    "      --admin ADDRESS    unix:/PATH, http://HOST:PORT or off\n"
    "      --log-level LEVEL  error, warn, info, debug, trace\n"
    "  -v                     debug; -vv: trace\n"
    "      --access-log FILE  a line for each request; -: standard output;\n"
    "                         off: none\n"
    "      --access-format F  json, combined or off\n"
    "      --agent            start the embedded agent; --no-agent: do not\n"
    "      --single-process   one worker, within this process, as it is\n"
    "  -V, --version\n"
    "  -h, --help\n"
    "\n"
    "Environment: SBX_TOKEN or SBX_TOKEN_FILE (the secret that clients send "
    "as\n"
    "X-Sandbox-Token), SBX_PROXY_DIR.\n";

enum {
	O_DUMP = 256,
	O_LISTEN,
	O_CERT,
	O_KEY,
	O_WORKERS,
	O_TCP,
	O_PROXY_DIR,
	O_STATE_DIR,
	O_USER,
	O_DOMAIN,
	O_ADMIN,
	O_LOG_LEVEL,
	O_ACCESS_LOG,
	O_ACCESS_FORMAT,
	O_AGENT,
	O_NO_AGENT,
	O_SINGLE
};

static const struct option longopts[] = {
    {"config", required_argument, NULL, 'c'},
    {"test", no_argument, NULL, 't'},
    {"dump-config", no_argument, NULL, O_DUMP},
    {"listen", required_argument, NULL, O_LISTEN},
    {"cert", required_argument, NULL, O_CERT},
    {"key", required_argument, NULL, O_KEY},
    {"workers", required_argument, NULL, O_WORKERS},
    {"tcp-ports", required_argument, NULL, O_TCP},
    {"proxy-dir", required_argument, NULL, O_PROXY_DIR},
    {"state-dir", required_argument, NULL, O_STATE_DIR},
    {"user", required_argument, NULL, O_USER},
    {"domain", required_argument, NULL, O_DOMAIN},
    {"admin", required_argument, NULL, O_ADMIN},
    {"log-level", required_argument, NULL, O_LOG_LEVEL},
    {"access-log", required_argument, NULL, O_ACCESS_LOG},
    {"access-format", required_argument, NULL, O_ACCESS_FORMAT},
    {"agent", no_argument, NULL, O_AGENT},
    {"no-agent", no_argument, NULL, O_NO_AGENT},
    {"single-process", no_argument, NULL, O_SINGLE},
    {"version", no_argument, NULL, 'V'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0}};

void
options_env(struct options *o)
{
	char *s = getenv("SBX_TOKEN");

	if (s != NULL) {
		if (s[0] != '\0')
			o->token = xstrdup(s);
		mem_secure_zero(s, strlen(s));
		(void)unsetenv("SBX_TOKEN");
	}
	s = getenv("SBX_TOKEN_FILE");
	o->token_file = s != NULL && s[0] != '\0' ? xstrdup(s) : NULL;
	s = getenv("SBX_PROXY_DIR");
	o->env_proxy_dir = s != NULL && s[0] != '\0' ? xstrdup(s) : NULL;
	o->agent = -1;
}

void
options_clear(struct options *o)
{
	mem_free_secret(o->token);
	free(o->token_file);
	free(o->env_proxy_dir);
	memset(o, 0, sizeof(*o));
}

/* Where the value of an option goes; NULL: it has none. */
static const char **
string_of(struct options *o, int c)
{
	switch (c) {
	case 'c':
		return &o->conf_path;
	case O_CERT:
		return &o->cert;
	case O_KEY:
		return &o->key;
	case O_WORKERS:
		return &o->workers;
	case O_TCP:
		return &o->tcp_ports;
	case O_PROXY_DIR:
		return &o->proxy_dir;
	case O_STATE_DIR:
		return &o->state_dir;
	case O_USER:
		return &o->user;
	case O_DOMAIN:
		return &o->domain;
	case O_ADMIN:
		return &o->admin;
	case O_LOG_LEVEL:
		return &o->log_level;
	case O_ACCESS_LOG:
		return &o->access_log;
	case O_ACCESS_FORMAT:
		return &o->access_format;
	}
	return NULL;
}

static int
take_flag(struct options *o, int c, char **msg)
{
	switch (c) {
	case 't':
		o->action = OPT_CHECK;
		break;
	case O_DUMP:
		o->action = OPT_DUMP;
		break;
	case 'V':
		o->action = OPT_VERSION;
		break;
	case 'h':
		o->action = OPT_HELP;
		break;
	case 'v':
		o->verbose++;
		break;
	case O_AGENT:
	case O_NO_AGENT:
		o->agent = c == O_AGENT;
		break;
	case O_SINGLE:
		o->single = true;
		break;
	case O_LISTEN:
		if (o->nlistens == OPTIONS_LISTENS) {
			*msg = xstrdup("too many --listen");
			return E_INVALID;
		}
		o->listens[o->nlistens++] = optarg;
		break;
	default: /* getopt has said what */
		*msg = xstrdup("see sbx-gateway --help");
		return E_INVALID;
	}
	return 0;
}

int
options_parse(struct options *o, int argc, char **argv, char **msg)
{
	const char **s;
	int c, r;

	optind = 1;
	while ((c = getopt_long(argc, argv, "c:tvVh", longopts, NULL)) != -1) {
		if ((s = string_of(o, c)) != NULL)
			*s = optarg;
		else if ((r = take_flag(o, c, msg)) != 0)
			return r;
	}
	if (optind < argc) {
		*msg = xasprintf("%s: unexpected; see sbx-gateway --help",
				 argv[optind]);
		return E_INVALID;
	}
	return 0;
}

static void
set_string(char **to, const char *value)
{
	if (value == NULL)
		return;
	free(*to);
	*to = value[0] != '\0' ? xstrdup(value) : NULL;
}

static int
bad(char **msg, const char *flag, const char *value, const char *why)
{
	*msg = xasprintf("%s %s: %s", flag, value, why);
	return E_INVALID;
}

static int
put_ports(const struct options *o, struct gw_sandbox_conf *s, char **msg)
{
	const char *ports = o->tcp_ports != NULL ? o->tcp_ports : "1024-65535";

	s->ntcp = 0;
	if (strcmp(ports, "none") == 0)
		return 0;
	if (gwconf_parse_ports(strv_of(ports), s->tcp, &s->ntcp) != 0)
		return bad(msg, "--tcp-ports", ports,
			   "must be ports and ranges (1024-65535,80) or none");
	return 0;
}

/* The one sandbox of a sidecar. */
static int
put_sidecar(const struct options *o, struct gw_conf *c, char **msg)
{
	const char *dir =
	    o->proxy_dir != NULL ? o->proxy_dir : o->env_proxy_dir;
	struct gw_sandbox_conf *s;
	int r;

	/* With an agent and nothing else there is no sandbox but its own. */
	if (c->agent && o->token == NULL && o->token_file == NULL)
		return 0;
	c->sandboxes = xcalloc(1, sizeof(*s));
	c->nsandboxes = 1;
	s = &c->sandboxes[0];
	s->name = xstrdup("");
	s->proxy_uid = -1;
	s->host_policy = c->host_policy;
	s->proxy_dir = dir != NULL ? xstrdup(dir) : NULL;
	if (o->token != NULL) {
		s->token = xstrdup(o->token);
	} else if (o->token_file != NULL &&
		   (r = file_read_secret(o->token_file, &s->token)) != 0) {
		*msg = xasprintf("SBX_TOKEN_FILE: %s: %s", o->token_file,
				 err_text(r));
		return r;
	}
	/* A sidecar in front of somebody's server is asked for ports, and must
	 * not run commands for who may reach them. */
	if (!c->agent)
		c->jobs.enabled = false;
	/* Whoever started it has one secret, and is its operator. */
	if (c->operator_token == NULL && s->token != NULL)
		c->operator_token = xstrdup(s->token);
	return put_ports(o, s, msg);
}

static int
put_listens(const struct options *o, struct gw_conf *c, char **msg)
{
	size_t k = 0;
	int r;

	if (o->nlistens != 0) { /* instead of those in the file */
		for (size_t i = 0; i < c->nlistens; i++) {
			if (c->listens[i].admin)
				c->listens[k++] = c->listens[i];
			else
				gwconf_clear_listen(&c->listens[i]);
		}
		c->nlistens = k;
	}
	for (size_t i = 0; i < o->nlistens; i++)
		if ((r = gwconf_add_listen(c, strv_of(o->listens[i]), msg)) !=
		    0)
			return r;
	if (o->key != NULL && o->cert == NULL)
		return bad(msg, "--key", o->key, "needs --cert");
	for (size_t i = 0; i < c->nlistens; i++) {
		if (!c->listens[i].tls || o->cert == NULL)
			continue;
		set_string(&c->listens[i].cert, o->cert);
		set_string(&c->listens[i].key, o->key != NULL ? o->key : "");
	}
	return 0;
}

static int
put_log(const struct options *o, struct gw_conf *c, char **msg)
{
	static const char *const formats[] = {"off", "json", "combined"};
	enum log_level level;
	size_t f;

	if (o->log_level != NULL) {
		if (log_level_parse(strv_of(o->log_level), &level) != 0)
			return bad(msg, "--log-level", o->log_level,
				   "must be error, warn, info, debug or trace");
		c->log_level = (int)level;
	}
	if (o->verbose != 0)
		c->log_level = o->verbose == 1 ? LOG_DEBUG : LOG_TRACE;
	if (o->access_log != NULL && strcmp(o->access_log, "off") == 0) {
		c->access = ACCESS_OFF;
	} else if (o->access_log != NULL) {
		set_string(&c->access_file, strcmp(o->access_log, "-") == 0
						? ""
						: o->access_log);
		if (c->access == ACCESS_OFF)
			c->access = ACCESS_JSON;
	}
	if (o->access_format != NULL) {
		for (f = 0; f < ARRAY_LEN(formats); f++)
			if (strcmp(o->access_format, formats[f]) == 0)
				break;
		if (f == ARRAY_LEN(formats))
			return bad(msg, "--access-format", o->access_format,
				   "must be json, combined or off");
		c->access = (enum access_format)f;
	}
	return 0;
}

static int
put_flags(const struct options *o, struct gw_conf *c, char **msg)
{
	const struct conf_at at = {NULL, NULL, "--admin"};
	uint64_t n;
	int r;

	set_string(&c->state_dir, o->state_dir);
	set_string(&c->user, o->user);
	set_string(&c->domain, o->domain);
	if (o->agent != -1)
		c->agent = o->agent == 1;
	if (o->workers != NULL) {
		if (strv_parse_u64(strv_of(o->workers), 256, true, &n) != 0)
			return bad(msg, "--workers", o->workers,
				   "must be a number up to 256");
		c->workers = (unsigned)n;
	}
	if ((r = put_listens(o, c, msg)) != 0 ||
	    (r = gwconf_set_admin(c, o->admin, &at, msg)) != 0)
		return r;
	return put_log(o, c, msg);
}

int
options_conf(const struct options *o, struct gw_conf **out, char **msg)
{
	struct gw_conf *c = NULL;
	int r = 0;

	if (o->conf_path == NULL)
		c = gwconf_new();
	else if ((r = gwconf_load(o->conf_path, &c, msg)) != 0)
		return r;
	r = put_flags(o, c, msg);
	if (r == 0 && c->sidecar)
		r = put_sidecar(o, c, msg);
	else if (r == 0 && (o->proxy_dir != NULL || o->tcp_ports != NULL))
		r = bad(msg,
			o->proxy_dir != NULL ? "--proxy-dir" : "--tcp-ports",
			"", "goes into a [sandbox NAME] section of the file");
	if (r == 0)
		r = gwconf_finish(c, msg);
	if (r != 0)
		gwconf_free(c);
	else
		*out = c;
	return r;
}
