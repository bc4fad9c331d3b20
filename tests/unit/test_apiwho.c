/* SPDX-License-Identifier: Apache-2.0 */
/* Who asks the control plane: what a worker writes, and nothing else. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "gateway/apiwho.h"
#include "net/http1.h"

static char text[8192];
static struct http_head head;
static struct api_who who;

static int
parse(const char *fields)
{
	struct http_reject rej;
	size_t scanned = 0;

	(void)snprintf(text, sizeof(text),
		       "GET /api/x HTTP/1.1\r\nHost: a\r\n%s\r\n", fields);
	assert_int_equal(
	    http1_parse_request(text, strlen(text), &scanned, &head, &rej), 0);
	return apiwho_parse(&head, &who);
}

static void
test_nobody(void **state)
{
	(void)state;
	assert_int_equal(parse(""), 0);
	assert_int_equal(who.role, API_NOBODY);
	assert_int_equal(who.nns, 0);
	assert_false(api_may_read(&who, STRV("ann")));
	assert_false(api_may_read(&who, STRV("")));
}

static void
test_user(void **state)
{
	(void)state;
	assert_int_equal(parse("X-Sbx-User: ann\r\nX-Sbx-Role: user\r\n"
			       "X-Sbx-Namespaces: ann,team\r\n"
			       "X-Sbx-Origin: https://gw:8443\r\n"),
			 0);
	assert_int_equal(who.role, API_USER);
	assert_true(strv_eq(who.name, STRV("ann")));
	assert_int_equal(who.nns, 2);
	assert_true(strv_eq(who.ns[1], STRV("team")));
	assert_true(strv_eq(who.origin, STRV("https://gw:8443")));
	assert_true(api_may_read(&who, STRV("team")));
	assert_true(api_may_write(&who, STRV("ann")));
	assert_false(api_may_read(&who, STRV("an")));
	assert_false(api_may_read(&who, STRV("ann,team")));
	assert_false(api_may_read(&who, STRV("")));
	assert_false(api_may_write(&who, STRV("bob")));
}

static void
test_roles(void **state)
{
	(void)state;
	assert_int_equal(parse("X-Sbx-User: r\r\nX-Sbx-Role: readonly\r\n"
			       "X-Sbx-Namespaces: n\r\n"),
			 0);
	assert_true(api_may_read(&who, STRV("n")));
	assert_false(api_may_write(&who, STRV("n")));
	assert_int_equal(parse("X-Sbx-User: r\r\nX-Sbx-Role: admin\r\n"
			       "X-Sbx-Namespaces: n\r\n"),
			 0);
	assert_true(api_may_write(&who, STRV("other")));
	assert_int_equal(parse("X-Sbx-User: r\r\nX-Sbx-Role: operator\r\n"
			       "X-Sbx-Namespaces: n\r\n"),
			 0);
	assert_true(api_may_write(&who, STRV("other")));
}

static void
test_refused(void **state)
{
	static const char *const bad[] = {
	    "X-Sbx-User: ann\r\n",
	    "X-Sbx-Role: admin\r\n",
	    "X-Sbx-User: ann\r\nX-Sbx-Role: user\r\n",
	    "X-Sbx-User:\r\nX-Sbx-Role: user\r\nX-Sbx-Namespaces: a\r\n",
	    "X-Sbx-User: a\r\nX-Sbx-Role: root\r\nX-Sbx-Namespaces: a\r\n",
	    "X-Sbx-User: a\r\nX-Sbx-Role: user\r\nX-Sbx-Namespaces:\r\n",
	    "X-Sbx-User: a\r\nX-Sbx-Role: user\r\nX-Sbx-Namespaces: a,,b\r\n",
	    "X-Sbx-User: a\r\nX-Sbx-Role: user\r\nX-Sbx-Namespaces: a,\r\n",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(parse(bad[i]), E_INVALID);
}

static void
test_too_many(void **state)
{
	char fields[1024];
	size_t n;

	(void)state;
	n = (size_t)snprintf(fields, sizeof(fields),
			     "X-Sbx-User: a\r\nX-Sbx-Role: user\r\n"
			     "X-Sbx-Namespaces: n");
	for (int i = 0; i < API_NS_MAX; i++)
		n += (size_t)snprintf(fields + n, sizeof(fields) - n, ",n");
	(void)snprintf(fields + n, sizeof(fields) - n, "\r\n");
	assert_int_equal(parse(fields), E_INVALID);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_nobody),   cmocka_unit_test(test_user),
	    cmocka_unit_test(test_roles),    cmocka_unit_test(test_refused),
	    cmocka_unit_test(test_too_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
