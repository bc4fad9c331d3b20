/* SPDX-License-Identifier: Apache-2.0 */
/* The plain layer under a stream: a socket or pipe, and its TCP options. */
#include "config.h"

#include "net/stream.h"

#include <errno.h>
#include <stdint.h>
#include <unistd.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/err.h"

static int
fd_of(void *ctx)
{
	return (int)(intptr_t)ctx;
}

static int
fd_error(int eno)
{
	switch (eno) {
	case EAGAIN:
		return E_AGAIN;
	case ECONNRESET:
	case EPIPE:
	case ETIMEDOUT:
	case EHOSTUNREACH:
	case ENETUNREACH:
	case ECONNREFUSED:
	case ENOTCONN:
		return E_PEER;
	}
	return E_SYS;
}

static ssize_t
fd_read(void *ctx, void *p, size_t n, bool *more)
{
	ssize_t r;

	if (!*more)
		return E_AGAIN;
	do
		r = read(fd_of(ctx), p, n);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return fd_error(errno);
	if (r == 0)
		return E_EOF;
	*more = (size_t)r == n;
	return r;
}

static ssize_t
fd_writev(void *ctx, const struct iovec *iov, int n)
{
	ssize_t r;

	do {
		if (n == 1)
			r = write(fd_of(ctx), iov->iov_base, iov->iov_len);
		else
			r = writev(fd_of(ctx), iov, n);
	} while (r < 0 && errno == EINTR);
	return r < 0 ? fd_error(errno) : r;
}

static int
fd_shutdown(void *ctx)
{
	/* A pipe has no half to close: its end comes with stream_close(). */
	if (shutdown(fd_of(ctx), SHUT_WR) != 0 && errno != ENOTSOCK)
		return fd_error(errno);
	return 0;
}

const struct stream_io stream_io_fd = {
    .read = fd_read,
    .writev = fd_writev,
    .shutdown = fd_shutdown,
};

void
stream_tune_tcp(struct stream *st)
{
	int fd = stream_fd(st), on = 0, idle = 30, every = 10, count = 3;
	socklen_t n = sizeof(on);

	/* An accepted socket has all this from its listener. */
	if (getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, &n) != 0 || on != 0)
		return;
	on = 1;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof(every));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
}
