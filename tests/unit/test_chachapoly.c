/* SPDX-License-Identifier: Apache-2.0 */
/* The cipher that stands in for libssh2's. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/defs.h"
#include "tunnel/chachapoly.h"

#define HEAD 4
#define BODY 64
#define TAG  16
#define SEQ  0x01020304

/* What libssh2's own C makes of the packet below. */
static const unsigned char sealed[HEAD + BODY + TAG] = {
    0xca, 0x85, 0x3f, 0xc1, 0x90, 0x99, 0xa5, 0xd2, 0x33, 0x65, 0x2a, 0x2c,
    0x70, 0x00, 0x18, 0xa2, 0xe3, 0x6d, 0x87, 0xb2, 0x97, 0xbb, 0x8a, 0x93,
    0x7b, 0xa5, 0x56, 0xe5, 0x71, 0x53, 0x19, 0x5d, 0xb4, 0x33, 0x39, 0xce,
    0x65, 0xaa, 0x71, 0xd2, 0xbb, 0xc7, 0xd1, 0x3b, 0xeb, 0x7b, 0xe9, 0xe2,
    0xa1, 0xf4, 0xe8, 0xa4, 0x7a, 0xe7, 0x07, 0x6a, 0xdf, 0x4d, 0x99, 0x2b,
    0x89, 0xcd, 0x1e, 0x45, 0xcd, 0x5b, 0x72, 0x46, 0x7e, 0x33, 0x11, 0xe9,
    0x2a, 0x80, 0x7d, 0x74, 0x0b, 0xf3, 0x3f, 0xfd, 0x9f, 0x71, 0x10, 0xe2,
};

static void
setup(struct chachapoly_ctx *c, unsigned char *plain)
{
	unsigned char key[2 * CHACHAPOLY_KEY];

	for (size_t i = 0; i < sizeof(key); i++)
		key[i] = (unsigned char)(i * 7 + 1);
	assert_int_equal(chachapoly_init(c, key, sizeof(key)), 0);
	memset(plain, 0, HEAD);
	plain[3] = BODY;
	for (size_t i = HEAD; i < HEAD + BODY; i++)
		plain[i] = (unsigned char)i;
}

static void
test_seals_as_libssh2_does(void **state)
{
	unsigned char plain[HEAD + BODY], b[sizeof(sealed)];
	struct chachapoly_ctx c;

	(void)state;
	setup(&c, plain);
	memcpy(b, plain, sizeof(plain));
	assert_int_equal(chachapoly_crypt(&c, SEQ, b, b, BODY, HEAD, 1), 0);
	assert_memory_equal(b, sealed, sizeof(sealed));
}

static void
test_opens(void **state)
{
	unsigned char plain[HEAD + BODY], b[sizeof(sealed)];
	struct chachapoly_ctx c;
	unsigned len = 0;

	(void)state;
	setup(&c, plain);
	memcpy(b, sealed, sizeof(sealed));
	assert_int_equal(chachapoly_get_length(&c, &len, SEQ, b, HEAD), 0);
	assert_int_equal(len, BODY);
	assert_int_equal(chachapoly_get_length(&c, &len, SEQ, b, 3), -1);
	assert_int_equal(chachapoly_crypt(&c, SEQ, b, b, BODY, HEAD, 0), 0);
	assert_memory_equal(b, plain, sizeof(plain));
}

/* One bit anywhere, or another place in the sequence, and it is refused. */
static void
test_refuses_what_was_changed(void **state)
{
	unsigned char plain[HEAD + BODY], b[sizeof(sealed)];
	struct chachapoly_ctx c;

	(void)state;
	setup(&c, plain);
	for (size_t i = 0; i < sizeof(sealed); i++) {
		memcpy(b, sealed, sizeof(sealed));
		b[i] ^= 0x10;
		assert_true(chachapoly_crypt(&c, SEQ, b, b, BODY, HEAD, 0) !=
			    0);
	}
	memcpy(b, sealed, sizeof(sealed));
	assert_true(chachapoly_crypt(&c, SEQ + 1, b, b, BODY, HEAD, 0) != 0);
}

static void
test_wants_two_keys(void **state)
{
	unsigned char key[CHACHAPOLY_KEY] = {0};
	struct chachapoly_ctx c;

	(void)state;
	assert_true(chachapoly_init(&c, key, sizeof(key)) != 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_seals_as_libssh2_does),
	    cmocka_unit_test(test_opens),
	    cmocka_unit_test(test_refuses_what_was_changed),
	    cmocka_unit_test(test_wants_two_keys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
