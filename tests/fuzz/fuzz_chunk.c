/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chunk decoder against a plain reading of the grammar from one piece of
 * memory: the same data, the same end, the same refusals, however the input is
 * cut and however little data is taken at a time. What was decoded is coded
 * and decoded once more.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "net/buf.h"
#include "net/chunk.h"
#include "tests/fuzz/fuzz.h"

#define CHECK(cond)                                                            \
	do {                                                                   \
		if (!(cond))                                                   \
			abort();                                               \
	} while (0)

/* --- the plain reading --------------------------------------------------- */

struct reader {
	const char *p, *end;
	char *data;
	size_t len, ext, trailer;
};

static int
peek(const struct reader *r)
{
	return r->p == r->end ? -1 : (unsigned char)*r->p;
}

static bool
is_tchar(int ch)
{
	return ch > ' ' && ch < 0x7f &&
	       strchr("\"(),/:;<=>?@[\\]{}", ch) == NULL;
}

static bool
is_text(int ch)
{
	return ch == '\t' || (ch >= ' ' && ch != 0x7f);
}

/* 0, E_PROTO, or E_AGAIN at the end of the input */
static int
take(struct reader *r, int want)
{
	if (peek(r) < 0)
		return E_AGAIN;
	return (unsigned char)*r->p++ == want ? 0 : E_PROTO;
}

static int
take_crlf(struct reader *r)
{
	int e = take(r, '\r');

	return e != 0 ? e : take(r, '\n');
}

static int
take_token(struct reader *r, size_t *count, size_t max)
{
	bool any = false;

	for (; peek(r) >= 0; any = true, r->p++) {
		if (!is_tchar(peek(r)))
			return any ? 0 : ++*count > max ? E_LIMIT : E_PROTO;
		if (++*count > max)
			return E_LIMIT;
	}
	return E_AGAIN;
}

static int
take_quoted(struct reader *r)
{
	bool escaped = false;

	for (;; r->p++) {
		int ch = peek(r);

		if (ch < 0)
			return E_AGAIN;
		if (++r->ext > 4096)
			return E_LIMIT;
		if (ch == '"' && !escaped) {
			r->p++;
			return 0;
		}
		if (!is_text(ch))
			return E_PROTO;
		escaped = ch == '\\' && !escaped;
	}
}

/* The byte after a part of an extension counts among them too, CR as well. */
static int
count_ext(struct reader *r)
{
	if (peek(r) < 0)
		return E_AGAIN;
	return ++r->ext > 4096 ? E_LIMIT : 0;
}

static int
take_ext(struct reader *r)
{
	int e;

	while (peek(r) == ';') {
		r->p++;
		if ((e = take_token(r, &r->ext, 4096)) != 0 ||
		    (e = count_ext(r)) != 0)
			return e;
		if (peek(r) != '=')
			continue;
		r->p++;
		if (peek(r) == '"') {
			if ((e = count_ext(r)) != 0)
				return e;
			r->p++;
			e = take_quoted(r);
		} else {
			e = take_token(r, &r->ext, 4096);
		}
		if (e != 0 || (e = count_ext(r)) != 0)
			return e;
	}
	return take_crlf(r);
}

static int
take_size(struct reader *r, uint64_t *out)
{
	static const char hex[] = "0123456789abcdef";
	uint64_t v = 0;
	int digits, ch;

	for (digits = 0;; digits++, r->p++) {
		const char *at;

		if ((ch = peek(r)) < 0)
			return E_AGAIN;
		if (ch >= 'A' && ch <= 'F')
			ch += 'a' - 'A';
		at = ch != 0 ? strchr(hex, ch) : NULL;
		if (at == NULL)
			break;
		if (digits == 16)
			return E_PROTO;
		v = v * 16 + (uint64_t)(at - hex);
	}
	*out = v;
	return digits == 0 ? E_PROTO : 0;
}

