/* SPDX-License-Identifier: Apache-2.0 */
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
#include "gateway/remotestat.h"

static struct remotestat st;

static int
parse(const char *line)
{
	memset(&st, 0xa5, sizeof(st));
	return remotestat_parse(strv_of(line), &st);
}

static void
lines(void **state)
{
	(void)state;
	assert_int_equal(parse("{\"event\":\"connecting\",\"host\":\"h\","
			       "\"port\":22}"),
			 0);
	assert_int_equal(st.event, REMOTESTAT_CONNECTING);
	assert_int_equal(st.nfwd, 0);

	assert_int_equal(parse("{\"event\":\"down\",\"reason\":\"no \\n\\u00e9"
			       "way\",\"retry_ms\":1500}"),
			 0);
	assert_int_equal(st.event, REMOTESTAT_DOWN);
	assert_string_equal(st.reason, "no ???way");
	assert_int_equal(st.retry_ms, 1500);

	assert_int_equal(
	    parse("{\"event\":\"reconnected\",\"down_ms\":7,\"forwards\":["
		  "{\"kind\":\"local\",\"spec\":\"/p:h:1\",\"path\":\"/p\","
		  "\"state\":\"up\"},{\"kind\":\"remote\",\"spec\":\"1:h:2\","
		  "\"port\":65535,\"state\":\"failed\"}]}"),
	    0);
	assert_int_equal(st.event, REMOTESTAT_READY);
	assert_true(st.again);
	assert_int_equal(st.down_ms, 7);
	assert_int_equal(st.nfwd, 2);
	assert_false(st.fwd[0].remote);
	assert_true(st.fwd[1].remote);
	assert_string_equal(st.fwd[1].spec, "1:h:2");
	assert_string_equal(st.fwd[1].state, "failed");
	assert_int_equal(st.fwd[1].port, 65535);

	assert_int_equal(parse("{\"event\":\"degraded\",\"failed\":1}"), 0);
	assert_int_equal(st.event, REMOTESTAT_DEGRADED);
	assert_int_equal(parse("{\"event\":\"stopped\"}"), 0);
	assert_int_equal(st.event, REMOTESTAT_STOPPED);
}

static void
nonsense(void **state)
{
	struct strbuf b = {0};

	(void)state;
	assert_int_equal(parse("{\"event\":\"dancing\"}"), E_UNSUPPORTED);
	assert_int_equal(parse("{\"event\":1}"), E_INVALID);
	assert_int_equal(parse("{}"), E_INVALID);
	assert_int_equal(parse("[]"), E_INVALID);
	assert_int_equal(parse("hello"), E_INVALID);
	assert_int_equal(parse(""), E_INVALID);
	/* types that are not what they should be are nothing */
	assert_int_equal(parse("{\"event\":\"ready\",\"forwards\":{},"
			       "\"reason\":3,\"down_ms\":-1}"),
			 0);
	assert_int_equal(st.nfwd, 0);
	assert_string_equal(st.reason, "");
	assert_int_equal(st.down_ms, 0);
	assert_int_equal(parse("{\"event\":\"ready\",\"forwards\":[1,{\"port\":"
			       "70000,\"spec\":[]}]}"),
			 0);
	assert_int_equal(st.nfwd, 2);
	assert_int_equal(st.fwd[1].port, 0);
	/* longer than there is room for */
	strbuf_adds(&b, "{\"event\":\"down\",\"reason\":\"");
	for (int i = 0; i < 1000; i++)
		strbuf_addc(&b, 'x');
	strbuf_adds(&b, "\",\"forwards\":[");
	for (int i = 0; i < 200; i++)
		strbuf_adds(&b, i > 0 ? ",{}" : "{}");
	strbuf_adds(&b, "]}");
	assert_int_equal(parse(b.s), 0);
	assert_int_equal(strlen(st.reason), REMOTESTAT_TEXT - 1);
	assert_int_equal(st.nfwd, REMOTESTAT_FWD_MAX);
	while (b.len <= REMOTESTAT_LINE_MAX)
		strbuf_addc(&b, ' ');
	assert_int_equal(parse(b.s), E_LIMIT);
	strbuf_clear(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(lines),
					   cmocka_unit_test(nonsense)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
