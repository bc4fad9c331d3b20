/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever an interpreter writes to the agent, in whatever pieces, is handed
 * out as the frames that a simple reader finds in it, and ends at the first
 * one that cannot be. The first byte of the input says how it is cut.
 */
#include "config.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/frames.h"
#include "net/loop.h"
#include "tests/fuzz/fuzz.h"

#define INPUT_MAX 60000 /* fits a socket's buffer */
#define HELD      (1U << 20)

struct seen {
	struct strv rest; /* what frames are still to come in */
	unsigned n, pause_every;
	bool closed;
};

static void
must(bool ok)
{
	if (!ok)
		abort();
}

/* The next frame by the book; false: there is none. */
static bool
next_frame(struct strv *rest, char *type, struct strv *body)
{
	const unsigned char *p = (const unsigned char *)rest->p;
	uint32_t n;

	if (rest->len < 5)
		return false;
	n = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 |
	    p[3];
	if (n == 0 || n > FRAMES_MAX || rest->len - 4 < n)
		return false;
	*type = (char)p[4];
	*body = (struct strv){rest->p + 5, n - 1};
	*rest = strv_from(*rest, 4 + (size_t)n);
	return true;
}

static void
frame_cb(struct frames *f, char type, struct strv body, void *arg)
{
	struct seen *s = arg;
	struct strv want;
	char kind;

	must(!s->closed);
	must(next_frame(&s->rest, &kind, &want));
	must(kind == type && strv_eq(want, body));
	s->n++;
	if (s->pause_every != 0 && s->n % s->pause_every == 0)
		frames_pause(f);
}

static void
closed_cb(struct frames *f, void *arg)
{
	struct seen *s = arg;

	(void)f;
	must(!s->closed);
	s->closed = true;
}

static void
feed(struct loop *l, struct frames *f, int fd, struct strv v, size_t step)
{
	while (v.len > 0) {
		size_t n = v.len < step ? v.len : step;

		if (send(fd, v.p, n, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)n)
			return;
		v = strv_from(v, n);
		loop_once(l, false);
		frames_resume(f);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct frames_cbs cbs = {frame_cb, closed_cb};
	struct seen s = {.n = 0};
	struct loop *l;
	struct frames *f;
	size_t held = 0;
	struct strv body;
	char type;
	int fds[2];

	if (size < 1 || size > INPUT_MAX)
		return 0;
	s.rest = (struct strv){(const char *)data + 1, size - 1};
	s.pause_every = data[0] & 7;
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0);
	l = loop_new();
	f = frames_take_fd(l, fds[0], &held, HELD, &cbs, &s);
	/* In 33 steps at most, a few of many bytes or many of a few. */
	feed(l, f, fds[1], s.rest, 1 + (size >> (data[0] >> 5)) + size / 32);
	must(held <= HELD);
	must(shutdown(fds[1], SHUT_WR) == 0);
	for (size_t i = 0; i < size + 100 && !s.closed; i++) {
		frames_resume(f);
		loop_once(l, false);
	}
	must(s.closed && !next_frame(&s.rest, &type, &body));
	frames_close(f);
	must(held == 0);
	(void)close(fds[1]);
	loop_free(l);
	return 0;
}
