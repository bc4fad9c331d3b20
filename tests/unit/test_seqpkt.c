/* SPDX-License-Identifier: Apache-2.0 */
/* net/seqpkt: messages, descriptors, queues, ends. */
#include "config.h"

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
#include "net/listener.h"
#include "net/seqpkt.h"
#include "tests/unit/net_help.h"

struct side {
	struct seqpkt *sp;
	int messages, closed, fds;
	int last_fd;
	char last[SEQPKT_MAX + 1];
	size_t last_len;
	bool close_inside;
	int want;
};

struct env {
	struct loop *l;
	struct side a, b;
};

static void
message_cb(struct seqpkt *sp, struct strv msg, int fd, void *arg)
{
	struct side *s = arg;

	assert_ptr_equal(sp, s->sp);
	s->messages++;
	assert_int_equal(msg.p[msg.len], '\0');
	memcpy(s->last, msg.p, msg.len + 1);
	s->last_len = msg.len;
	if (fd != -1) {
		s->fds++;
		s->last_fd = fd;
	}
	if (s->close_inside)
		seqpkt_close(sp);
}

static void
closed_cb(struct seqpkt *sp, void *arg)
{
	struct side *s = arg;

	s->closed++;
	seqpkt_close(sp);
}

static const struct seqpkt_cbs cbs = {message_cb, closed_cb};

static int
setup(void **state)
{
	struct env *e = calloc(1, sizeof(*e));
	int fds[2];

	e->l = loop_new();
	assert_int_equal(seqpkt_pair(fds), 0);
	e->a.sp = seqpkt_take_fd(e->l, fds[0], &cbs, &e->a);
	e->b.sp = seqpkt_take_fd(e->l, fds[1], &cbs, &e->b);
	*state = e;
	return 0;
}

static int
teardown(void **state)
{
	struct env *e = *state;

	if (e->a.closed == 0 && !e->a.close_inside)
		seqpkt_close(e->a.sp);
	if (e->b.closed == 0 && !e->b.close_inside)
		seqpkt_close(e->b.sp);
	loop_free(e->l);
	free(e);
	return 0;
}

static bool
got_wanted(void *arg)
{
	struct side *s = arg;

	return s->messages >= s->want;
}

static bool
got_closed(void *arg)
{
	return ((struct side *)arg)->closed > 0;
}

static void
wait_messages(struct env *e, struct side *s, int n)
{
	s->want = n;
	help_wait(e->l, got_wanted, s);
}

static void
test_message(void **state)
{
	struct env *e = *state;
	uid_t uid;
	pid_t pid;

	assert_int_equal(seqpkt_send(e->a.sp, STRV("add x 1"), -1), 0);
	wait_messages(e, &e->b, 1);
	assert_string_equal(e->b.last, "add x 1");
	assert_int_equal(seqpkt_sendf(e->b.sp, -1, "%s %d", "ok", 7), 0);
	wait_messages(e, &e->a, 1);
	assert_string_equal(e->a.last, "ok 7");
	assert_int_equal(seqpkt_peer(e->a.sp, &uid, &pid), 0);
	assert_int_equal(uid, getuid());
	assert_int_equal(pid, getpid());
}

static void
test_sizes(void **state)
{
	struct env *e = *state;
	static char big[SEQPKT_MAX + 1];

	memset(big, 'x', sizeof(big));
	assert_int_equal(
	    seqpkt_send(e->a.sp, (struct strv){big, SEQPKT_MAX}, -1), 0);
	wait_messages(e, &e->b, 1);
	assert_int_equal(e->b.last_len, SEQPKT_MAX);
	assert_int_equal(
	    seqpkt_send(e->a.sp, (struct strv){big, SEQPKT_MAX + 1}, -1),
	    E_LIMIT);
	assert_int_equal(
	    seqpkt_sendf(e->a.sp, -1, "%.*s%s", SEQPKT_MAX, big, "y"), E_LIMIT);
	assert_int_equal(seqpkt_send(e->a.sp, STRV(""), -1), E_INVALID);
}

static void
test_descriptor(void **state)
{
	struct env *e = *state;
	int p[2];
	char c;

	assert_int_equal(pipe(p), 0);
	assert_int_equal(seqpkt_send(e->a.sp, STRV("take this"), p[1]), 0);
	(void)close(p[1]);
	wait_messages(e, &e->b, 1);
	assert_int_equal(e->b.fds, 1);
	assert_int_equal(write(e->b.last_fd, "!", 1), 1);
	assert_int_equal(read(p[0], &c, 1), 1);
	(void)close(e->b.last_fd);
	assert_int_equal(read(p[0], &c, 1), 0); /* no copy is left */
	(void)close(p[0]);
}

/* More than the kernel holds waits in the queue, descriptors too; more than
 * the queue holds is refused; everything arrives in order. */
