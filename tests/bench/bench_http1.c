/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What parsing a request head costs, and writing it anew as the proxy does:
 * nanoseconds per head, the best of several rounds, for heads as curl, a
 * browser and an SDK's HTTP client send them.
 */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "net/buf.h"
#include "net/http1.h"

#define ROUNDS 20
#define LOOPS  50000

static const char curl[] =
    "GET /v1/proxy/8080/index.html HTTP/1.1\r\n"
    "Host: sandbox.example.org\r\n"
    "User-Agent: curl/7.88.1\r\n"
    "Accept: */*\r\n"
    "X-Sandbox-Token: 3e1f0a9c5d7b48f2a6c4e8d01b93f7562c8d4a1f\r\n"
    "\r\n";

static const char chromium[] =
    "GET /v1/proxy/8080/static/js/main.8f3a2c.js?v=17 HTTP/1.1\r\n"
    "Host: k3j9-8080.sandbox.example.org\r\n"
    "Connection: keep-alive\r\n"
    "sec-ch-ua: \"Chromium\";v=\"120\", \"Not A(Brand\";v=\"99\"\r\n"
    "sec-ch-ua-mobile: ?0\r\n"
    "sec-ch-ua-platform: \"Linux\"\r\n"
    "Upgrade-Insecure-Requests: 1\r\n"
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, "
    "like Gecko) Chrome/120.0.0.0 Safari/537.36\r\n"
    "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,"
    "image/webp,image/apng,*/*;q=0.8\r\n"
    "Sec-Fetch-Site: same-origin\r\n"
    "Sec-Fetch-Mode: navigate\r\n"
    "Sec-Fetch-User: ?1\r\n"
    "Sec-Fetch-Dest: document\r\n"
    "Referer: https://k3j9-8080.sandbox.example.org/v1/proxy/8080/\r\n"
    "Accept-Encoding: gzip, deflate, br\r\n"
    "Accept-Language: en-GB,en;q=0.9,fr;q=0.8\r\n"
    "Cookie: sbx=3e1f0a9c5d7b48f2a6c4e8d01b93f7562c8d4a1f; theme=dark; "
    "_xsrf=2|8f1c2d3e|4a5b6c7d8e9f0a1b2c3d4e5f60718293|1700000000\r\n"
    "\r\n";

static const char sdk[] =
    "POST /v1/exec HTTP/1.1\r\n"
    "Host: sandbox.example.org:8443\r\n"
    "Accept: */*\r\n"
    "Accept-Encoding: gzip, deflate\r\n"
    "Connection: keep-alive\r\n"
    "User-Agent: python-httpx/0.27.0\r\n"
    "X-Sandbox-Token: 3e1f0a9c5d7b48f2a6c4e8d01b93f7562c8d4a1f\r\n"
    "Content-Type: application/json\r\n"
    "X-Request-Id: 0f8b2c4d6e1a4f3b9c7d5e2f1a0b8c6d\r\n"
    "Content-Length: 57\r\n"
    "\r\n";

static double
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void
parse_once(const char *p, size_t n, struct http_head *h)
{
	struct http_reject rej;
	size_t scanned = 0;

	if (http1_parse_request(p, n, &scanned, h, &rej) != 0)
		abort();
}

static void
write_once(const struct http_head *h, struct bufq *q)
{
	struct http_writer w;
	size_t i;

	http1_write_request(&w, q, h->len + 512, http1_method(h),
			    http1_path(h));
	for (i = 0; i < h->nfields; i++)
		if (!http1_is_hop((enum http_hdr)h->fields[i].id))
			http1_put_field(&w, h, i);
	http1_put(&w, STRV("X-Forwarded-Proto"), STRV("https"));
	if (http1_write_end(&w) != 0)
		abort();
	bufq_drain(q, q->len);
}

static void
bench(const char *name, const char *p, size_t n, struct bufpool *pool)
{
	double parse = 1e9, both = 1e9, t;
	struct http_head h;
	struct bufq q;
	int r, i;

	bufq_init(&q, pool);
	for (r = 0; r < ROUNDS; r++) {
		t = now_ns();
		for (i = 0; i < LOOPS; i++) {
			parse_once(p, n, &h);
			__asm__ volatile("" ::"r"(&h) : "memory");
		}
		t = (now_ns() - t) / LOOPS;
		parse = t < parse ? t : parse;
		t = now_ns();
		for (i = 0; i < LOOPS; i++) {
			parse_once(p, n, &h);
			write_once(&h, &q);
		}
		t = (now_ns() - t) / LOOPS;
		both = t < both ? t : both;
	}
	printf("%-9s %5zu bytes %3u fields  parse %6.1f ns  parse+write "
	       "%6.1f ns\n",
	       name, n, (unsigned)h.nfields, parse, both);
	bufq_clear(&q);
}

int
main(void)
{
	struct bufpool *pool = bufpool_new(4);

	bench("curl", curl, sizeof(curl) - 1, pool);
	bench("chromium", chromium, sizeof(chromium) - 1, pool);
	bench("sdk", sdk, sizeof(sdk) - 1, pool);
	bufpool_free(pool);
	return 0;
}
