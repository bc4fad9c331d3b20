/* SPDX-License-Identifier: Apache-2.0 */
/* Who may open what, the cached decision, and what cannot be told apart. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/token.h"
#include "gateway/auth.h"
#include "gateway/gwconf.h"
#include "gateway/route.h"
#include "net/http1.h"
#include "net/loop.h"
#include "net/tlsctx.h"

static struct loop *loop;
static struct route_table *table;
static struct gw_conf conf;
static struct auth *auth;
static struct auth_cache cache;
static struct auth_who who;
static struct route_sandbox *found;

/* before, the token's hash, after. */
static void
apply(const char *before, const char *token, const char *after)
{
	char hex[65] = "", msg[256];
	uint8_t hash[32];

	if (token != NULL) {
		tls_sha256(token, strlen(token), hash);
		token_hex_encode(hex, hash, 32);
	}
	(void)snprintf(msg, sizeof(msg), "%s%s%s", before, hex, after);
	assert_int_equal(route_apply(table, strv_of(msg)), 0);
}

static int
setup(void **state)
{
	static char op[] = "op-token";

	(void)state;
	loop = loop_new();
	table = route_new();
	conf.operator_token = op;
	auth = auth_new(loop, &conf, table);
	memset(&cache, 0, sizeof(cache));
	apply("agent a1 unix:/a - team agent-token", NULL, "");
	apply("sandbox ab 1 a1 - ", "ab-token", "");
	apply("sandbox cd 1 a1 other ", "cd-token", "");
	apply("sandbox open 1 a1 - -", NULL, "");
	apply("bearer ", "hf_ann", " ann team user");
	apply("bearer ", "hf_rob", " rob team readonly");
	apply("bearer ", "hf_root", " root any admin");
	apply("job j1 1 team unix:/j1 /c1", NULL, "");
	apply("job j2 1 other unix:/j2 -", NULL, "");
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	auth_free(auth);
	route_free(table);
	loop_free(loop);
	return 0;
}

static struct auth_req
req(const char *id, const char *token, const char *bearer)
{
	struct auth_req q = {
	    .need = AUTH_NEED_SANDBOX, .id = strv_of(id), .synced = true};

	if (token != NULL)
		q.token = strv_of(token);
	if (bearer != NULL)
		q.bearer = strv_of(bearer);
	return q;
}

static enum auth_verdict
check(struct auth_req q)
{
	found = NULL;
	memset(&who, 0, sizeof(who));
	return auth_check(auth, &cache, &q, &who, &found);
}

static enum auth_verdict
check_operator(const char *token, const char *bearer)
{
	struct auth_req q = req("", token, bearer);

	q.need = AUTH_NEED_OPERATOR;
	return check(q);
}

static void
test_tokens(void **state)
{
	(void)state;
	assert_int_equal(check(req("ab", "ab-token", NULL)), AUTH_OK);
	assert_int_equal(who.kind, AUTH_SANDBOX);
	assert_true(who.by_token);
	assert_string_equal(found->id, "ab");
	assert_int_equal(check(req("AB", "ab-token", NULL)), AUTH_OK);
	assert_int_equal(check(req("cd", "ab-token", NULL)), AUTH_REFUSED);
	assert_int_equal(check(req("ab", "ab-toke", NULL)), AUTH_REFUSED);
	assert_int_equal(check(req("ab", "ab-token2", NULL)), AUTH_REFUSED);
	assert_int_equal(check(req("ab", "", NULL)), AUTH_REFUSED);
	assert_int_equal(check(req("ab", NULL, NULL)), AUTH_REFUSED);
	assert_int_equal(check(req("open", "", NULL)), AUTH_REFUSED);
	assert_int_equal(check(req("open", "x", NULL)), AUTH_REFUSED);
	/* the agent's own is not a client's */
	assert_int_equal(check(req("ab", "agent-token", NULL)), AUTH_REFUSED);
	assert_int_equal(check(req("ab", "op-token", NULL)), AUTH_OK);
	assert_int_equal(who.kind, AUTH_OPERATOR);
	assert_int_equal(check(req("nobody", "op-token", NULL)), AUTH_OK);
	assert_null(found);
	assert_int_equal(check_operator("op-token", NULL), AUTH_OK);
	assert_int_equal(check_operator("ab-token", NULL), AUTH_REFUSED);
	/* a token does not work as a bearer, and a bearer not as a token */
	assert_int_equal(check(req("ab", NULL, "ab-token")), AUTH_REFUSED);
	assert_int_equal(check(req("ab", "hf_root", NULL)), AUTH_REFUSED);
	/* a wrong token is not made good by a bearer */
	assert_int_equal(check(req("ab", "x", "hf_root")), AUTH_REFUSED);
}

