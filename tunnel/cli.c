/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ssh's command line. What a tunnel needs is done here; what it does not
 * (a command, a shell, agents, X11, SOCKS, multiplexing) is for the real ssh.
 */
#include "config.h"

#include "tunnel/cli.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "tunnel/spec.h"

/* As ssh has it; '+' ends at the host, ':' leaves the messages to us. */
#define CLI_FLAGS                                                              \
	"+:1246ab:c:e:fgi:kl:m:no:p:qstvxAB:CD:E:F:GI:J:KL:MNO:PQ:R:S:TVw:"    \
	"W:XYy"

enum {
	L_STATUS_FD = 256,
	L_STATUS,
	L_CONFIG,
	L_FINGERPRINT,
	L_PASSPHRASE,
	L_RETRY,
	L_RECLAIM,
	L_CONNECTIONS,
	L_VERSION,
	L_HELP
};

static const struct option cli_long[] = {
    {"status-fd", required_argument, NULL, L_STATUS_FD},
    {"status", required_argument, NULL, L_STATUS},
    {"config", required_argument, NULL, L_CONFIG},
    {"fingerprint", required_argument, NULL, L_FINGERPRINT},
    {"passphrase-file", required_argument, NULL, L_PASSPHRASE},
    {"retry", no_argument, NULL, L_RETRY},
    {"reclaim", no_argument, NULL, L_RECLAIM},
    {"connections", required_argument, NULL, L_CONNECTIONS},
    {"version", no_argument, NULL, L_VERSION},
    {"help", no_argument, NULL, L_HELP},
    {NULL, 0, NULL, 0}};

const char *
cli_usage(void)
{
	return "usage: sbx-tunnel [-46gNnqTv] [-p port] [-l user] [-i key] "
	       "[-o option=value]\n"
	       "                  [-F file] [-L spec] [-R spec] "
	       "[--status-fd N | --status FILE]\n"
	       "                  [--fingerprint SHA256:...] "
	       "[--passphrase-file FILE] [--retry]\n"
	       "                  [--reclaim] [--connections N] [user@]host\n"
	       "       sbx-tunnel --config FILE   a tunnel for each host in "
	       "it\n"
	       "       sbx-tunnel -t ...      check and exit\n";
}

struct parse {
	struct cli *c;
	bool no_command; /* -N */
	bool check;
	bool other; /* something only ssh does */
	const char *host;
	enum cli_action done; /* CLI_RUN: go on */
};

static void
parse_error(struct parse *p, char *why)
{
	p->done = CLI_ERROR;
	if (p->c->why == NULL)
		p->c->why = why;
	else
		free(why);
}

static void
parse_set(struct parse *p, const char *name, const char *value)
{
	char *why = NULL;
	int r = options_set(&p->c->o, name, value, &why);

	if (r == E_UNSUPPORTED || r == 0)
		free(why);
	else
		parse_error(p, why);
}

static void
parse_option(struct parse *p, const char *text)
{
	char *why = NULL;
	int r = options_set_text(&p->c->o, text, &why);

	if (r == E_NOTFOUND) {
		parse_error(p, xasprintf("command-line: line 0: %s", why));
		free(why);
	} else if (r == 0 || r == E_UNSUPPORTED) {
		free(why);
	} else if (strstr(why, "is not done here") != NULL && p->c->as_ssh) {
		p->other = true;
		free(why);
	} else {
		parse_error(p, why);
	}
}

static void
parse_forward(struct parse *p, int kind, const char *text)
{
	char *why = NULL;

	if (options_forward(&p->c->o, kind, text, &why) != 0)
		parse_error(p, why);
}

static void
parse_long(struct parse *p, int opt, const char *arg)
{
	uint64_t fd;

	switch (opt) {
	case L_STATUS_FD:
		if (strv_parse_u64(strv_of(arg), 65535, true, &fd) != 0)
			parse_error(p, xasprintf("bad descriptor: %s", arg));
		else
			p->c->status_fd = (int)fd;
		break;
	case L_STATUS:
		p->c->status_path = arg;
		break;
	case L_CONFIG:
		p->c->config_path = arg;
		break;
	case L_FINGERPRINT:
		parse_set(p, "SbxFingerprint", arg);
		break;
	case L_PASSPHRASE:
		parse_set(p, "SbxPassphraseFile", arg);
		break;
	case L_RETRY:
		parse_set(p, "SbxRetryFirst", "yes");
		break;
	case L_RECLAIM:
		parse_set(p, "SbxReclaim", "yes");
		break;
	case L_CONNECTIONS:
		parse_set(p, "SbxConnections", arg);
		break;
	case L_VERSION:
		p->done = CLI_VERSION;
		break;
	case L_HELP:
		p->done = CLI_HELP;
		break;
	}
}

