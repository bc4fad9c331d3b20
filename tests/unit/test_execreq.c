/* SPDX-License-Identifier: Apache-2.0 */
/* agent/execreq: what is taken for a command, and what is not. */
#include "config.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/execreq.h"
#include "base/err.h"
#include "base/json.h"

static struct json_doc *
parse(const char *text)
{
	struct json_doc *d = NULL;

	assert_int_equal(json_parse(strv_of(text), &d, NULL), 0);
	return d;
}

static void
take(struct execreq *e, const char *text)
{
	char *why = NULL;

	assert_int_equal(execreq_take(parse(text), e, &why), 0);
	assert_null(why);
}

static void
refused(const char *text, const char *want)
{
	struct execreq e;
	char *why = NULL;

	assert_int_equal(execreq_take(parse(text), &e, &why), E_INVALID);
	assert_non_null(why);
	if (strncmp(why, want, strlen(want)) != 0)
		fail_msg("%s: %s", text, why);
	free(why);
	execreq_clear(&e);
}

static void
test_cmd(void **state)
{
	struct execreq e;

	(void)state;
	take(&e, "{\"cmd\":\"echo \\\"x\\\"\"}");
	assert_string_equal(e.spec.argv[0], "/bin/sh");
	assert_string_equal(e.spec.argv[1], "-c");
	assert_string_equal(e.spec.argv[2], "echo \"x\"");
	assert_null(e.spec.argv[3]);
	assert_string_equal(e.spec.cmd, "\"echo \\\"x\\\"\"");
	execreq_clear(&e);
	take(&e, "{\"cmd\":[\"a\",\"\",\"b c\"],\"shell\":false}");
	assert_string_equal(e.spec.argv[0], "a");
	assert_string_equal(e.spec.argv[1], "");
	assert_string_equal(e.spec.argv[2], "b c");
	assert_null(e.spec.argv[3]);
	assert_string_equal(e.spec.cmd, "[\"a\",\"\",\"b c\"]");
	execreq_clear(&e);
	refused("{}", "cmd: ");
	refused("{\"cmd\":5}", "cmd: ");
	refused("{\"cmd\":[]}", "cmd: ");
	refused("{\"cmd\":[\"a\",1]}", "cmd: ");
	refused("{\"cmd\":\"a\",\"shell\":false}", "cmd: with shell false");
	refused("{\"cmd\":[\"a\"],\"shell\":true}", "cmd: with shell true");
}

static void
test_env(void **state)
{
	struct execreq e;

	(void)state;
	take(&e, "{\"cmd\":\"x\",\"env\":{\"A\":\"x=y\",\"B\":7,\"C\":true,"
		 "\"D\":1.5}}");
	assert_string_equal(e.spec.env[0], "A=x=y");
	assert_string_equal(e.spec.env[1], "B=7");
	assert_string_equal(e.spec.env[2], "C=true");
	assert_string_equal(e.spec.env[3], "D=1.5");
	assert_null(e.spec.env[4]);
	execreq_clear(&e);
	refused("{\"cmd\":\"x\",\"env\":[]}", "env: ");
	refused("{\"cmd\":\"x\",\"env\":{\"\":\"\"}}", "env: ");
	refused("{\"cmd\":\"x\",\"env\":{\"a=b\":\"\"}}", "env: a=b: ");
	refused("{\"cmd\":\"x\",\"env\":{\"SBX_TOKEN\":\"\"}}",
		"env: SBX_TOKEN: ");
	refused("{\"cmd\":\"x\",\"env\":{\"A\":{}}}", "env: A: ");
	/* Never another number than was sent. */
	refused("{\"cmd\":\"x\",\"env\":{\"A\":12345678901234567}}",
		"env: A: a number beyond 2^53");
	refused("{\"cmd\":\"x\",\"env\":{\"A\":-1e300}}",
		"env: A: a number beyond 2^53");
	take(&e, "{\"cmd\":\"x\",\"env\":{\"A\":-9007199254740991,\"B\":"
		 "1760000000000}}");
	assert_string_equal(e.spec.env[0], "A=-9007199254740991");
	assert_string_equal(e.spec.env[1], "B=1760000000000");
	execreq_clear(&e);
}