static void
test_bearers(void **state)
{
	struct auth_req q;

	(void)state;
	assert_int_equal(check(req("ab", NULL, "hf_ann")), AUTH_OK);
	assert_int_equal(who.kind, AUTH_USER);
	assert_false(who.by_token);
	assert_string_equal(who.name, "ann");
	assert_int_equal(check(req("cd", NULL, "hf_ann")), AUTH_FORBIDDEN);
	assert_int_equal(check(req("nobody", NULL, "hf_ann")), AUTH_FORBIDDEN);
	assert_int_equal(check(req("cd", NULL, "hf_root")), AUTH_OK);
	assert_int_equal(who.kind, AUTH_ADMIN);
	assert_int_equal(check_operator(NULL, "hf_ann"), AUTH_FORBIDDEN);
	assert_int_equal(check_operator(NULL, "hf_root"), AUTH_OK);
	assert_int_equal(check(req("ab", NULL, "hf_nobody")), AUTH_REFUSED);
	q = req("ab", NULL, "hf_rob");
	assert_int_equal(check(q), AUTH_OK);
	q.writes = true;
	assert_int_equal(check(q), AUTH_FORBIDDEN);
}

/* Somebody, for the API: with a name and namespaces. */
static enum auth_verdict
check_user(const char *token, const char *bearer, bool writes)
{
	struct auth_req q = req("", token, bearer);

	q.need = AUTH_NEED_USER;
	q.writes = writes;
	return check(q);
}

static void
test_users(void **state)
{
	(void)state;
	apply("bearer ", "hf_two", " two two,team user");
	assert_int_equal(check(req("ab", NULL, "hf_two")), AUTH_OK);
	assert_int_equal(check(req("cd", NULL, "hf_two")), AUTH_FORBIDDEN);
	assert_int_equal(check_user(NULL, "hf_two", true), AUTH_OK);
	assert_string_equal(who.user, "two");
	assert_string_equal(who.namespaces, "two,team");
	assert_false(who.readonly);
	assert_int_equal(check_user(NULL, "hf_rob", false), AUTH_OK);
	assert_true(who.readonly);
	assert_int_equal(check_user(NULL, "hf_rob", true), AUTH_FORBIDDEN);
	assert_int_equal(check_user(NULL, "hf_root", true), AUTH_OK);
	assert_int_equal(who.kind, AUTH_ADMIN);
	assert_int_equal(check_user(NULL, "hf_nobody", false), AUTH_REFUSED);
	assert_int_equal(check_user("ab-token", NULL, false), AUTH_REFUSED);
	assert_int_equal(check_user(NULL, NULL, false), AUTH_REFUSED);
	/* the operator, by either field */
	assert_int_equal(check_user("op-token", NULL, true), AUTH_OK);
	assert_int_equal(check_user(NULL, "op-token", true), AUTH_OK);
	assert_int_equal(who.kind, AUTH_OPERATOR);
	assert_string_equal(who.user, "operator");
	assert_string_equal(who.namespaces, "operator");
	assert_int_equal(check(req("cd", NULL, "op-token")), AUTH_OK);
	/* a namespace is a whole word of the list */
	apply("bearer ", "hf_tea", " tea tea,eam,team2 user");
	assert_int_equal(check(req("ab", NULL, "hf_tea")), AUTH_FORBIDDEN);
}

