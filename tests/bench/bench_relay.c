/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a relay costs: the bytes of one direction through stream and relay,
 * plain and TLS, in MiB per CPU second of the relaying process alone (its two
 * peers are processes of their own); single-byte messages to and fro; and the
 * memory of an idle TLS connection.
 *
 *     bench_relay [MiB] [test…]      tests: plain down up ping tls-ping idle
 */
#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <openssl/ssl.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/loop.h"
#include "net/relay.h"
#include "net/stream.h"
#include "net/tlsctx.h"
#include "net/tlsio.h"

#define CHUNK      65536
#define PING_COUNT 200000
#define IDLE_COUNT 2000

static char chunk[CHUNK];

struct bench {
	struct loop *l;
	struct tlsctx *tls;
	uint64_t bytes; /* to relay */
};

static double
cpu_now(void)
{
	struct rusage ru;

	(void)getrusage(RUSAGE_SELF, &ru);
	return (double)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) +
	       (double)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) / 1e6;
}

static void
must(bool ok, const char *what)
{
	if (!ok)
		log_fatal("bench", "failed=\"%s\"", what);
}

/* A TCP connection on loopback; [0] is non-blocking. */
static void
tcp_pair(int fds[2])
{
	struct sockaddr_in in = {.sin_family = AF_INET};
	socklen_t n = sizeof(in);
	int ls = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	must(bind(ls, (struct sockaddr *)&in, n) == 0 && listen(ls, 1) == 0 &&
		 getsockname(ls, (struct sockaddr *)&in, &n) == 0,
	     "listen");
	fds[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	must(connect(fds[1], (struct sockaddr *)&in, n) == 0, "connect");
	fds[0] = accept4(ls, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	must(fds[0] >= 0, "accept");
	(void)setsockopt(fds[0], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)setsockopt(fds[1], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)close(ls);
}

/* --- peers ------------------------------------------------------------- */

struct peer {
	int fd;
	SSL *ssl;
};

static void
peer_tls(struct peer *p)
{
	SSL_CTX *c = SSL_CTX_new(TLS_client_method());

	SSL_CTX_set_read_ahead(c, 1);
	SSL_CTX_set_default_read_buffer_len(c, 65536);
	p->ssl = SSL_new(c);
	must(SSL_set_fd(p->ssl, p->fd) == 1 && SSL_connect(p->ssl) == 1,
	     "TLS handshake");
}

static ssize_t
peer_write(struct peer *p, const void *b, size_t n)
{
	if (p->ssl != NULL)
		return SSL_write(p->ssl, b, (int)n);
	return write(p->fd, b, n);
}

static ssize_t
peer_read(struct peer *p, void *b, size_t n)
{
	if (p->ssl != NULL)
		return SSL_read(p->ssl, b, (int)n);
	return read(p->fd, b, n);
}

static void
peer_source(struct peer *p, uint64_t n)
{
	ssize_t r;

	while (n > 0) {
		r = peer_write(p, chunk, n < CHUNK ? (size_t)n : CHUNK);
		must(r > 0, "write");
		n -= (uint64_t)r;
	}
	if (p->ssl != NULL)
		(void)SSL_shutdown(p->ssl);
	(void)shutdown(p->fd, SHUT_WR);
	while (peer_read(p, chunk, CHUNK) > 0)
		continue;
}

static void
peer_sink(struct peer *p, uint64_t n)
{
	ssize_t r;

	while (n > 0) {
		r = peer_read(p, chunk, CHUNK);
		must(r > 0, "read");
		n -= (uint64_t)r;
	}
	if (p->ssl != NULL)
		(void)SSL_shutdown(p->ssl);
	(void)shutdown(p->fd, SHUT_WR);
	while (peer_read(p, chunk, CHUNK) > 0)
		continue;
}

static void
peer_ping(struct peer *p, uint64_t n)
{
	char b = 'x';

	while (n-- > 0)
		must(peer_write(p, &b, 1) == 1 && peer_read(p, &b, 1) == 1,
		     "ping");
	(void)shutdown(p->fd, SHUT_RDWR);
}

static void
peer_echo(struct peer *p, uint64_t n)
{
	char b;

	(void)n;
	while (peer_read(p, &b, 1) == 1)
		must(peer_write(p, &b, 1) == 1, "echo");
	(void)shutdown(p->fd, SHUT_RDWR);
}

static void
peer_fork(const int fds[2], bool tls, void (*fn)(struct peer *, uint64_t),
	  uint64_t n)
{
	struct peer p = {.fd = fds[1]};

	if (fork() != 0) {
		(void)close(fds[1]);
		return;
	}
	(void)close(fds[0]);
	(void)prctl(PR_SET_NAME, "bench_peer"); /* perf tells them apart */
	if (tls)
		peer_tls(&p);
	fn(&p, n);
	_exit(0);
}

/* --- relays ------------------------------------------------------------ */

static const struct stream_cbs no_cbs;

static void
done_cb(const struct relay_result *res, void *arg)
{
	struct bench *b = arg;

	b->bytes = res->a_to_b + res->b_to_a;
	loop_stop(b->l);
}

/* A relay from a client's connection (TLS or not) to an inner one. */
static double
run_relay(struct bench *b, int client, int inner, bool tls)
{
	struct relay_options o = {.idle_ms = 60000, .done = done_cb, .arg = b};
	struct stream *a, *z;
	double t0 = cpu_now();

	a = stream_take_fd(b->l, client, &no_cbs, NULL);
	if (tls)
		tlsio_accept(a, b->tls);
	z = stream_take_fd(b->l, inner, &no_cbs, NULL);
	(void)relay_start(b->l, a, z, &o);
	loop_run(b->l);
	while (waitpid(-1, NULL, 0) > 0)
		continue;
	return cpu_now() - t0;
}

static void
bench_bulk(struct bench *b, const char *name, bool tls, bool up, uint64_t n)
{
	int c[2], s[2];
	double t;

	tcp_pair(c);
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s) == 0 &&
		 fd_set_nonblock(s[0]) == 0,
	     "socketpair");
	peer_fork(c, tls, up ? peer_source : peer_sink, n);
	peer_fork(s, false, up ? peer_sink : peer_source, n);
	t = run_relay(b, c[0], s[0], tls);
	must(b->bytes == n, "byte count");
	(void)printf("%-22s %8.0f MiB per CPU second\n", name,
		     (double)n / 1048576 / t);
}

