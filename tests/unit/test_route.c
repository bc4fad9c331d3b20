/* SPDX-License-Identifier: Apache-2.0 */
/* The route table and the reading of targets. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/mem.h"
#include "gateway/gwconf.h"
#include "gateway/route.h"

#define HASH_A                                                                 \
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define HASH_B                                                                 \
	"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static struct gw_conf conf; /* no domain, id first */

static struct route_match
match(const char *host, const char *path)
{
	struct route_match m;

	route_match(&conf, strv_of(host), strv_of(path), &m);
	return m;
}

static void
is(struct strv v, const char *want)
{
	char *got = xstrndup(v.len > 0 ? v.p : "", v.len);

	assert_string_equal(got, want);
	free(got);
}

struct form {
	const char *host, *path;
	enum route_kind kind;
	const char *id;
	unsigned port;
	const char *prefix, *tail;
	const char *flags; /* n: by name, k: keep, s: no slash */
};

static const struct form forms[] = {
    {"h", "/health", ROUTE_HEALTH, "", 0, "", "", ""},
    {"h", "/health?x", ROUTE_HEALTH, "", 0, "", "", ""},
    {"h", "/health/x", ROUTE_NONE, "", 0, "", "", ""},
    {"h", "/healthy", ROUTE_NONE, "", 0, "", "", ""},
    {"h", "/", ROUTE_NONE, "", 0, "", "", ""},
    {"h", "*", ROUTE_NONE, "", 0, "", "", ""},
    {"h", "//v1/proxy/80/", ROUTE_NONE, "", 0, "", "", ""},
    {"h", "/V1/proxy/80/", ROUTE_NONE, "", 0, "", "", ""},
    {"h", "/api", ROUTE_API, "", 0, "", "", ""},
    {"h", "/api/jobs", ROUTE_API, "", 0, "", "", ""},
    {"h", "/apis", ROUTE_NONE, "", 0, "", "", ""},
    /* the agent's */
    {"h", "/v1", ROUTE_AGENT, "", 0, "", "/v1", ""},
    {"h", "/v1/", ROUTE_AGENT, "", 0, "", "/v1/", ""},
    {"h", "/v1/exec", ROUTE_AGENT, "", 0, "", "/v1/exec", ""},
    {"h", "/v1/files/read?path=/v1/proxy/80", ROUTE_AGENT, "", 0, "",
     "/v1/files/read?path=/v1/proxy/80", ""},
    {"h", "/v1/sandboxes", ROUTE_AGENT, "", 0, "", "/v1/sandboxes", ""},
    {"h", "/v1/sandboxes?x", ROUTE_AGENT, "", 0, "", "/v1/sandboxes?x", ""},
    {"h", "/v1/sandboxes/", ROUTE_AGENT, "", 0, "", "/v1/sandboxes/", ""},
    {"h", "/v1/sandboxes/?x", ROUTE_AGENT, "", 0, "", "/v1/sandboxes/?x", ""},
    {"h", "/v1/sandboxesx/a/proxy/80/", ROUTE_AGENT, "", 0, "",
     "/v1/sandboxesx/a/proxy/80/", ""},
    {"h", "/v1/sandboxes/ab-1", ROUTE_AGENT, "ab-1", 0, "",
     "/v1/sandboxes/ab-1", ""},
    {"h", "/v1/sandboxes/ab/exec?x", ROUTE_AGENT, "ab", 0, "",
     "/v1/sandboxes/ab/exec?x", ""},
    {"h", "/v1/sandboxes/ab/proxyx/80/", ROUTE_AGENT, "ab", 0, "",
     "/v1/sandboxes/ab/proxyx/80/", ""},
    /* ports */
    {"h", "/v1/proxy/80/", ROUTE_PORT, "", 80, "/v1/proxy/80", "/", ""},
    {"h", "/v1/proxy/80", ROUTE_PORT, "", 80, "/v1/proxy/80", "", "s"},
    {"h", "/v1/proxy/80?a=/b", ROUTE_PORT, "", 80, "/v1/proxy/80", "?a=/b",
     "s"},
    {"h", "/v1/proxy/1/a//b/../%2e%2E?q", ROUTE_PORT, "", 1, "/v1/proxy/1",
     "/a//b/../%2e%2E?q", ""},
    {"h", "/v1/absproxy/65535/x", ROUTE_PORT, "", 65535, "/v1/absproxy/65535",
     "/x", "k"},
    {"h", "/v1/sandboxes/ab/proxy/80/x", ROUTE_PORT, "ab", 80,
     "/v1/sandboxes/ab/proxy/80", "/x", ""},
    {"h", "/v1/sandboxes/ab/absproxy/80/x", ROUTE_PORT, "ab", 80,
     "/v1/sandboxes/ab/absproxy/80", "/x", "k"},
    /* inside ports is nobody's business */
    {"h", "/v1/proxy/80/v1/sandboxes/zz/proxy/81/", ROUTE_PORT, "", 80,
     "/v1/proxy/80", "/v1/sandboxes/zz/proxy/81/", ""},
    /* bad ports and ids */
    {"h", "/v1/proxy", ROUTE_BAD, "", 0, "", "", ""},
    {"h", "/v1/proxy/", ROUTE_BAD, "", 0, "", "", ""},
    {"h", "/v1/proxy?80", ROUTE_BAD, "", 0, "", "", ""},
    {"h", "/v1/proxy/0/", ROUTE_BAD, "", 0, "", "", ""},
    {"h", "/v1/proxy/080/", ROUTE_BAD, "", 0, "", "", ""},
    {"h", "/v1/proxy/65536/", ROUTE_BAD, "", 0, "", "", ""},
    {"h", "/v1/proxy/99999999999999999999/", ROUTE_BAD, "", 0, "", "", ""},
    {"h", "/v1/proxy/-1/", ROUTE_BAD, "", 0, "", "", ""},
    {"h", "/v1/proxy/+80/", ROUTE_BAD, "", 0, "", "", ""},
    {"h", "/v1/proxy/8%30/", ROUTE_BAD, "", 0, "", "", ""},
    {"h", "/v1/proxy/80%2f/", ROUTE_BAD, "", 0, "", "", ""},
    {"h", "/v1/proxy/80;x/", ROUTE_BAD, "", 0, "", "", ""},
    {"h", "/v1/proxy/../80/", ROUTE_BAD, "", 0, "", "", ""},
    {"h", "/v1/proxy/0x50/", ROUTE_BAD, "", 0, "", "", ""},
    {"h", "/v1/proxy//80/", ROUTE_BAD, "", 0, "", "", ""},
    {"h", "/v1/sandboxes/AB/proxy/80/", ROUTE_BAD, "AB", 0, "", "", ""},
    {"h", "/v1/sandboxes/a%62/proxy/80/", ROUTE_BAD, "a%62", 0, "", "", ""},
    {"h", "/v1/sandboxes/../proxy/80/", ROUTE_BAD, "..", 0, "", "", ""},
    {"h", "/v1/sandboxes//proxy/80/", ROUTE_BAD, "", 0, "", "", ""},
    {"h", "/v1/sandboxes/a--b/proxy/80/", ROUTE_BAD, "a--b", 0, "", "", ""},
    {"h", "/v1/sandboxes/-a/exec", ROUTE_BAD, "-a", 0, "", "", ""},
    {"h", "/v1/sandboxes/a-/exec", ROUTE_BAD, "a-", 0, "", "", ""},
    {"h", "/v1/sandboxes/a/proxy/x", ROUTE_BAD, "a", 0, "", "", ""},
    /* by name: Host */
    {"ab--80.x.org", "/y?z", ROUTE_PORT, "ab", 80, "", "/y?z", "n"},
    {"ab--80.x.org:8443", "/", ROUTE_PORT, "ab", 80, "", "/", "n"},
    {"ab--80", "/", ROUTE_PORT, "ab", 80, "", "/", "n"},
    {"ab--80.", "/", ROUTE_PORT, "ab", 80, "", "/", "n"},
    {"A-B--80.X.org", "/", ROUTE_PORT, "A-B", 80, "", "/", "n"},
    {"ab--80.x", "/v1/proxy/81/", ROUTE_PORT, "ab", 80, "", "/v1/proxy/81/",
     "n"},
    {"ab--80.x", "/health", ROUTE_PORT, "ab", 80, "", "/health", "n"},
    {"ab--080.x", "/health", ROUTE_HEALTH, "", 0, "", "", ""},
    {"xn--mnchen-3ya.de", "/health", ROUTE_HEALTH, "", 0, "", "", ""},
    {"[::1]:80", "/health", ROUTE_HEALTH, "", 0, "", "", ""},
    {"80--ab.x", "/", ROUTE_NONE, "", 0, "", "", ""},
    /* by name: first segment */
    {"h", "/ab--80/", ROUTE_PORT, "ab", 80, "/ab--80", "/", ""},
    {"h", "/ab--80", ROUTE_PORT, "ab", 80, "/ab--80", "", "s"},
    {"h", "/ab--80.any.thing/x", ROUTE_PORT, "ab", 80, "/ab--80.any.thing",
     "/x", ""},
    {"h", "/ab--0/x", ROUTE_BAD, "", 0, "", "", ""},
    {"h", "/AB--80/x", ROUTE_BAD, "", 0, "", "", ""},
    {"h", "/ab--8%30/x", ROUTE_BAD, "", 0, "", "", ""},
    {"h", "/ab%2d-80/x", ROUTE_NONE, "", 0, "", "", ""},
};

