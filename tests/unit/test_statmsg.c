/* SPDX-License-Identifier: Apache-2.0 */
/* Counters: message and back, sums, exposition. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/err.h"
#include "gateway/statmsg.h"

static void
round_trip(void **state)
{
	struct stats a = {.conns_total = 7,
			  .conns_open = 3,
			  .bytes_out = UINT64_MAX},
		     b;
	struct strbuf buf = {0};

	(void)state;
	statmsg_add(&a, &buf);
	assert_int_equal(buf.s[0], ' ');
	assert_int_equal(
	    statmsg_parse((struct strv){buf.s + 1, buf.len - 1}, &b), 0);
	assert_memory_equal(&a, &b, sizeof(a));
	strbuf_clear(&buf);
}

static void
unknown_and_bad(void **state)
{
	struct stats s;

	(void)state;
	assert_int_equal(statmsg_parse(STRV("of_tomorrow=1 conns_open=2"), &s),
			 0);
	assert_int_equal(s.conns_open, 2);
	assert_int_equal(statmsg_parse(STRV("conns_open"), &s), E_INVALID);
	assert_int_equal(statmsg_parse(STRV("conns_open=x"), &s), E_INVALID);
	assert_int_equal(statmsg_parse(STRV("a=1  b=2"), &s), E_INVALID);
}

static void
sums(void **state)
{
	struct stats total = {.conns_total = 1, .conns_open = 1};
	struct stats s = {.conns_total = 10, .conns_open = 10};

	(void)state;
	statmsg_sum(&total, &s, false);
	assert_int_equal(total.conns_total, 11);
	assert_int_equal(total.conns_open, 1);
	statmsg_sum(&total, &s, true);
	assert_int_equal(total.conns_open, 11);
}

static void
exposition(void **state)
{
	struct stats s = {.tunnels_open = 5};
	struct strbuf b = {0};

	(void)state;
	statmsg_prometheus(&s, &b);
	assert_non_null(strstr(b.s, "\n# TYPE sbx_gateway_tunnels_open gauge\n"
				    "sbx_gateway_tunnels_open 5\n"));
	assert_non_null(
	    strstr(b.s, "# TYPE sbx_gateway_requests_total counter\n"));
	strbuf_reset(&b);
	statmsg_json(&s, &b);
	assert_non_null(strstr(b.s, "\"tunnels_open\":5"));
	assert_int_equal(b.s[b.len - 1], '}');
	strbuf_clear(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(round_trip),
	    cmocka_unit_test(unknown_and_bad),
	    cmocka_unit_test(sums),
	    cmocka_unit_test(exposition),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
