/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages with descriptors over a SEQPACKET unix socket. A packet is a
 * message, so there is no framing and none can be split; what the kernel does
 * not take waits in a bounded queue.
 */
#include "config.h"

#include "net/seqpkt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <event2/event.h>
#include <event2/event_struct.h>

#include <sys/socket.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/addr.h"
#include "net/listener.h"
#include "net/loop.h"

#define SEQPKT_QUEUE_MAX 4096
#define SEQPKT_TURN_MAX  16 /* messages per callback */
#define SEQPKT_FDS_MAX   4  /* room to catch, and close, unasked ones */

struct packet {
	struct packet *next;
	int fd;
	size_t len;
	char text[];
};

struct seqpkt {
	struct loop *loop;
	int fd;
	bool wr_on;
	bool broken; /* a send failed */
	bool told;
	const struct seqpkt_cbs *cbs;
	void *arg;
	struct packet *first, **lastp;
	size_t queued;
	struct task task; /* tells `closed` after a failed send */
	struct event rd, wr;
};

union fd_control {
	struct cmsghdr align;
	char buf[CMSG_SPACE(sizeof(int) * SEQPKT_FDS_MAX)];
};

/* --- sending ----------------------------------------------------------- */

/* 0, E_AGAIN, or E_PEER. */
static int
seqpkt_send_now(struct seqpkt *sp, const char *p, size_t n, int fd)
{
	struct iovec iov = {.iov_base = (void *)(uintptr_t)p, .iov_len = n};
	struct msghdr mh = {.msg_iov = &iov, .msg_iovlen = 1};
	union fd_control ctl;
	struct cmsghdr *cm;
	ssize_t r;

	if (fd != -1) {
		memset(&ctl, 0, sizeof(ctl));
		mh.msg_control = ctl.buf;
		mh.msg_controllen = CMSG_SPACE(sizeof(int));
		cm = CMSG_FIRSTHDR(&mh);
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = SCM_RIGHTS;
		cm->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(cm), &fd, sizeof(int));
	}
	do
		r = sendmsg(sp->fd, &mh, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (r < 0 && errno == EINTR);
	if (r >= 0)
		return 0;
	/* ETOOMANYREFS: too many descriptors under way; they will land. */
	if (errno == EAGAIN || errno == ENOBUFS || errno == ETOOMANYREFS)
		return E_AGAIN;
	return E_PEER;
}

static void
seqpkt_drop_first(struct seqpkt *sp)
{
	struct packet *pk = sp->first;

	sp->first = pk->next;
	if (sp->first == NULL)
		sp->lastp = &sp->first;
	sp->queued--;
	fd_close(&pk->fd);
	free(pk);
}

static void
seqpkt_want_write(struct seqpkt *sp, bool on)
{
	if (sp->wr_on == on)
		return;
	sp->wr_on = on;
	if (!on)
		(void)event_del(&sp->wr);
	else if (event_add(&sp->wr, NULL) != 0)
		log_fatal("seqpkt.send", "reason=\"epoll refused\"");
}

static void
seqpkt_broke(struct seqpkt *sp)
{
	sp->broken = true;
	while (sp->first != NULL)
		seqpkt_drop_first(sp);
	seqpkt_want_write(sp, false);
	task_post(sp->loop, &sp->task);
}

static void
seqpkt_write_cb(evutil_socket_t fd, short what, void *arg)
{
	struct seqpkt *sp = arg;
	int r;

	(void)fd;
	(void)what;
	while (sp->first != NULL) {
		r = seqpkt_send_now(sp, sp->first->text, sp->first->len,
				    sp->first->fd);
		if (r == E_AGAIN)
			return;
		if (r != 0) {
			seqpkt_broke(sp);
			return;
		}
		seqpkt_drop_first(sp);
	}
	seqpkt_want_write(sp, false);
}

static int
seqpkt_queue(struct seqpkt *sp, struct strv msg, int fd)
{
	struct packet *pk;
	int copy = -1;

	if (sp->queued >= SEQPKT_QUEUE_MAX)
		return E_LIMIT;
	if (fd != -1 && (copy = fcntl(fd, F_DUPFD_CLOEXEC, 3)) == -1)
		return err_from_errno(errno);
	pk = xmalloc(sizeof(*pk) + msg.len);
	pk->next = NULL;
	pk->fd = copy;
	pk->len = msg.len;
	memcpy(pk->text, msg.p, msg.len);
	*sp->lastp = pk;
	sp->lastp = &pk->next;
	sp->queued++;
	seqpkt_want_write(sp, true);
	return 0;
}

int
seqpkt_send(struct seqpkt *sp, struct strv msg, int fd)
{
	int r = E_AGAIN;

	if (msg.len == 0) /* an empty packet would read as the end */
		return E_INVALID;
	if (msg.len > SEQPKT_MAX)
		return E_LIMIT;
	if (sp->broken || sp->fd == -1)
		return E_PEER;
	if (sp->first == NULL)
		r = seqpkt_send_now(sp, msg.p, msg.len, fd);
	if (r == E_AGAIN)
		return seqpkt_queue(sp, msg, fd);
	if (r != 0)
		seqpkt_broke(sp);
	return r;
}

int
seqpkt_sendf(struct seqpkt *sp, int fd, const char *fmt, ...)
{
	char buf[SEQPKT_MAX + 1];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(buf, sizeof(buf), fmt, ap);
	va_end(ap);
	if (n < 0)
		return E_INVALID;
	if (n > SEQPKT_MAX)
		return E_LIMIT;
	return seqpkt_send(sp, (struct strv){buf, (size_t)n}, fd);
}

/* --- receiving --------------------------------------------------------- */

