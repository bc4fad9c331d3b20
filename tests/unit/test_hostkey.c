/* SPDX-License-Identifier: Apache-2.0 */
/* known_hosts lines as ssh-keygen wrote them, and fingerprints. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "base/defs.h"
#include "base/mem.h"
#include "tunnel/hostkey.h"

#define KEY_A                                                                  \
	"AAAAC3NzaC1lZDI1NTE5AAAAIHGJO1ddthNnmeyb"                             \
	"TOE/upLYNq8U7JkHmM8b4T6NuZgO"
#define PRINT_A "SHA256:fz0Mj+LVD4BikprcQ/WN6PrDQf9AncxxDJOsR/oxjwQ"
#define KEY_B                                                                  \
	"AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBJrwUrhZ"         \
	"wZBBG83xI9xBiaINMcGa025WW75ioJusr7ee5/WIB7WhNzM8PwzWQWxzvYrT"         \
	"CIhIDJEBbCluV6JdYuE="
#define PRINT_B "SHA256:XwCgj+xNlEbp0PMHXFkbKa7BishmwsJnw8VqUk0nVhA"
/* [h.example]:2222, KEY_A, through ssh-keygen -H */
#define HASHED                                                                 \
	"|1|/MucwTNPiIT6ydHQB1URtMELxT4=|NS2A6rCulQWaf6qWEcHG6VOLdNw="         \
	" ssh-ed25519 " KEY_A "\n"

static unsigned char key_a[256], key_b[256];
static size_t len_a, len_b;

static size_t
decode(const char *b64, unsigned char *out)
{
	int n =
	    EVP_DecodeBlock(out, (const unsigned char *)b64, (int)strlen(b64));

	assert_true(n > 0);
	for (size_t i = strlen(b64); b64[i - 1] == '='; i--)
		n--;
	return (size_t)n;
}

static int
setup(void **state)
{
	(void)state;
	len_a = decode(KEY_A, key_a);
	len_b = decode(KEY_B, key_b);
	return 0;
}

static enum hostkey_verdict
look(const char *text, const char *name, const unsigned char *key, size_t n,
     struct hostkey_found *f)
{
	hostkey_check(strv_of(text), name, key, n, f);
	return f->verdict;
}

static void
test_print(void **state)
{
	char out[HOSTKEY_PRINT_MAX];

	(void)state;
	hostkey_print(key_a, len_a, out);
	assert_string_equal(out, PRINT_A);
	hostkey_print(key_b, len_b, out);
	assert_string_equal(out, PRINT_B);
	assert_true(strv_eq(hostkey_type(key_a, len_a), STRV("ssh-ed25519")));
	assert_int_equal(hostkey_type("\0\0\0\5ab", 6).len, 0);
	assert_int_equal(hostkey_type("\0", 1).len, 0);
}

static void
test_name(void **state)
{
	char *s = hostkey_name("H.Example", 22);

	(void)state;
	assert_string_equal(s, "h.example");
	free(s);
	s = hostkey_name("::1", 2222);
	assert_string_equal(s, "[::1]:2222");
	free(s);
}

static void
test_plain(void **state)
{
	const char *text = "# comment\n"
			   "\n"
			   "other ssh-ed25519 " KEY_B "\n"
			   "h.example,10.0.0.1 ssh-ed25519 " KEY_A " note\n"
			   "short\n";
	struct hostkey_found f;

	(void)state;
	assert_int_equal(look(text, "h.example", key_a, len_a, &f),
			 HOSTKEY_MATCH);
	assert_int_equal(f.line, 4);
	assert_int_equal(look(text, "10.0.0.1", key_a, len_a, &f),
			 HOSTKEY_MATCH);
	assert_int_equal(look(text, "h.example", key_b, len_b, &f),
			 HOSTKEY_CHANGED);
	assert_string_equal(f.expected, PRINT_A);
	assert_int_equal(look(text, "h.exampl", key_a, len_a, &f),
			 HOSTKEY_UNKNOWN);
	assert_int_equal(look("", "h", key_a, len_a, &f), HOSTKEY_UNKNOWN);
}

static void
test_patterns(void **state)
{
	const char *text = "*.example,!bad.example ssh-ed25519 " KEY_A "\n"
			   "h? ssh-ed25519 " KEY_B "\n";
	struct hostkey_found f;

	(void)state;
	assert_int_equal(look(text, "a.b.example", key_a, len_a, &f),
			 HOSTKEY_MATCH);
	assert_int_equal(look(text, "bad.example", key_a, len_a, &f),
			 HOSTKEY_UNKNOWN);
	assert_int_equal(look(text, "example", key_a, len_a, &f),
			 HOSTKEY_UNKNOWN);
	assert_int_equal(look(text, "h1", key_b, len_b, &f), HOSTKEY_MATCH);
	assert_int_equal(look(text, "h", key_b, len_b, &f), HOSTKEY_UNKNOWN);
}

static void
test_hashed(void **state)
{
	struct hostkey_found f;

	(void)state;
	assert_int_equal(look(HASHED, "[h.example]:2222", key_a, len_a, &f),
			 HOSTKEY_MATCH);
	assert_int_equal(look(HASHED, "[h.example]:2222", key_b, len_b, &f),
			 HOSTKEY_CHANGED);
	assert_int_equal(look(HASHED, "h.example", key_a, len_a, &f),
			 HOSTKEY_UNKNOWN);
	assert_int_equal(
	    look("|1|x|y ssh-ed25519 " KEY_A "\n", "h", key_a, len_a, &f),
	    HOSTKEY_UNKNOWN);
}

/* A revoked key loses even where another line knows it. */
static void
test_marks(void **state)
{
	const char *text = "h ssh-ed25519 " KEY_A "\n"
			   "@cert-authority * ssh-ed25519 " KEY_B "\n"
			   "@revoked * ssh-ed25519 " KEY_A "\n"
			   "@strange h ssh-ed25519 " KEY_B "\n";
	struct hostkey_found f;

	(void)state;
	assert_int_equal(look(text, "h", key_a, len_a, &f), HOSTKEY_REVOKED);
	assert_int_equal(look(text, "h", key_b, len_b, &f), HOSTKEY_CHANGED);
	assert_int_equal(look(text, "x", key_b, len_b, &f), HOSTKEY_UNKNOWN);
}

static void
test_types_and_line(void **state)
{
	struct hostkey_found f;
	struct strbuf b = {0};
	char *line;

	(void)state;
	hostkey_types(STRV("h ssh-ed25519 " KEY_A "\nh ssh-rsa AAAA\n"), "h",
		      &b);
	assert_string_equal(b.s,
			    "ssh-ed25519,rsa-sha2-512,rsa-sha2-256,ssh-rsa");
	strbuf_clear(&b);
	line = hostkey_line("[h]:1", key_b, len_b);
	assert_int_equal(look(line, "[h]:1", key_b, len_b, &f), HOSTKEY_MATCH);
	free(line);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_print),
	    cmocka_unit_test(test_name),
	    cmocka_unit_test(test_plain),
	    cmocka_unit_test(test_patterns),
	    cmocka_unit_test(test_hashed),
	    cmocka_unit_test(test_marks),
	    cmocka_unit_test(test_types_and_line),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
