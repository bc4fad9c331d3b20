/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sbx-gateway token add|list|revoke. It edits the file; a running gateway
 * notices by itself.
 */
#include "config.h"

#include "gateway/tokencmd.h"

#include <getopt.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "gateway/options.h"
#include "gateway/tokens.h"

struct command {
	struct options o;
	const char *ns, *role, *verb, *name;
};

static int
fail(char *msg)
{
	fprintf(stderr, "sbx-gateway: %s\n", msg);
	free(msg);
	return 1;
}

static int
usage(void)
{
	fputs("usage: sbx-gateway token add NAME [--namespace A,B] "
	      "[--role user|admin|readonly]\n"
	      "       sbx-gateway token list\n"
	      "       sbx-gateway token revoke NAME\n"
	      "                              [-c FILE | --state-dir DIR]\n",
	      stderr);
	return 2;
}

static int
parse(struct command *c, int argc, char **argv)
{
	static const struct option longopts[] = {
	    {"config", required_argument, NULL, 'c'},
	    {"state-dir", required_argument, NULL, 's'},
	    {"namespace", required_argument, NULL, 'n'},
	    {"role", required_argument, NULL, 'r'},
	    {NULL, 0, NULL, 0}};
	int opt;

	optind = 1;
	while ((opt = getopt_long(argc, argv, "c:", longopts, NULL)) != -1) {
		if (opt == 'c')
			c->o.conf_path = optarg;
		else if (opt == 's')
			c->o.state_dir = optarg;
		else if (opt == 'n')
			c->ns = optarg;
		else if (opt == 'r')
			c->role = optarg;
		else
			return E_INVALID;
	}
	if (optind < argc)
		c->verb = argv[optind++];
	if (optind < argc)
		c->name = argv[optind++];
	return optind < argc || c->verb == NULL ? E_INVALID : 0;
}

static int
list(const char *path)
{
	struct token_list l;
	char *msg = NULL, when[32];

	if (tokens_read(path, &l, &msg) != 0)
		return fail(msg);
	printf("%-20s %-20s %-9s %-20s %s\n", "NAME", "NAMESPACE", "ROLE",
	       "CREATED", "SHA256");
	for (size_t i = 0; i < l.n; i++) {
		time_t t = (time_t)l.v[i].created;
		struct tm tm;

		if (gmtime_r(&t, &tm) == NULL ||
		    strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm) ==
			0)
			when[0] = '\0';
		printf("%-20s %-20s %-9s %-20s %.12s...\n", l.v[i].name,
		       l.v[i].ns, l.v[i].role, when, l.v[i].hash);
	}
	tokens_clear(&l);
	return 0;
}

static int
add(const struct command *c, const char *path)
{
	char *dir = xstrdup(path), *token, *msg = NULL;
	int r;

	r = dir_make(dirname(dir), 0711);
	free(dir);
	if (r != 0)
		return fail(xasprintf("cannot make the directory of %s: %s",
				      path, err_text(r)));
	if (tokens_add(path, c->name, c->ns != NULL ? c->ns : c->name,
		       c->role != NULL ? c->role : "user", &token, &msg) != 0)
		return fail(msg);
	puts(token);
	mem_free_secret(token);
	fprintf(stderr, "Keep it: only its hash is stored. Clients send it as "
			"Authorization: Bearer.\n");
	return 0;
}

static int
revoke(const struct command *c, const char *path)
{
	char *msg = NULL;
	size_t n;

	if (tokens_revoke(path, c->name, &n, &msg) != 0)
		return fail(msg);
	if (n == 0)
		return fail(xasprintf("there is no token of %s", c->name));
	fprintf(stderr, "%zu revoked\n", n);
	return 0;
}

/* The file that the gateway with this configuration reads. */
static int
token_path(struct command *c, char **path, char **msg)
{
	struct gw_conf *conf;
	int r;

	/* What a sidecar must have does not matter here. */
	c->o.agent = -1;
	if (c->o.conf_path == NULL) {
		c->o.listens[0] = "http://127.0.0.1:0";
		c->o.nlistens = 1;
		c->o.token = xstrdup("unused");
		c->o.tcp_ports = "1";
	}
	if ((r = options_conf(&c->o, &conf, msg)) != 0)
		return r;
	*path = xstrdup(conf->token_file);
	gwconf_free(conf);
	return 0;
}

int
tokencmd_run(int argc, char **argv)
{
	struct command c = {0};
	char *path = NULL, *msg = NULL;
	int status;

	if (parse(&c, argc, argv) != 0)
		return usage();
	if (token_path(&c, &path, &msg) != 0)
		status = fail(msg);
	else if (strcmp(c.verb, "list") == 0 && c.name == NULL)
		status = list(path);
	else if (strcmp(c.verb, "add") == 0 && c.name != NULL)
		status = add(&c, path);
	else if (strcmp(c.verb, "revoke") == 0 && c.name != NULL)
		status = revoke(&c, path);
	else
		status = usage();
	free(path);
	options_clear(&c.o);
	return status;
}
