/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/listener: binding, accepting, and running out of descriptors (in a
 * child, since it takes its own limit down).
 */
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
#include <time.h>
#include <unistd.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/err.h"
#include "net/listener.h"
#include "tests/unit/net_help.h"

struct env {
	struct loop *l;
	char dir[64];
	char path[100];
	struct addr unix_addr;
	int accepted;
	int last_fd;
	bool keep; /* accepted ones stay open, in fds */
	int fds[64];
	struct addr peer;
	struct listener *close_inside;
};

static int
setup(void **state)
{
	struct env *e = calloc(1, sizeof(*e));

	e->l = loop_new();
	e->last_fd = -1;
	(void)snprintf(e->dir, sizeof(e->dir), "/tmp/sbx-listen-XXXXXX");
	assert_non_null(mkdtemp(e->dir));
	(void)snprintf(e->path, sizeof(e->path), "%s/s", e->dir);
	assert_int_equal(addr_unix(&e->unix_addr, e->path), 0);
	*state = e;
	return 0;
}

static int
teardown(void **state)
{
	struct env *e = *state;
	int i;

	for (i = 0; e->keep && i < e->accepted; i++)
		(void)close(e->fds[i]);
	loop_free(e->l);
	(void)unlink(e->path);
	(void)rmdir(e->dir);
	free(e);
	return 0;
}

static void
accepted_cb(int fd, const struct addr *peer, void *arg)
{
	struct env *e = arg;

	e->peer = *peer;
	e->last_fd = fd;
	if (e->keep)
		e->fds[e->accepted] = fd;
	else
		(void)close(fd);
	e->accepted++;
	if (e->close_inside != NULL)
		listener_close(e->close_inside);
}

static bool
some_accepted(void *arg)
{
	return ((struct env *)arg)->accepted > 0;
}