/* Flags without an argument. */
static void
parse_flag(struct parse *p, int opt)
{
	switch (opt) {
	case '4':
		parse_set(p, "AddressFamily", "inet");
		break;
	case '6':
		parse_set(p, "AddressFamily", "inet6");
		break;
	case 'g':
		parse_set(p, "GatewayPorts", "yes");
		break;
	case 'N':
		p->no_command = true;
		break;
	case 'q':
		parse_set(p, "LogLevel", "QUIET");
		break;
	case 'v':
		p->c->verbose++;
		break;
	case 't':
		p->check = !p->c->as_ssh;
		p->other = p->other || p->c->as_ssh;
		break;
	case 'V':
		p->done = p->c->as_ssh ? CLI_HANDOFF : CLI_VERSION;
		break;
	case '2':
	case 'C':
	case 'T':
	case 'a':
	case 'k':
	case 'n':
	case 'x':
	case 'y':
		break; /* nothing to a tunnel */
	default:
		p->other = true;
	}
}

static void
parse_one(struct parse *p, int opt, const char *arg, char **argv)
{
	switch (opt) {
	case ':':
		parse_error(p, xasprintf("option requires an argument: %s",
					 argv[optind - 1]));
		break;
	case '?':
		parse_error(p,
			    xasprintf("unknown option: %s", argv[optind - 1]));
		break;
	case 'i':
		parse_set(p, "IdentityFile", arg);
		break;
	case 'l':
		parse_set(p, "User", arg);
		break;
	case 'p':
		parse_set(p, "Port", arg);
		break;
	case 'o':
		parse_option(p, arg);
		break;
	case 'c':
		parse_set(p, "Ciphers", arg);
		break;
	case 'm':
		parse_set(p, "MACs", arg);
		break;
	case 'F':
		p->c->ssh_config = arg;
		break;
	case 'L':
		parse_forward(p, SPEC_LOCAL, arg);
		break;
	case 'R':
		parse_forward(p, SPEC_REMOTE, arg);
		break;
	default:
		if (opt >= 256)
			parse_long(p, opt, arg);
		else
			parse_flag(p, opt);
	}
}

/* [user@]host, or ssh://[user@]host[:port]. */
static void
parse_host(struct parse *p)
{
	struct options *o = &p->c->o;
	const char *s = p->host, *at;
	char *user, *colon, *end;
	bool url = strncmp(s, "ssh://", 6) == 0;

	if (url)
		s += 6;
	if ((at = strrchr(s, '@')) != NULL) {
		user = xstrndup(s, (size_t)(at - s));
		parse_set(p, "User", user);
		free(user);
		s = at + 1;
	}
	o->host = xstrdup(s);
	if (!url)
		return;
	if ((end = strchr(o->host, '/')) != NULL)
		*end = '\0';
	colon = strrchr(o->host, ':');
	if (colon != NULL && strchr(colon, ']') == NULL) {
		*colon = '\0';
		parse_set(p, "Port", colon + 1);
	}
	if (o->host[0] == '[' && (end = strchr(o->host, ']')) != NULL) {
		*end = '\0';
		memmove(o->host, o->host + 1, strlen(o->host));
	}
}

static bool
called_ssh(const char *argv0)
{
	const char *slash = strrchr(argv0, '/');

	return strcmp(slash != NULL ? slash + 1 : argv0, "ssh") == 0;
}

static enum cli_action
parse_result(struct parse *p, bool command)
{
	struct cli *c = p->c;
	bool forwards;

	if (p->done == CLI_VERSION || p->done == CLI_HELP ||
	    p->done == CLI_HANDOFF)
		return p->done;
	if (p->other || command || (c->as_ssh && !p->no_command))
		return CLI_HANDOFF;
	if (p->done == CLI_ERROR)
		return CLI_ERROR;
	if (c->config_path != NULL)
		return p->check ? CLI_CHECK : CLI_RUN;
	if (p->host == NULL || *c->o.host == '\0')
		return CLI_HELP;
	forwards = c->o.nforwards > 0 || c->ssh_config != NULL;
	if (!forwards && !p->no_command)
		return CLI_HANDOFF;
	return p->check ? CLI_CHECK : CLI_RUN;
}

enum cli_action
cli_parse(int argc, char **argv, struct cli *c)
{
	struct parse p = {.c = c, .done = CLI_RUN};
	bool command = false;
	int opt;

	memset(c, 0, sizeof(*c));
	c->status_fd = -1;
	c->as_ssh = called_ssh(argv[0]);
	options_init(&c->o);
	opterr = 0;
	for (optind = 1; optind < argc;) {
		opt = getopt_long(argc, argv, CLI_FLAGS, cli_long, NULL);
		if (opt != -1) {
			parse_one(&p, opt, optarg, argv);
		} else if (p.host == NULL && optind < argc) {
			p.host = argv[optind++]; /* flags may follow it */
		} else {
			break;
		}
	}
	command = optind < argc;
	if (p.host != NULL)
		parse_host(&p);
	return parse_result(&p, command);
}

void
cli_clear(struct cli *c)
{
	options_clear(&c->o);
	free(c->why);
	c->why = NULL;
}
