/* SPDX-License-Identifier: Apache-2.0 */
/* The gateway's configuration: defaults, every kind of error with its place,
 * checks over several keys, and that a dump means what it was made from. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "gateway/gwconf.h"

struct fixture {
	char dir[64];
	char path[96];
	char secret[96];
};

static int
setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));

	strcpy(f->dir, "/tmp/sbx-gwconf-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	snprintf(f->path, sizeof(f->path), "%s/gw.conf", f->dir);
	snprintf(f->secret, sizeof(f->secret), "%s/secret", f->dir);
	assert_int_equal(
	    file_write_atomic(f->secret, "s3cret-value\n", 13, 0600), 0);
	*state = f;
	return 0;
}

static int
teardown(void **state)
{
	struct fixture *f = *state;

	(void)unlink(f->path);
	(void)unlink(f->secret);
	(void)rmdir(f->dir);
	free(f);
	return 0;
}

/* Loads text in which every '@' stands for the secret's path. */
static int
load(struct fixture *f, const char *text, struct gw_conf **c, char **msg)
{
	struct strbuf b = {0};
	int r;

	for (; *text != '\0'; text++) {
		if (*text == '@')
			strbuf_adds(&b, f->secret);
		else
			strbuf_addc(&b, *text);
	}
	assert_int_equal(file_write_atomic(f->path, b.s, b.len, 0600), 0);
	strbuf_clear(&b);
	if ((r = gwconf_load(f->path, c, msg)) != 0)
		return r;
	if ((r = gwconf_finish(*c, msg)) != 0)
		gwconf_free(*c);
	return r;
}

#define LISTEN "[listen a]\naddress = http://127.0.0.1:0\n"

static void
defaults(void **state)
{
	struct gw_conf *c;
	char *msg = NULL;

	assert_int_equal(load(*state, LISTEN, &c, &msg), 0);
	assert_string_equal(c->state_dir, "/var/lib/sbx");
	assert_string_equal(c->token_file, "/var/lib/sbx/tokens");
	assert_int_equal(c->nlistens, 2); /* and the admin socket */
	assert_true(c->listens[1].admin);
	assert_string_equal(c->listens[1].text, "unix:/var/lib/sbx/admin.sock");
	assert_int_equal(c->listens[1].mode, 0600);
	assert_int_equal(c->t.head, 10000);
	assert_int_equal(c->t.idle, 75000);
	assert_int_equal(c->t.tunnel_idle, 3600000);
	assert_int_equal(c->t.upstream_idle, 4000);
	assert_int_equal(c->limits.conns, 16384);
	assert_int_equal(c->limits.buffer, 65536);
	assert_int_equal(c->limits.body, 0);
	assert_int_equal(c->access, ACCESS_JSON);
	assert_false(c->agent);
	assert_true(c->rewrite);
	assert_true(c->tls12);
	gwconf_free(c);
}

static void
sandboxes(void **state)
{
	struct gw_conf *c;
	char *msg = NULL;
	const struct gw_sandbox_conf *s;

	assert_int_equal(load(*state,
			      "[gateway]\nhost_policy = localhost\n" LISTEN
			      "[sandbox web-1]\ntoken_file = @\n"
			      "proxy_dir = /run/x\ntcp_ports = 1024-2000, 80\n"
			      "proxy_uid = any\n"
			      "[sandbox b]\nagent = tcp:box:8000\n"
			      "agent_token_file = @\nhost_policy = forward\n",
			      &c, &msg),
			 0);
	s = &c->sandboxes[0];
	assert_string_equal(s->name, "web-1");
	assert_string_equal(s->token, "s3cret-value");
	assert_int_equal(s->proxy_uid, -2);
	assert_int_equal(s->host_policy, HOST_LOCALHOST);
	assert_true(gwconf_port_allowed(s, 80));
	assert_true(gwconf_port_allowed(s, 1024));
	assert_true(gwconf_port_allowed(s, 2000));
	assert_false(gwconf_port_allowed(s, 2001));
	assert_false(gwconf_port_allowed(s, 81));
	s = &c->sandboxes[1];
	assert_int_equal(s->host_policy, HOST_FORWARD);
	assert_string_equal(s->agent_token, "s3cret-value");
	assert_int_equal(s->ntcp, 0);
	gwconf_free(c);
}

