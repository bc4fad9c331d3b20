/* SPDX-License-Identifier: Apache-2.0 */
/* Frames on a stream socket; see the header. */
#include "config.h"

#include "agent/frames.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <event2/event.h>
#include <event2/event_struct.h>

#include "base/fdio.h"
#include "base/mem.h"
#include "net/buf.h"
#include "net/loop.h"

#define FRAMES_HEAD  5
#define FRAMES_READ  65536
#define FRAMES_IOV   16
#define FRAMES_TURNS 16 /* frames in one go */

struct frames {
	struct loop *loop;
	int fd;
	const struct frames_cbs *cbs;
	void *arg;
	struct event in_ev, out_ev;
	struct strbuf in;
	size_t used; /* of in: handed out already */
	struct bufq out;
	size_t *held;
	size_t held_max;
	int fds[FRAMES_FDS_MAX];
	unsigned nfds;
	bool paused, eof, told, closed; /* told: that it is the end */
	struct task more; /* frames wait that a turn did not get to */
};

static void frames_turn(struct frames *f);

/* --- in ---------------------------------------------------------------- */

static void
frames_end(struct frames *f)
{
	if (f->eof)
		return;
	f->eof = true;
	(void)event_del(&f->in_ev);
	(void)event_del(&f->out_ev);
	bufq_clear(&f->out);
}

static void
frames_keep_fds(struct frames *f, struct msghdr *mh)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(mh); c != NULL;
	     c = CMSG_NXTHDR(mh, c)) {
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		const unsigned char *p = CMSG_DATA(c);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, p + i * sizeof(fd), sizeof(fd));
			if (f->nfds < FRAMES_FDS_MAX)
				f->fds[f->nfds++] = fd;
			else
				(void)close(fd);
		}
	}
}

/* What was handed out goes; what the memory of all allows is known. */
static bool
frames_room(struct frames *f, size_t n)
{
	if (f->used > 0) {
		memmove(f->in.s, f->in.s + f->used, f->in.len - f->used);
		f->in.len -= f->used;
		*f->held -= f->used;
		f->used = 0;
		if (f->in.len == 0 && f->in.cap > 4UL * FRAMES_READ)
			strbuf_clear(&f->in);
	}
	return *f->held + n <= f->held_max;
}

/* One read; false when there is nothing more at once. */
static bool
frames_read(struct frames *f)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(16 * sizeof(int))];
	} control;
	char buf[FRAMES_READ];
	struct iovec iov = {buf, sizeof(buf)};
	struct msghdr mh = {.msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control.space,
			    .msg_controllen = sizeof(control.space)};
	ssize_t n;

	do
		n = recvmsg(f->fd, &mh, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return false;
	if (n > 0)
		frames_keep_fds(f, &mh);
	if (n <= 0 || !frames_room(f, (size_t)n)) {
		frames_end(f);
		return false;
	}
	strbuf_add(&f->in, buf, (size_t)n);
	*f->held += (size_t)n;
	return (size_t)n == sizeof(buf);
}

static uint32_t
frames_length(const struct frames *f)
{
	const unsigned char *p = (const unsigned char *)f->in.s + f->used;

	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 |
	       (uint32_t)p[2] << 8 | p[3];
}

/* True when the whole of a frame is there. One that cannot be ends it all. */
static bool
frames_have(struct frames *f)
{
	size_t have = f->in.len - f->used;
	uint32_t n;

	if (have < FRAMES_HEAD)
		return false;
	n = frames_length(f);
	if (n == 0 || n > FRAMES_MAX) {
		frames_end(f);
		return false;
	}
	return have >= 4 + (size_t)n;
}

static void
frames_hand_out(struct frames *f)
{
	const char *p = f->in.s + f->used;
	uint32_t n = frames_length(f);

	f->used += 4 + (size_t)n;
	f->cbs->frame(f, p[4], (struct strv){p + FRAMES_HEAD, n - 1}, f->arg);
}