static int
dial(const struct addr *a)
{
	int fd = socket(a->u.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (connect(fd, &a->u.sa, a->len) != 0) {
		(void)close(fd);
		return -1;
	}
	return fd;
}

static void
bound_to(int fd, struct addr *a)
{
	a->len = sizeof(a->u);
	assert_int_equal(getsockname(fd, &a->u.sa, &a->len), 0);
}

static const struct listen_options plain = {.uid = (uid_t)-1, .gid = (gid_t)-1};

static void
test_tcp(void **state)
{
	struct env *e = *state;
	struct listener *ls;
	struct addr a;
	int fd, c, on = 0;
	socklen_t n = sizeof(on);

	e->keep = true;
	addr_loopback(&a, false, 0);
	assert_int_equal(listener_bind(&a, &plain, &fd), 0);
	bound_to(fd, &a);
	ls = listener_take_fd(e->l, fd, accepted_cb, e);
	assert_int_equal(listener_fd(ls), fd);
	c = dial(&a);
	help_wait(e->l, some_accepted, e);
	assert_int_equal(e->peer.u.sa.sa_family, AF_INET);
	assert_true(fcntl(e->last_fd, F_GETFL) & O_NONBLOCK);
	assert_true(fcntl(e->last_fd, F_GETFD) & FD_CLOEXEC);
	/* Inherited: nobody has to set it on each. */
	assert_int_equal(
	    getsockopt(e->last_fd, IPPROTO_TCP, TCP_NODELAY, &on, &n), 0);
	assert_int_equal(on, 1);
	assert_int_equal(
	    getsockopt(e->last_fd, SOL_SOCKET, SO_KEEPALIVE, &on, &n), 0);
	assert_int_equal(on, 1);
	(void)close(c);
	/* The address is in use. */
	assert_int_equal(listener_bind(&a, &plain, &fd), E_BUSY);
	listener_close(ls);
}

static void
test_reuseport(void **state)
{
	struct listen_options o = plain;
	struct addr a;
	int one, two;

	(void)state;
	o.reuseport = true;
	addr_loopback(&a, false, 0);
	assert_int_equal(listener_bind(&a, &o, &one), 0);
	bound_to(one, &a);
	assert_int_equal(listener_bind(&a, &o, &two), 0);
	(void)close(one);
	(void)close(two);
}

static void
test_unix_mode(void **state)
{
	struct env *e = *state;
	struct listen_options o = plain;
	struct stat sb;
	int fd;

	assert_int_equal(listener_bind(&e->unix_addr, &o, &fd), 0);
	assert_int_equal(stat(e->path, &sb), 0);
	assert_int_equal(sb.st_mode & 0777, 0660);
	(void)close(fd);
	/* The file is left behind: abandoned, so replaced. */
	o.mode = 0600;
	assert_int_equal(listener_bind(&e->unix_addr, &o, &fd), 0);
	assert_int_equal(stat(e->path, &sb), 0);
	assert_int_equal(sb.st_mode & 0777, 0600);
	(void)close(fd);
}

static void
test_unix_taken(void **state)
{
	struct env *e = *state;
	int fd, other, plain_file;

	assert_int_equal(listener_bind(&e->unix_addr, &plain, &fd), 0);
	assert_int_equal(listener_bind(&e->unix_addr, &plain, &other), E_BUSY);
	(void)close(fd);
	assert_int_equal(unlink(e->path), 0);
	plain_file = open(e->path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	(void)close(plain_file);
	assert_int_equal(listener_bind(&e->unix_addr, &plain, &other),
			 E_EXISTS);
}

static void
test_unix_accept(void **state)
{
	struct env *e = *state;
	char text[ADDR_TEXT_MAX];
	struct listener *ls;
	int fd, c;

	assert_int_equal(listener_bind(&e->unix_addr, &plain, &fd), 0);
	ls = listener_take_fd(e->l, fd, accepted_cb, e);
	c = dial(&e->unix_addr);
	help_wait(e->l, some_accepted, e);
	assert_string_equal(addr_text(&e->peer, text), "unix:");
	(void)close(c);
	listener_close(ls);
}

static void
test_pause(void **state)
{
	struct env *e = *state;
	struct listener *ls;
	int fd, c;

	assert_int_equal(listener_bind(&e->unix_addr, &plain, &fd), 0);
	ls = listener_take_fd(e->l, fd, accepted_cb, e);
	listener_pause(ls);
	assert_true(listener_paused(ls));
	c = dial(&e->unix_addr);
	help_settle(e->l);
	assert_int_equal(e->accepted, 0);
	listener_resume(ls);
	help_wait(e->l, some_accepted, e);
	(void)close(c);
	listener_close(ls);
}

static void
test_close_inside(void **state)
{
	struct env *e = *state;
	int fd, c, d;

	assert_int_equal(listener_bind(&e->unix_addr, &plain, &fd), 0);
	e->close_inside = listener_take_fd(e->l, fd, accepted_cb, e);
	c = dial(&e->unix_addr);
	d = dial(&e->unix_addr);
	help_wait(e->l, some_accepted, e);
	help_settle(e->l);
	assert_int_equal(e->accepted, 1);
	(void)close(c);
	(void)close(d);
}

/* --- out of descriptors ------------------------------------------------ */

#define CHECK(x)                                                               \
	do {                                                                   \
		if (!(x)) {                                                    \
			(void)fprintf(stderr, "line %d: %s\n", __LINE__, #x);  \
			_exit(1);                                              \
		}                                                              \
	} while (0)

static double
cpu_seconds(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* Lets the loop run without help_wait(), which cannot be used in a child. */
static void
run_ms(struct loop *l, unsigned ms)
{
	uint64_t end = loop_clock_us() + ms * 1000;

	while (loop_clock_us() < end)
		loop_once(l, true);
}

static void
nop_cb(void *arg)
{
	timer_set(arg, 20);
}

/* Descriptors are the scarce thing here: all but one are taken. */
static void
starve_child(struct env *e)
{
	struct rlimit rl = {.rlim_cur = 64, .rlim_max = 64};
	struct listener *ls;
	struct timer tick;
	int fd, i, n = 0, waste[64], c[3];
	double cpu;
	char b;

	CHECK(setrlimit(RLIMIT_NOFILE, &rl) == 0);
	CHECK(listener_bind(&e->unix_addr, &plain, &fd) == 0);
	ls = listener_take_fd(e->l, fd, accepted_cb, e);
	timer_init(&tick, e->l, nop_cb, &tick);
	timer_set(&tick, 20);
	e->keep = true;
	for (i = 0; i < 3; i++)
		CHECK((c[i] = dial(&e->unix_addr)) != -1);
	while ((fd = dup(0)) != -1)
		waste[n++] = fd;
	(void)close(waste[--n]); /* room for one of the three */
	cpu = cpu_seconds();
	run_ms(e->l, 400);
	CHECK(e->accepted == 1);
	CHECK(listener_starved(ls) >= 1);
	CHECK(cpu_seconds() - cpu < 0.2); /* it does not spin */
	/* Descriptors are back: who waited is served. */
	(void)close(waste[--n]);
	(void)close(waste[--n]);
	(void)close(waste[--n]);
	run_ms(e->l, 300);
	CHECK(e->accepted == 3);
	/* And again, for long: those who wait are turned away. */
	for (i = 0; i < 3; i++)
		(void)close(e->fds[i]);
	e->accepted = 0;
	(void)close(c[1]);
	(void)close(c[2]);
	CHECK((c[1] = dial(&e->unix_addr)) != -1);
	while ((fd = dup(0)) != -1)
		waste[n++] = fd;
	run_ms(e->l, 1500);
	CHECK(e->accepted == 0);
	CHECK(recv(c[1], &b, 1, MSG_DONTWAIT) == 0);
	while (n > 0)
		(void)close(waste[--n]);
	run_ms(e->l, 200);
	(void)close(c[1]);
	CHECK((c[1] = dial(&e->unix_addr)) != -1);
	run_ms(e->l, 200);
	CHECK(e->accepted == 1);
	_exit(0);
}

static void
test_out_of_descriptors(void **state)
{
	struct env *e = *state;
	int status;
	pid_t pid;

	if (getenv("SBX_VALGRIND") != NULL)
		skip(); /* it keeps descriptors of its own */
	pid = fork();
	if (pid == 0) {
		/* The loop was made by the parent: epoll must not be shared. */
		e->l = loop_new();
		starve_child(e);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    T(test_tcp),          T(test_reuseport),          T(test_unix_mode),
	    T(test_unix_taken),   T(test_unix_accept),        T(test_pause),
	    T(test_close_inside), T(test_out_of_descriptors),
	};

	return cmocka_run_group_tests_name("listener", tests, NULL, NULL);
}