static void
bench_ping(struct bench *b, const char *name, bool tls)
{
	int c[2], s[2];
	double t;

	tcp_pair(c);
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s) == 0 &&
		 fd_set_nonblock(s[0]) == 0,
	     "socketpair");
	peer_fork(c, tls, peer_ping, PING_COUNT);
	peer_fork(s, false, peer_echo, PING_COUNT);
	t = run_relay(b, c[0], s[0], tls);
	(void)printf("%-22s %8.2f us per message to and fro\n", name,
		     t * 1e6 / PING_COUNT);
}

/* --- memory ------------------------------------------------------------ */

static long
rss_bytes(void)
{
	long pages = 0, dummy;
	FILE *f = fopen("/proc/self/statm", "re");

	must(f != NULL && fscanf(f, "%ld %ld", &dummy, &pages) == 2, "statm");
	(void)fclose(f);
	return pages * sysconf(_SC_PAGESIZE);
}

struct idle {
	struct bench *b;
	unsigned answered;
};

static void
idle_readable_cb(struct stream *st, void *arg)
{
	struct idle *i = arg;

	bufq_drain(stream_input(st), stream_input(st)->len);
	bufq_add(stream_output(st), "ok", 2);
	stream_flush(st);
	if (++i->answered == IDLE_COUNT)
		loop_stop(i->b->l);
}

static void
idle_error_cb(struct stream *st, int err, void *arg)
{
	(void)arg;
	must(false, err_text(err));
	stream_close(st);
}

static const struct stream_cbs idle_cbs = {
    .readable = idle_readable_cb,
    .eof = NULL,
    .error = idle_error_cb,
};

