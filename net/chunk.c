/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chunked coding, as a byte machine around runs of data. Blanks around
 * the size or within extensions are refused: the grammar's BWS is there for
 * senders nobody has seen for decades, and for those who hide things in it.
 */
#include "config.h"

#include "net/chunk.h"

#include <assert.h>
#include <string.h>

#include "base/err.h"
#include "net/buf.h"
#include "net/http1_scan.h"

#define EXT_MAX     4096
#define TRAILER_MAX 8192

enum chunk_state {
	CS_SIZE,     /* a hex digit; after the first also ';' or CR */
	CS_EXT_NAME, /* after ';' */
	CS_EXT_NAME_MORE,
	CS_EXT_VALUE, /* after '=' */
	CS_EXT_VALUE_MORE,
	CS_EXT_QUOTED,
	CS_EXT_ESCAPED,
	CS_EXT_QUOTE_END,
	CS_SIZE_LF,
	CS_DATA,
	CS_DATA_CR,
	CS_DATA_LF,
	CS_TRAILER, /* first byte of a trailer line */
	CS_TRAILER_NAME,
	CS_TRAILER_VALUE,
	CS_TRAILER_LF,
	CS_END_LF,
	CS_DONE,
	CS_BAD
};

void
chunk_dec_init(struct chunk_dec *d)
{
	memset(d, 0, sizeof(*d));
}

static inline int
hex_value(unsigned char ch)
{
	if (ch >= '0' && ch <= '9')
		return ch - '0';
	ch |= 0x20;
	if (ch >= 'a' && ch <= 'f')
		return ch - 'a' + 10;
	return -1;
}

static inline int
move_to(struct chunk_dec *d, enum chunk_state s)
{
	d->state = (uint8_t)s;
	return 0;
}

static inline int
move_if(struct chunk_dec *d, bool ok, enum chunk_state s)
{
	return ok ? move_to(d, s) : E_PROTO;
}

static int
on_size(struct chunk_dec *d, unsigned char ch)
{
	int v = hex_value(ch);

	if (v >= 0) {
		if (d->digits == 16)
			return E_PROTO;
		d->digits++;
		d->left = d->left << 4 | (unsigned)v;
		return 0;
	}
	if (d->digits == 0)
		return E_PROTO;
	if (ch == '\r')
		return move_to(d, CS_SIZE_LF);
	return move_if(d, ch == ';', CS_EXT_NAME);
}

/* chunk-ext = *( ";" token [ "=" ( token / quoted-string ) ] ) */
static int
on_ext(struct chunk_dec *d, unsigned char ch)
{
	bool tok = http1_class[ch] & HTTP1_TOKEN_CH;

	switch (d->state) {
	case CS_EXT_NAME:
		return move_if(d, tok, CS_EXT_NAME_MORE);
	case CS_EXT_NAME_MORE:
		if (ch == '=')
			return move_to(d, CS_EXT_VALUE);
		break;
	case CS_EXT_VALUE:
		if (ch == '"')
			return move_to(d, CS_EXT_QUOTED);
		return move_if(d, tok, CS_EXT_VALUE_MORE);
	case CS_EXT_QUOTED:
		if (ch == '"')
			return move_to(d, CS_EXT_QUOTE_END);
		if (ch == '\\')
			return move_to(d, CS_EXT_ESCAPED);
		__attribute__((fallthrough));
	case CS_EXT_ESCAPED:
		return move_if(d, http1_class[ch] & HTTP1_VALUE_CH,
			       CS_EXT_QUOTED);
	default: /* CS_EXT_VALUE_MORE, CS_EXT_QUOTE_END */
		break;
	}
	if (ch == ';')
		return move_to(d, CS_EXT_NAME);
	if (ch == '\r')
		return move_to(d, CS_SIZE_LF);
	return tok && d->state != CS_EXT_QUOTE_END ? 0 : E_PROTO;
}

static int
on_size_lf(struct chunk_dec *d, unsigned char ch)
{
	d->digits = 0;
	return move_if(d, ch == '\n', d->left == 0 ? CS_TRAILER : CS_DATA);
}