/* Hands out what is there, in turns; then it is the end, if that was seen. */
static void
frames_turn(struct frames *f)
{
	int left = FRAMES_TURNS;

	while (!f->closed && !f->paused && left > 0 && frames_have(f)) {
		frames_hand_out(f);
		left--;
	}
	if (f->closed || f->paused)
		return;
	if (left == 0) {
		task_post(f->loop, &f->more);
	} else if (f->eof && !f->told) {
		f->told = true;
		f->cbs->closed(f, f->arg);
	}
}

static void
frames_more_cb(void *arg)
{
	struct frames *f = arg;

	if (!f->closed)
		frames_turn(f);
}

static void
frames_in_cb(evutil_socket_t fd, short what, void *arg)
{
	struct frames *f = arg;

	(void)fd;
	(void)what;
	(void)frames_read(f);
	frames_turn(f);
}

void
frames_drain(struct frames *f)
{
	f->paused = false;
	while (!f->closed && !f->eof && frames_read(f))
		;
	while (!f->closed && frames_have(f))
		frames_hand_out(f);
}

void
frames_pause(struct frames *f)
{
	f->paused = true;
	if (!f->eof)
		(void)event_del(&f->in_ev);
}

void
frames_resume(struct frames *f)
{
	if (!f->paused)
		return;
	f->paused = false;
	if (!f->eof)
		(void)event_add(&f->in_ev, NULL);
	task_post(f->loop, &f->more);
}

int
frames_fd(struct frames *f)
{
	int fd;

	if (f->nfds == 0)
		return -1;
	fd = f->fds[0];
	f->nfds--;
	memmove(f->fds, f->fds + 1, f->nfds * sizeof(fd));
	return fd;
}

/* --- out --------------------------------------------------------------- */

static void
frames_push(struct frames *f)
{
	struct iovec iov[FRAMES_IOV];
	struct msghdr mh = {.msg_iov = iov};
	size_t total;
	ssize_t n;

	while (f->out.len > 0) {
		mh.msg_iovlen =
		    (size_t)bufq_iovec(&f->out, iov, FRAMES_IOV, &total);
		n = sendmsg(f->fd, &mh, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			(void)event_add(&f->out_ev, NULL);
			return;
		}
		if (n < 0) {
			/* The end is seen, and told, on the way in. */
			bufq_clear(&f->out);
			return;
		}
		bufq_drain(&f->out, (size_t)n);
	}
}

static void
frames_out_cb(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	frames_push(arg);
}

void
frames_send(struct frames *f, char type, struct strv body)
{
	size_t n = body.len + 1;
	const char head[FRAMES_HEAD] = {(char)(n >> 24), (char)(n >> 16),
					(char)(n >> 8), (char)n, type};
	bool idle = f->out.len == 0;

	assert(n <= UINT32_MAX);
	if (f->eof || f->closed)
		return;
	bufq_add(&f->out, head, sizeof(head));
	bufq_addv(&f->out, body);
	if (idle)
		frames_push(f);
}

/* --- life -------------------------------------------------------------- */

struct frames *
frames_take_fd(struct loop *l, int fd, size_t *held, size_t held_max,
	       const struct frames_cbs *cbs, void *arg)
{
	struct frames *f = xcalloc(1, sizeof(*f));

	f->loop = l;
	f->fd = fd;
	f->cbs = cbs;
	f->arg = arg;
	f->held = held;
	f->held_max = held_max;
	bufq_init(&f->out, loop_bufpool(l));
	task_init(&f->more, frames_more_cb, f);
	(void)event_assign(&f->in_ev, loop_base(l), fd, EV_READ | EV_PERSIST,
			   frames_in_cb, f);
	(void)event_assign(&f->out_ev, loop_base(l), fd, EV_WRITE,
			   frames_out_cb, f);
	(void)event_add(&f->in_ev, NULL);
	return f;
}

static void
frames_free(void *p)
{
	struct frames *f = p;

	strbuf_clear(&f->in);
	free(f);
}

void
frames_close(struct frames *f)
{
	if (f == NULL || f->closed)
		return;
	frames_end(f);
	f->closed = true;
	task_cancel(&f->more);
	*f->held -= f->in.len;
	for (unsigned i = 0; i < f->nfds; i++)
		(void)close(f->fds[i]);
	f->nfds = 0;
	fd_close(&f->fd);
	loop_defer_free(f->loop, f, frames_free);
}