/* The first descriptor that came; others nobody asked for are closed. */
static int
seqpkt_take_fds(struct msghdr *mh)
{
	struct cmsghdr *cm;
	int fd, first = -1;
	size_t i, n;

	for (cm = CMSG_FIRSTHDR(mh); cm != NULL; cm = CMSG_NXTHDR(mh, cm)) {
		if (cm->cmsg_level != SOL_SOCKET || cm->cmsg_type != SCM_RIGHTS)
			continue;
		n = (cm->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (i = 0; i < n; i++) {
			memcpy(&fd, CMSG_DATA(cm) + i * sizeof(int),
			       sizeof(int));
			if (first == -1)
				first = fd;
			else
				(void)close(fd);
		}
	}
	return first;
}

/* One message: 0 with what came, E_AGAIN, E_EOF, E_PEER. */
static int
seqpkt_recv(struct seqpkt *sp, char *buf, size_t *len, int *fd)
{
	struct iovec iov = {.iov_base = buf, .iov_len = SEQPKT_MAX};
	struct msghdr mh = {.msg_iov = &iov, .msg_iovlen = 1};
	union fd_control ctl;
	ssize_t r;

	mh.msg_control = ctl.buf;
	mh.msg_controllen = sizeof(ctl.buf);
	do
		r = recvmsg(sp->fd, &mh, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return errno == EAGAIN ? E_AGAIN : E_PEER;
	*fd = seqpkt_take_fds(&mh);
	if (r == 0 || (mh.msg_flags & MSG_TRUNC) != 0) {
		fd_close(fd);
		return r == 0 ? E_EOF : E_PEER; /* longer than we agreed on */
	}
	*len = (size_t)r;
	return 0;
}

static void
seqpkt_tell_closed(struct seqpkt *sp)
{
	if (sp->fd == -1 || sp->told)
		return;
	sp->told = true;
	sp->broken = true;
	task_cancel(&sp->task);
	(void)event_del(&sp->rd);
	seqpkt_want_write(sp, false);
	sp->cbs->closed(sp, sp->arg);
}

/* Takes in at most max messages; false when there are no more for now. */
static bool
seqpkt_take_in(struct seqpkt *sp, int max)
{
	char buf[SEQPKT_MAX + 1];
	size_t n = 0;
	int fd = -1, r;

	for (; max > 0 && sp->fd != -1; max--) {
		r = seqpkt_recv(sp, buf, &n, &fd);
		if (r == E_AGAIN)
			return false;
		if (r != 0) {
			seqpkt_tell_closed(sp);
			return false;
		}
		buf[n] = '\0';
		sp->cbs->message(sp, (struct strv){buf, n}, fd, sp->arg);
	}
	return sp->fd != -1;
}

/* Sending failed: what the other side had sent before is still told. */
static void
seqpkt_task_cb(void *arg)
{
	struct seqpkt *sp = arg;

	if (seqpkt_take_in(sp, SEQPKT_TURN_MAX))
		task_post(sp->loop, &sp->task);
	else
		seqpkt_tell_closed(sp);
}

static void
seqpkt_read_cb(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)seqpkt_take_in(arg, SEQPKT_TURN_MAX);
}

/* --- life -------------------------------------------------------------- */

struct seqpkt *
seqpkt_take_fd(struct loop *l, int fd, const struct seqpkt_cbs *cbs, void *arg)
{
	struct seqpkt *sp = xcalloc(1, sizeof(*sp));

	sp->loop = l;
	sp->fd = fd;
	sp->cbs = cbs;
	sp->arg = arg;
	sp->lastp = &sp->first;
	task_init(&sp->task, seqpkt_task_cb, sp);
	if (event_assign(&sp->rd, loop_base(l), fd, EV_READ | EV_PERSIST,
			 seqpkt_read_cb, sp) != 0 ||
	    event_assign(&sp->wr, loop_base(l), fd, EV_WRITE | EV_PERSIST,
			 seqpkt_write_cb, sp) != 0 ||
	    event_add(&sp->rd, NULL) != 0)
		log_fatal("seqpkt.new", "reason=\"cannot make events\"");
	return sp;
}

void
seqpkt_close(struct seqpkt *sp)
{
	if (sp == NULL || sp->fd == -1)
		return;
	(void)event_del(&sp->rd);
	seqpkt_want_write(sp, false);
	task_cancel(&sp->task);
	while (sp->first != NULL)
		seqpkt_drop_first(sp);
	fd_close(&sp->fd);
	loop_defer_free(sp->loop, sp, NULL);
}

int
seqpkt_peer(struct seqpkt *sp, uid_t *uid, pid_t *pid)
{
	struct ucred cred;
	socklen_t n = sizeof(cred);

	if (getsockopt(sp->fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) != 0)
		return err_from_errno(errno);
	*uid = cred.uid;
	*pid = cred.pid;
	return 0;
}

int
seqpkt_pair(int fds[2])
{
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK,
		       0, fds) != 0)
		return err_from_errno(errno);
	return 0;
}

int
seqpkt_bind(const char *path, mode_t mode, uid_t uid, gid_t gid, int *fd)
{
	struct listen_options o = {
	    .mode = mode, .uid = uid, .gid = gid, .seqpacket = true};
	struct addr a;
	int r;

	if ((r = addr_unix(&a, path)) != 0)
		return r;
	return listener_bind(&a, &o, fd);
}

int
seqpkt_connect(const char *path, int *out)
{
	struct addr a;
	int fd, r;

	if ((r = addr_unix(&a, path)) != 0)
		return r;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd == -1)
		return err_from_errno(errno);
	if (connect(fd, &a.u.sa, a.len) != 0) {
		r = errno == ENOENT ? E_REFUSED : err_from_errno(errno);
		(void)close(fd);
		return r;
	}
	*out = fd;
	return 0;
}