/* The bearer alone opens a job; what comes as its token is not looked at. */
static void
test_jobs(void **state)
{
	(void)state;
	assert_int_equal(check(req("j1", NULL, "hf_ann")), AUTH_OK);
	assert_true(found->job);
	assert_int_equal(check(req("j1", "whatever", "hf_ann")), AUTH_OK);
	assert_int_equal(who.kind, AUTH_USER);
	assert_false(who.by_token);
	assert_int_equal(check(req("j1", "op-token", "hf_ann")), AUTH_OK);
	assert_int_equal(who.kind, AUTH_USER);
	assert_int_equal(check(req("j1", "whatever", NULL)), AUTH_REFUSED);
	assert_int_equal(check(req("j1", "op-token", NULL)), AUTH_REFUSED);
	assert_int_equal(check(req("j1", "whatever", "hf_no")), AUTH_REFUSED);
	assert_int_equal(check(req("j2", "whatever", "hf_ann")),
			 AUTH_FORBIDDEN);
	assert_int_equal(check(req("j2", NULL, "hf_ann")), AUTH_FORBIDDEN);
	assert_int_equal(check(req("j2", "whatever", "op-token")), AUTH_OK);
	assert_int_equal(check(req("j2", "whatever", "hf_root")), AUTH_OK);
	/* a tombstone has a namespace, too */
	apply("gone j2 1 timed_out 1000", NULL, "");
	assert_int_equal(check(req("j2", "x", "hf_ann")), AUTH_FORBIDDEN);
	assert_int_equal(check(req("j2", "x", "hf_root")), AUTH_OK);
	assert_string_equal(found->gone_reason, "timed out");
}

/* Remembered is the bearer that was good, not the token beside it. */
static void
test_jobs_cache(void **state)
{
	(void)state;
	assert_int_equal(check(req("j1", "tok", "hf_ann")), AUTH_OK);
	assert_int_not_equal(cache.version, 0);
	assert_int_equal(check(req("j1", "other", "hf_ann")), AUTH_OK);
	assert_int_equal(check(req("j1", "tok", NULL)), AUTH_REFUSED);
	assert_int_equal(check(req("j1", "tok", "hf_no")), AUTH_REFUSED);
	assert_int_equal(check(req("j2", "tok", "hf_ann")), AUTH_FORBIDDEN);
	assert_int_equal(check(req("ab", "tok", "hf_ann")), AUTH_REFUSED);
	/* and a bearer does not go before a token elsewhere */
	assert_int_equal(check(req("ab", NULL, "hf_ann")), AUTH_OK);
	assert_int_equal(check(req("ab", "x", "hf_ann")), AUTH_REFUSED);
	/* the list: of a job, for its users; of an agent, for the operator */
	{
		struct auth_req q = req("j1", "tok", "hf_ann");

		q.need = AUTH_NEED_LIST;
		assert_int_equal(check(q), AUTH_OK);
		assert_string_equal(found->id, "j1");
		assert_int_equal(check(q), AUTH_OK);
		q.id = STRV("ab");
		q.token = STRV_NULL;
		assert_int_equal(check(q), AUTH_FORBIDDEN);
		q.bearer = STRV("hf_root");
		assert_int_equal(check(q), AUTH_OK);
		assert_null(found);
		q.id = STRV("j1");
		assert_int_equal(check(q), AUTH_OK);
		assert_string_equal(found->id, "j1");
	}
}

/* Whoever may not open a job cannot tell it from nothing. */
static void
test_jobs_no_oracle(void **state)
{
	static const char *const bearers[] = {NULL, "hf_ann", "hf_no",
					      "hf_rob"};
	static const char *const tokens[] = {NULL, "x"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bearers); i++) {
		for (size_t k = 0; k < ARRAY_LEN(tokens); k++) {
			struct auth_req job = req("j2", tokens[k], bearers[i]);
			struct auth_req no = req("no", tokens[k], bearers[i]);

			for (unsigned n = 0; n < 4; n++) {
				job.synced = no.synced = n % 2;
				job.need = no.need =
				    n < 2 ? AUTH_NEED_SANDBOX : AUTH_NEED_LIST;
				assert_int_equal(check(job), check(no));
			}
		}
	}
}

/* Known or not: the same steps, the same verdicts. */
static void
test_no_oracle(void **state)
{
	static const char *const tokens[] = {"x", "cd-token", "agent-token"};
	size_t i;

	(void)state;
	for (i = 0; i < 3; i++) {
		struct auth_req known = req("ab", tokens[i], NULL);
		struct auth_req unknown = req("nobody", tokens[i], NULL);

		assert_int_equal(check(known), check(unknown));
		known.synced = unknown.synced = false;
		assert_int_equal(check(known), AUTH_SYNC);
		assert_int_equal(check(unknown), AUTH_SYNC);
	}
	/* without a credential there is nothing to look up */
	{
		struct auth_req q = req("nobody", NULL, NULL);

		q.synced = false;
		assert_int_equal(check(q), AUTH_REFUSED);
	}
}

