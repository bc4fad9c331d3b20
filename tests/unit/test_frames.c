/* SPDX-License-Identifier: Apache-2.0 */
/* agent/frames: what comes in pieces, what cannot be, descriptors, pauses. */
#include "config.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/frames.h"
#include "base/mem.h"
#include "tests/unit/net_help.h"

#define HELD (2U << 20)

struct env {
	struct loop *l;
	struct frames *f;
	int peer;
	size_t held;
	unsigned frames, closed;
	char type;
	struct strbuf got; /* bodies, one after the other */
	unsigned pause_at, close_at;
	unsigned want;
};

static void
frame_cb(struct frames *f, char type, struct strv body, void *arg)
{
	struct env *e = arg;

	assert_ptr_equal(f, e->f);
	assert_int_equal(e->closed, 0);
	e->frames++;
	e->type = type;
	strbuf_addv(&e->got, body);
	if (e->frames == e->pause_at)
		frames_pause(f);
	if (e->frames == e->close_at) {
		frames_close(f);
		e->f = NULL;
	}
}

static void
closed_cb(struct frames *f, void *arg)
{
	struct env *e = arg;

	assert_ptr_equal(f, e->f);
	e->closed++;
}

static const struct frames_cbs cbs = {frame_cb, closed_cb};

static int
setup(void **state)
{
	struct env *e = xcalloc(1, sizeof(*e));
	int fds[2];

	e->l = loop_new();
	help_pair(fds);
	e->peer = fds[1];
	e->f = frames_take_fd(e->l, fds[0], &e->held, HELD, &cbs, e);
	*state = e;
	return 0;
}

static int
teardown(void **state)
{
	struct env *e = *state;

	frames_close(e->f);
	assert_int_equal(e->held, 0);
	help_settle(e->l);
	loop_free(e->l);
	(void)close(e->peer);
	strbuf_clear(&e->got);
	free(e);
	return 0;
}

static bool
got_frames(void *arg)
{
	const struct env *e = arg;

	return e->frames >= e->want;
}

static bool
is_closed(void *arg)
{
	const struct env *e = arg;

	return e->closed > 0;
}

static void
wait_frames(struct env *e, unsigned n)
{
	e->want = n;
	help_wait(e->l, got_frames, e);
	assert_int_equal(e->frames, n);
}

static void
make(struct strbuf *b, char type, struct strv body)
{
	size_t n = body.len + 1;
	const char head[] = {(char)(n >> 24), (char)(n >> 16), (char)(n >> 8),
			     (char)n, type};

	strbuf_add(b, head, sizeof(head));
	strbuf_addv(b, body);
}

static void
say(struct env *e, char type, struct strv body)
{
	struct strbuf b = {0};

	make(&b, type, body);
	raw_write(e->l, e->peer, b.s, b.len);
	strbuf_clear(&b);
}

static void
assert_got(struct env *e, const char *text)
{
	struct strv v = {e->got.s, e->got.len};

	assert_true(strv_eq(v, strv_of(text)));
}

/* --- in ---------------------------------------------------------------- */

static void
test_torn(void **state)
{
	struct env *e = *state;
	struct strbuf b = {0};

	make(&b, 'a', STRV("first"));
	make(&b, 'b', STRV_NULL);
	make(&b, 'c', STRV("last"));
	for (size_t i = 0; i < b.len; i++) {
		raw_write(e->l, e->peer, b.s + i, 1);
		help_settle(e->l);
		assert_int_equal(e->frames,
				 (i >= 9) + (i >= 14) + (i + 1 == b.len));
	}
	assert_got(e, "firstlast");
	assert_int_equal(e->type, 'c');
	strbuf_clear(&b);
}

static void
test_many_at_once(void **state)
{
	struct env *e = *state;
	struct strbuf b = {0};

	for (unsigned i = 0; i < 5000; i++)
		make(&b, 'x', STRV("y"));
	raw_write(e->l, e->peer, b.s, b.len);
	wait_frames(e, 5000);
	assert_int_equal(e->got.len, 5000);
	strbuf_clear(&b);
}

/* In one write, so that the end is there with the frames before it. */
static void
test_end_after_all(void **state)
{
	struct env *e = *state;
	struct strbuf b = {0};

	for (unsigned i = 0; i < 100; i++)
		make(&b, 'x', STRV("y"));
	strbuf_adds(&b, "\x00\x01"); /* and a torn one */
	raw_write(e->l, e->peer, b.s, b.len);
	assert_int_equal(shutdown(e->peer, SHUT_WR), 0);
	help_wait(e->l, is_closed, e);
	assert_int_equal(e->frames, 100);
	help_settle(e->l);
	assert_int_equal(e->closed, 1);
	strbuf_clear(&b);
}

