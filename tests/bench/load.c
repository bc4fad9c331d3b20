/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load generator of the benchmark: one thread, epoll, any number of
 * connections, with or without TLS. It prints one JSON line.
 *
 *   load --port P [--tls] [--conns N] [--count N] [--path /p] [--header H]…
 *        --mode get | handshake | resumed | down | up | ws | idle | idle-ws
 *
 * get        keep-alive requests; latency percentiles
 * handshake  each request on a connection of its own (full handshakes);
 *            resumed: with the session of an earlier one
 * down, up   --bytes N per request
 * ws         WebSocket echo, one message in flight per connection
 * idle       opens --conns connections, one request each, says "ready" and
 *            holds them until standard input ends; idle-ws: WebSockets
 */
#include "config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <openssl/ssl.h>

enum mode {
	M_GET,
	M_HANDSHAKE,
	M_RESUMED,
	M_DOWN,
	M_UP,
	M_WS,
	M_IDLE,
	M_IDLEWS
};
static const char *const mode_names[] = {
    "get", "handshake", "resumed", "down", "up", "ws", "idle", "idle-ws", NULL};

enum phase { P_CONNECT, P_TLS, P_SEND, P_RECV, P_HELD };

struct conn {
	int fd;
	SSL *ssl;
	SSL_SESSION *session;
	enum phase phase;
	uint32_t watching;
	bool upgraded;
	uint64_t started; /* ns, of the request in flight */
	const char *out;
	size_t out_len, out_off;
	uint64_t fill; /* upload bytes still to send after out */
	char head[8192];
	size_t head_len;
	bool in_body;
	uint64_t body; /* bytes still to come */
};

static struct {
	enum mode mode;
	bool tls;
	int port;
	unsigned conns;
	uint64_t count, bytes;
	const char *path;
	char headers[1024];
} opt = {.conns = 1, .count = 1000, .path = "/"};

static SSL_CTX *ctx;
static int ep;
static uint64_t started_n, done_n, held_n, resumed_n;
static uint32_t *lat_us;
static char request[4096];
static size_t request_len;
static char frame[8 + 125];
static size_t frame_len;
static char filler[65536], sinkbuf[262144];

static void conn_go(struct conn *c);

static uint64_t
now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void __attribute__((noreturn, format(printf, 1, 2)))
die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

static void
watch(struct conn *c, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.ptr = c};

	if (c->watching == events)
		return;
	if (epoll_ctl(ep, c->watching ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, c->fd,
		      &ev) != 0)
		die("epoll_ctl: %s", strerror(errno));
	c->watching = events;
}

/* > 0 bytes, 0 would block (the right event is watched), -1 ended. */
static ssize_t
io_result(struct conn *c, ssize_t r, uint32_t blocked_on)
{
	if (c->ssl == NULL) {
		if (r < 0 && errno == EAGAIN) {
			watch(c, blocked_on);
			return 0;
		}
		return r > 0 ? r : -1;
	}
	if (r > 0)
		return r;
	switch (SSL_get_error(c->ssl, (int)r)) {
	case SSL_ERROR_WANT_READ:
		watch(c, EPOLLIN);
		return 0;
	case SSL_ERROR_WANT_WRITE:
		watch(c, EPOLLOUT);
		return 0;
	default:
		return -1;
	}
}

static ssize_t
io_write(struct conn *c, const void *p, size_t n)
{
	ssize_t r = c->ssl ? SSL_write(c->ssl, p, (int)n) : write(c->fd, p, n);

	return io_result(c, r, EPOLLOUT);
}

static ssize_t
io_read(struct conn *c, void *p, size_t n)
{
	ssize_t r = c->ssl ? SSL_read(c->ssl, p, (int)n) : read(c->fd, p, n);

	return io_result(c, r, EPOLLIN);
}

static int
on_new_session(SSL *ssl, SSL_SESSION *s)
{
	struct conn *c = SSL_get_app_data(ssl);

	SSL_SESSION_free(c->session);
	c->session = s;
	return 1;
}