#define TUNNEL                                                                 \
	"host = h\nkey = @\nfingerprint = "                                    \
	"SHA256:0123456789012345678901234567890123456789012\n"

static void
tunnels(void **state)
{
	struct gw_conf *c;
	char *msg = NULL;
	const struct gw_tunnel *t;

	assert_int_equal(load(*state,
			      LISTEN "[tunnel gpu-1]\n" TUNNEL
				     "port = 2222\nuser = me\n"
				     "agent = [::1]:49983\n"
				     "agent_token_file = @\n"
				     "outside = A http://localhost:8080/v1\n"
				     "outside = B https://x\nkeepalive = 3s\n"
				     "[agent]\noutside = C http://y/z\n",
			      &c, &msg),
			 0);
	t = gwconf_tunnel(c, "gpu-1");
	assert_non_null(t);
	assert_null(gwconf_tunnel(c, "gpu"));
	assert_int_equal(t->port, 2222);
	assert_string_equal(t->agent_host, "::1");
	assert_int_equal(t->agent_port, 49983);
	assert_string_equal(t->agent_token, "s3cret-value");
	assert_int_equal(t->alive_ms, 3000);
	assert_true(t->reclaim);
	assert_int_equal(t->outside.nends, 2);
	assert_int_equal(t->outside.forwards[0].far, 8080);
	assert_int_equal(t->outside.forwards[1].far, 20000);
	assert_int_equal(c->agent_outside.nends, 1);
	gwconf_free(c);
}

