/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server behind every proxy of the benchmark: one process, epoll, a unix
 * socket, as little work as possible, so that what is measured is the proxy.
 *
 *     backend SOCKET_PATH
 *
 *   GET /…            200, "ok\n", keep-alive
 *   GET /bytes/N      200, N bytes
 *   POST, PUT         reads the body (Content-Length), then 200 "ok\n"
 *   Upgrade           101, then echoes every byte (frames come back masked as
 *                     they were, which is what the load generator expects)
 */
#include "config.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define CHUNK (256 * 1024)

enum mode { HEAD, SINK, SEND, ECHO };

struct conn {
	int fd;
	enum mode mode;
	uint64_t left; /* body bytes to read, or to send */
	size_t have;
	bool want_out;
	char buf[65536];
};

static char filler[CHUNK];
static int ep;

static void
watch(struct conn *c, bool out)
{
	struct epoll_event ev = {.events = EPOLLIN | (out ? EPOLLOUT : 0),
				 .data.ptr = c};

	if (c->want_out == out)
		return;
	c->want_out = out;
	epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &ev);
}

static void
drop(struct conn *c)
{
	close(c->fd);
	free(c);
}

static bool
say(struct conn *c, const char *s, size_t n)
{
	return write(c->fd, s, n) == (ssize_t)n;
}

static bool
answer_ok(struct conn *c)
{
	static const char ok[] = "HTTP/1.1 200 OK\r\n"
				 "Content-Type: text/plain\r\n"
				 "Content-Length: 3\r\n\r\nok\n";

	return say(c, ok, sizeof(ok) - 1);
}

/* Sends what is left of a large body; false when the peer is gone. */
static bool
send_more(struct conn *c)
{
	while (c->left > 0) {
		size_t n = c->left < CHUNK ? (size_t)c->left : CHUNK;
		ssize_t r = write(c->fd, filler, n);

		if (r < 0 && errno == EAGAIN) {
			watch(c, true);
			return true;
		}
		if (r <= 0)
			return false;
		c->left -= (uint64_t)r;
	}
	watch(c, false);
	c->mode = HEAD;
	return true;
}

static const char *
field(const char *head, const char *name)
{
	size_t n = strlen(name);

	for (const char *p = strstr(head, "\r\n"); p && p[2] != '\r';
	     p = strstr(p + 2, "\r\n"))
		if (strncasecmp(p + 2, name, n) == 0 && p[2 + n] == ':')
			return p + 3 + n;
	return NULL;
}

static bool
serve_head(struct conn *c, const char *head)
{
	const char *v;
	char out[128];
	int n;

	if (field(head, "Upgrade")) {
		v = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
		    "Connection: Upgrade\r\n"
		    "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
		    "\r\n";
		c->mode = ECHO;
		return say(c, v, strlen(v));
	}
	if (strncmp(head, "GET /bytes/", 11) == 0) {
		c->left = strtoull(head + 11, NULL, 10);
		n = snprintf(out, sizeof(out),
			     "HTTP/1.1 200 OK\r\nContent-Length: %llu\r\n\r\n",
			     (unsigned long long)c->left);
		c->mode = SEND;
		return say(c, out, (size_t)n) && send_more(c);
	}
	v = field(head, "Content-Length");
	c->left = v ? strtoull(v, NULL, 10) : 0;
	if (c->left == 0)
		return answer_ok(c);
	c->mode = SINK;
	return true;
}

/* Consumes from buf[0..have); false: drop the connection. */
static bool
consume(struct conn *c)
{
	for (;;) {
		if (c->mode == SINK) {
			size_t n =
			    c->left < c->have ? (size_t)c->left : c->have;

			memmove(c->buf, c->buf + n, c->have - n);
			c->have -= n;
			c->left -= n;
			if (c->left > 0)
				return true;
			c->mode = HEAD;
			if (!answer_ok(c))
				return false;
		}
		if (c->mode != HEAD || c->have == 0)
			return true;
		c->buf[c->have] = '\0';
		char *end = strstr(c->buf, "\r\n\r\n");

		if (end == NULL)
			return c->have < sizeof(c->buf) - 1;
		char save = end[4];

		end[4] = '\0';
		bool ok = serve_head(c, c->buf);

		end[4] = save;
		if (!ok)
			return false;
		c->have -= (size_t)(end + 4 - c->buf);
		memmove(c->buf, end + 4, c->have);
	}
}

static bool
echo(struct conn *c)
{
	while (c->have > 0) {
		ssize_t r = write(c->fd, c->buf, c->have);

		if (r < 0 && errno == EAGAIN) {
			watch(c, true);
			return true;
		}
		if (r <= 0)
			return false;
		c->have -= (size_t)r;
		memmove(c->buf, c->buf + r, c->have);
	}
	watch(c, false);
	return true;
}

static bool
on_event(struct conn *c, uint32_t events)
{
	if ((events & EPOLLOUT) && c->mode == SEND && !send_more(c))
		return false;
	if ((events & EPOLLOUT) && c->mode == ECHO && !echo(c))
		return false;
	if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)) ||
	    c->have >= sizeof(c->buf) - 1)
		return true;

	ssize_t r = read(c->fd, c->buf + c->have, sizeof(c->buf) - 1 - c->have);

	if (r < 0)
		return errno == EAGAIN;
	if (r == 0)
		return false;
	c->have += (size_t)r;
	if (c->mode == ECHO)
		return echo(c);
	if (!consume(c))
		return false;
	return c->mode != ECHO || echo(c);
}

static void
accept_one(int lfd)
{
	int fd = accept4(lfd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct epoll_event ev = {.events = EPOLLIN};
	struct conn *c;

	if (fd < 0)
		return;
	if ((c = malloc(sizeof(*c))) == NULL)
		abort();
	c->fd = fd;
	c->mode = HEAD;
	c->left = 0;
	c->have = 0;
	c->want_out = false;
	ev.data.ptr = c;
	epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
}

int
main(int argc, char **argv)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	struct epoll_event evs[256], ev = {.events = EPOLLIN};
	int lfd;

	if (argc != 2 || strlen(argv[1]) >= sizeof(sun.sun_path)) {
		fprintf(stderr, "usage: backend SOCKET_PATH\n");
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	memset(filler, 'x', sizeof(filler));
	memcpy(sun.sun_path, argv[1], strlen(argv[1]) + 1);
	unlink(argv[1]);
	lfd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (lfd < 0 || bind(lfd, (struct sockaddr *)&sun, sizeof(sun)) != 0 ||
	    listen(lfd, 4096) != 0) {
		perror(argv[1]);
		return 1;
	}
	ep = epoll_create1(EPOLL_CLOEXEC);
	ev.data.ptr = NULL;
	epoll_ctl(ep, EPOLL_CTL_ADD, lfd, &ev);
	printf("ready\n");
	fflush(stdout);
	for (;;) {
		int n = epoll_wait(ep, evs, 256, -1);

		for (int i = 0; i < n; i++) {
			struct conn *c = evs[i].data.ptr;

			if (c == NULL)
				accept_one(lfd);
			else if (!on_event(c, evs[i].events))
				drop(c);
		}
	}
}