static void
conn_open(struct conn *c)
{
	struct sockaddr_in sin = {.sin_family = AF_INET,
				  .sin_port = htons((uint16_t)opt.port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct linger lg = {.l_onoff = 1};
	int one = 1;

	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		die("socket: %s", strerror(errno));
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	/* No TIME_WAIT on our side: handshake runs would use up the ports. */
	setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg));
	if (connect(c->fd, (struct sockaddr *)&sin, sizeof(sin)) != 0 &&
	    errno != EINPROGRESS)
		die("connect: %s", strerror(errno));
	c->watching = 0;
	c->upgraded = false;
	c->phase = P_CONNECT;
	watch(c, EPOLLOUT);
}

static void
conn_end(struct conn *c)
{
	if (c->ssl != NULL) {
		if (SSL_session_reused(c->ssl))
			resumed_n++;
		SSL_set_shutdown(c->ssl,
				 SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
		SSL_free(c->ssl);
		c->ssl = NULL;
	}
	close(c->fd);
	c->fd = -1;
}

static bool
per_connection(void)
{
	return opt.mode == M_HANDSHAKE || opt.mode == M_RESUMED;
}

static void
conn_request(struct conn *c)
{
	bool ws = c->upgraded;

	if (!per_connection() && started_n >= opt.count && opt.mode < M_IDLE) {
		if (c->fd >= 0)
			conn_end(c);
		return;
	}
	if (!per_connection() && (opt.mode != M_WS || ws))
		started_n++;
	c->started = now_ns();
	c->out = ws ? frame : request;
	c->out_len = ws ? frame_len : request_len;
	c->out_off = 0;
	c->fill = opt.mode == M_UP ? opt.bytes : 0;
	c->head_len = 0;
	c->in_body = false;
	c->body = ws ? frame_len : 0;
	c->phase = P_SEND;
}

static void
conn_next(struct conn *c)
{
	if (opt.mode >= M_IDLE) {
		c->phase = P_HELD;
		watch(c, EPOLLIN);
		held_n++;
		return;
	}
	if (done_n < opt.count)
		lat_us[done_n] = (uint32_t)((now_ns() - c->started) / 1000);
	done_n++;
	if (!per_connection()) {
		conn_request(c);
		return;
	}
	conn_end(c);
	if (started_n < opt.count) {
		started_n++;
		conn_open(c);
	}
}

static bool
conn_send(struct conn *c)
{
	while (c->out_off < c->out_len || c->fill > 0) {
		bool head = c->out_off < c->out_len;
		size_t n = head ? c->out_len - c->out_off
				: (c->fill < sizeof(filler) ? (size_t)c->fill
							    : sizeof(filler));
		ssize_t r = io_write(c, head ? c->out + c->out_off : filler, n);

		if (r < 0)
			die("connection lost while sending");
		if (r == 0)
			return false;
		if (head)
			c->out_off += (size_t)r;
		else
			c->fill -= (uint64_t)r;
	}
	c->phase = P_RECV;
	return true;
}

/* Looks for the end of the response head in c->head; returns the number of
 * body bytes behind it, -1 when it is not complete. */
static ssize_t
head_end(struct conn *c)
{
	char *end, *cl;
	size_t extra;

	c->head[c->head_len] = '\0';
	if ((end = strstr(c->head, "\r\n\r\n")) == NULL)
		return -1;
	if (strncmp(c->head, "HTTP/1.1 101", 12) == 0) {
		c->upgraded = true;
	} else if (strncmp(c->head, "HTTP/1.1 200", 12) != 0) {
		die("unexpected answer: %.60s", c->head);
	}
	extra = c->head_len - (size_t)(end + 4 - c->head);
	end[2] = '\0';
	if ((cl = strcasestr(c->head, "\r\ncontent-length:")) != NULL)
		c->body = strtoull(cl + 17, NULL, 10);
	else if (!c->upgraded)
		die("an answer without Content-Length");
	c->in_body = true;
	return (ssize_t)extra;
}

static bool
conn_recv(struct conn *c)
{
	for (;;) {
		bool body = c->in_body || c->upgraded;
		char *p = body ? sinkbuf : c->head + c->head_len;
		size_t room =
		    body ? sizeof(sinkbuf) : sizeof(c->head) - 1 - c->head_len;
		ssize_t r = io_read(c, p, room);

		if (r < 0)
			die("connection lost while receiving");
		if (r == 0)
			return false;
		if (!body) {
			c->head_len += (size_t)r;
			if ((r = head_end(c)) < 0)
				continue;
			if (c->upgraded) {
				if (opt.mode == M_IDLEWS)
					conn_next(c);
				else
					conn_request(c);
				return true;
			}
		}
		if ((uint64_t)r > c->body)
			die("more bytes than announced");
		c->body -= (uint64_t)r;
		if (c->body == 0) {
			conn_next(c);
			return true;
		}
	}
}

static void
conn_tls_start(struct conn *c)
{
	if ((c->ssl = SSL_new(ctx)) == NULL)
		die("SSL_new");
	SSL_set_fd(c->ssl, c->fd);
	SSL_set_app_data(c->ssl, c);
	SSL_set_connect_state(c->ssl);
	SSL_set_tlsext_host_name(c->ssl, "localhost");
	if (opt.mode == M_RESUMED && c->session != NULL)
		SSL_set_session(c->ssl, c->session);
	c->phase = P_TLS;
}

static void
conn_go(struct conn *c)
{
	for (;;) {
		if (c->fd < 0)
			return;
		if (c->phase == P_CONNECT) {
			int err = 0;
			socklen_t len = sizeof(err);

			getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &len);
			if (err != 0)
				die("connect: %s", strerror(err));
			if (opt.tls)
				conn_tls_start(c);
			else
				conn_request(c);
		} else if (c->phase == P_TLS) {
			int r = SSL_do_handshake(c->ssl);

			if (r != 1) {
				if (io_result(c, r, 0) < 0)
					die("TLS handshake failed");
				return;
			}
			conn_request(c);
		} else if (c->phase == P_SEND) {
			if (!conn_send(c))
				return;
		} else if (c->phase == P_RECV) {
			uint64_t before = done_n;

			if (!conn_recv(c))
				return;
			if (per_connection() && done_n != before)
				return;
		} else {
			return;
		}
		if (c->phase == P_CONNECT)
			return;
	}
}