static void
check_hostile(struct env *e, struct strv head)
{
	say(e, 'a', STRV("good"));
	raw_write(e->l, e->peer, head.p, head.len);
	help_wait(e->l, is_closed, e);
	assert_int_equal(e->frames, 1);
	assert_int_equal(e->closed, 1);
	frames_send(e->f, 'z', STRV("nobody hears this"));
	help_settle(e->l);
	assert_int_equal(e->closed, 1);
}

static void
test_length_zero(void **state)
{
	check_hostile(*state, STRV("\0\0\0\0x"));
}

static void
test_length_too_much(void **state)
{
	/* FRAMES_MAX + 1: refused before any of it is there */
	check_hostile(*state, STRV("\x00\x80\x00\x01x"));
}

static void
test_length_all_ones(void **state)
{
	check_hostile(*state, STRV("\xff\xff\xff\xffx"));
}

static void
test_largest_begins(void **state)
{
	struct env *e = *state;

	raw_write(e->l, e->peer, "\x00\x80\x00\x00x", 5);
	help_settle(e->l);
	assert_int_equal(e->closed, 0);
	assert_int_equal(e->frames, 0);
}

/* What all links of a sandbox may keep is counted together. */
static void
test_memory_bound(void **state)
{
	struct env *e = *state;
	char junk[65536];
	size_t sent = 0;
	ssize_t n;

	memset(junk, 'j', sizeof(junk));
	raw_write(e->l, e->peer, "\x00\x7f\x00\x00x", 5);
	while (e->closed == 0 && sent < 3 * (size_t)HELD) {
		n = send(e->peer, junk, sizeof(junk), MSG_NOSIGNAL);
		if (n > 0)
			sent += (size_t)n;
		help_settle(e->l);
		assert_true(e->held <= HELD);
	}
	assert_int_equal(e->closed, 1);
	assert_int_equal(e->frames, 0);
	assert_true(sent < 2 * (size_t)HELD);
}

static void
test_memory_of_others(void **state)
{
	struct env *e = *state;

	e->held = HELD - 4; /* by others */
	say(e, 'a', STRV(""));
	help_wait(e->l, is_closed, e);
	assert_int_equal(e->frames, 0);
	assert_int_equal(e->held, HELD - 4);
	frames_close(e->f);
	e->f = NULL;
	e->held -= HELD - 4;
}

static void
test_large_one(void **state)
{
	struct env *e = *state;
	size_t n = 1U << 20;
	char *p = xmalloc(n);

	help_pattern(p, n, 7);
	say(e, 'L', (struct strv){p, n});
	wait_frames(e, 1);
	assert_int_equal(e->got.len, n);
	assert_memory_equal(e->got.s, p, n);
	say(e, 's', STRV("small")); /* what was kept for it goes */
	wait_frames(e, 2);
	assert_true(e->held < 100);
	free(p);
}

/* --- pauses ------------------------------------------------------------ */

static void
test_pause(void **state)
{
	struct env *e = *state;

	e->pause_at = 2;
	for (unsigned i = 0; i < 5; i++)
		say(e, 'p', STRV("."));
	help_settle(e->l);
	assert_int_equal(e->frames, 2);
	say(e, 'p', STRV("."));
	help_settle(e->l);
	assert_int_equal(e->frames, 2);
	frames_resume(e->f);
	assert_int_equal(e->frames, 2); /* not from inside */
	wait_frames(e, 6);
	frames_resume(e->f);
	help_settle(e->l);
	assert_int_equal(e->frames, 6);
}

static void
test_end_while_paused(void **state)
{
	struct env *e = *state;

	e->pause_at = 1;
	for (unsigned i = 0; i < 3; i++)
		say(e, 'p', STRV("."));
	help_settle(e->l);
	assert_int_equal(shutdown(e->peer, SHUT_WR), 0);
	help_settle(e->l);
	assert_int_equal(e->frames, 1);
	assert_int_equal(e->closed, 0);
	frames_resume(e->f);
	help_wait(e->l, is_closed, e);
	assert_int_equal(e->frames, 3);
}

/* The end is seen in the batch in which it is taken up again. */
static void
test_end_is_told_once(void **state)
{
	struct env *e = *state;

	e->pause_at = 1;
	say(e, 'p', STRV("."));
	help_settle(e->l);
	assert_int_equal(e->frames, 1);
	frames_resume(e->f);
	assert_int_equal(shutdown(e->peer, SHUT_WR), 0);
	help_settle(e->l);
	assert_int_equal(e->closed, 1);
}

static void
test_drain(void **state)
{
	struct env *e = *state;
	struct strbuf b = {0};

	for (unsigned i = 0; i < 100; i++)
		make(&b, 'd', STRV("."));
	frames_pause(e->f);
	raw_write(e->l, e->peer, b.s, b.len);
	help_settle(e->l);
	assert_int_equal(e->frames, 0);
	frames_drain(e->f); /* what has come, now */
	assert_int_equal(e->frames, 100);
	frames_drain(e->f);
	assert_int_equal(e->frames, 100);
	strbuf_clear(&b);
}

