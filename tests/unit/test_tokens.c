/* SPDX-License-Identifier: Apache-2.0 */
/* The file of user tokens: add, list, revoke, and what is refused. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/token.h"
#include "gateway/tokens.h"
#include "net/tlsctx.h"

static char dir[] = "/tmp/sbx-tokens-XXXXXX";
static char path[64];

static int
setup(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/sbx-tokens-XXXXXX");
	if (mkdtemp(dir) == NULL)
		return -1;
	snprintf(path, sizeof(path), "%s/tokens", dir);
	return 0;
}

static int
teardown(void **state)
{
	char lock[80];

	(void)state;
	snprintf(lock, sizeof(lock), "%s.lock", path);
	(void)unlink(lock);
	(void)unlink(path);
	return rmdir(dir);
}

static void
add_and_revoke(void **state)
{
	struct token_list l;
	struct stat st;
	char *a, *b, *msg = NULL, hex[65], *text;
	uint8_t raw[32];
	size_t n, len;

	(void)state;
	assert_int_equal(tokens_read(path, &l, &msg), 0);
	assert_int_equal(l.n, 0);
	assert_int_equal(tokens_add(path, "alice", "team", "user", &a, &msg),
			 0);
	assert_int_equal(tokens_add(path, "bob", "bob", "admin", &b, &msg), 0);
	assert_int_equal(strncmp(a, "hf_", 3), 0);
	assert_int_equal(strlen(a), 37);
	assert_string_not_equal(a, b);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);

	assert_int_equal(file_read(path, 1 << 20, &text, &len), 0);
	assert_null(strstr(text, a));
	free(text);

	assert_int_equal(tokens_read(path, &l, &msg), 0);
	assert_int_equal(l.n, 2);
	tls_sha256(a, strlen(a), raw);
	token_hex_encode(hex, raw, sizeof(raw));
	assert_string_equal(l.v[0].hash, hex);
	assert_string_equal(l.v[0].name, "alice");
	assert_string_equal(l.v[0].ns, "team");
	assert_string_equal(l.v[1].role, "admin");
	tokens_clear(&l);

	assert_int_equal(tokens_revoke(path, "alice", &n, &msg), 0);
	assert_int_equal(n, 1);
	assert_int_equal(tokens_revoke(path, "alice", &n, &msg), 0);
	assert_int_equal(n, 0);
	assert_int_equal(tokens_read(path, &l, &msg), 0);
	assert_int_equal(l.n, 1);
	assert_string_equal(l.v[0].name, "bob");
	tokens_clear(&l);
	mem_free_secret(a);
	mem_free_secret(b);
}

static void
refused_names(void **state)
{
	static const char *const bad[] = {"",   "a b", "-a",    "a\n",
					  ".x", "a/b", "a\xc3", "#a"};
	char *token, *msg;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		msg = NULL;
		assert_int_equal(
		    tokens_add(path, bad[i], "n", "user", &token, &msg),
		    E_INVALID);
		free(msg);
		msg = NULL;
		assert_int_equal(
		    tokens_add(path, "n", bad[i], "user", &token, &msg),
		    E_INVALID);
		free(msg);
	}
	msg = NULL;
	assert_int_equal(tokens_add(path, "n", "n", "root", &token, &msg),
			 E_INVALID);
	free(msg);
}

static void
bad_lines(void **state)
{
#define H "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
	static const char *const bad[] = {
	    "x\n",
	    H " a b user\n",
	    H " a b user 1 2\n",
	    H " a b boss 1\n",
	    H " a b user -1\n",
	    H " a  b user 1\n",
	    "0011 a b user 1\n",
	};
	struct token_list l;
	char *msg;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct strbuf b = {0};

		strbuf_addf(&b, "# a comment\n\n%s", bad[i]);
		assert_int_equal(file_write_atomic(path, b.s, b.len, 0600), 0);
		strbuf_clear(&b);
		msg = NULL;
		assert_int_equal(tokens_read(path, &l, &msg), E_INVALID);
		assert_non_null(strstr(msg, "tokens:3: "));
		free(msg);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(add_and_revoke, setup, teardown),
	    cmocka_unit_test_setup_teardown(refused_names, setup, teardown),
	    cmocka_unit_test_setup_teardown(bad_lines, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