static void
test_forms(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
		const struct form *f = &forms[i];
		struct route_match m = match(f->host, f->path);

		if (m.kind != f->kind)
			fail_msg("%s %s: kind %d", f->host, f->path, m.kind);
		if (f->kind == ROUTE_BAD) {
			assert_non_null(m.why);
			continue;
		}
		is(m.id, f->id);
		assert_int_equal(m.port, f->port);
		is(m.prefix, f->prefix);
		is(m.tail, f->tail);
		assert_int_equal(m.by_name, strchr(f->flags, 'n') != NULL);
		assert_int_equal(m.keep_prefix, strchr(f->flags, 'k') != NULL);
		assert_int_equal(m.no_slash, strchr(f->flags, 's') != NULL);
	}
}

static void
test_domain(void **state)
{
	struct route_match m;

	(void)state;
	conf.domain = xstrdup("sbx.example");
	m = match("ab--80.SBX.example:443", "/x");
	assert_int_equal(m.kind, ROUTE_PORT);
	is(m.id, "ab");
	m = match("ab--80.other.example", "/x");
	assert_int_equal(m.kind, ROUTE_NONE);
	m = match("ab--80.y.sbx.example", "/health");
	assert_int_equal(m.kind, ROUTE_HEALTH);
	m = match("sbx.example", "/health");
	assert_int_equal(m.kind, ROUTE_HEALTH);
	m = match("ab--0.sbx.example", "/health");
	assert_int_equal(m.kind, ROUTE_BAD);
	free(conf.domain);
	conf.domain = NULL;
}

