/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The smallest server that net/httpd makes: answers "ok" to everything, so
 * that its own cost can be measured with wrk and perf.
 *
 *     bench_httpd [-s SECONDS] [-p PORT] [-c] [-b BYTES]
 *
 * -c sends the body chunked, -b its size. Prints the port; after SECONDS the
 * requests served and the CPU time of each.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/resource.h>

#include "base/log.h"
#include "base/mem.h"
#include "net/addr.h"
#include "net/httpd.h"
#include "net/listener.h"
#include "net/loop.h"
#include "net/stream.h"

struct bench {
	struct loop *l;
	struct httpd *s;
	bool chunked;
	struct strv body;
	unsigned long served;
};

static void
request_cb(struct httpd_req *rq, void *arg)
{
	struct bench *b = arg;

	b->served++;
	if (!b->chunked) {
		httpd_respond(rq, 200, "text/plain", STRV_NULL, b->body);
		return;
	}
	(void)httpd_begin(rq, 200, STRV("OK"), BODY_UNTIL_CLOSE, 0, 0);
	if (httpd_end_head(rq) != 0)
		return;
	httpd_write(rq, b->body.p, b->body.len);
	httpd_end(rq);
}

static void
accepted_cb(int fd, const struct addr *peer, void *arg)
{
	static const struct stream_cbs none;
	struct bench *b = arg;

	(void)httpd_serve(b->s, stream_take_fd(b->l, fd, &none, NULL), peer,
			  NULL);
}

static void
stop_cb(void *arg)
{
	loop_stop(arg);
}

static double
cpu_us(void)
{
	struct rusage ru;

	(void)getrusage(RUSAGE_SELF, &ru);
	return (double)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) * 1e6 +
	       (double)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec);
}

static int
bind_loopback(uint16_t port)
{
	struct listen_options lo = {.reuseport = false};
	struct sockaddr_in in;
	socklen_t n = sizeof(in);
	struct addr a;
	int fd;

	addr_loopback(&a, false, port);
	if (listener_bind(&a, &lo, &fd) != 0)
		log_fatal("bench.bind", "port=%u", port);
	(void)getsockname(fd, (struct sockaddr *)&in, &n);
	(void)printf("%u\n", ntohs(in.sin_port));
	(void)fflush(stdout);
	return fd;
}

static void
bench_run(struct bench *b, uint16_t port, uint64_t seconds)
{
	static const struct httpd_handler h = {.request = request_cb};
	struct httpd_options o = {.server = "bench"};
	struct listener *ls;
	struct timer end;

	b->l = loop_new();
	b->s = httpd_new(b->l, &o, &h, b);
	ls = listener_take_fd(b->l, bind_loopback(port), accepted_cb, b);
	timer_init(&end, b->l, stop_cb, b->l);
	timer_set(&end, seconds * 1000);
	loop_run(b->l);
	timer_clear(&end);
	listener_close(ls);
	httpd_free(b->s);
	loop_free(b->l);
	(void)printf("%lu requests, %.2f us of CPU each\n", b->served,
		     cpu_us() / (double)(b->served > 0 ? b->served : 1));
}

int
main(int argc, char **argv)
{
	struct bench b = {.body = STRV("ok\n")};
	unsigned long seconds = 10, port = 0;
	char *big = NULL;
	int ch;

	while ((ch = getopt(argc, argv, "b:cp:s:")) != -1) {
		switch (ch) {
		case 'b':
			b.body.len = strtoul(optarg, NULL, 10) & 0xfffffff;
			big = xcalloc(1, b.body.len + 1);
			b.body.p = big;
			break;
		case 'c':
			b.chunked = true;
			break;
		case 'p':
			port = strtoul(optarg, NULL, 10);
			break;
		case 's':
			seconds = strtoul(optarg, NULL, 10);
			break;
		default:
			return 2;
		}
	}
	bench_run(&b, (uint16_t)port, seconds);
	free(big);
	return 0;
}