static void
test_queue(void **state)
{
	struct env *e = *state;
	int p[2], i, n = 0, before = help_fd_count();

	assert_int_equal(pipe(p), 0);
	while (seqpkt_sendf(e->a.sp, n % 1000 == 0 ? p[0] : -1, "n %d", n) == 0)
		n++;
	assert_true(n > 4096);
	assert_int_equal(seqpkt_send(e->a.sp, STRV("x"), -1), E_LIMIT);
	wait_messages(e, &e->b, n);
	assert_int_equal(e->b.messages, n);
	assert_int_equal(atoi(e->b.last + 2), n - 1);
	i = (n + 999) / 1000;
	assert_int_equal(e->b.fds, i);
	assert_int_equal(help_fd_count(), before + 2 + i);
	for (; i > 0; i--) /* the ones that were received */
		(void)close(e->b.last_fd - i + 1);
	(void)close(p[0]);
	(void)close(p[1]);
}

static void
test_end(void **state)
{
	struct env *e = *state;

	assert_int_equal(seqpkt_send(e->a.sp, STRV("bye"), -1), 0);
	seqpkt_close(e->a.sp);
	seqpkt_close(e->a.sp);
	e->a.closed = 1;
	help_wait(e->l, got_closed, &e->b);
	assert_string_equal(e->b.last, "bye");
	assert_int_equal(e->b.closed, 1);
}

/* A failed send does not hide what had come. */
static void
test_send_to_nobody(void **state)
{
	struct env *e = *state;

	assert_int_equal(seqpkt_send(e->a.sp, STRV("bye"), -1), 0);
	seqpkt_close(e->a.sp);
	e->a.closed = 1;
	assert_int_equal(seqpkt_send(e->b.sp, STRV("hello?"), -1), E_PEER);
	assert_int_equal(e->b.closed, 0); /* never from inside */
	help_wait(e->l, got_closed, &e->b);
	assert_int_equal(e->b.messages, 1);
	assert_string_equal(e->b.last, "bye");
}

static void
test_close_inside(void **state)
{
	struct env *e = *state;

	e->b.close_inside = true;
	assert_int_equal(seqpkt_send(e->a.sp, STRV("one"), -1), 0);
	assert_int_equal(seqpkt_send(e->a.sp, STRV("two"), -1), 0);
	help_wait(e->l, got_closed, &e->a);
	assert_int_equal(e->b.messages, 1);
	assert_int_equal(e->b.closed, 0);
}

/* Somebody who does not keep to the size is cut off. */
static void
test_too_long(void **state)
{
	struct env *e = *state;
	static char big[SEQPKT_MAX + 100];
	int fds[2];
	struct side s = {0};

	memset(big, 'x', sizeof(big));
	assert_int_equal(seqpkt_pair(fds), 0);
	s.sp = seqpkt_take_fd(e->l, fds[0], &cbs, &s);
	assert_int_equal(send(fds[1], big, sizeof(big), 0), sizeof(big));
	help_wait(e->l, got_closed, &s);
	assert_int_equal(s.messages, 0);
	(void)close(fds[1]);
}

static void
accepted_cb(int fd, const struct addr *peer, void *arg)
{
	(void)peer;
	*(int *)arg = fd;
}

static bool
fd_there(void *arg)
{
	return *(int *)arg != -1;
}

static void
test_by_path(void **state)
{
	struct env *e = *state;
	struct listener *ls;
	struct side s = {0}, t = {0};
	char path[] = "/tmp/sbx-seqpkt-XXXXXX/s";
	char *slash = strrchr(path, '/');
	int fd, got = -1;

	*slash = '\0';
	assert_non_null(mkdtemp(path));
	*slash = '/';
	assert_int_equal(seqpkt_connect(path, &fd), E_REFUSED);
	assert_int_equal(seqpkt_bind(path, 0600, (uid_t)-1, (gid_t)-1, &fd), 0);
	ls = listener_take_fd(e->l, fd, accepted_cb, &got);
	assert_int_equal(seqpkt_bind(path, 0600, (uid_t)-1, (gid_t)-1, &fd),
			 E_BUSY);
	assert_int_equal(seqpkt_connect(path, &fd), 0);
	s.sp = seqpkt_take_fd(e->l, fd, &cbs, &s);
	help_wait(e->l, fd_there, &got);
	t.sp = seqpkt_take_fd(e->l, got, &cbs, &t);
	assert_int_equal(seqpkt_send(s.sp, STRV("hello"), -1), 0);
	wait_messages(e, &t, 1);
	assert_string_equal(t.last, "hello");
	seqpkt_close(s.sp);
	seqpkt_close(t.sp);
	listener_close(ls);
	assert_int_equal(unlink(path), 0);
	*slash = '\0';
	assert_int_equal(rmdir(path), 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    T(test_message),      T(test_sizes),    T(test_descriptor),
	    T(test_queue),        T(test_end),      T(test_send_to_nobody),
	    T(test_close_inside), T(test_too_long), T(test_by_path),
	};

	return cmocka_run_group_tests_name("seqpkt", tests, NULL, NULL);
}
