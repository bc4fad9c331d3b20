/* SPDX-License-Identifier: Apache-2.0 */
/* net/execwire: frames there and back, in whatever pieces; what is none. */
#include "config.h"

#include "net/execwire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/err.h"
#include "base/mem.h"

static struct bufpool *pool;
static struct bufq q, part;

static int
setup(void **state)
{
	(void)state;
	pool = bufpool_new(4);
	bufq_init(&q, pool);
	bufq_init(&part, pool);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	bufq_clear(&q);
	bufq_clear(&part);
	bufpool_free(pool);
	return 0;
}

static void
there_and_back(void **state)
{
	static const size_t steps[] = {1, 7, 8, 9, 65536, 1U << 20};
	char *big = xcalloc(1, 100000);

	(void)state;
	memset(big, 'x', 100000);
	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		static const char types[] = "A1112X";
		static const size_t sizes[] = {9, 65536, 34464, 0, 3, 2};
		struct execwire w = {.from_agent = true};
		struct strbuf b = {0};
		size_t seen = 0;

		bufq_clear(&part);
		execwire_put(&q, EXECWIRE_ACCEPTED, STRV("{\"pid\":1}"));
		execwire_put(&q, EXECWIRE_STDOUT, (struct strv){big, 100000});
		execwire_put(&q, EXECWIRE_STDOUT, STRV(""));
		execwire_put_head(&q, EXECWIRE_STDERR, 3);
		bufq_add(&q, "err", 3);
		execwire_put(&q, EXECWIRE_EXIT, STRV("{}"));
		while (q.len > 0) {
			bufq_move(&part, &q,
				  q.len < steps[i] ? q.len : steps[i]);
			while (execwire_open(&w, &part) == 0) {
				assert_int_equal(w.type, types[seen]);
				if (execwire_whole(&w, &part, &b) != 0)
					break;
				assert_false(w.open);
				assert_int_equal(b.len, sizes[seen]);
				strbuf_reset(&b);
				seen++;
			}
		}
		assert_int_equal(seen, 6);
		assert_int_equal(part.len, 0);
		strbuf_clear(&b);
	}
	free(big);
}

static void
piece_by_piece(void **state)
{
	struct execwire w = {0};

	(void)state;
	execwire_put_head(&q, EXECWIRE_STDIN, 10);
	bufq_add(&q, "abc", 3);
	assert_int_equal(execwire_open(&w, &q), 0);
	assert_int_equal(execwire_here(&w, &q), 3);
	bufq_drain(&q, 3);
	execwire_took(&w, 3);
	assert_true(w.open);
	assert_int_equal(execwire_open(&w, &q), 0); /* still that one */
	bufq_add(&q, "defghijC", 8);
	assert_int_equal(execwire_here(&w, &q), 7);
	bufq_drain(&q, 7);
	execwire_took(&w, 7);
	assert_false(w.open);
	assert_int_equal(execwire_open(&w, &q), E_AGAIN);
	bufq_add(&q, "\0\0\0\0\0\0\0", 7);
	assert_int_equal(execwire_open(&w, &q), 0);
	assert_int_equal(w.type, EXECWIRE_CLOSE);
	execwire_took(&w, 0);
	assert_false(w.open);
}

static int
judge(const char *head, bool from_agent)
{
	struct execwire w = {.from_agent = from_agent};
	int r;

	bufq_clear(&q);
	bufq_add(&q, head, 8);
	r = execwire_open(&w, &q);
	if (r != 0)
		assert_int_equal(q.len, 8); /* left as it came */
	return r;
}

static void
what_is_none(void **state)
{
	(void)state;
	assert_int_equal(judge("0\0\0\0\0\1\0\0", false), 0);
	assert_int_equal(judge("0\0\0\0\0\1\0\1", false), E_LIMIT);
	assert_int_equal(judge("0\0\0\0\377\377\377\377", false), E_LIMIT);
	assert_int_equal(judge("1\0\0\0\0\1\0\1", true), E_LIMIT);
	assert_int_equal(judge("I\0\0\0\0\20\0\0", false), 0);
	assert_int_equal(judge("I\0\0\0\0\20\0\1", false), E_LIMIT);
	assert_int_equal(judge("R\0\0\0\0\0\0\5", false), E_LIMIT);
	assert_int_equal(judge("S\0\0\0\0\0\0\2", false), E_LIMIT);
	assert_int_equal(judge("C\0\0\0\0\0\0\1", false), E_LIMIT);
	assert_int_equal(judge("0\1\0\0\0\0\0\0", false), E_PROTO);
	assert_int_equal(judge("0\0\0\1\0\0\0\0", false), E_PROTO);
	assert_int_equal(judge("\0\0\0\0\0\0\0\0", false), E_PROTO);
	assert_int_equal(judge("1\0\0\0\0\0\0\0", false), E_PROTO);
	assert_int_equal(judge("0\0\0\0\0\0\0\0", true), E_PROTO);
	assert_int_equal(judge("GET / HT", false), E_PROTO);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(there_and_back, setup, teardown),
	    cmocka_unit_test_setup_teardown(piece_by_piece, setup, teardown),
	    cmocka_unit_test_setup_teardown(what_is_none, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
