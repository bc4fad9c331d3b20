/* SPDX-License-Identifier: Apache-2.0 */
/* What is read from the hub's answer about a token's owner. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "gateway/gwconf.h"
#include "gateway/hub.h"
#include "net/loop.h"

static void
test_parse(void **state)
{
	static const char text[] =
	    "{\"type\":\"user\",\"name\":\"ann\",\"orgs\":["
	    "{\"name\":\"team\",\"isEnterprise\":true},{\"x\":1},3,"
	    "{\"name\":\"\"},{\"name\":\"a,b\"},{\"name\":\"other\"}],\"auth\":"
	    "{}}";
	struct hub_user u;

	(void)state;
	assert_int_equal(hub_parse(strv_of(text), &u), 0);
	assert_string_equal(u.name, "ann");
	assert_string_equal(u.namespaces, "ann,team,other");
	hub_user_clear(&u);
	assert_null(u.name);
}

static void
test_refused(void **state)
{
	static const char *const bad[] = {
	    "",
	    "[]",
	    "{}",
	    "{\"name\":1}",
	    "{\"name\":\"\"}",
	    "{\"name\"",
	    "x",
	    "{\"name\":\"a,b\"}",
	    "{\"name\":\"a\\nb\"}",
	};
	struct hub_user u;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(hub_parse(strv_of(bad[i]), &u), E_INVALID);
}

static void
test_many_orgs(void **state)
{
	struct strbuf b = {0};
	struct hub_user u;
	const char *p;
	int i;

	(void)state;
	strbuf_adds(&b, "{\"name\":\"ann\",\"orgs\":[{\"name\":\"o\"}");
	for (i = 0; i < 1000; i++)
		strbuf_addf(&b, ",{\"name\":\"o%d\"}", i);
	strbuf_adds(&b, "]}");
	assert_int_equal(hub_parse((struct strv){b.s, b.len}, &u), 0);
	for (p = u.namespaces, i = 1; *p != '\0'; p++)
		i += *p == ',';
	assert_int_equal(i, HUB_NS_MAX);
	hub_user_clear(&u);
	strbuf_clear(&b);
}

static void
test_origins(void **state)
{
	static const struct {
		const char *url;
		bool ok;
	} urls[] = {
	    {"http://hub.example", true},
	    {"http://hub.example/", true},
	    {"http://127.0.0.1:80", true},
	    {"http://[::1]:80", true},
	    {"ftp://hub.example", false},
	    {"hub.example", false},
	    {"http://", false},
	    {"http://a@hub.example", false},
	    {"http://hub.example/x", false},
	};
	struct loop *l = loop_new();
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(urls); i++) {
		struct gw_conf c = {0};
		char url[64], *msg = NULL;
		struct hub *h = NULL;
		int r;

		(void)snprintf(url, sizeof(url), "%s", urls[i].url);
		c.hub = url;
		r = hub_new(l, &c, &h, &msg);
		if ((r == 0) != urls[i].ok)
			fail_msg("%s: %d", url, r);
		assert_int_equal(r != 0, msg != NULL);
		free(msg);
		hub_free(h);
	}
	loop_free(l);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_parse),
	    cmocka_unit_test(test_refused),
	    cmocka_unit_test(test_many_orgs),
	    cmocka_unit_test(test_origins),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
