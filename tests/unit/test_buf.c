/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/buf: every operation, and a random run of all of them against a flat
 * array that says what must be in the queue.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "net/buf.h"

static int
setup(void **state)
{
	*state = bufpool_new(8);
	return 0;
}

static int
teardown(void **state)
{
	assert_int_equal(bufpool_live(*state), 0);
	bufpool_free(*state);
	return 0;
}

static void
check_bytes(const struct bufq *q, const char *want, size_t n)
{
	char *got = malloc(n + 1);

	assert_int_equal(q->len, n);
	assert_int_equal(bufq_copy_out(q, got, n + 1), n);
	assert_memory_equal(got, want, n);
	free(got);
}

static void
test_add_front_drain(void **state)
{
	struct bufq q;

	bufq_init(&q, *state);
	assert_int_equal(bufq_front(&q).len, 0);
	bufq_add(&q, "hello ", 6);
	bufq_addv(&q, STRV("world"));
	bufq_addf(&q, " %d", 42);
	check_bytes(&q, "hello world 42", 14);
	assert_true(strv_eq(bufq_front(&q), STRV("hello world 42")));
	assert_int_equal(bufpool_live(*state), 1);
	bufq_drain(&q, 6);
	check_bytes(&q, "world 42", 8);
	bufq_drain(&q, 8);
	assert_int_equal(q.len, 0);
	/* An empty queue holds no slab. */
	assert_int_equal(bufpool_live(*state), 0);
}

static void
test_addf_long(void **state)
{
	char big[1000];
	struct bufq q;

	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	bufq_init(&q, *state);
	bufq_addf(&q, "%s", big);
	check_bytes(&q, big, sizeof(big) - 1);
	bufq_clear(&q);
	bufq_add(&q, "again", 5);
	check_bytes(&q, "again", 5);
	bufq_clear(&q);
}

static void
test_pullup(void **state)
{
	static char data[3 * BUF_SLAB_SIZE];
	struct bufq q;
	size_t i;
	char *p;

	for (i = 0; i < sizeof(data); i++)
		data[i] = (char)(i * 7 + i / 251);
	bufq_init(&q, *state);
	assert_null(bufq_pullup(&q, 1));
	bufq_add(&q, data, sizeof(data));
	assert_null(bufq_pullup(&q, sizeof(data) + 1));
	assert_null(bufq_pullup(&q, BUF_PULLUP_MAX + 1));
	bufq_drain(&q, BUF_SLAB_SIZE - 10);
	/* Within the slab: in place. Across two: moved together. */
	p = bufq_pullup(&q, 10);
	assert_memory_equal(p, data + BUF_SLAB_SIZE - 10, 10);
	p = bufq_pullup(&q, 100);
	assert_memory_equal(p, data + BUF_SLAB_SIZE - 10, 100);
	/* More than a slab holds. */
	p = bufq_pullup(&q, 2 * BUF_SLAB_SIZE);
	assert_memory_equal(p, data + BUF_SLAB_SIZE - 10, 2 * BUF_SLAB_SIZE);
	check_bytes(&q, data + BUF_SLAB_SIZE - 10, 2 * BUF_SLAB_SIZE + 10);
	bufq_clear(&q);
}

static void
test_reserve_commit(void **state)
{
	struct bufq q;
	size_t room;
	char *p;

	bufq_init(&q, *state);
	p = bufq_reserve(&q, 100, &room);
	assert_int_equal(room, BUF_SLAB_SIZE);
	bufq_commit(&q, 0);
	assert_int_equal(bufpool_live(*state), 0);
	bufq_add(&q, "ab", 2);
	p = bufq_reserve(&q, 1, &room);
	assert_int_equal(room, BUF_SLAB_SIZE - 2);
	memcpy(p, "cd", 2);
	bufq_commit(&q, 2);
	check_bytes(&q, "abcd", 4);
	/* More than is left: a slab of its own, given back when unused. */
	p = bufq_reserve(&q, BUF_SLAB_SIZE, &room);
	assert_true(room >= BUF_SLAB_SIZE);
	assert_int_equal(bufpool_live(*state), 2);
	bufq_commit(&q, 0);
	assert_int_equal(bufpool_live(*state), 1);
	p = bufq_reserve(&q, BUF_PULLUP_MAX, &room);
	assert_true(room >= BUF_PULLUP_MAX);
	memset(p, 'z', BUF_PULLUP_MAX);
	bufq_commit(&q, BUF_PULLUP_MAX);
	assert_int_equal(q.len, 4 + BUF_PULLUP_MAX);
	bufq_clear(&q);
}

static void
test_prepend(void **state)
{
	static char data[2 * BUF_SLAB_SIZE];
	struct bufq q;

	bufq_init(&q, *state);
	bufq_prepend(&q, "world", 5);
	bufq_prepend(&q, "hello ", 6);
	check_bytes(&q, "hello world", 11);
	bufq_clear(&q);
	/* A chunk size before a full slab fits its headroom. */
	memset(data, 'd', sizeof(data));
	bufq_add(&q, data, BUF_SLAB_SIZE);
	bufq_prepend(&q, "4000\r\n", 6);
	assert_int_equal(bufpool_live(*state), 1);
	assert_int_equal(bufq_front(&q).len, BUF_SLAB_SIZE + 6);
	bufq_prepend(&q, data, sizeof(data));
	assert_int_equal(q.len, 3 * BUF_SLAB_SIZE + 6);
	bufq_clear(&q);
}