static void
idle_client(const int *fds, int stop)
{
	struct peer p = {0};
	char b[2];
	int i;

	for (i = 0; i < IDLE_COUNT; i++) {
		p.fd = fds[i];
		peer_tls(&p);
		must(peer_write(&p, "hi", 2) == 2 && peer_read(&p, b, 2) == 2,
		     "idle exchange");
	}
	(void)!read(stop, b, 1);
	_exit(0);
}

/* Every connection did a handshake and one exchange, then nothing. */
static void
bench_idle(struct bench *b)
{
	static struct stream *st[IDLE_COUNT];
	static int client[IDLE_COUNT], server[IDLE_COUNT];
	struct idle idle = {.b = b};
	int i, fds[2], stop[2];
	long before;

	(void)fd_raise_limit(3 * IDLE_COUNT);
	must(pipe2(stop, O_CLOEXEC) == 0, "pipe");
	for (i = 0; i < IDLE_COUNT; i++) {
		tcp_pair(fds);
		server[i] = fds[0];
		client[i] = fds[1];
	}
	before = rss_bytes();
	if (fork() == 0) {
		(void)close(stop[1]);
		idle_client(client, stop[0]);
	}
	for (i = 0; i < IDLE_COUNT; i++) {
		(void)close(client[i]);
		st[i] = stream_take_fd(b->l, server[i], &idle_cbs, &idle);
		tlsio_accept(st[i], b->tls);
	}
	loop_run(b->l);
	(void)printf("%-22s %8.1f KiB per connection\n", "idle TLS",
		     (double)(rss_bytes() - before) / IDLE_COUNT / 1024);
	for (i = 0; i < IDLE_COUNT; i++)
		stream_close(st[i]);
	loop_once(b->l, false);
	(void)close(stop[1]);
	(void)waitpid(-1, NULL, 0);
}

/* --- main -------------------------------------------------------------- */

static struct tlsctx *
make_tls(void)
{
	char dir[] = "/tmp/sbx-bench-XXXXXX", cert[64], key[64];
	struct tls_ticket_keys keys = {.n = 1};
	struct tls_cert c = {cert, key};
	struct tlsctx_options o = {
	    .certs = &c, .ncerts = 1, .tls12 = true, .tickets = 1};
	struct strv name = STRV("localhost");
	struct tlsctx *t = NULL;
	char *msg = NULL;

	must(mkdtemp(dir) != NULL, "mkdtemp");
	(void)snprintf(cert, sizeof(cert), "%s/cert", dir);
	(void)snprintf(key, sizeof(key), "%s/key", dir);
	must(tlsctx_self_signed(cert, key, &name, 1, &msg) == 0 &&
		 tlsctx_server(&o, &t, &msg) == 0,
	     "certificate");
	tlsctx_set_ticket_keys(t, &keys);
	(void)unlink(cert);
	(void)unlink(key);
	(void)rmdir(dir);
	return t;
}

static bool
wanted(int argc, char **argv, const char *name)
{
	int i;

	if (argc < 3)
		return true;
	for (i = 2; i < argc; i++)
		if (strcmp(argv[i], name) == 0)
			return true;
	return false;
}

int
main(int argc, char **argv)
{
	uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 1024;
	struct bench b = {.l = loop_new(), .tls = make_tls()};

	n *= 1048576;
	if (wanted(argc, argv, "idle"))
		bench_idle(&b);
	if (wanted(argc, argv, "plain"))
		bench_bulk(&b, "plain", false, false, n);
	if (wanted(argc, argv, "down"))
		bench_bulk(&b, "TLS, to the client", true, false, n);
	if (wanted(argc, argv, "up"))
		bench_bulk(&b, "TLS, from the client", true, true, n);
	if (wanted(argc, argv, "ping"))
		bench_ping(&b, "plain", false);
	if (wanted(argc, argv, "tls-ping"))
		bench_ping(&b, "TLS", true);
	tlsctx_unref(b.tls);
	loop_free(b.l);
	return 0;
}
