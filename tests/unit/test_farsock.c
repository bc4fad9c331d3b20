/* SPDX-License-Identifier: Apache-2.0 */
/* Messages about sockets of the far side, translated. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tunnel/farsock.h"

#define LIT(s) (const unsigned char *)(s), sizeof(s) - 1

static const char listen_path[] =
    "\x50\0\0\0\x0dtcpip-forward\1\0\0\0\x06/a/b/c\0\0\0\1";
static const char open_path[] =
    "\x5a\0\0\0\x21"
    "forwarded-streamlocal@openssh.com"
    "\0\0\0\7\0\x20\0\0\0\0\x80\0\0\0\0\x06/a/b/c\0\0\0\0";

static void
test_listen(void **state)
{
	static const char want[] =
	    "\x50\0\0\0\x1fstreamlocal-forward@openssh.com\1\0\0\0\x06/a/b/c";
	unsigned char out[FARSOCK_MAX];

	(void)state;
	assert_int_equal(farsock_out(LIT(listen_path), out), sizeof(want) - 1);
	assert_memory_equal(out, want, sizeof(want) - 1);
}

/* Ports, other requests, and what is cut short. */
static void
test_others_go_out_as_they_are(void **state)
{
	unsigned char out[FARSOCK_MAX];

	(void)state;
	assert_int_equal(
	    farsock_out(LIT("\x50\0\0\0\x0dtcpip-forward\1\0\0\0\x09"
			    "127.0.0.1\0\0\0\1"),
			out),
	    0);
	assert_int_equal(
	    farsock_out(LIT("\x50\0\0\0\x0dtcpip-forward\1\0\0\0\0\0\0\0\1"),
			out),
	    0);
	assert_int_equal(farsock_out(LIT("\x50\0\0\0\x16keepalive@openssh.com"
					 "\1"),
				     out),
			 0);
	for (size_t n = 0; n < sizeof(listen_path) - 1 - 4; n++)
		assert_int_equal(
		    farsock_out((const unsigned char *)listen_path, n, out), 0);
}

static void
test_a_path_that_is_too_long(void **state)
{
	unsigned char p[4096] = "\x50\0\0\0\x0dtcpip-forward\1\0\0\x03\xe8/";
	unsigned char out[FARSOCK_MAX];

	(void)state;
	assert_int_equal(farsock_out(p, 23 + 1000 + 4, out), 0);
}

static void
test_open(void **state)
{
	static const char want[] =
	    "\x5a\0\0\0\x0f"
	    "forwarded-tcpip"
	    "\0\0\0\7\0\x20\0\0\0\0\x80\0\0\0\0\x06/a/b/c\0\0\0\1\0\0\0\0"
	    "\0\0\0\0";
	unsigned char p[sizeof(open_path)];

	(void)state;
	memcpy(p, open_path, sizeof(p));
	assert_int_equal(farsock_in(p, sizeof(p) - 1), sizeof(want) - 1);
	assert_memory_equal(p, want, sizeof(want) - 1);
	/* and not twice */
	assert_int_equal(farsock_in(p, sizeof(want) - 1), sizeof(want) - 1);
	assert_memory_equal(p, want, sizeof(want) - 1);
}

/* Each in memory of its own size, so that a sanitizer sees a step outside. */
static void
test_what_is_cut_short_is_left_alone(void **state)
{
	unsigned char *p;

	(void)state;
	for (size_t n = 1; n < sizeof(open_path) - 1; n++) {
		p = malloc(n);
		assert_non_null(p);
		memcpy(p, open_path, n);
		assert_int_equal(farsock_in(p, n), n);
		assert_memory_equal(p, open_path, n);
		free(p);
	}
	assert_int_equal(farsock_in(NULL, 0), 0);
}

static void
test_lengths_that_lie(void **state)
{
	unsigned char p[sizeof(open_path)];

	(void)state;
	memcpy(p, open_path, sizeof(p));
	memset(p + 1 + 4 + 33 + 12, 0xff, 4);
	assert_int_equal(farsock_in(p, sizeof(p) - 1), sizeof(p) - 1);
	memcpy(p, open_path, sizeof(p));
	memset(p + 1, 0xff, 4);
	assert_int_equal(farsock_in(p, sizeof(p) - 1), sizeof(p) - 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_listen),
	    cmocka_unit_test(test_others_go_out_as_they_are),
	    cmocka_unit_test(test_a_path_that_is_too_long),
	    cmocka_unit_test(test_open),
	    cmocka_unit_test(test_what_is_cut_short_is_left_alone),
	    cmocka_unit_test(test_lengths_that_lie),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