static void
test_label_order(void **state)
{
	struct route_match m;

	(void)state;
	conf.label_order = LABEL_PORT_ID;
	m = match("80--ab.x", "/");
	assert_int_equal(m.port, 80);
	is(m.id, "ab");
	assert_int_equal(match("ab--80.x", "/").kind, ROUTE_NONE);
	conf.label_order = LABEL_BOTH;
	is(match("80--ab.x", "/").id, "ab");
	is(match("ab--80.x", "/").id, "ab");
	is(match("81--80.x", "/").id, "81");
	conf.label_order = LABEL_ID_PORT;
}

static void
test_agent_by_name(void **state)
{
	struct route_match m;

	(void)state;
	m = match("ab--49983.x", "/v1/exec");
	assert_int_equal(m.kind, ROUTE_AGENT);
	is(m.label, "ab");
	is(m.id, "");
	is(m.tail, "/v1/exec");
	m = match("h", "/ab--49983.x/v1/sandboxes/cd/exec?q");
	assert_int_equal(m.kind, ROUTE_AGENT);
	is(m.label, "ab");
	is(m.id, "cd");
	is(m.prefix, "/ab--49983.x");
	is(m.tail, "/v1/sandboxes/cd/exec?q");
	m = match("h", "/ab--49983/v1/sandboxes/cd/proxy/80/y");
	assert_int_equal(m.kind, ROUTE_PORT);
	is(m.label, "ab");
	is(m.id, "cd");
	assert_int_equal(m.port, 80);
	is(m.prefix, "/ab--49983/v1/sandboxes/cd/proxy/80");
	is(m.tail, "/y");
	m = match("ab--49983", "/health");
	assert_int_equal(m.kind, ROUTE_AGENT);
	is(m.tail, "/health");
	assert_int_equal(match("ab--49983", "/v1/proxy/0/").kind, ROUTE_BAD);
}

