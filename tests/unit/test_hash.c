/* SPDX-License-Identifier: Apache-2.0 */
/* The table against a plain model, and SipHash against a known answer. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

static void
test_basics(void **state)
{
	struct hash *h = hash_new();
	int a, b;
	size_t pos = 0;
	struct strv key;

	(void)state;
	assert_null(hash_get(h, STRV("x")));
	assert_null(hash_del(h, STRV("x")));
	assert_null(hash_next(h, &pos, &key));
	assert_null(hash_set(h, STRV("x"), &a));
	assert_ptr_equal(hash_get(h, (struct strv){"xyz", 1}), &a);
	assert_null(hash_get(h, STRV("xy")));
	assert_null(hash_get(h, STRV("")));
	assert_ptr_equal(hash_set(h, STRV("x"), &b), &a);
	assert_int_equal(hash_count(h), 1);
	assert_null(hash_set(h, STRV(""), &a));
	assert_null(hash_set(h, STRV("a\0b"), &a));
	assert_null(hash_get(h, STRV("a\0c")));
	assert_ptr_equal(hash_del(h, STRV("x")), &b);
	assert_null(hash_del(h, STRV("x")));
	assert_int_equal(hash_count(h), 2);
	hash_free(h);
	hash_free(NULL);
}

#define KEYS 500

static struct strv
key_of(unsigned i, char room[16])
{
	return (struct strv){room, (size_t)snprintf(room, 16, "key-%u", i)};
}

/* A long random life: many tombstones, growth, and no entry ever lost. */
static void
test_model(void **state)
{
	struct hash *h = hash_new();
	void *model[KEYS] = {0};
	uint32_t rnd = 12345;
	size_t live = 0;
	char room[16];

	(void)state;
	for (int step = 0; step < 100000; step++) {
		unsigned i;
		void *value;

		rnd = rnd * 1664525 + 1013904223;
		i = (rnd >> 8) % KEYS;
		value = &model[(rnd >> 17) % KEYS];
		if ((rnd >> 30) != 0) {
			assert_ptr_equal(hash_del(h, key_of(i, room)),
					 model[i]);
			live -= model[i] != NULL;
			model[i] = NULL;
		} else {
			assert_ptr_equal(hash_set(h, key_of(i, room), value),
					 model[i]);
			live += model[i] == NULL;
			model[i] = value;
		}
		assert_int_equal(hash_count(h), live);
	}
	for (unsigned i = 0; i < KEYS; i++)
		assert_ptr_equal(hash_get(h, key_of(i, room)), model[i]);
	hash_free(h);
}

static void
test_walk(void **state)
{
	struct hash *h = hash_new();
	unsigned seen[KEYS] = {0}, left = 0;
	struct strv key;
	char room[16];
	unsigned *v;
	size_t pos = 0;

	(void)state;
	for (unsigned i = 0; i < KEYS; i++)
		hash_set(h, key_of(i, room), &seen[i]);
	while ((v = hash_next(h, &pos, &key)) != NULL) {
		assert_true(strv_eq(key, key_of((unsigned)(v - seen), room)));
		(*v)++;
		if ((v - seen) % 2 == 0)
			assert_ptr_equal(
			    hash_del(h, key_of((unsigned)(v - seen), room)), v);
	}
	for (unsigned i = 0; i < KEYS; i++)
		assert_int_equal(seen[i], 1);
	for (pos = 0; hash_next(h, &pos, NULL) != NULL;)
		left++;
	assert_int_equal(left, KEYS / 2);
	hash_free(h);
}

static void
test_siphash(void **state)
{
	unsigned char in[15];
	uint64_t key[2];

	(void)state;
	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = (unsigned char)i;
	key[0] = UINT64_C(0x0706050403020100);
	key[1] = UINT64_C(0x0f0e0d0c0b0a0908);
	assert_true(hash_siphash13(key, in, 0) == UINT64_C(0xabac0158050fc4dc));
	assert_true(hash_siphash13(key, in, 7) == UINT64_C(0xd3927d989bb11140));
	assert_true(hash_siphash13(key, in, 8) == UINT64_C(0x369095118d299a8e));
	assert_true(hash_siphash13(key, in, 15) ==
		    UINT64_C(0xd320d86d2a519956));
	assert_true(hash_bytes("a", 1) == hash_bytes("a", 1));
	assert_true(hash_bytes("a", 1) != hash_bytes("b", 1));
	assert_true(hash_bytes("a", 1) != hash_bytes("a\0", 2));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_basics),
	    cmocka_unit_test(test_model),
	    cmocka_unit_test(test_walk),
	    cmocka_unit_test(test_siphash),
	};

	return cmocka_run_group_tests_name("hash", tests, NULL, NULL);
}
