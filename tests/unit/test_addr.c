/* SPDX-License-Identifier: Apache-2.0 */
/* net/addr: text to address and back, and CIDR matching. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "net/addr.h"

static void
check_text(const char *in, const char *out)
{
	char buf[ADDR_TEXT_MAX];
	struct addr a;

	assert_int_equal(addr_parse(strv_of(in), &a), 0);
	assert_string_equal(addr_text(&a, buf), out);
}

static void
test_parse_and_text(void **state)
{
	(void)state;
	check_text("tcp:127.0.0.1:80", "127.0.0.1:80");
	check_text("127.0.0.1:0", "127.0.0.1:0");
	check_text("[::1]:65535", "[::1]:65535");
	check_text("tcp:[2001:db8::7]:443", "[2001:db8::7]:443");
	check_text("unix:/run/x.sock", "unix:/run/x.sock");
	check_text("unix:@name", "unix:@name");
}

static void
test_parse_refuses(void **state)
{
	static const char *const bad[] = {"",
					  ":80",
					  "127.0.0.1",
					  "127.0.0.1:",
					  "127.0.0.1:65536",
					  "127.0.0.1:-1",
					  "127.0.0.1:080",
					  "127.0.0.1:80 ",
					  "localhost:80",
					  "::1:80",
					  "[::1]80",
					  "[]:80",
					  "[::1:80",
					  "[127.0.0.1]:80",
					  "256.0.0.1:80",
					  "unix:",
					  "unix:@",
					  "tcp:/x"};
	struct addr a;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(addr_parse(strv_of(bad[i]), &a), E_INVALID);
}

static void
test_unix_length(void **state)
{
	char path[120] = "unix:";
	char buf[ADDR_TEXT_MAX];
	struct addr a;

	(void)state;
	memset(path + 5, 'p', 107);
	path[5 + 107] = '\0';
	assert_int_equal(addr_parse(strv_of(path), &a), 0);
	assert_string_equal(addr_text(&a, buf), path);
	assert_true(addr_is_unix(&a));
	assert_int_equal(addr_port(&a), 0);
	assert_string_equal(addr_ip_text(&a, buf), "unix");
	path[5 + 107] = 'p';
	path[5 + 108] = '\0';
	assert_int_equal(addr_parse(strv_of(path), &a), E_LIMIT);
	assert_int_equal(addr_parse((struct strv){"unix:/a\0b", 9}, &a),
			 E_INVALID);
}

static void
test_unnamed_peer(void **state)
{
	char buf[ADDR_TEXT_MAX];
	struct addr a;

	(void)state;
	memset(&a, 0xff, sizeof(a)); /* accept() fills only the family */
	a.u.un.sun_family = AF_UNIX;
	a.len = sizeof(sa_family_t);
	assert_string_equal(addr_text(&a, buf), "unix:");
}

static void
test_split(void **state)
{
	struct strv host;
	uint16_t port;

	(void)state;
	assert_int_equal(addr_split(STRV("example.org:8443"), &host, &port), 0);
	assert_true(strv_eq(host, STRV("example.org")));
	assert_int_equal(port, 8443);
	assert_int_equal(addr_split(STRV("[fe80::1]:1"), &host, &port), 0);
	assert_true(strv_eq(host, STRV("fe80::1")));
	assert_int_equal(addr_split(STRV("a:b:1"), &host, &port), E_INVALID);
	assert_int_equal(addr_split(STRV("[::1]"), &host, &port), E_INVALID);
}

static void
test_loopback(void **state)
{
	char buf[ADDR_TEXT_MAX];
	struct addr a;

	(void)state;
	addr_loopback(&a, false, 81);
	assert_string_equal(addr_text(&a, buf), "127.0.0.1:81");
	assert_string_equal(addr_ip_text(&a, buf), "127.0.0.1");
	assert_int_equal(addr_port(&a), 81);
	addr_loopback(&a, true, 82);
	assert_string_equal(addr_text(&a, buf), "[::1]:82");
	assert_string_equal(addr_ip_text(&a, buf), "::1");
}

static bool
has(const char *net, const char *addr)
{
	struct addr_net n;
	struct addr a;

	assert_int_equal(addr_net_parse(strv_of(net), &n), 0);
	assert_int_equal(addr_parse(strv_of(addr), &a), 0);
	return addr_net_has(&n, &a);
}

static void
test_nets(void **state)
{
	static const char *const bad[] = {
	    "",          "10.0.0.0/33", "10.0.0/8", "::1/129",
	    "10.0.0.0/", "10.0.0.0/08", "x",        "unix/1"};
	struct addr_net n;
	size_t i;

	(void)state;
	assert_true(has("10.0.0.0/8", "10.255.1.2:1"));
	assert_false(has("10.0.0.0/8", "11.0.0.1:1"));
	assert_true(has("192.168.1.128/25", "192.168.1.200:1"));
	assert_false(has("192.168.1.128/25", "192.168.1.100:1"));
	assert_true(has("1.2.3.4", "1.2.3.4:1"));
	assert_false(has("1.2.3.4", "1.2.3.5:1"));
	assert_true(has("0.0.0.0/0", "9.9.9.9:1"));
	assert_true(has("::1", "[::1]:1"));
	assert_true(has("2001:db8::/33", "[2001:db8:7fff::1]:1"));
	assert_false(has("2001:db8::/33", "[2001:db8:8000::1]:1"));
	assert_true(has("10.0.0.0/8", "[::ffff:10.1.2.3]:1"));
	assert_false(has("10.0.0.0/8", "[::10.1.2.3]:1"));
	assert_true(has("unix", "unix:/x"));
	assert_false(has("unix", "1.2.3.4:5"));
	assert_false(has("0.0.0.0/0", "unix:/x"));
	for (i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(addr_net_parse(strv_of(bad[i]), &n),
				 E_INVALID);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_parse_and_text),
	    cmocka_unit_test(test_parse_refuses),
	    cmocka_unit_test(test_unix_length),
	    cmocka_unit_test(test_unnamed_peer),
	    cmocka_unit_test(test_split),
	    cmocka_unit_test(test_loopback),
	    cmocka_unit_test(test_nets),
	};

	return cmocka_run_group_tests_name("addr", tests, NULL, NULL);
}
