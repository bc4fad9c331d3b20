/* SPDX-License-Identifier: Apache-2.0 */
/* sbx-tunnel: reads the command line, runs one tunnel or a file of them. */
#include "config.h"

#include <signal.h>
#include <stdbool.h>
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
#include "tunnel/many.h"
#include "tunnel/expand.h"
#include "tunnel/options.h"
#include "tunnel/session.h"
#include "tunnel/sshconfig.h"
#include "tunnel/status.h"
#include "tunnel/tunnel.h"

#define EXIT_SSH   255
#define CONFIG_MAX (1024 * 1024)

static void
main_signal(int signo, void *arg)
{
	(void)signo;
	tunnel_stop(arg);
}

/* It ends already: a second signal must not change its exit status. */
static void
main_deaf(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
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
	main_deaf();
	code = tunnel_exit_code(t);
	tunnel_free(t);
	loop_free(l);
	return code;
}

static void
main_user(struct options *o)
{
	if (o->user == NULL && (o->user = expand_own_name()) == NULL) {
		fprintf(stderr, "No user exists for uid %u\n",
			(unsigned)getuid());
		exit(EXIT_SSH);
	}
}

static void
main_log(const struct cli *c)
{
	struct log_options lo = {.level = LOG_ERROR, .program = "sbx-tunnel"};

	if (c->verbose > 0 || c->o.log >= OPT_LOG_DEBUG)
		lo.level = c->verbose > 1 ? LOG_TRACE : LOG_DEBUG;
	(void)!log_setup(&lo);
}

/* -F, with what the command line has said before it. */
static int
main_config(const char *path, struct options *o)
{
	char *text, *why = NULL;
	size_t len;
	int r;

	if (path == NULL || strcmp(path, "none") == 0)
		return 0;
	if ((r = file_read(path, CONFIG_MAX, &text, &len)) != 0) {
		fprintf(stderr, "Can't open user config file %s: %s\n", path,
			err_text(r));
		return r;
	}
	r = sshconfig_apply(path, (struct strv){text, len}, o, &why);
	if (r != 0)
		fprintf(stderr, "%s\n", why);
	free(why);
	free(text);
	return r;
}

static int
main_tunnel(struct cli *c, const char *name)
{
	struct status *st;
	int code;

	options_finish(&c->o);
	main_log(c);
	main_user(&c->o);
	if (status_open(name, c->status_fd, c->status_path, &st) != 0) {
		fprintf(stderr, "sbx-tunnel: cannot write status lines\n");
		return EXIT_SSH;
	}
	code = main_run(&c->o, st);
	status_free(st);
	return code;
}

static int
main_one(struct cli *c, bool check)
{
	if (main_config(c->ssh_config, &c->o) != 0)
		return EXIT_SSH;
	if (check)
		return 0;
	return main_tunnel(c, NULL);
}

/* --config: every host that the file names is a tunnel. */
struct tunnels {
	struct cli *c;
	struct options_list hosts;
	struct options *o;
};

static int
main_child(size_t i, void *arg)
{
	struct tunnels *ts = arg;
	struct cli c = *ts->c;

	c.o = ts->o[i];
	c.o.forever = true;
	return main_tunnel(&c, ts->hosts.v[i]);
}

static int
main_load(struct tunnels *ts)
{
	for (size_t i = 0; i < ts->hosts.n; i++) {
		options_init(&ts->o[i]);
		ts->o[i].host = xstrdup(ts->hosts.v[i]);
		if (main_config(ts->c->config_path, &ts->o[i]) != 0)
			return EXIT_SSH;
		if (ts->o[i].nforwards == 0) {
			fprintf(stderr, "%s: host %s has no forwards\n",
				ts->c->config_path, ts->hosts.v[i]);
			return EXIT_SSH;
		}
	}
	return 0;
}

static int
main_many(struct cli *c, bool check)
{
	struct tunnels ts = {.c = c};
	char *text;
	size_t len;
	int code, r;

	if ((r = file_read(c->config_path, CONFIG_MAX, &text, &len)) != 0) {
		fprintf(stderr, "%s: %s\n", c->config_path, err_text(r));
		return EXIT_SSH;
	}
	sshconfig_hosts((struct strv){text, len}, &ts.hosts);
	free(text);
	ts.o = xcalloc(ts.hosts.n + 1, sizeof(*ts.o));
	if (ts.hosts.n == 0) {
		fprintf(stderr, "%s: no Host is named\n", c->config_path);
		code = EXIT_SSH;
	} else if ((code = main_load(&ts)) == 0 && !check) {
		many_run(ts.hosts.n, main_child, &ts);
		code = EXIT_SSH;
	}
	for (size_t i = 0; i < ts.hosts.n; i++) {
		options_clear(&ts.o[i]);
		free(ts.hosts.v[i]);
	}
	free(ts.hosts.v);
	free(ts.o);
	return code;
}

static int
main_start(struct cli *c, bool check)
{
	(void)fd_raise_limit(65536);
	return c->config_path != NULL ? main_many(c, check)
				      : main_one(c, check);
}

#ifdef SBX_SANITIZE
/* libssh2 1.11.1 loses some 50 bytes at each rekey.
 * LeakSanitizer need not say so each time. */
const char *__lsan_default_suppressions(void);
const char *
__lsan_default_suppressions(void)
{
	return "leak:curve25519_sha256\nleak:kex_method_\n";
}
#endif

int
main(int argc, char **argv)
{
	struct cli c;
	enum cli_action action;
	int code = 0;

	signal(SIGPIPE, SIG_IGN);
#ifndef SBX_SANITIZE /* the leak check traces its own process */
	(void)prctl(PR_SET_DUMPABLE, 0); /* keys are in this memory */
#endif
	action = cli_parse(argc, argv, &c);
	switch (action) {
	case CLI_RUN:
	case CLI_CHECK:
		code = main_start(&c, action == CLI_CHECK);
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
