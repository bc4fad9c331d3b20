/* SPDX-License-Identifier: Apache-2.0 */
/* See http1_diff.h. */
#include "config.h"

#include "tests/unit/http1_diff.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "net/buf.h"

/* Not assert(): says what the input was. */
#define CHECK(cond)                                                            \
	do {                                                                   \
		if (!(cond))                                                   \
			fail(#cond, __LINE__, p, n);                           \
	} while (0)

static void
fail(const char *what, int line, const char *p, size_t n)
{
	size_t i;

	fprintf(stderr, "http1_diff.c:%d: %s\ninput: ", line, what);
	for (i = 0; i < n && i < 2000; i++)
		fprintf(stderr, p[i] >= ' ' && p[i] < 0x7f ? "%c" : "\\x%02x",
			(unsigned char)p[i]);
	fprintf(stderr, "\n");
	abort();
}

/* Parsing goes on in an exact copy, so that a sanitizer sees an overread. */
static int
parse_copy(const char *p, size_t n, size_t *scanned, bool request,
	   struct http_head *h, struct http_reject *rej)
{
	char *copy = malloc(n != 0 ? n : 1);
	int r;

	if (copy == NULL)
		abort();
	memcpy(copy, p, n);
	memset(h, 0xa5, sizeof(*h));
	r = request ? http1_parse_request(copy, n, scanned, h, rej)
		    : http1_parse_response(copy, n, scanned, h, rej);
	if (r == 0) {
		if (h->base != copy || h->len > n)
			fail("head inside its input", __LINE__, p, n);
		http1_rebase(h, p);
	}
	free(copy);
	return r;
}

static void
check_inside(const char *p, size_t n, const struct http_head *h)
{
	size_t i, at = 0;

	CHECK(h->len >= 4 && h->len <= n && h->len <= HTTP1_HEAD_MAX);
	CHECK(memcmp(p + h->len - 4, "\r\n\r\n", 4) == 0);
	CHECK(h->nfields <= HTTP1_FIELDS_MAX);
	for (i = 0; i < h->nfields; i++) {
		const struct http_field *f = &h->fields[i];

		CHECK(f->name_off > at && f->name_len > 0);
		CHECK(f->val_off > f->name_off + f->name_len);
		at = (size_t)f->val_off + f->val_len;
		CHECK(at + 4 <= h->len);
		CHECK(http1_token_ok(http1_name(h, i)));
		CHECK(http1_value_ok(http1_value(h, i)));
		CHECK(f->id == http1_hdr_id(http1_name(h, i)));
		CHECK(f->id == H_OTHER || h->first[f->id] <= i + 1);
	}
}

static void
check_same_fields(const char *p, size_t n, const struct http_head *a,
		  const struct http_head *b)
{
	size_t i;

	CHECK(a->nfields == b->nfields);
	CHECK(memcmp(a->first, b->first, sizeof(a->first)) == 0);
	for (i = 0; i < a->nfields; i++) {
		CHECK(a->fields[i].id == b->fields[i].id);
		CHECK(strv_eq(http1_name(a, i), http1_name(b, i)));
		CHECK(strv_eq(http1_value(a, i), http1_value(b, i)));
	}
}

static void
check_same(const char *p, size_t n, const struct http_head *a,
	   const struct http_head *b)
{
	CHECK(a->request == b->request && a->body == b->body);
	CHECK(a->keep_alive == b->keep_alive);
	CHECK(a->expect_continue == b->expect_continue);
	CHECK(a->connection_other == b->connection_other);
	CHECK(a->wants_upgrade == b->wants_upgrade);
	CHECK(a->has_content_length == b->has_content_length);
	CHECK(a->content_length == b->content_length);
	CHECK(a->method == b->method && a->status == b->status);
	CHECK(a->absolute == b->absolute);
	if (a->request) {
		CHECK(strv_eq(http1_method(a), http1_method(b)));
		CHECK(strv_eq(http1_target(a), http1_target(b)));
		CHECK(strv_eq(http1_path(a), http1_path(b)));
		CHECK(strv_eq(http1_authority(a), http1_authority(b)));
	} else {
		CHECK(strv_eq(http1_reason(a), http1_reason(b)));
	}
	check_same_fields(p, n, a, b);
}

struct verdict {
	int r;
	const struct http_head *h;
	const struct http_reject *rej;
};

/*
 * A trickle is not looked at anew with each byte, so it may have been told to
 * go on where the whole is refused. A line end that no head can have settles
 * that: nothing about the refusal may change with it.
 */
static int
settle(const char *p, size_t n, bool request, size_t scanned,
       struct http_head *h, struct http_reject *rej)
{
	char *more = malloc(n + 2);
	int r;

	if (more == NULL)
		abort();
	memcpy(more, p, n);
	memcpy(more + n, "x\n", 2);
	r = parse_copy(more, n + 2, &scanned, request, h, rej);
	free(more);
	return r;
}

/* The input in pieces that end at a, at b, and then every step bytes. */
static void
check_cut(const char *p, size_t n, bool request, size_t a, size_t b,
	  size_t step, const struct verdict *whole)
{
	struct http_reject rej = {0, NULL};
	struct http_head h;
	size_t scanned = 0, at = a;
	int r;

	for (;;) {
		r = parse_copy(p, at, &scanned, request, &h, &rej);
		if (r != E_AGAIN || at == n)
			break;
		CHECK(scanned <= at);
		at = at < b ? b : at + step;
		if (at > n)
			at = n;
	}
	if (r == E_AGAIN && whole->r != E_AGAIN)
		r = settle(p, n, request, scanned, &h, &rej);
	CHECK(r == whole->r);
	if (r == 0) {
		CHECK(h.len == whole->h->len && h.minor == whole->h->minor);
		check_same(p, n, &h, whole->h);
	} else if (r != E_AGAIN) {
		CHECK(rej.status == whole->rej->status);
		CHECK(strcmp(rej.what, whole->rej->what) == 0);
	}
}

int
http1_diff_parse(const char *p, size_t n, bool request, struct http_head *out,
		 struct http_reject *rej)
{
	struct verdict whole = {0, out, rej};
	size_t scanned = 0, i, step;
	int r;

	rej->status = 0;
	rej->what = "";
	r = parse_copy(p, n, &scanned, request, out, rej);
	CHECK(r == 0 || r == E_AGAIN || r == E_PROTO || r == E_LIMIT);
	CHECK((r == 0 || r == E_AGAIN) == (rej->status == 0));
	if (r == 0)
		check_inside(p, n, out);
	whole.r = r;
	/* every cut of a short input, some of a long one */
	step = n / 256 + 1;
	for (i = 0; i < n; i += step) {
		check_cut(p, n, request, i, n, 1, &whole);
		check_cut(p, n, request, i, i + 1 + i % 7, n + 1, &whole);
	}
	check_cut(p, n, request, 0, 0, step, &whole);
	return r;
}

void
http1_diff_rewrite(const struct http_head *h, struct bufpool *pool)
{
	const char *p = h->base;
	size_t n = h->len, i, scanned = 0;
	struct http_writer w;
	struct http_head again;
	struct http_reject rej;
	struct bufq q;
	char *s;

	bufq_init(&q, pool);
	if (h->request)
		http1_write_request(&w, &q, n + 64, http1_method(h),
				    http1_target(h));
	else
		http1_write_status(&w, &q, n + 64, h->status, http1_reason(h));
	for (i = 0; i < h->nfields; i++)
		if (i % 2 == 0)
			http1_put_field(&w, h, i);
		else
			http1_put(&w, http1_name(h, i), http1_value(h, i));
	CHECK(q.len == 0);
	CHECK(http1_write_end(&w) == 0);
	s = bufq_pullup(&q, q.len);
	/* "a:b" becomes "a: b": a head near the limit may grow beyond it, and
	 * 1.0 is written as 1.1, which changes what some fields mean. */
	if (q.len <= HTTP1_HEAD_MAX && h->minor == 1) {
		CHECK((h->request ? http1_parse_request(s, q.len, &scanned,
							&again, &rej)
				  : http1_parse_response(s, q.len, &scanned,
							 &again, &rej)) == 0);
		check_same(p, n, &again, h);
	}
	bufq_clear(&q);
}