static void
test_cache(void **state)
{
	struct route_sandbox *sb;

	(void)state;
	assert_int_equal(check(req("ab", "ab-token", NULL)), AUTH_OK);
	assert_int_equal(cache.version, route_version(table));
	sb = found;
	assert_int_equal(check(req("ab", "ab-token", NULL)), AUTH_OK);
	assert_ptr_equal(found, sb);
	assert_int_equal(who.kind, AUTH_SANDBOX);
	assert_string_equal(who.name, "sandbox");
	/* nothing else is let through by it */
	assert_int_equal(check(req("ab", "ab-tokem", NULL)), AUTH_REFUSED);
	assert_int_equal(check(req("cd", "ab-token", NULL)), AUTH_REFUSED);
	assert_int_equal(check(req("ab", NULL, "ab-token")), AUTH_REFUSED);
	assert_int_equal(check_operator("ab-token", NULL), AUTH_REFUSED);
	/* a table that has changed is looked at */
	assert_int_equal(check(req("ab", "ab-token", NULL)), AUTH_OK);
	apply("sandbox ab 2 a1 - ", "new-token", "");
	assert_int_equal(check(req("ab", "ab-token", NULL)), AUTH_REFUSED);
	assert_int_equal(check(req("ab", "new-token", NULL)), AUTH_OK);
	assert_int_equal(found->generation, 2);
	apply("gone ab 2 deleted 1000", NULL, "");
	assert_int_equal(check(req("ab", "new-token", NULL)), AUTH_OK);
	assert_true(found->gone);
	/* and a user who is struck off */
	assert_int_equal(check(req("ab", NULL, "hf_ann")), AUTH_OK);
	apply("unbearer ", "hf_ann", "");
	assert_int_equal(check(req("ab", NULL, "hf_ann")), AUTH_REFUSED);
}

/* Too long for the cache, still right. */
static void
test_long_tokens(void **state)
{
	char token[200];

	(void)state;
	memset(token, 't', sizeof(token));
	token[sizeof(token) - 1] = '\0';
	apply("sandbox ef 1 a1 - ", token, "");
	assert_int_equal(check(req("ef", token, NULL)), AUTH_OK);
	assert_int_equal(check(req("ef", token, NULL)), AUTH_OK);
	token[198] = 'u';
	assert_int_equal(check(req("ef", token, NULL)), AUTH_REFUSED);
}

static void
test_read(void **state)
{
	static const char text[] = "GET / HTTP/1.1\r\nHost: h\r\n"
				   "Authorization: bEaReR  hf_x \r\n"
				   "X-Sandbox-Token: t\r\n\r\n";
	struct http_reject rej;
	struct http_head h;
	struct auth_req q = {.id = STRV("x")};
	size_t scanned = 0;

	(void)state;
	assert_int_equal(
	    http1_parse_request(text, sizeof(text) - 1, &scanned, &h, &rej), 0);
	auth_read(&h, &q);
	assert_true(strv_eq(q.bearer, STRV("hf_x")));
	assert_true(strv_eq(q.token, STRV("t")));
}

static void
test_no_operator(void **state)
{
	struct gw_conf none = {0};
	struct auth *a = auth_new(loop, &none, table);
	struct auth_cache c = {0};
	struct auth_req q = req("", "", NULL);

	(void)state;
	q.need = AUTH_NEED_OPERATOR;
	assert_int_equal(auth_check(a, &c, &q, &who, &found), AUTH_REFUSED);
	q.token = STRV("op-token");
	assert_int_equal(auth_check(a, &c, &q, &who, &found), AUTH_REFUSED);
	auth_free(a);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(test_tokens),         TEST(test_bearers),
	    TEST(test_no_oracle),      TEST(test_cache),
	    TEST(test_read),           TEST(test_long_tokens),
	    TEST(test_no_operator),    TEST(test_users),
	    TEST(test_jobs),           TEST(test_jobs_cache),
	    TEST(test_jobs_no_oracle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
