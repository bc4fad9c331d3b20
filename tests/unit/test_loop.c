/* SPDX-License-Identifier: Apache-2.0 */
/* net/loop: tasks, deferred frees, lazy timers, signals. */
#include "config.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/loop.h"

static int
setup(void **state)
{
	*state = loop_new();
	return 0;
}

static int
teardown(void **state)
{
	loop_free(*state);
	return 0;
}

struct probe {
	struct loop *l;
	struct task t, other;
	struct timer tm;
	int runs;
	int order[8];
	int signo;
};

static void
count_cb(void *arg)
{
	struct probe *p = arg;

	p->runs++;
}

static void
test_task_once(void **state)
{
	struct probe p = {.l = *state};

	task_init(&p.t, count_cb, &p);
	task_post(p.l, &p.t);
	task_post(p.l, &p.t);
	assert_int_equal(p.runs, 0);
	loop_once(p.l, true); /* does not block: a task waits */
	assert_int_equal(p.runs, 1);
	loop_once(p.l, false);
	assert_int_equal(p.runs, 1);
	task_post(p.l, &p.t);
	task_cancel(&p.t);
	task_cancel(&p.t);
	loop_once(p.l, false);
	assert_int_equal(p.runs, 1);
}

static void
repost_cb(void *arg)
{
	struct probe *p = arg;

	p->runs++;
	task_post(p->l, &p->t);
}

static void
test_task_reposts_next_round(void **state)
{
	struct probe p = {.l = *state};

	task_init(&p.t, repost_cb, &p);
	task_post(p.l, &p.t);
	loop_once(p.l, true);
	assert_int_equal(p.runs, 1);
	loop_once(p.l, true);
	assert_int_equal(p.runs, 2);
	task_cancel(&p.t);
}

static void
cancel_other_cb(void *arg)
{
	struct probe *p = arg;

	p->runs++;
	task_cancel(&p->other);
}

static void
test_task_cancels_later_one(void **state)
{
	struct probe p = {.l = *state};

	task_init(&p.t, cancel_other_cb, &p);
	task_init(&p.other, count_cb, &p);
	task_post(p.l, &p.t);
	task_post(p.l, &p.other);
	loop_once(p.l, true);
	assert_int_equal(p.runs, 1);
	loop_once(p.l, false);
	assert_int_equal(p.runs, 1);
}

static int ordered[3];
static int nordered;

static void
order_cb(void *arg)
{
	ordered[nordered++] = *(int *)arg;
}

static void
test_task_order(void **state)
{
	int ids[3] = {1, 2, 3}, i;
	struct task t[3];

	nordered = 0;
	for (i = 0; i < 3; i++) {
		task_init(&t[i], order_cb, &ids[i]);
		task_post(*state, &t[i]);
	}
	loop_once(*state, true);
	assert_int_equal(nordered, 3);
	for (i = 0; i < 3; i++)
		assert_int_equal(ordered[i], i + 1);
}

static int freed;

static void
free_cb(void *p)
{
	freed++;
	free(p);
}

static void
defer_cb(void *arg)
{
	struct probe *p = arg;

	loop_defer_free(p->l, malloc(8), free_cb);
	assert_int_equal(freed, 0); /* not inside the callback */
	p->runs++;
}

static void
test_defer_free(void **state)
{
	struct probe p = {.l = *state};
	int i;

	freed = 0;
	task_init(&p.t, defer_cb, &p);
	task_post(p.l, &p.t);
	loop_once(p.l, true);
	assert_int_equal(p.runs, 1);
	assert_int_equal(freed, 1);
	for (i = 0; i < 100; i++)
		loop_defer_free(p.l, malloc(8), NULL);
	loop_once(p.l, false);
	loop_defer_free(p.l, malloc(8), free_cb); /* left for loop_free() */
}

static void
stop_cb(void *arg)
{
	struct probe *p = arg;

	p->runs++;
	loop_stop(p->l);
}

static void
test_timer_fires(void **state)
{
	struct probe p = {.l = *state};
	uint64_t start = loop_clock_us();

	timer_init(&p.tm, p.l, stop_cb, &p);
	assert_false(timer_running(&p.tm));
	timer_set(&p.tm, 30);
	assert_true(timer_running(&p.tm));
	loop_run(p.l);
	assert_int_equal(p.runs, 1);
	assert_false(timer_running(&p.tm));
	assert_true(loop_clock_us() - start >= 20000);
	timer_set(&p.tm, 0);
	loop_run(p.l);
	assert_int_equal(p.runs, 2);
	timer_clear(&p.tm);
}

static void
test_timer_put_off(void **state)
{
	struct probe p = {.l = *state};
	uint64_t start = loop_clock_us();

	timer_init(&p.tm, p.l, stop_cb, &p);
	timer_set(&p.tm, 20);
	timer_set(&p.tm, 100);
	loop_run(p.l);
	assert_int_equal(p.runs, 1);
	assert_true(loop_clock_us() - start >= 90000);
	/* And earlier than it was armed for. */
	timer_set(&p.tm, 3600 * 1000);
	timer_set(&p.tm, 10);
	loop_run(p.l);
	assert_int_equal(p.runs, 2);
	timer_clear(&p.tm);
}

static void
test_timer_stop(void **state)
{
	struct probe p = {.l = *state}, q = {.l = *state};

	timer_init(&p.tm, p.l, count_cb, &p);
	timer_init(&q.tm, q.l, stop_cb, &q);
	timer_set(&p.tm, 5);
	timer_stop(&p.tm);
	timer_set(&q.tm, 40);
	loop_run(q.l);
	assert_int_equal(p.runs, 0);
	timer_clear(&p.tm);
	timer_clear(&p.tm);
	timer_clear(&q.tm);
}

static void
signal_cb(int signo, void *arg)
{
	struct probe *p = arg;

	p->signo = signo;
	loop_stop(p->l);
}

static void
test_signal(void **state)
{
	struct probe p = {.l = *state};

	loop_on_signal(p.l, SIGUSR1, signal_cb, &p);
	assert_int_equal(kill(getpid(), SIGUSR1), 0);
	loop_run(p.l);
	assert_int_equal(p.signo, SIGUSR1);
}

static void
test_clock_advances(void **state)
{
	struct probe p = {.l = *state};
	uint64_t before = loop_now_ms(p.l);

	timer_init(&p.tm, p.l, stop_cb, &p);
	timer_set(&p.tm, 20);
	loop_run(p.l);
	assert_true(loop_now_ms(p.l) >= before + 20);
	timer_clear(&p.tm);
}

static void
test_hooks(void **state)
{
	struct probe p = {.l = loop_new()};
	struct loop_hook a, b, c;

	(void)state;
	loop_hook_add(p.l, &a, count_cb, &p);
	loop_hook_add(p.l, &b, count_cb, &p);
	loop_hook_add(p.l, &c, count_cb, &p);
	loop_hook_del(&b);
	loop_hook_del(&b);
	loop_free(p.l);
	assert_int_equal(p.runs, 2);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_task_once, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_task_reposts_next_round, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(test_task_cancels_later_one, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(test_task_order, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_defer_free, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_timer_fires, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_timer_put_off, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(test_timer_stop, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_signal, setup, teardown),
	    cmocka_unit_test(test_hooks),
	    cmocka_unit_test_setup_teardown(test_clock_advances, setup,
					    teardown),
	};

	return cmocka_run_group_tests_name("loop", tests, NULL, NULL);
}