static void
build_request(void)
{
	const char *method = opt.mode == M_UP ? "POST" : "GET";
	char extra[256] = "";

	if (opt.mode == M_UP)
		snprintf(extra, sizeof(extra), "Content-Length: %llu\r\n",
			 (unsigned long long)opt.bytes);
	if (opt.mode == M_WS || opt.mode == M_IDLEWS)
		snprintf(extra, sizeof(extra),
			 "Connection: Upgrade\r\nUpgrade: websocket\r\n"
			 "Sec-WebSocket-Version: 13\r\n"
			 "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n");
	request_len =
	    (size_t)snprintf(request, sizeof(request),
			     "%s %s HTTP/1.1\r\nHost: localhost\r\n"
			     "User-Agent: load/1\r\nAccept: */*\r\n%s%s\r\n",
			     method, opt.path, opt.headers, extra);
	if (request_len >= sizeof(request))
		die("request too long");
	/* A masked text frame of 64 bytes (RFC 6455, 5.2). */
	frame[0] = (char)0x81;
	frame[1] = (char)(0x80 | 64);
	memset(frame + 2, 0x11, 4);
	memset(frame + 6, 'm' ^ 0x11, 64);
	frame_len = 6 + 64;
}

static int
cmp_u32(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static void
parse_options(int argc, char **argv)
{
	static const struct option longs[] = {
	    {"port", 1, NULL, 'p'},  {"tls", 0, NULL, 't'},
	    {"conns", 1, NULL, 'c'}, {"count", 1, NULL, 'n'},
	    {"path", 1, NULL, 'u'},  {"header", 1, NULL, 'H'},
	    {"mode", 1, NULL, 'm'},  {"bytes", 1, NULL, 'b'},
	    {NULL, 0, NULL, 0}};
	int o;

	while ((o = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		size_t used = strlen(opt.headers);
		int m = 0;

		switch (o) {
		case 'p':
			opt.port = (int)strtol(optarg, NULL, 10);
			break;
		case 't':
			opt.tls = true;
			break;
		case 'c':
			opt.conns = (unsigned)strtoul(optarg, NULL, 10);
			break;
		case 'n':
			opt.count = strtoull(optarg, NULL, 10);
			break;
		case 'u':
			opt.path = optarg;
			break;
		case 'H':
			snprintf(opt.headers + used, sizeof(opt.headers) - used,
				 "%s\r\n", optarg);
			break;
		case 'b':
			opt.bytes = strtoull(optarg, NULL, 10);
			break;
		case 'm':
			while (mode_names[m] && strcmp(mode_names[m], optarg))
				m++;
			if (mode_names[m] == NULL)
				die("no such mode: %s", optarg);
			opt.mode = (enum mode)m;
			break;
		default:
			exit(2);
		}
	}
	if (opt.port == 0 || opt.conns == 0)
		die("--port and --conns are needed");
}

static void
report(double secs)
{
	uint64_t n = done_n;

	qsort(lat_us, n, sizeof(*lat_us), cmp_u32);
	printf("{\"mode\":\"%s\",\"count\":%llu,\"seconds\":%.6f,"
	       "\"rate\":%.1f,\"p50_us\":%u,\"p99_us\":%u,\"resumed\":%llu}\n",
	       mode_names[opt.mode], (unsigned long long)n, secs,
	       (double)n / secs, n ? lat_us[n / 2] : 0,
	       n ? lat_us[n * 99 / 100] : 0, (unsigned long long)resumed_n);
}

int
main(int argc, char **argv)
{
	struct epoll_event evs[512];
	struct conn *conns;
	uint64_t t0;

	signal(SIGPIPE, SIG_IGN);
	parse_options(argc, argv);
	build_request();
	memset(filler, 'u', sizeof(filler));
	ctx = SSL_CTX_new(TLS_client_method());
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE |
				  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	if (opt.mode == M_RESUMED) {
		SSL_CTX_set_session_cache_mode(
		    ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
		SSL_CTX_sess_set_new_cb(ctx, on_new_session);
	}
	ep = epoll_create1(EPOLL_CLOEXEC);
	conns = calloc(opt.conns, sizeof(*conns));
	lat_us = calloc(opt.count + 1, sizeof(*lat_us));
	if (conns == NULL || lat_us == NULL)
		die("out of memory");
	t0 = now_ns();
	for (unsigned i = 0; i < opt.conns; i++) {
		if (per_connection() && started_n++ >= opt.count)
			break;
		conn_open(&conns[i]);
		/* Idle connections are opened a few at a time. */
		while (opt.mode >= M_IDLE && held_n + 32 <= i) {
			int n = epoll_wait(ep, evs, 512, -1);

			for (int k = 0; k < n; k++)
				conn_go(evs[k].data.ptr);
		}
	}
	while (opt.mode >= M_IDLE ? held_n < opt.conns : done_n < opt.count) {
		int n = epoll_wait(ep, evs, 512, 20000);

		if (n == 0)
			die("nothing happened for 20 s (%llu done)",
			    (unsigned long long)done_n);
		for (int k = 0; k < n; k++)
			conn_go(evs[k].data.ptr);
	}
	if (opt.mode >= M_IDLE) {
		printf("ready\n");
		fflush(stdout);
		while (read(0, sinkbuf, sizeof(sinkbuf)) > 0)
			;
		return 0;
	}
	report((double)(now_ns() - t0) / 1e9);
	return 0;
}