/* text, and what its message must have: place and reason. */
static const struct {
	const char *text, *has;
} errors[] = {
    {"", "nowhere to listen"},
    {"[listen a]\naddress = http://127.0.0.1:1\n[jobs]\nenabled = no\n"
     "[coreweave]\nenabled = yes\n",
     ":6: enabled: needs jobs"},
    {"[listen a]\n", ":0: address: is missing"},
    {"[listen a]\naddress = ftp://x:1\n", ":2: address: must be https://"},
    {"[listen a]\naddress = http://somewhere:1\n", ":2: address: "},
    {"[listen a]\naddress = unix:/p\nmode = 999\n", ":3: mode: must be octal"},
    {"[listen a]\naddress = http://127.0.0.1:1\ncert = /x\n",
     ":3: cert: only for https"},
    {"[listen a]\naddress = https://127.0.0.1:1\nkey = /x\n",
     ":3: key: needs a cert"},
    {"[listen a]\naddress = https://127.0.0.1:1\nredirect = https://x\n",
     ":3: redirect: only for http"},
    {"[listen a]\naddress = http://127.0.0.1:1\nredirect = http://x\n",
     ":3: redirect: must begin with https://"},
    {"[listen a]\naddress = http://127.0.0.1:1\n"
     "[listen b]\naddress = http://127.0.0.1:1\n",
     "is there twice"},
    {LISTEN "[sandbox Web]\ntcp_ports = 80\n", "[sandbox Web] NAME: must be"},
    {LISTEN "[sandbox a--b]\ntcp_ports = 80\n", "NAME: must be"},
    {LISTEN "[sandbox a]\ntoken_file = @\n", "needs proxy_dir, tcp_ports"},
    {LISTEN "[sandbox a]\nproxy_dir = run\n", ":4: proxy_dir: must be an abs"},
    {LISTEN "[sandbox a]\ntcp_ports = 0\n", ":4: tcp_ports: "},
    {LISTEN "[sandbox a]\ntcp_ports = 70000\n", ":4: tcp_ports: "},
    {LISTEN "[sandbox a]\ntcp_ports = 20-10\n", ":4: tcp_ports: "},
    {LISTEN "[sandbox a]\ntcp_ports = 1,,2\n", ":4: tcp_ports: "},
    {LISTEN "[sandbox a]\nproxy_uid = root\nproxy_dir = /x\n",
     ":4: proxy_uid: must be owner"},
    {LISTEN "[sandbox a]\nagent = box\n", ":4: agent: must be unix:"},
    {LISTEN "[sandbox a]\ntcp_ports = 1\ntoken_file = /no/such\n",
     ":5: token_file: /no/such: "},
    {LISTEN "[gateway]\ntrusted_proxy = 10.0.0.0/99\n",
     ":4: trusted_proxy: 10.0.0.0/99 is not"},
    {LISTEN "[gateway]\nupgrade = h2c\n", ":4: upgrade: h2c is never"},
    {LISTEN "[gateway]\ndomain = Box.example\n", ":4: domain: "},
    {LISTEN "[gateway]\nstate_dir = x\n", ":4: state_dir: must be"},
    {LISTEN "[timeouts]\nwait = 10s\nwait_max = 5s\n",
     ":4: wait: is more than wait_max"},
    {LISTEN "[timeouts]\nhead = 1ms\n", ":4: head: "},
    {LISTEN "[limits]\nbuffer = 1K\n", ":4: buffer: "},
    {LISTEN "[auth]\nhub = ftp://x\n", ":4: hub: must begin"},
    {LISTEN "[admin]\nlisten = https://127.0.0.1:1\n", ":4: listen: must be"},
    {LISTEN "[log]\naccess = apache\n", ":4: access: "},
    {LISTEN "[tunnel Gpu]\n" TUNNEL "agent = h:1\n", "NAME: must be 1-48"},
    {LISTEN "[tunnel embedded]\n" TUNNEL "agent = h:1\n",
     "is the embedded agent's name"},
    {LISTEN "[sandbox a]\ntcp_ports = 1\n[tunnel a]\n" TUNNEL "agent = h:1\n",
     "is a sandbox's name, too"},
    {LISTEN "[tunnel a]\nkey = @\n", "host: is missing"},
    {LISTEN "[tunnel a]\nhost = -oProxyCommand=x\n", ":4: host: must be"},
    {LISTEN "[tunnel a]\nhost = a@b\n", ":4: host: must be a host name"},
    {LISTEN "[tunnel a]\nhost = h\nport = 0\n", ":5: port: "},
    {LISTEN "[tunnel a]\nhost = h\nuser = -x\n", ":5: user: is not a user"},
    {LISTEN "[tunnel a]\nhost = h\n", "key: is missing"},
    {LISTEN "[tunnel a]\nhost = h\nkey = id\n", ":5: key: must be an abs"},
    {LISTEN "[tunnel a]\nhost = h\nkey = /no/such\n",
     ":5: key: /no/such cannot be read"},
    {LISTEN "[tunnel a]\nhost = h\nkey = @\n",
     "known_hosts: it or fingerprint must"},
    {LISTEN "[tunnel a]\nhost = h\nkey = @\nknown_hosts = /a b\n",
     ":6: known_hosts: must be an absolute path without"},
    {LISTEN "[tunnel a]\nhost = h\nkey = @\nfingerprint = MD5:00\n",
     ":6: fingerprint: must be SHA256"},
    {LISTEN "[tunnel a]\n" TUNNEL, "agent: a tunnel needs agent or outside"},
    {LISTEN "[tunnel a]\nagent = 49983\n", ":4: agent: must be HOST:PORT"},
    {LISTEN "[tunnel a]\n" TUNNEL "agent_token_file = @\n"
	    "outside = A http://x\n",
     ":7: agent_token_file: needs an agent"},
    {LISTEN "[tunnel a]\noutside = A ftp://x\n",
     ":4: outside: A ftp://x: must begin with http"},
    {LISTEN "[agent]\noutside = SBX_A http://x\n",
     ":4: outside: SBX_A http://x: names that begin with SBX_"},
    {LISTEN "[nope]\n", ":3: "},
    {LISTEN "nope = 1\n", ":3: nope: "},
};

static void
mistakes(void **state)
{
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_LEN(errors); i++) {
		struct gw_conf *c;
		char *msg = NULL;
		int r = load(f, errors[i].text, &c, &msg);

		if (r == 0)
			fail_msg("accepted: %s", errors[i].text);
		assert_non_null(msg);
		if (strstr(msg, errors[i].has) == NULL &&
		    strncmp(errors[i].has, ":0: ", 4) != 0)
			fail_msg("%s: %s", errors[i].text, msg);
		if (strncmp(errors[i].has, ":0: ", 4) == 0)
			assert_non_null(strstr(msg, errors[i].has + 4));
		assert_non_null(strstr(msg, f->path));
		assert_null(strstr(msg, "s3cret"));
		free(msg);
	}
}

