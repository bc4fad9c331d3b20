/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sbx-gateway: the way from the internet into a sandbox. Reads the command
 * line, then checks, prints, edits tokens, or serves.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "gateway/certs.h"
#include "gateway/gwconf.h"
#include "gateway/master.h"
#include "gateway/options.h"
#include "gateway/snapcmd.h"
#include "gateway/tokencmd.h"

static int
fail(char *msg)
{
	fprintf(stderr, "sbx-gateway: %s\n", msg);
	free(msg);
	return 1;
}

static int
load(struct gw_conf **out, char **msg, void *arg)
{
	return options_conf(arg, out, msg);
}

static int
check(const struct options *o)
{
	struct gw_conf *c = NULL;
	char *msg = NULL;
	int r;

	if ((r = options_conf(o, &c, &msg)) == 0)
		r = certs_check(c, &msg);
	if (r == 0)
		printf("%s: configuration is fine\n",
		       o->conf_path != NULL ? o->conf_path : "sbx-gateway");
	gwconf_free(c);
	return r == 0 ? 0 : fail(msg);
}

static int
dump(const struct options *o)
{
	struct strbuf b = {0};
	struct gw_conf *c;
	char *msg = NULL;

	if (options_conf(o, &c, &msg) != 0)
		return fail(msg);
	gwconf_dump(c, &b);
	fputs(b.s, stdout);
	strbuf_clear(&b);
	gwconf_free(c);
	return 0;
}

static int
run(struct options *o)
{
	struct master_options mo = {
	    .load = load, .arg = o, .single = o->single};

	switch (o->action) {
	case OPT_HELP:
		fputs(options_usage, stdout);
		return 0;
	case OPT_VERSION:
		printf("sbx-gateway %s\n", PACKAGE_VERSION);
		return 0;
	case OPT_CHECK:
		return check(o);
	case OPT_DUMP:
		return dump(o);
	case OPT_SERVE:
		break;
	}
	return master_run(&mo);
}

int
main(int argc, char **argv)
{
	const struct log_options lo = {.level = LOG_INFO,
				       .program = "sbx-gateway"};
	struct options o = {0};
	char *msg = NULL;
	int status;

	options_env(&o);
	/* Keys and tokens are in our memory: no core, no ptrace by others. */
	(void)prctl(PR_SET_DUMPABLE, 0);
	(void)umask(022);
	if (log_setup(&lo) != 0)
		return 1;
	if (argc > 1 && strcmp(argv[1], "token") == 0)
		status = tokencmd_run(argc - 1, argv + 1);
	else if (argc > 1 && snapcmd_is(argv[1]))
		status = snapcmd_run(argc - 1, argv + 1);
	else if (options_parse(&o, argc, argv, &msg) != 0)
		status = fail(msg) + 1;
	else
		status = run(&o);
	options_clear(&o);
	return status;
}
