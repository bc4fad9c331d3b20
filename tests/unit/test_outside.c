/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "gateway/outside.h"

static void
urls(void **state)
{
	static const struct {
		const char *url, *host, *rest;
		uint16_t port;
	} good[] = {
	    {"http://localhost:8080", "localhost", "", 8080},
	    {"http://localhost", "localhost", "", 80},
	    {"HTTPS://Api.example/v1?x=1&y=%20", "Api.example", "/v1?x=1&y=%20",
	     443},
	    {"https://[::1]:8443/", "::1", "/", 8443},
	    {"http://[fe80::1]?q", "fe80::1", "?q", 80},
	    {"http://10.0.0.1:1#f", "10.0.0.1", "#f", 1},
	    {"http://h/a@b:c", "h", "/a@b:c", 80},
	};
	static const char *const bad[] = {
	    "",
	    "http://",
	    "ftp://x",
	    "localhost:80",
	    "http://u:p@h",
	    "http://u@h",
	    "http://h:0",
	    "http://h:65536",
	    "http://h:",
	    "http://h:8x",
	    "http://[::1",
	    "http://[::1]x",
	    "http://a b",
	    "http://-o/",
	    "http://h/\"",
	    "http://h/\\",
	    "http://h/\n",
	    "http://h:08",
	    "http://[]",
	    "http://:80",
	    "http://h/\xc3\xa9",
	    "http://a,b/",
	    "http://[g::]:80",
	};
	struct outside_url u;
	const char *why;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		assert_int_equal(
		    outside_parse_url(strv_of(good[i].url), &u, &why), 0);
		assert_true(strv_eq(u.host, strv_of(good[i].host)));
		assert_true(strv_eq(u.rest, strv_of(good[i].rest)));
		assert_int_equal(u.port, good[i].port);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		why = NULL;
		if (outside_parse_url(strv_of(bad[i]), &u, &why) != E_INVALID ||
		    why == NULL)
			fail_msg("%s", bad[i]);
	}
}

static void
add(struct outside *o, const char *text)
{
	const char *why;

	assert_int_equal(outside_add(o, strv_of(text), &why), 0);
}

static void
names(void **state)
{
	static const char *const bad[] = {"",
					  "A",
					  "A B http://x",
					  "1A http://x",
					  "A.B http://x",
					  "SBX_A http://x",
					  "A-B http://x",
					  "HAD http://y",
					  "http://x",
					  "=A http://x",
					  "A http://u@x/y"};
	struct outside o = {0};
	const char *why;
	char text[64];

	(void)state;
	add(&o, " HAD \t http://x ");
	assert_string_equal(o.ends[0].name, "HAD");
	assert_string_equal(o.ends[0].url, "http://x");
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (outside_add(&o, strv_of(bad[i]), &why) != E_INVALID)
			fail_msg("%s", bad[i]);
	for (int i = 1; i < OUTSIDE_MAX; i++) {
		snprintf(text, sizeof(text), "N%d http://x", i);
		add(&o, text);
	}
	assert_int_equal(outside_add(&o, STRV("M http://x"), &why), E_LIMIT);
	assert_int_equal(o.nforwards, 1);
	outside_clear(&o);
}

/* The contract's rules, in its order. */
static void
ports(void **state)
{
	const uint16_t taken[] = {2222, 49983, 0};
	struct outside o = {0};

	(void)state;
	add(&o, "A http://localhost:8080/v1");
	add(&o, "B http://LOCALHOST:8080/v2"); /* shared with A */
	add(&o, "C http://other:8080");        /* taken by A */
	add(&o, "D http://localhost:2222");    /* sshd's */
	add(&o, "E http://localhost:49983");   /* the agent's */
	add(&o, "F https://api.example/v1");   /* 443 */
	add(&o, "G http://x:20002");           /* its own, taken by then */
	assert_int_equal(o.nforwards, 6);
	outside_choose(&o, taken, ARRAY_LEN(taken), 1);
	assert_int_equal(o.forwards[0].far, 8080);
	assert_int_equal(o.forwards[1].far, 20000);
	assert_int_equal(o.forwards[2].far, 20001);
	assert_int_equal(o.forwards[3].far, 20002);
	assert_int_equal(o.forwards[4].far, 443);
	assert_int_equal(o.forwards[5].far, 20003);
	/* who is not root cannot have 443 */
	outside_choose(&o, taken, ARRAY_LEN(taken), 1024);
	assert_int_equal(o.forwards[4].far, 20003);
	assert_int_equal(o.forwards[5].far, 20004);
	outside_clear(&o);
}

static void
resolving(void **state)
{
	static const struct {
		const char *url, *want;
		int r;
	} t[] = {
	    {"http://localhost:8080/v1/chat?x=%2f#y",
	     "http://127.0.0.1:8080/v1/chat?x=%2f#y", 0},
	    {"https://LocalHost:8080", "https://127.0.0.1:8080", 0},
	    {"https://[::1]/a", "https://127.0.0.1:443/a", 0},
	    {"http://localhost:8081/", NULL, E_NOTFOUND},
	    {"http://127.0.0.1:8080/", NULL, E_NOTFOUND},
	    {"gopher://x", NULL, E_INVALID},
	};
	struct outside o = {0};
	struct strbuf b = {0};
	const char *why;

	(void)state;
	add(&o, "A http://localhost:8080/v1");
	add(&o, "B https://[::1]/x?y='&");
	outside_choose(&o, NULL, 0, 1);
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		strbuf_reset(&b);
		assert_int_equal(
		    outside_resolve(&o, strv_of(t[i].url), &b, &why), t[i].r);
		if (t[i].want != NULL)
			assert_string_equal(b.s, t[i].want);
	}
	strbuf_reset(&b);
	outside_env_json(&o, true, &b);
	assert_string_equal(b.s, "{\"env\":{\"A\":\"http://127.0.0.1:8080/v1\","
				 "\"B\":\"https://127.0.0.1:443/x?y='&\"},"
				 "\"outside\":[\"8080 127.0.0.1:8080\","
				 "\"443 127.0.0.1:443\"]}");
	strbuf_reset(&b);
	outside_env_json(&o, false, &b);
	assert_string_equal(b.s, "{\"env\":{\"A\":\"http://localhost:8080/v1\","
				 "\"B\":\"https://[::1]/x?y='&\"},"
				 "\"outside\":[\"8080 localhost:8080\"]}");
	strbuf_clear(&b);
	outside_clear(&o);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(urls), cmocka_unit_test(names),
	    cmocka_unit_test(ports), cmocka_unit_test(resolving)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