static int
on_trailer(struct chunk_dec *d, unsigned char ch)
{
	if (d->state == CS_TRAILER && ch == '\r')
		return move_to(d, CS_END_LF);
	if (++d->trailer > TRAILER_MAX)
		return E_LIMIT;
	switch (d->state) {
	case CS_TRAILER:
		return move_if(d, http1_class[ch] & HTTP1_TOKEN_CH,
			       CS_TRAILER_NAME);
	case CS_TRAILER_NAME:
		if (ch == ':')
			return move_to(d, CS_TRAILER_VALUE);
		return move_if(d, http1_class[ch] & HTTP1_TOKEN_CH,
			       CS_TRAILER_NAME);
	case CS_TRAILER_VALUE:
		if (ch == '\r')
			return move_to(d, CS_TRAILER_LF);
		return move_if(d, http1_class[ch] & HTTP1_VALUE_CH,
			       CS_TRAILER_VALUE);
	default:
		return move_if(d, ch == '\n', CS_TRAILER);
	}
}

/* One byte that is not data. */
static int
step(struct chunk_dec *d, unsigned char ch)
{
	switch ((enum chunk_state)d->state) {
	case CS_SIZE:
		return on_size(d, ch);
	case CS_EXT_NAME:
	case CS_EXT_NAME_MORE:
	case CS_EXT_VALUE:
	case CS_EXT_VALUE_MORE:
	case CS_EXT_QUOTED:
	case CS_EXT_ESCAPED:
	case CS_EXT_QUOTE_END:
		if (++d->ext > EXT_MAX)
			return E_LIMIT;
		return on_ext(d, ch);
	case CS_SIZE_LF:
		return on_size_lf(d, ch);
	case CS_DATA_CR:
		return move_if(d, ch == '\r', CS_DATA_LF);
	case CS_DATA_LF:
		return move_if(d, ch == '\n', CS_SIZE);
	case CS_TRAILER:
	case CS_TRAILER_NAME:
	case CS_TRAILER_VALUE:
	case CS_TRAILER_LF:
		return on_trailer(d, ch);
	case CS_END_LF:
		return move_if(d, ch == '\n', CS_DONE);
	case CS_DATA:
	case CS_DONE:
	case CS_BAD:
		break;
	}
	return E_PROTO;
}

/* Eats framing bytes up to data, the end, or the end of in. */
static int
take_framing(struct chunk_dec *d, struct bufq *in)
{
	while (in->len > 0 && d->state != CS_DATA && d->state != CS_DONE) {
		struct strv run = bufq_front(in);
		size_t i = 0;
		int r = 0;

		while (i < run.len && r == 0 && d->state != CS_DATA &&
		       d->state != CS_DONE)
			r = step(d, (unsigned char)run.p[i++]);
		if (r != 0) {
			d->state = CS_BAD;
			return r;
		}
		bufq_drain(in, i);
	}
	return 0;
}

int
chunk_decode(struct chunk_dec *d, struct bufq *in, struct bufq *out, size_t max)
{
	int r;

	if (d->state == CS_BAD)
		return E_PROTO;
	for (;;) {
		size_t n;

		if ((r = take_framing(d, in)) != 0)
			return r;
		if (d->state == CS_DONE)
			return 0;
		if (in->len == 0 || max == 0)
			return E_AGAIN;
		n = in->len < max ? in->len : max;
		if (d->left < n)
			n = (size_t)d->left;
		bufq_move(out, in, n);
		max -= n;
		d->total += n;
		d->left -= n;
		if (d->left == 0)
			d->state = CS_DATA_CR;
	}
}

static void
size_line(struct bufq *dst, size_t n)
{
	static const char hex[] = "0123456789abcdef";
	char line[18];
	size_t i = sizeof(line);

	line[--i] = '\n';
	line[--i] = '\r';
	do
		line[--i] = hex[n & 15];
	while ((n >>= 4) != 0);
	bufq_add(dst, line + i, sizeof(line) - i);
}

void
chunk_encode(struct bufq *dst, struct bufq *src, size_t n)
{
	assert(n > 0 && n <= src->len);
	size_line(dst, n);
	bufq_move(dst, src, n);
	bufq_add(dst, "\r\n", 2);
}

void
chunk_encode_mem(struct bufq *dst, const void *p, size_t n)
{
	assert(n > 0);
	size_line(dst, n);
	bufq_add(dst, p, n);
	bufq_add(dst, "\r\n", 2);
}

void
chunk_encode_end(struct bufq *dst)
{
	bufq_add(dst, "0\r\n\r\n", 5);
}