/* The CoreWeave service has paths of its own where it is on. */
static void
test_rpc(void **state)
{
	static const char *const ours[] = {
	    "/coreweave", "/coreweave/v1/sandboxes?x=1",
	    "/coreweave.sandbox.v1.SandboxService/GetSandbox"};
	static const char *const others[] = {
	    "/coreweaver", "/coreweave.sandbox.v1.SandboxServices/GetSandbox",
	    "/x/coreweave"};
	struct gw_conf with = {0};
	struct route_match m;

	(void)state;
	for (int on = 0; on < 2; on++) {
		with.coreweave.enabled = on;
		for (size_t i = 0; i < ARRAY_LEN(ours); i++) {
			route_match(&with, STRV("h"), strv_of(ours[i]), &m);
			assert_int_equal(m.kind, on ? ROUTE_API : ROUTE_NONE);
			assert_int_equal(m.rpc, on);
		}
		for (size_t i = 0; i < ARRAY_LEN(others); i++) {
			route_match(&with, STRV("h"), strv_of(others[i]), &m);
			assert_int_equal(m.kind, ROUTE_NONE);
		}
	}
	with.coreweave.enabled = true;
	route_match(&with, STRV("h"), STRV("/api/jobs"), &m);
	assert_false(m.rpc);
}

static void
test_paths(void **state)
{
	(void)state;
	assert_true(route_plain_path(strv_of("/v1/exec")));
	assert_true(route_plain_path(strv_of("/v1/files/read?path=%2f..//")));
	assert_true(route_plain_path(strv_of("/v1/a..b/...")));
	assert_false(route_plain_path(strv_of("/v1/%41")));
	assert_false(route_plain_path(strv_of("/v1//exec")));
	assert_false(route_plain_path(strv_of("/v1/../exec")));
	assert_false(route_plain_path(strv_of("/v1/.")));
	assert_false(route_plain_path(strv_of("/v1\\exec")));
	assert_true(route_stays_below(strv_of("/a/b%20c/?x=../..")));
	assert_true(route_stays_below(strv_of("/.well-known/x..y/...")));
	assert_false(route_stays_below(strv_of("/a/..")));
	assert_false(route_stays_below(strv_of("/%2e./b")));
	assert_false(route_stays_below(strv_of("/.%2E?x")));
	assert_false(route_stays_below(strv_of("/a%2f..%5cb")));
	assert_false(route_stays_below(strv_of("/a\\..\\b")));
	assert_false(route_stays_below(strv_of("/..;x/b")));
}

/* --- the table --------------------------------------------------------- */

static void
apply(struct route_table *t, const char *msg)
{
	if (route_apply(t, strv_of(msg)) != 0)
		fail_msg("refused: %s", msg);
}

