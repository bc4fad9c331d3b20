/* SPDX-License-Identifier: Apache-2.0 */
/* agent/work: turns, jobs that hang, jobs that are late, the end. */
#include "config.h"

#include <linux/capability.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/work.h"
#include "net/loop.h"

#define SHORT_MS 300   /* for what is to be late */
#define LONG_MS  60000 /* for what must not be */

struct gate {
	pthread_mutex_t lock;
	pthread_cond_t moved;
	bool open;
	unsigned inside, most;
};

struct task_of {
	struct work_job job;
	struct gate *gate;
	unsigned done, late;
	bool ran;
	uid_t uid;
	gid_t gid;
	bool resource;           /* could exceed quotas */
	struct work_lane *again; /* submits itself there once more */
};

static struct loop *loop;
static struct work *work;
static struct gate gate;

static void
gate_init(void)
{
	gate = (struct gate){.open = false};
	(void)pthread_mutex_init(&gate.lock, NULL);
	(void)pthread_cond_init(&gate.moved, NULL);
}

static void
gate_open(void)
{
	(void)pthread_mutex_lock(&gate.lock);
	gate.open = true;
	(void)pthread_cond_broadcast(&gate.moved);
	(void)pthread_mutex_unlock(&gate.lock);
}

static unsigned
gate_inside(void)
{
	unsigned n;

	(void)pthread_mutex_lock(&gate.lock);
	n = gate.inside;
	(void)pthread_mutex_unlock(&gate.lock);
	return n;
}