static void
dump_is_the_same(void **state)
{
	static const char text[] =
	    "[gateway]\nworkers = 3\ndomain = box.example\nlabel_order = both\n"
	    "rewrite = no\nupgrade = tcp\ntrusted_proxy = 10.0.0.0/8\n" LISTEN
	    "[listen s]\naddress = https://[::1]:0\ncert = /c\nkey = /k\n"
	    "[listen u]\naddress = unix:/run/u.sock\nmode = 0600\n"
	    "[certificate x]\ncert = /x\n"
	    "[sandbox a]\ntoken_file = @\ntcp_ports = 80,1024-2000\n"
	    "proxy_uid = 1000\nproxy_dir = /run/a\nnamespace = n\n"
	    "[auth]\nhub = https://hub.example\noperator_token_file = @\n"
	    "[agent]\nenabled = yes\nnamespace = team\n"
	    "outside = M http://localhost:1/v1\n"
	    "[tunnel g]\n" TUNNEL "agent = 127.0.0.1:49983\n"
	    "agent_token_file = @\nnamespace = n\nkeepalive = 1500ms\n"
	    "outside = A http://a\noutside = B https://b/c?d\nreclaim = no\n"
	    "[limits]\nbody = 1G\n[timeouts]\nconnect = 1500ms\n"
	    "[log]\nlevel = debug\naccess = combined\n[admin]\nlisten = off\n";
	struct fixture *f = *state;
	struct strbuf one = {0}, two = {0};
	struct gw_conf *c;
	char *msg = NULL;

	assert_int_equal(load(f, text, &c, &msg), 0);
	gwconf_dump(c, &one);
	gwconf_free(c);
	assert_null(strstr(one.s, "s3cret"));
	assert_int_equal(load(f, one.s, &c, &msg), 0);
	assert_int_equal(c->t.connect, 1500);
	assert_int_equal(c->limits.body, 1 << 30);
	assert_int_equal(c->sandboxes[0].proxy_uid, 1000);
	assert_true(c->no_admin);
	assert_int_equal(c->listens[1].tls, 1);
	gwconf_dump(c, &two);
	gwconf_free(c);
	assert_string_equal(one.s, two.s);
	strbuf_clear(&one);
	strbuf_clear(&two);
}

static void
sidecar(void **state)
{
	struct gw_conf *c = gwconf_new();
	char *msg = NULL;

	(void)state;
	assert_true(c->sidecar);
	assert_int_equal(c->access, ACCESS_OFF);
	assert_int_equal(
	    gwconf_add_listen(c, STRV("https://localhost:8443/"), &msg), 0);
	assert_int_equal(gwconf_add_listen(c, STRV("localhost:1"), &msg),
			 E_INVALID);
	free(msg);
	setenv("XDG_STATE_HOME", "/tmp/xdg", 1);
	assert_int_equal(gwconf_finish(c, &msg), 0);
	assert_string_equal(c->state_dir, "/tmp/xdg/sbx");
	assert_true(c->listens[0].tls);
	assert_int_equal(addr_port(&c->listens[0].addr), 8443);
	gwconf_free(c);
}

static void
ports(void **state)
{
	struct port_range r[PORT_RANGES_MAX];
	size_t n = 99;

	(void)state;
	assert_int_equal(gwconf_parse_ports(STRV("80"), r, &n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(r[0].lo, 80);
	assert_int_equal(r[0].hi, 80);
	assert_int_equal(gwconf_parse_ports(STRV("1-65535"), r, &n), 0);
	assert_int_equal(r[0].hi, 65535);
	assert_int_equal(gwconf_parse_ports(STRV("080"), r, &n), E_INVALID);
	assert_int_equal(gwconf_parse_ports(STRV("-80"), r, &n), E_INVALID);
	assert_int_equal(gwconf_parse_ports(STRV("80-"), r, &n), E_INVALID);
	assert_int_equal(gwconf_parse_ports(STRV("1-2-3"), r, &n), E_INVALID);
	assert_int_equal(gwconf_parse_ports(STRV(""), r, &n), E_INVALID);
	assert_int_equal(
	    gwconf_parse_ports(
		STRV("1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17"), r, &n),
	    E_LIMIT);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(defaults, setup, teardown),
	    cmocka_unit_test_setup_teardown(sandboxes, setup, teardown),
	    cmocka_unit_test_setup_teardown(tunnels, setup, teardown),
	    cmocka_unit_test_setup_teardown(mistakes, setup, teardown),
	    cmocka_unit_test_setup_teardown(dump_is_the_same, setup, teardown),
	    cmocka_unit_test(sidecar),
	    cmocka_unit_test(ports),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