static void
test_table(void **state)
{
	struct route_table *t = route_new();
	struct route_sandbox *s;
	uint64_t v = route_version(t);

	(void)state;
	apply(t, "agent a1 unix:/a.sock /a.ctl team secret");
	apply(t, "sandbox ab 7 a1 team " HASH_A);
	assert_true(route_version(t) > v);
	s = route_lookup(t, STRV("AB"));
	assert_non_null(s);
	assert_int_equal(s->generation, 7);
	assert_true(s->has_token);
	assert_int_equal(s->token_hash[0], 0xaa);
	assert_string_equal(s->agent->control, "/a.ctl");
	assert_string_equal(s->ns, "team");
	assert_int_equal(route_count(t), 1);
	/* an agent that comes back elsewhere */
	apply(t, "agent a1 tcp:10.0.0.1:80 - - -");
	assert_string_equal(s->agent->http, "tcp:10.0.0.1:80");
	assert_null(s->agent->control);
	assert_ptr_equal(route_default_agent(t), s->agent);
	/* the wrong generation is somebody else */
	apply(t, "gone ab 6 deleted 1000");
	assert_false(s->gone);
	apply(t, "gone ab 7 deleted 1000");
	assert_true(s->gone);
	assert_string_equal(s->gone_reason, "deleted");
	assert_true(s->has_token);
	assert_int_equal(route_count(t), 0);
	apply(t, "gone nobody 7 deleted 1000");
	route_free(t);
}

static void
test_held(void **state)
{
	struct route_table *t = route_new();
	struct route_sandbox *s, *s2;

	(void)state;
	apply(t, "sandbox ab 1 - - -");
	s = route_lookup(t, STRV("ab"));
	route_hold(s);
	apply(t, "gone ab 1 deleted 1000");
	apply(t, "sandbox ab 2 - - " HASH_B);
	s2 = route_lookup(t, STRV("ab"));
	assert_ptr_not_equal(s, s2);
	assert_int_equal(s->generation, 1);
	assert_false(s2->gone);
	assert_int_equal(route_count(t), 1);
	route_release(s);
	/* and at the end of the table */
	route_hold(s2);
	route_free(t);
	assert_string_equal(s2->id, "ab");
	route_release(s2);
}

static void
test_refused(void **state)
{
	static const char *const bad[] = {
	    "sandbox",
	    "sandbox ab 1 - -",
	    "sandbox ab 1 - - - -",
	    "sandbox ab  1 - - -",
	    "sandbox AB 1 - - -",
	    "sandbox ab x - - -",
	    "sandbox ab 1 nobody - -",
	    "sandbox ab 1 - - 12",
	    "gone ab 1 deleted x",
	    "bearer 12 n ns user",
	    "unbearer zz",
	    "agent a",
	};
	struct route_table *t = route_new();
	uint64_t v = route_version(t);
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		if (route_apply(t, strv_of(bad[i])) != E_INVALID)
			fail_msg("taken: %s", bad[i]);
	}
	assert_int_equal(route_apply(t, STRV("synced 4")), E_NOTFOUND);
	assert_int_equal(route_apply(t, STRV("")), E_NOTFOUND);
	assert_int_equal(route_version(t), v);
	route_free(t);
}

static void
test_bearers(void **state)
{
	struct route_table *t = route_new();
	uint8_t h[TOKEN_HASH_LEN];

	(void)state;
	memset(h, 0xaa, sizeof(h));
	assert_null(route_bearer(t, h));
	apply(t, "bearer " HASH_A " ann team admin");
	assert_string_equal(route_bearer(t, h)->role, "admin");
	apply(t, "bearer " HASH_A " ann team user");
	assert_string_equal(route_bearer(t, h)->role, "user");
	apply(t, "unbearer " HASH_B);
	apply(t, "unbearer " HASH_A);
	assert_null(route_bearer(t, h));
	route_free(t);
}

static void
test_conf(void **state)
{
	struct gw_sandbox_conf sc[2] = {{0}, {0}};
	struct gw_conf c = {0};
	struct route_table *t = route_new();
	char empty[] = "", web[] = "web";

	(void)state;
	sc[0].name = empty;
	sc[1].name = web;
	c.sandboxes = sc;
	c.nsandboxes = 2;
	route_set_conf(t, &c);
	apply(t, "sandbox - 1 - - " HASH_A);
	apply(t, "sandbox web 1 - - -");
	assert_ptr_equal(route_lookup(t, STRV_NULL)->conf, &sc[0]);
	assert_string_equal(route_lookup(t, STRV_NULL)->id, "");
	assert_ptr_equal(route_lookup(t, STRV("web"))->conf, &sc[1]);
	route_free(t);
}

