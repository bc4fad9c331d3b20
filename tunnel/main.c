/* SPDX-License-Identifier: Apache-2.0 */
/* sbx-tunnel: reads the command line and runs one tunnel. */
#include "config.h"

#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/loop.h"
#include "tunnel/cli.h"
#include "tunnel/handoff.h"
#include "tunnel/options.h"
#include "tunnel/session.h"
#include "tunnel/status.h"
#include "tunnel/tunnel.h"

#define EXIT_SSH 255

static void
main_signal(int signo, void *arg)
{
	(void)signo;
	tunnel_stop(arg);
}

static int
main_run(const struct options *o, struct status *st)
{
	struct loop *l = loop_new();
	struct tunnel *t = tunnel_new(l, o, st);
	int code;

	loop_on_signal(l, SIGTERM, main_signal, t);
	loop_on_signal(l, SIGINT, main_signal, t);
	loop_on_signal(l, SIGHUP, main_signal, t);
	tunnel_start(t);
	loop_run(l);
	code = tunnel_exit_code(t);
	tunnel_free(t);
	loop_free(l);
	return code;
}

static void
main_user(struct options *o)
{
	struct passwd *pw;

	if (o->user != NULL)
		return;
	pw = getpwuid(getuid());
	if (pw == NULL) {
		fprintf(stderr, "No user exists for uid %u\n",
			(unsigned)getuid());
		exit(EXIT_SSH);
	}
	o->user = xstrdup(pw->pw_name);
}

static void
main_log(const struct cli *c)
{
	struct log_options lo = {.level = LOG_ERROR, .program = "sbx-tunnel"};

	if (c->verbose > 0 || c->o.log >= OPT_LOG_DEBUG)
		lo.level = c->verbose > 1 ? LOG_TRACE : LOG_DEBUG;
	(void)!log_setup(&lo);
}

static int
main_tunnel(struct cli *c)
{
	struct status *st;
	int code;

	options_finish(&c->o);
	main_log(c);
	main_user(&c->o);
	if (status_open(NULL, c->status_fd, c->status_path, &st) != 0) {
		fprintf(stderr, "sbx-tunnel: cannot write status lines\n");
		return EXIT_SSH;
	}
	code = main_run(&c->o, st);
	status_free(st);
	return code;
}

int
main(int argc, char **argv)
{
	struct cli c;
	int code = 0;

	signal(SIGPIPE, SIG_IGN);
#ifndef SBX_SANITIZE /* the leak check traces its own process */
	(void)prctl(PR_SET_DUMPABLE, 0); /* keys are in this memory */
#endif
	switch (cli_parse(argc, argv, &c)) {
	case CLI_RUN:
		(void)fd_raise_limit(65536);
		code = main_tunnel(&c);
		break;
	case CLI_CHECK:
		break;
	case CLI_VERSION:
		printf("sbx-tunnel %s (%s)\n", PACKAGE_VERSION,
		       session_library());
		break;
	case CLI_HELP:
		fputs(cli_usage(), stderr);
		code = EXIT_SSH;
		break;
	case CLI_HANDOFF:
		handoff_ssh(argv);
		fprintf(stderr,
			"sbx-tunnel: this needs a real ssh, and there is none "
			"in PATH (a tunnel is -N with -L or -R)\n");
		code = EXIT_SSH;
		break;
	case CLI_ERROR:
		fprintf(stderr, "%s\n", c.why);
		code = EXIT_SSH;
		break;
	}
	cli_clear(&c);
	return code;
}