static bool
has_resource(void)
{
	struct __user_cap_header_struct head = {
	    .version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[2] = {{0}};

	return syscall(SYS_capget, &head, caps) == 0 &&
	       (caps[0].effective & (1U << CAP_SYS_RESOURCE)) != 0;
}

static void
job_fn(struct work_job *j)
{
	struct task_of *t = CONTAINER_OF(j, struct task_of, job);

	t->resource = has_resource();
	t->uid = (uid_t)setfsuid((uid_t)-1);
	t->gid = (gid_t)setfsgid((gid_t)-1);
	if (t->gate == NULL)
		return;
	(void)pthread_mutex_lock(&t->gate->lock);
	if (++t->gate->inside > t->gate->most)
		t->gate->most = t->gate->inside;
	while (!t->gate->open)
		(void)pthread_cond_wait(&t->gate->moved, &t->gate->lock);
	t->gate->inside--;
	(void)pthread_mutex_unlock(&t->gate->lock);
}

static void
job_done(struct work_job *j)
{
	struct task_of *t = CONTAINER_OF(j, struct task_of, job);
	struct work_lane *again = t->again;

	t->done++;
	t->ran = j->ran;
	t->again = NULL;
	if (again != NULL)
		work_submit(again, j);
}

static void
job_late(struct work_job *j)
{
	CONTAINER_OF(j, struct task_of, job)->late++;
}

static void
put(struct work_lane *lane, struct task_of *t, struct gate *g, uid_t uid)
{
	*t = (struct task_of){.gate = g};
	t->job.fn = job_fn;
	t->job.done = job_done;
	t->job.late = job_late;
	t->job.uid = uid;
	work_submit(lane, &t->job);
}

static void
start(uint64_t late_ms)
{
	loop = loop_new();
	work = work_new(loop, late_ms);
	gate_init();
}

static void
stop(void)
{
	gate_open();
	assert_true(work_drain(work, LONG_MS));
	work_free(work);
	loop_free(loop);
	(void)pthread_cond_destroy(&gate.moved);
	(void)pthread_mutex_destroy(&gate.lock);
}

/* Until n of the tasks are done. */
static void
until_done(struct task_of *t, size_t all, size_t n)
{
	for (;;) {
		size_t done = 0;

		for (size_t i = 0; i < all; i++)
			done += t[i].done;
		if (done >= n)
			return;
		loop_once(loop, true);
	}
}

static void
until_inside(unsigned n)
{
	const struct timespec ms = {.tv_nsec = 1000000};

	while (gate_inside() < n)
		(void)nanosleep(&ms, NULL);
}

static void
test_all_are_done(void **state)
{
	enum { LANES = 7, N = 1000 };
	static struct work_lane lanes[LANES];
	static struct task_of t[N];

	(void)state;
	start(LONG_MS);
	for (size_t i = 0; i < LANES; i++)
		work_lane_init(&lanes[i], work, 1 + i % 3);
	for (size_t i = 0; i < N; i++) {
		put(&lanes[i % LANES], &t[i], NULL, WORK_SELF);
		t[i].again = &lanes[(i + 1) % LANES];
	}
	until_done(t, N, 2 * N);
	for (size_t i = 0; i < N; i++)
		assert_true(t[i].done == 2 && t[i].ran && t[i].late == 0);
	assert_true(work_threads(work) <= WORK_THREADS);
	stop();
}

static void
test_a_lane_has_its_bound(void **state)
{
	static struct work_lane busy, other;
	static struct task_of t[20], quick;

	(void)state;
	start(LONG_MS);
	work_lane_init(&busy, work, 2);
	work_lane_init(&other, work, 2);
	for (size_t i = 0; i < 20; i++)
		put(&busy, &t[i], &gate, WORK_SELF);
	until_inside(2);
	/* One that hangs leaves the others alone. */
	put(&other, &quick, NULL, WORK_SELF);
	until_done(&quick, 1, 1);
	assert_int_equal(gate_inside(), 2);
	gate_open();
	until_done(t, 20, 20);
	assert_int_equal(gate.most, 2);
	stop();
}

static void
test_a_slow_job_leaves_room(void **state)
{
	static struct work_lane lane;
	static struct task_of slow[4], quick;

	(void)state;
	start(LONG_MS);
	work_lane_init(&lane, work, 2);
	for (size_t i = 0; i < 4; i++) {
		slow[i] = (struct task_of){.gate = &gate};
		slow[i].job.fn = job_fn;
		slow[i].job.done = job_done;
		slow[i].job.uid = WORK_SELF;
		slow[i].job.slow = true;
		work_submit(&lane, &slow[i].job);
	}
	until_inside(1);
	put(&lane, &quick, NULL, WORK_SELF);
	until_done(&quick, 1, 1);
	gate_open();
	until_done(slow, 4, 4);
	assert_int_equal(gate.most, 1);
	stop();
}

/* When every thread hangs there will be others. */
static void
test_threads_that_hang_are_replaced(void **state)
{
	enum { N = 8 };
	static struct work_lane lanes[N], other;
	static struct task_of t[N], quick;

	(void)state;
	start(LONG_MS);
	for (size_t i = 0; i < N; i++) {
		work_lane_init(&lanes[i], work, 2);
		put(&lanes[i], &t[i], &gate, WORK_SELF);
	}
	work_lane_init(&other, work, 2);
	put(&other, &quick, NULL, WORK_SELF);
	until_done(&quick, 1, 1);
	assert_true(work_threads(work) > WORK_THREADS);
	stop();
	for (size_t i = 0; i < N; i++)
		assert_true(t[i].done == 1 && t[i].ran);
}

static void
test_late(void **state)
{
	static struct work_lane lane;
	static struct task_of t[3];

	(void)state;
	start(SHORT_MS);
	work_lane_init(&lane, work, 1);
	for (size_t i = 0; i < 3; i++)
		put(&lane, &t[i], &gate, WORK_SELF);
	until_done(t, 3, 2);
	/* The first hangs: its owner was told, and it is not over. The others
	 * never began. */
	assert_true(t[0].late == 1 && t[0].done == 0);
	assert_true(t[1].late == 0 && t[1].done == 1 && !t[1].ran);
	assert_true(t[2].late == 0 && t[2].done == 1 && !t[2].ran);
	gate_open();
	until_done(t, 1, 1);
	assert_true(t[0].ran && t[0].late == 1);
	stop();
}

static void
test_close(void **state)
{
	static struct work_lane lane;
	static struct task_of t[3], last, after;

	(void)state;
	start(LONG_MS);
	work_lane_init(&lane, work, 2);
	for (size_t i = 0; i < 3; i++)
		put(&lane, &t[i], &gate, WORK_SELF);
	until_inside(2);
	last = (struct task_of){.gate = NULL};
	last.job.fn = job_fn;
	last.job.done = job_done;
	last.job.uid = WORK_SELF;
	last.job.slow = true;
	work_lane_close(&lane, NULL);
	put(&lane, &after, NULL, WORK_SELF);
	work_lane_close(&lane, &last.job);
	until_done(&t[2], 1, 1);
	until_done(&after, 1, 1);
	assert_true(!t[2].ran && !after.ran);
	assert_int_equal(last.done, 0);
	gate_open();
	until_done(&last, 1, 1);
	assert_true(last.ran && t[0].done == 1 && t[1].done == 1);
	stop();
}

/* Jobs in flight, and what their ends submit, are still done. */
static void
test_drain(void **state)
{
	enum { N = 50 };
	static struct work_lane lane;
	static struct task_of t[N];

	(void)state;
	start(LONG_MS);
	work_lane_init(&lane, work, 2);
	for (size_t i = 0; i < N; i++) {
		put(&lane, &t[i], i == 0 ? &gate : NULL, WORK_SELF);
		t[i].again = &lane;
	}
	until_inside(1);
	assert_false(work_drain(work, 20)); /* one hangs */
	stop();
	for (size_t i = 0; i < N; i++)
		assert_true(t[i].done == 2 && t[i].ran);
}

static void
test_users_do_not_mix(void **state)
{
	enum { N = 400 };
	static const uid_t uids[] = {20001, WORK_SELF, 20002, 20001, 20003};
	static struct work_lane lanes[5];
	static struct task_of t[N];

	(void)state;
	if (geteuid() != 0)
		skip(); /* only root can be others */
	start(LONG_MS);
	for (size_t i = 0; i < 5; i++)
		work_lane_init(&lanes[i], work, 2);
	for (size_t i = 0; i < N; i++)
		put(&lanes[i % 5], &t[i], NULL, uids[i * 7 % 5]);
	until_done(t, N, N);
	for (size_t i = 0; i < N; i++) {
		uid_t want = uids[i * 7 % 5];

		assert_true(t[i].ran);
		assert_int_equal(t[i].uid, want == WORK_SELF ? 0 : want);
		assert_int_equal(t[i].gid,
				 want == WORK_SELF ? getegid() : want);
		assert_false(want != WORK_SELF && t[i].resource);
	}
	stop();
	assert_int_equal(setfsuid((uid_t)-1), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_all_are_done),
	    cmocka_unit_test(test_a_lane_has_its_bound),
	    cmocka_unit_test(test_a_slow_job_leaves_room),
	    cmocka_unit_test(test_threads_that_hang_are_replaced),
	    cmocka_unit_test(test_late),
	    cmocka_unit_test(test_close),
	    cmocka_unit_test(test_drain),
	    cmocka_unit_test(test_users_do_not_mix),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
