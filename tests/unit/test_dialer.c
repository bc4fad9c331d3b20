/* SPDX-License-Identifier: Apache-2.0 */
/* net/dialer: at once, later, never, cancelled. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>

#include <cmocka.h>

#include "base/err.h"
#include "net/dialer.h"
#include "net/listener.h"
#include "tests/unit/net_help.h"

struct env {
	struct loop *l;
	char dir[64];
	struct addr sock; /* a path in dir */
	int done, err, fd;
	bool had_addr;
	struct addr used;
	struct dial *d;
	struct timer timer;
	int listen_fd;
};

static int
setup(void **state)
{
	struct env *e = calloc(1, sizeof(*e));
	char path[100];

	e->l = loop_new();
	e->fd = -1;
	e->listen_fd = -1;
	(void)snprintf(e->dir, sizeof(e->dir), "/tmp/sbx-dial-XXXXXX");
	assert_non_null(mkdtemp(e->dir));
	(void)snprintf(path, sizeof(path), "%s/s", e->dir);
	assert_int_equal(addr_unix(&e->sock, path), 0);
	*state = e;
	return 0;
}

static int
teardown(void **state)
{
	struct env *e = *state;

	if (e->fd != -1)
		(void)close(e->fd);
	if (e->listen_fd != -1)
		(void)close(e->listen_fd);
	timer_clear(&e->timer);
	loop_free(e->l);
	(void)unlink(e->sock.u.un.sun_path);
	(void)rmdir(e->dir);
	free(e);
	return 0;
}

static void
done_cb(int err, int fd, const struct addr *used, void *arg)
{
	struct env *e = arg;

	e->done++;
	e->err = err;
	e->fd = fd;
	e->had_addr = used != NULL;
	if (used != NULL)
		e->used = *used;
	dial_cancel(e->d); /* too late, and harmless */
}

static bool
is_done(void *arg)
{
	return ((struct env *)arg)->done > 0;
}

static void
start(struct env *e, const struct addr *a, size_t n, uint64_t wait_ms)
{
	struct dial_options o = {.naddrs = n,
				 .wait_ms = wait_ms,
				 .timeout_ms = 2000,
				 .done = done_cb,
				 .arg = e};

	memcpy(o.addrs, a, n * sizeof(*a));
	e->d = dial_start(e->l, &o);
	assert_int_equal(e->done, 0); /* never from inside */
}

static int
listen_on(struct addr *a)
{
	struct listen_options o = {.uid = (uid_t)-1, .gid = (gid_t)-1};
	int fd;

	assert_int_equal(listener_bind(a, &o, &fd), 0);
	a->len = sizeof(a->u);
	assert_int_equal(getsockname(fd, &a->u.sa, &a->len), 0);
	return fd;
}

/* A port that nobody listens on now. */
static void
free_port(struct addr *a, bool v6)
{
	addr_loopback(a, v6, 0);
	(void)close(listen_on(a));
}