static void
test_move_small_messages(void **state)
{
	struct bufq src, dst;
	int i;

	bufq_init(&src, *state);
	bufq_init(&dst, *state);
	for (i = 0; i < 1000; i++) {
		bufq_add(&src, "0123456789", 10);
		bufq_move(&dst, &src, 10);
	}
	assert_int_equal(src.len, 0);
	assert_int_equal(dst.len, 10000);
	/* Small ones share slabs. */
	assert_int_equal(bufpool_live(*state), 1);
	bufq_clear(&dst);
}

static void
test_move_links_slabs(void **state)
{
	static char data[BUF_SLAB_SIZE];
	struct bufq src, dst;
	const char *at;

	bufq_init(&src, *state);
	bufq_init(&dst, *state);
	bufq_add(&dst, "x", 1);
	bufq_add(&src, data, sizeof(data));
	at = bufq_front(&src).p;
	bufq_move(&dst, &src, sizeof(data));
	bufq_drain(&dst, 1);
	assert_ptr_equal(bufq_front(&dst).p, at); /* not copied */
	bufq_clear(&dst);
}

static void
test_iovec(void **state)
{
	static char data[3 * BUF_SLAB_SIZE];
	struct iovec iov[2];
	struct bufq q;
	size_t total;

	bufq_init(&q, *state);
	assert_int_equal(bufq_iovec(&q, iov, 2, &total), 0);
	assert_int_equal(total, 0);
	bufq_add(&q, data, sizeof(data));
	assert_int_equal(bufq_iovec(&q, iov, 2, &total), 2);
	assert_int_equal(total, 2 * BUF_SLAB_SIZE);
	bufq_clear(&q);
}

/* --- random operations against a model --------------------------------- */

#define MODEL_MAX (8 * BUF_SLAB_SIZE)

struct model {
	char b[MODEL_MAX];
	size_t n;
	struct bufq q;
};

static uint32_t seed = 1;

static size_t
rnd(size_t below)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % below;
}

static void
model_cut(struct model *m, size_t n)
{
	memmove(m->b, m->b + n, m->n - n);
	m->n -= n;
}

static void
model_step(struct model *m, struct model *other)
{
	static char tmp[BUF_SLAB_SIZE * 2];
	size_t n = rnd(rnd(3) == 0 ? sizeof(tmp) : 300), room, i;
	char *p;

	for (i = 0; i < n; i++)
		tmp[i] = (char)rnd(256);
	switch (rnd(6)) {
	case 0:
		n = m->n + n > MODEL_MAX ? 0 : n;
		bufq_add(&m->q, tmp, n);
		memcpy(m->b + m->n, tmp, n);
		m->n += n;
		break;
	case 1:
		n = m->n + n > MODEL_MAX ? 0 : n;
		bufq_prepend(&m->q, tmp, n);
		memmove(m->b + n, m->b, m->n);
		memcpy(m->b, tmp, n);
		m->n += n;
		break;
	case 2:
		n = n > m->n ? m->n : n;
		bufq_drain(&m->q, n);
		model_cut(m, n);
		break;
	case 3:
		n = rnd(2) == 0 || n > m->n ? m->n : n;
		n = other->n + n > MODEL_MAX ? 0 : n;
		bufq_move(&other->q, &m->q, n);
		memcpy(other->b + other->n, m->b, n);
		other->n += n;
		model_cut(m, n);
		break;
	case 4:
		p = bufq_pullup(&m->q, n);
		if (n > m->n || m->n == 0)
			assert_null(p);
		else
			assert_memory_equal(p, m->b, n);
		break;
	case 5:
		p = bufq_reserve(&m->q, 1 + rnd(2000), &room);
		n = n > room ? room : n;
		n = m->n + n > MODEL_MAX ? 0 : n;
		memcpy(p, tmp, n);
		bufq_commit(&m->q, n);
		memcpy(m->b + m->n, tmp, n);
		m->n += n;
		break;
	}
}

static void
test_random(void **state)
{
	static struct model a, b;
	int i;

	bufq_init(&a.q, *state);
	bufq_init(&b.q, *state);
	for (i = 0; i < 20000; i++) {
		if (rnd(2) == 0)
			model_step(&a, &b);
		else
			model_step(&b, &a);
		if (i % 16 == 0) {
			check_bytes(&a.q, a.b, a.n);
			check_bytes(&b.q, b.b, b.n);
		}
	}
	bufq_clear(&a.q);
	bufq_clear(&b.q);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_add_front_drain),
	    cmocka_unit_test(test_addf_long),
	    cmocka_unit_test(test_pullup),
	    cmocka_unit_test(test_reserve_commit),
	    cmocka_unit_test(test_prepend),
	    cmocka_unit_test(test_move_small_messages),
	    cmocka_unit_test(test_move_links_slabs),
	    cmocka_unit_test(test_iovec),
	    cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests_name("buf", tests, setup, teardown);
}