static int
take_trailers(struct reader *r)
{
	int e;

	while (peek(r) >= 0 && peek(r) != '\r') {
		if ((e = take_token(r, &r->trailer, 8192)) != 0)
			return e;
		if (peek(r) < 0)
			return E_AGAIN;
		if (++r->trailer > 8192)
			return E_LIMIT;
		if (*r->p++ != ':')
			return E_PROTO;
		for (; peek(r) >= 0 && is_text(peek(r)); r->p++)
			if (++r->trailer > 8192)
				return E_LIMIT;
		/* CR and LF count */
		if (peek(r) >= 0 && ++r->trailer > 8192)
			return E_LIMIT;
		if ((e = take(r, '\r')) != 0)
			return e;
		if (peek(r) >= 0 && ++r->trailer > 8192)
			return E_LIMIT;
		if ((e = take(r, '\n')) != 0)
			return e;
	}
	return take_crlf(r);
}

static int
plain_decode(struct reader *r)
{
	uint64_t size;
	int e;

	for (;;) {
		size_t n;

		if ((e = take_size(r, &size)) != 0 || (e = take_ext(r)) != 0)
			return e;
		if (size == 0)
			return take_trailers(r);
		n = (size_t)(r->end - r->p);
		if (size < n)
			n = (size_t)size;
		memcpy(r->data + r->len, r->p, n);
		r->len += n;
		r->p += n;
		if (n < size)
			return E_AGAIN;
		if ((e = take_crlf(r)) != 0)
			return e;
	}
}

/* --- the decoder ---------------------------------------------------------- */

static void
check_equal(struct bufq *q, const char *p, size_t n)
{
	CHECK(q->len == n);
	while (q->len > 0) {
		struct strv run = bufq_front(q);

		CHECK(memcmp(run.p, p, run.len) == 0);
		p += run.len;
		bufq_drain(q, run.len);
	}
}

static void
check_cut(const char *p, size_t n, size_t step, size_t max,
	  const struct reader *want, int want_r, struct bufpool *pool)
{
	struct chunk_dec d;
	struct bufq in, out;
	size_t at = 0;
	int r = E_AGAIN;

	bufq_init(&in, pool);
	bufq_init(&out, pool);
	chunk_dec_init(&d);
	while (r == E_AGAIN && (at < n || in.len > 0)) {
		size_t more = n - at < step ? n - at : step, had = out.len;

		bufq_add(&in, p + at, more);
		at += more;
		r = chunk_decode(&d, &in, &out, max);
		CHECK(out.len - had <= max && d.total == out.len);
		CHECK(r != E_AGAIN || more > 0 || out.len > had);
	}
	CHECK(r == want_r);
	if (r == 0)
		CHECK(at - in.len == (size_t)(want->p - p));
	check_equal(&out, want->data, want->len);
	bufq_clear(&in);
}

static void
check_again(const struct reader *want, size_t chunk, struct bufpool *pool)
{
	struct bufq src, coded, out;
	struct chunk_dec d;

	bufq_init(&src, pool);
	bufq_init(&coded, pool);
	bufq_init(&out, pool);
	bufq_add(&src, want->data, want->len);
	while (src.len > 0)
		chunk_encode(&coded, &src, src.len < chunk ? src.len : chunk);
	chunk_encode_end(&coded);
	chunk_dec_init(&d);
	CHECK(chunk_decode(&d, &coded, &out, SIZE_MAX) == 0);
	CHECK(coded.len == 0);
	check_equal(&out, want->data, want->len);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *p = (const char *)data;
	struct bufpool *pool = bufpool_new(4);
	struct reader want = {p, p + size, malloc(size + 1), 0, 0, 0};
	int r;

	CHECK(want.data != NULL);
	r = plain_decode(&want);
	check_cut(p, size, size + 1, SIZE_MAX, &want, r, pool);
	check_cut(p, size, 1, SIZE_MAX, &want, r, pool);
	check_cut(p, size, 2, 1, &want, r, pool);
	check_cut(p, size, 5 + size % 7, 3, &want, r, pool);
	check_cut(p, size, size + 1, 1 + size % 5, &want, r, pool);
	check_again(&want, 1 + size % 100, pool);
	free(want.data);
	bufpool_free(pool);
	return 0;
}