static void
check_connected(struct env *e)
{
	int eno = -1;
	socklen_t n = sizeof(eno);

	assert_int_equal(e->err, 0);
	assert_true(e->had_addr);
	assert_true(fcntl(e->fd, F_GETFL) & O_NONBLOCK);
	assert_true(fcntl(e->fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(getsockopt(e->fd, SOL_SOCKET, SO_ERROR, &eno, &n), 0);
	assert_int_equal(eno, 0);
}

static void
test_unix(void **state)
{
	struct env *e = *state;

	e->listen_fd = listen_on(&e->sock);
	start(e, &e->sock, 1, 0);
	help_wait(e->l, is_done, e);
	check_connected(e);
	help_settle(e->l);
	assert_int_equal(e->done, 1);
}

static void
test_tcp_second_address(void **state)
{
	struct env *e = *state;
	struct addr a[2];

	free_port(&a[0], false);
	addr_loopback(&a[1], false, 0);
	e->listen_fd = listen_on(&a[1]);
	start(e, a, 2, 0);
	help_wait(e->l, is_done, e);
	check_connected(e);
	assert_int_equal(addr_port(&e->used), addr_port(&a[1]));
}

static void
test_refused(void **state)
{
	struct env *e = *state;
	struct addr a;

	free_port(&a, false);
	start(e, &a, 1, 0);
	help_wait(e->l, is_done, e);
	assert_int_equal(e->err, E_REFUSED);
	assert_int_equal(e->fd, -1);
	assert_false(e->had_addr);
}

static void
test_no_such_socket(void **state)
{
	struct env *e = *state;

	start(e, &e->sock, 1, 0);
	help_wait(e->l, is_done, e);
	assert_int_equal(e->err, E_REFUSED);
}

static void
listen_later_cb(void *arg)
{
	struct env *e = arg;

	e->listen_fd = listen_on(&e->sock);
}

static void
test_waits_for_a_listener(void **state)
{
	struct env *e = *state;

	timer_init(&e->timer, e->l, listen_later_cb, e);
	timer_set(&e->timer, 120);
	start(e, &e->sock, 1, 5000);
	help_wait(e->l, is_done, e);
	check_connected(e);
}

static void
test_waits_no_longer(void **state)
{
	struct env *e = *state;
	uint64_t t0 = loop_clock_us(), spent;

	start(e, &e->sock, 1, 150);
	help_wait(e->l, is_done, e);
	spent = loop_clock_us() - t0;
	assert_int_equal(e->err, E_REFUSED);
	assert_true(spent >= 130000);
	assert_true(spent < 2000000);
}

static void
test_cancel(void **state)
{
	struct env *e = *state;
	int before = help_fd_count();

	start(e, &e->sock, 1, 60000);
	help_pass(e->l, 40);
	dial_cancel(e->d);
	dial_cancel(e->d);
	help_settle(e->l);
	assert_int_equal(e->done, 0);
	/* Also when it is connected, but not told yet. */
	e->listen_fd = listen_on(&e->sock);
	start(e, &e->sock, 1, 0);
	dial_cancel(e->d);
	help_settle(e->l);
	assert_int_equal(e->done, 0);
	assert_int_equal(help_fd_count(), before + 1); /* the listener */
}

/* A backlog that is full is waited out. */
static void
test_full_backlog(void **state)
{
	struct listen_options o = {
	    .backlog = 1, .uid = (uid_t)-1, .gid = (gid_t)-1};
	struct env *e = *state;
	int c[4], i, n = 0, fd = -1;

	assert_int_equal(listener_bind(&e->sock, &o, &e->listen_fd), 0);
	while (n < 4 && dial_now(&e->sock, &c[n]) == 0)
		n++;
	assert_true(n > 0 && n < 4);
	assert_int_equal(dial_now(&e->sock, &fd), E_AGAIN);
	assert_int_equal(fd, -1);
	start(e, &e->sock, 1, 0);
	help_pass(e->l, 60);
	assert_int_equal(e->done, 0);
	(void)close(accept(e->listen_fd, NULL, NULL));
	(void)close(accept(e->listen_fd, NULL, NULL));
	help_wait(e->l, is_done, e);
	check_connected(e);
	for (i = 0; i < n; i++)
		(void)close(c[i]);
}

static void
test_now(void **state)
{
	struct env *e = *state;
	struct addr a;
	int r;

	assert_int_equal(dial_now(&e->sock, &e->fd), E_REFUSED);
	assert_int_equal(e->fd, -1);
	e->listen_fd = listen_on(&e->sock);
	assert_int_equal(dial_now(&e->sock, &e->fd), 0);
	assert_true(e->fd >= 0);
	free_port(&a, false);
	/* The kernel may know at once, or not. */
	r = dial_now(&a, &e->done);
	assert_true(r == E_REFUSED || r == E_AGAIN);
	assert_int_equal(e->done, 0);
}

/* Nobody answers: 192.0.2.0/24 is for documentation, and no machine. Where
 * there is no route at all, that is told at once. */
static void
test_timeout(void **state)
{
	struct dial_options o = {
	    .naddrs = 1, .timeout_ms = 60, .done = done_cb};
	struct env *e = *state;

	o.arg = e;
	assert_int_equal(addr_parse(STRV("192.0.2.1:9"), &o.addrs[0]), 0);
	e->d = dial_start(e->l, &o);
	help_wait(e->l, is_done, e);
	assert_true(e->err == E_TIMEOUT || e->err == E_UNREACHABLE ||
		    e->err == E_REFUSED || e->err == E_DENIED);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    T(test_unix),
	    T(test_tcp_second_address),
	    T(test_refused),
	    T(test_no_such_socket),
	    T(test_waits_for_a_listener),
	    T(test_waits_no_longer),
	    T(test_cancel),
	    T(test_full_backlog),
	    T(test_now),
	    T(test_timeout),
	};

	return cmocka_run_group_tests_name("dialer", tests, NULL, NULL);
}
