/* SPDX-License-Identifier: Apache-2.0 */
/* agent/agentconf: the environment, and that secrets leave it. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/agentconf.h"
#include "base/err.h"

static const char *const names[] = {
    "SBX_PORT",        "SBX_LISTEN",      "SBX_TOKEN",    "SBX_IDLE_TIMEOUT",
    "SBX_HOST_MODE",   "SBX_CAPACITY",    "SBX_HOMES",    "SBX_ISOLATION",
    "SBX_CONTROL",     "SBX_CONTROL_UID", "SBX_UIDS",     "SBX_GRACE",
    "SBX_RESUME",      "SBX_PROXY_DIR",   "TB_EXEC_PORT", "TB_EXEC_BIND",
    "SBX_SOCKET_MODE",
};

static int
setup(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		(void)unsetenv(names[i]);
	return 0;
}

static void
read_ok(struct agentconf *c)
{
	char *why = NULL;

	assert_int_equal(agentconf_read(c, &why), 0);
	assert_null(why);
}

static void
refused(const char *name, const char *value)
{
	struct agentconf c;
	char *why = NULL;

	(void)setenv(name, value, 1);
	assert_int_equal(agentconf_read(&c, &why), E_INVALID);
	assert_non_null(why);
	assert_memory_equal(why, name, strlen(name));
	free(why);
	agentconf_clear(&c);
	(void)unsetenv(name);
}

static void
test_defaults(void **state)
{
	char text[ADDR_TEXT_MAX];
	struct agentconf c;

	(void)state;
	read_ok(&c);
	assert_string_equal(addr_text(&c.listen, text), "0.0.0.0:8000");
	assert_null(c.token);
	assert_int_equal(c.idle_ms, 0);
	assert_false(c.host_mode || c.best_effort || c.has_nemo);
	assert_int_equal(c.uid_first, 20000);
	assert_int_equal(c.uid_last, 64999);
	assert_int_equal(c.grace_ms, 3000);
	assert_int_equal(c.resume_ms, 60000);
	assert_string_equal(c.homes, "/sbx/homes");
	assert_null(c.control);
	assert_null(c.proxy_dir);
	agentconf_clear(&c);
}

static void
test_values(void **state)
{
	char text[ADDR_TEXT_MAX];
	struct agentconf c;

	(void)state;
	(void)setenv("SBX_PORT", "49983", 1);
	(void)setenv("SBX_IDLE_TIMEOUT", "600", 1);
	(void)setenv("SBX_UIDS", "30000-30009", 1);
	(void)setenv("SBX_GRACE", "250ms", 1);
	(void)setenv("SBX_RESUME", "2m", 1);
	(void)setenv("SBX_PROXY_DIR", "/run/app", 1);
	(void)setenv("TB_EXEC_PORT", "19542", 1);
	(void)setenv("TB_EXEC_BIND", "::1", 1);
	(void)setenv("SBX_HOMES", "", 1); /* empty is unset */
	read_ok(&c);
	assert_string_equal(addr_text(&c.listen, text), "0.0.0.0:49983");
	assert_int_equal(c.idle_ms, 600000);
	assert_int_equal(c.uid_first, 30000);
	assert_int_equal(c.uid_last, 30009);
	assert_int_equal(c.grace_ms, 250);
	assert_int_equal(c.resume_ms, 120000);
	assert_string_equal(c.proxy_dir, "/run/app");
	assert_true(c.has_nemo);
	assert_string_equal(addr_text(&c.nemo, text), "[::1]:19542");
	assert_string_equal(c.homes, "/sbx/homes");
	agentconf_clear(&c);
}

/* Not only the variable goes: its bytes do. */
static void
test_token_is_wiped(void **state)
{
	static char block[] = "SBX_TOKEN=geheim";
	struct agentconf c;

	(void)state;
	assert_int_equal(putenv(block), 0);
	read_ok(&c);
	assert_string_equal(c.token, "geheim");
	assert_null(getenv("SBX_TOKEN"));
	assert_null(memmem(block, sizeof(block), "geheim", 6));
	agentconf_clear(&c);
}

static void
test_refused(void **state)
{
	(void)state;
	refused("SBX_PORT", "65536");
	refused("SBX_PORT", "x");
	refused("SBX_LISTEN", "nowhere");
	refused("SBX_TOKEN", "two words");
	refused("SBX_HOST_MODE", "2");
	refused("SBX_IDLE_TIMEOUT", "-1");
	refused("SBX_CAPACITY", "1e3");
	refused("SBX_ISOLATION", "some");
	refused("SBX_CONTROL", "tcp:1.2.3.4:5");
	refused("SBX_CONTROL_UID", "root");
	refused("SBX_SOCKET_MODE", "999");
	refused("SBX_UIDS", "20000");
	refused("SBX_UIDS", "20000-20000");
	refused("SBX_UIDS", "0-100");
	refused("SBX_UIDS", "60000-65000");
	refused("SBX_UIDS", "-");
	refused("SBX_GRACE", "soon");
	refused("SBX_RESUME", "2h");
	refused("SBX_PROXY_DIR", "here");
	refused("TB_EXEC_PORT", "65536");
	(void)setenv("TB_EXEC_PORT", "1", 1);
	refused("TB_EXEC_BIND", "some.host");
	(void)setenv("SBX_HOST_MODE", "1", 1);
	refused("TB_EXEC_PORT", "1");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(test_defaults, setup),
	    cmocka_unit_test_setup(test_values, setup),
	    cmocka_unit_test_setup(test_token_is_wiped, setup),
	    cmocka_unit_test_setup(test_refused, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