static void
dump_into(struct strv msg, void *arg)
{
	char *copy = xstrndup(msg.p, msg.len);

	apply(arg, copy);
	free(copy);
}

static void
collect(struct strv msg, void *arg)
{
	strbuf_addv(arg, msg);
	strbuf_addc(arg, '\n');
}

static void
test_dump(void **state)
{
	struct route_table *t = route_new(), *r = route_new();
	struct strbuf a = {0}, b = {0};

	(void)state;
	apply(t, "agent a1 unix:/a.sock /a.ctl team secret");
	apply(t, "bearer " HASH_A " ann team admin");
	apply(t, "sandbox ab 7 a1 team " HASH_A);
	apply(t, "sandbox - 1 - - -");
	apply(t, "sandbox cd 8 a1 - -");
	apply(t, "gone ab 7 idle 1000");
	apply(t, "job j1 1 ann unix:/j1 -");
	apply(t, "job j2 1 ann - -");
	apply(t, "job j3 1 ann - -");
	apply(t, "gone j3 1 timed_out_after_5_s 1000");
	/* an address does not change */
	assert_int_equal(route_apply(t, STRV("job j1 1 ann unix:/j4 -")),
			 E_INVALID);
	route_dump(t, dump_into, r);
	route_dump(t, collect, &a);
	route_dump(r, collect, &b);
	assert_int_equal(route_count(r), 4);
	assert_true(route_lookup(r, STRV("ab"))->gone);
	assert_string_equal(route_lookup(r, STRV("j1"))->http, "unix:/j1");
	assert_true(route_starts(route_lookup(r, STRV("j2"))));
	assert_string_equal(route_lookup(r, STRV("j3"))->gone_reason,
			    "timed out after 5 s");
	assert_int_equal(a.len, b.len);
	assert_non_null(strstr(a.s, "gone ab 7 idle 1000\n"));
	strbuf_clear(&a);
	strbuf_clear(&b);
	route_free(t);
	route_free(r);
}

static void
test_tombstones_end(void **state)
{
	struct route_table *t = route_new();
	char msg[64];
	unsigned i;

	(void)state;
	for (i = 0; i < ROUTE_GONE_MAX + 10; i++) {
		(void)snprintf(msg, sizeof(msg), "sandbox s%u 1 - - -", i);
		apply(t, msg);
		(void)snprintf(msg, sizeof(msg), "gone s%u 1 idle 1000", i);
		apply(t, msg);
	}
	assert_null(route_lookup(t, STRV("s0")));
	assert_null(route_lookup(t, STRV("s9")));
	assert_non_null(route_lookup(t, STRV("s10")));
	apply(t, "sandbox last 1 - - -");
	(void)snprintf(msg, sizeof(msg), "gone last 1 idle %d",
		       1000 + ROUTE_GONE_SECONDS);
	apply(t, msg);
	assert_null(route_lookup(t, STRV("s10")));
	assert_non_null(route_lookup(t, STRV("last")));
	/* one that is used again keeps no place in the list */
	apply(t, "sandbox last 2 - - -");
	apply(t, "gone last 2 idle 90000");
	assert_int_equal(route_count(t), 0);
	route_free(t);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_forms),
	    cmocka_unit_test(test_domain),
	    cmocka_unit_test(test_label_order),
	    cmocka_unit_test(test_agent_by_name),
	    cmocka_unit_test(test_rpc),
	    cmocka_unit_test(test_paths),
	    cmocka_unit_test(test_table),
	    cmocka_unit_test(test_held),
	    cmocka_unit_test(test_refused),
	    cmocka_unit_test(test_bearers),
	    cmocka_unit_test(test_conf),
	    cmocka_unit_test(test_dump),
	    cmocka_unit_test(test_tombstones_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