static void
test_close_inside(void **state)
{
	struct env *e = *state;

	e->close_at = 2;
	for (unsigned i = 0; i < 4; i++)
		say(e, 'c', STRV("."));
	help_settle(e->l);
	assert_int_equal(e->frames, 2);
	assert_null(e->f);
	assert_int_equal(e->held, 0);
}

/* --- descriptors ------------------------------------------------------- */

static void
say_fds(struct env *e, const int *fds, size_t n)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(64 * sizeof(int))];
	} control;
	char text[] = "\0\0\0\1c";
	struct iovec iov = {text, 5};
	struct msghdr mh = {.msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control.space,
			    .msg_controllen = CMSG_SPACE(n * sizeof(int))};
	struct cmsghdr *c;

	memset(&control, 0, sizeof(control));
	c = CMSG_FIRSTHDR(&mh);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(n * sizeof(int));
	memcpy(CMSG_DATA(c), fds, n * sizeof(int));
	assert_int_equal(sendmsg(e->peer, &mh, 0), 5);
}

static void
test_descriptors(void **state)
{
	struct env *e = *state;
	int before = help_fd_count(), p[2], got;
	char c;

	assert_int_equal(frames_fd(e->f), -1);
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	say_fds(e, p, 2);
	(void)close(p[0]);
	(void)close(p[1]);
	wait_frames(e, 1);
	p[0] = frames_fd(e->f); /* in the order they came */
	p[1] = frames_fd(e->f);
	got = frames_fd(e->f);
	assert_int_equal(got, -1);
	assert_int_equal(fcntl(p[0], F_GETFD), FD_CLOEXEC);
	assert_int_equal(write(p[1], "x", 1), 1);
	assert_int_equal(read(p[0], &c, 1), 1);
	(void)close(p[0]);
	(void)close(p[1]);
	assert_int_equal(help_fd_count(), before);
}

/* More than may wait, and more in one message than there is room for: none
 * of them stays open. */
static void
test_too_many_descriptors(void **state)
{
	struct env *e = *state;
	int before = help_fd_count(), fds[60];
	unsigned n = 0;

	for (size_t i = 0; i < 60; i++)
		fds[i] = e->peer;
	for (unsigned i = 0; i < 20; i++) {
		say_fds(e, fds, 16);
		wait_frames(e, i + 1);
	}
	assert_int_equal(help_fd_count(), before + FRAMES_FDS_MAX);
	while ((fds[0] = frames_fd(e->f)) >= 0) {
		(void)close(fds[0]);
		n++;
	}
	assert_int_equal(n, FRAMES_FDS_MAX);
	assert_int_equal(help_fd_count(), before);
	fds[0] = e->peer;
	say_fds(e, fds, 60);
	wait_frames(e, 21);
	assert_true(help_fd_count() <= before + 20);
	frames_close(e->f); /* with those that nobody took */
	e->f = NULL;
	assert_int_equal(help_fd_count(), before - 1);
}

/* --- out --------------------------------------------------------------- */

static void
test_send(void **state)
{
	struct env *e = *state;
	size_t n = 3U << 20; /* more than the socket takes at once */
	char *p = xmalloc(n), *q = xmalloc(n);
	char head[5];

	help_pattern(p, n, 3);
	frames_send(e->f, 'R', (struct strv){p, n});
	frames_send(e->f, 'N', STRV("{}"));
	raw_read(e->l, e->peer, head, 5);
	assert_memory_equal(head, "\x00\x30\x00\x01R", 5);
	raw_read(e->l, e->peer, q, n);
	assert_memory_equal(p, q, n);
	raw_read(e->l, e->peer, head, 5);
	assert_memory_equal(head, "\0\0\0\3N", 5);
	raw_read(e->l, e->peer, q, 2);
	assert_memory_equal(q, "{}", 2);
	free(p);
	free(q);
}

/* Who does not read and then goes: no SIGPIPE, one end. */
static void
test_send_to_nobody(void **state)
{
	struct env *e = *state;
	size_t n = 1U << 20;
	char *p = xcalloc(1, n);

	frames_send(e->f, 'R', (struct strv){p, n});
	(void)close(e->peer);
	help_wait(e->l, is_closed, e);
	frames_send(e->f, 'R', (struct strv){p, n});
	help_settle(e->l);
	assert_int_equal(e->closed, 1);
	e->peer = -1;
	free(p);
}

int
main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    T(test_torn),
	    T(test_many_at_once),
	    T(test_end_after_all),
	    T(test_length_zero),
	    T(test_length_too_much),
	    T(test_length_all_ones),
	    T(test_largest_begins),
	    T(test_memory_bound),
	    T(test_memory_of_others),
	    T(test_large_one),
	    T(test_pause),
	    T(test_end_while_paused),
	    T(test_end_is_told_once),
	    T(test_drain),
	    T(test_close_inside),
	    T(test_descriptors),
	    T(test_too_many_descriptors),
	    T(test_send),
	    T(test_send_to_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