static void
test_options(void **state)
{
	struct execreq e;

	(void)state;
	take(&e, "{\"cmd\":\"x\",\"timeout\":1.5,\"cwd\":\"\",\"stdin\":\"\","
		 "\"tag\":\"t\",\"encoding\":\"base64\",\"detach\":true,"
		 "\"exec_id\":\"a.B-1_\"}");
	assert_int_equal(e.spec.timeout_ms, 1500);
	assert_null(e.spec.cwd);
	assert_true(e.spec.has_input);
	assert_string_equal(e.spec.tag, "t");
	assert_true(e.spec.base64 && e.spec.detach && !e.spec.background);
	assert_string_equal(e.spec.exec_id, "a.B-1_");
	execreq_clear(&e);
	take(&e, "{\"cmd\":\"x\",\"timeout\":null,\"stdin\":null,"
		 "\"exec_id\":null}");
	assert_int_equal(e.spec.timeout_ms, 0);
	assert_true(!e.spec.has_input && e.spec.exec_id == NULL);
	execreq_clear(&e);
	/* Too little to be a millisecond is not "none". */
	take(&e, "{\"cmd\":\"x\",\"timeout\":0.0001}");
	assert_int_equal(e.spec.timeout_ms, 1);
	execreq_clear(&e);
	refused("{\"cmd\":\"x\",\"timeout\":-1}", "timeout: ");
	refused("{\"cmd\":\"x\",\"timeout\":\"1\"}", "timeout: ");
	refused("{\"cmd\":\"x\",\"cwd\":1}", "cwd: ");
	refused("{\"cmd\":\"x\",\"stdin\":[]}", "stdin: ");
	refused("{\"cmd\":\"x\",\"background\":1}", "background: ");
	refused("{\"cmd\":\"x\",\"encoding\":\"x\"}", "encoding: ");
	refused("{\"cmd\":\"x\",\"exec_id\":\"attach\"}", "exec_id: ");
	refused("{\"cmd\":\"x\",\"exec_id\":\"\"}", "exec_id: ");
	refused("{\"cmd\":\"x\",\"exec_id\":\"-a\"}", "exec_id: ");
	refused("{\"cmd\":\"x\",\"exec_id\":\"a/b\"}", "exec_id: ");
	refused("{\"cmd\":\"x\",\"exec_id\":\"a\",\"background\":true}",
		"exec_id: ");
}

static void
check_signal(const char *text, int want)
{
	struct json_doc *d = parse(text);
	int sig = SIGKILL;
	int r = execreq_signal(json_get(json_root(d), "signal"), &sig);

	assert_int_equal(r, want == 0 ? E_INVALID : 0);
	if (want != 0)
		assert_int_equal(sig, want);
	json_doc_free(d);
}

static void
test_signals(void **state)
{
	(void)state;
	check_signal("{}", SIGKILL);
	check_signal("{\"signal\":null}", SIGKILL);
	check_signal("{\"signal\":\"TERM\"}", SIGTERM);
	check_signal("{\"signal\":\"SIGHUP\"}", SIGHUP);
	check_signal("{\"signal\":\"sigint\"}", SIGINT);
	check_signal("{\"signal\":15}", SIGTERM);
	check_signal("{\"signal\":\"15\"}", SIGTERM);
	check_signal("{\"signal\":0}", 0);
	check_signal("{\"signal\":1000}", 0);
	check_signal("{\"signal\":\"NOPE\"}", 0);
	check_signal("{\"signal\":[]}", 0);
}

static void
live(struct execreq *e, const char *text)
{
	char *why = NULL;

	assert_int_equal(execreq_take_live(parse(text), e, &why), 0);
	assert_null(why);
	assert_false(e->spec.has_input);
}

static void
not_live(const char *text, const char *want)
{
	struct execreq e;
	char *why = NULL;

	assert_int_equal(execreq_take_live(parse(text), &e, &why), E_INVALID);
	assert_non_null(why);
	assert_non_null(strstr(why, want));
	free(why);
	execreq_clear(&e);
}

static void
test_live(void **state)
{
	struct execreq e;

	(void)state;
	live(&e, "{\"cmd\":[\"a\"],\"cwd\":\"/x\",\"timeout\":1.5}");
	assert_true(e.spec.live);
	assert_null(e.spec.tty);
	assert_string_equal(e.spec.cwd, "/x");
	assert_int_equal(e.spec.timeout_ms, 1500);
	execreq_clear(&e);
	live(&e, "{\"cmd\":\"a\",\"stdin\":false,\"tty\":true,\"rows\":65535,"
		 "\"encoding\":\"utf-8\",\"background\":false}");
	assert_false(e.spec.live);
	assert_ptr_equal(e.spec.tty, &e.size);
	assert_int_equal(e.size.cols, 0);
	assert_int_equal(e.size.rows, 65535);
	execreq_clear(&e);
	not_live("{\"stdin\":true}", "cmd: ");
	not_live("[]", "cmd: ");
	not_live("{\"cmd\":\"a\",\"stdin\":\"text\"}", "stdin: ");
	not_live("{\"cmd\":\"a\",\"tty\":1}", "tty: ");
	not_live("{\"cmd\":\"a\",\"cols\":65536}", "cols: ");
	not_live("{\"cmd\":\"a\",\"rows\":1.5}", "rows: ");
	not_live("{\"cmd\":\"a\",\"exec_id\":\"x\"}", "exec_id");
	not_live("{\"cmd\":\"a\",\"detach\":true}", "detach");
	not_live("{\"cmd\":\"a\",\"background\":true}", "background");
	not_live("{\"cmd\":\"a\",\"encoding\":\"base64\"}", "encoding");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_live),    cmocka_unit_test(test_cmd),
	    cmocka_unit_test(test_env),     cmocka_unit_test(test_options),
	    cmocka_unit_test(test_signals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
