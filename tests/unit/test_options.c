/* SPDX-License-Identifier: Apache-2.0 */
/* ssh_config words, and ssh's command line. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "tunnel/cli.h"
#include "tunnel/expand.h"
#include "tunnel/options.h"
#include "tunnel/spec.h"

static int
set(struct options *o, const char *text)
{
	char *why = NULL;
	int r = options_set_text(o, text, &why);

	assert_true((r == 0) == (why == NULL));
	free(why);
	return r;
}

/* What the harness's SshTunnel passes. */
static void
test_harness(void **state)
{
	struct options o;

	(void)state;
	options_init(&o);
	assert_int_equal(set(&o, "StrictHostKeyChecking=no"), 0);
	assert_int_equal(set(&o, "UserKnownHostsFile=/dev/null"), 0);
	assert_int_equal(set(&o, "ServerAliveInterval=30"), 0);
	assert_int_equal(set(&o, "ServerAliveCountMax=20"), 0);
	assert_int_equal(set(&o, "ConnectTimeout=15"), 0);
	assert_int_equal(set(&o, "ExitOnForwardFailure=yes"), 0);
	assert_int_equal(set(&o, "LogLevel=ERROR"), 0);
	options_finish(&o);
	assert_int_equal(o.strict, STRICT_NO);
	assert_int_equal(o.known_hosts.n, 1);
	assert_string_equal(o.known_hosts.v[0], "/dev/null");
	assert_int_equal(o.alive_interval, 30);
	assert_int_equal(o.alive_max, 20);
	assert_int_equal(o.connect_timeout, 15);
	assert_true(o.exit_on_failure);
	assert_int_equal(o.log, OPT_LOG_ERROR);
	options_clear(&o);
}

static void
test_defaults(void **state)
{
	struct options o;

	(void)state;
	options_init(&o);
	options_finish(&o);
	assert_int_equal(options_port(&o), 22);
	assert_int_equal(o.alive_interval, 15);
	assert_int_equal(o.alive_max, 2);
	assert_int_equal(o.backoff_cap, 30000);
	assert_int_equal(o.strict, STRICT_ASK);
	assert_false(o.exit_on_failure);
	options_clear(&o);
}

static void
test_words(void **state)
{
	struct options o;

	(void)state;
	options_init(&o);
	assert_int_equal(set(&o, "port 2222"), 0);
	assert_int_equal(set(&o, "PORT = 22"), 0); /* the first one wins */
	assert_int_equal(set(&o, "User \"a b\""), 0);
	assert_int_equal(set(&o, "serveraliveinterval=1m"), 0);
	assert_int_equal(set(&o, "LocalForward 80 h:81"), 0);
	assert_int_equal(set(&o, "RemoteForward=/x /y"), 0);
	assert_int_equal(set(&o, "ForwardX11=yes"), E_UNSUPPORTED);
	assert_int_equal(set(&o, "ProxyCommand=none"), 0);
	assert_int_equal(set(&o, "ProxyCommand=nc h 1"), E_INVALID);
	assert_int_equal(set(&o, "NoSuch=1"), E_NOTFOUND);
	assert_int_equal(set(&o, "Port=65536"), E_INVALID);
	assert_int_equal(set(&o, "Port="), E_INVALID);
	assert_int_equal(set(&o, "=1"), E_INVALID);
	assert_int_equal(set(&o, "BatchMode=maybe"), E_INVALID);
	assert_int_equal(set(&o, "StrictHostKeyChecking=perhaps"), E_INVALID);
	assert_int_equal(set(&o, "StreamLocalBindMask=0999"), E_INVALID);
	options_finish(&o);
	assert_int_equal(options_port(&o), 2222);
	assert_string_equal(o.user, "a b");
	assert_int_equal(o.alive_interval, 60);
	assert_int_equal(o.nforwards, 2);
	assert_string_equal(o.forwards[0]->target.host, "h");
	assert_string_equal(o.forwards[1]->target.path, "/y");
	options_clear(&o);
}

static void
test_expand(void **state)
{
	struct options o;
	char *s;

	(void)state;
	setenv("HOME", "/home/x", 1);
	options_init(&o);
	o.host = xstrdup("h");
	o.user = xstrdup("u");
	options_finish(&o);
	s = expand_path(&o, "~/.ssh/%r@%h:%p%%%q");
	assert_string_equal(s, "/home/x/.ssh/u@h:22%%q");
	free(s);
	options_clear(&o);
}

#define ARGS(...)                                                              \
	(char *[])                                                             \
	{                                                                      \
		__VA_ARGS__, NULL                                              \
	}

static enum cli_action
parse(struct cli *c, char **argv)
{
	int argc = 0;

	while (argv[argc] != NULL)
		argc++;
	return cli_parse(argc, argv, c);
}

#define N                                                                      \
	(char[])                                                               \
	{                                                                      \
		"-N"                                                           \
	}

static void
test_command_line(void **state)
{
	char ssh[] = "/x/ssh", me[] = "sbx-tunnel", r[] = "-R", l[] = "-L",
	     spec[] = "80:h:81", host[] = "u@h", p[] = "-p2222", t[] = "-t",
	     cmd[] = "ls", url[] = "ssh://u@[::1]:99", w[] = "-W",
	     bad[] = "-oNoSuch=1", d[] = "-D1080";
	struct cli c;

	(void)state;
	assert_int_equal(parse(&c, ARGS(me, l, spec, p, host)), CLI_RUN);
	assert_string_equal(c.o.host, "h");
	assert_string_equal(c.o.user, "u");
	assert_int_equal(c.o.port, 2222);
	cli_clear(&c);
	/* flags after the host, as ssh takes them */
	assert_int_equal(parse(&c, ARGS(ssh, N, host, r, spec, p)), CLI_RUN);
	assert_int_equal(c.o.nforwards, 1);
	assert_int_equal(c.o.port, 2222);
	cli_clear(&c);
	assert_int_equal(parse(&c, ARGS(me, t, l, spec, url)), CLI_CHECK);
	assert_string_equal(c.o.host, "::1");
	assert_int_equal(c.o.port, 99);
	cli_clear(&c);
	/* what is the real ssh's */
	assert_int_equal(parse(&c, ARGS(ssh, l, spec, host)), CLI_HANDOFF);
	cli_clear(&c);
	assert_int_equal(parse(&c, ARGS(me, host, cmd)), CLI_HANDOFF);
	cli_clear(&c);
	assert_int_equal(parse(&c, ARGS(me, host)), CLI_HANDOFF);
	cli_clear(&c);
	assert_int_equal(parse(&c, ARGS(ssh, N, w, spec, host)), CLI_HANDOFF);
	cli_clear(&c);
	assert_int_equal(parse(&c, ARGS(ssh, N, d, host)), CLI_HANDOFF);
	cli_clear(&c);
	/* errors */
	assert_int_equal(parse(&c, ARGS(me, N, bad, host)), CLI_ERROR);
	assert_non_null(c.why);
	cli_clear(&c);
	assert_int_equal(parse(&c, ARGS(me, N, host, l)), CLI_ERROR);
	cli_clear(&c);
	assert_int_equal(parse(&c, ARGS(me, N)), CLI_HELP);
	cli_clear(&c);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_harness),
	    cmocka_unit_test(test_defaults),
	    cmocka_unit_test(test_words),
	    cmocka_unit_test(test_expand),
	    cmocka_unit_test(test_command_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
