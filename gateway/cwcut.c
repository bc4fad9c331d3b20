/* SPDX-License-Identifier: Apache-2.0 */
/* See the header. */
#include "config.h"

#include "gateway/cwcut.h"

#include <string.h>

#include "base/base64.h"
#include "base/err.h"
#include "base/mem.h"
#include "net/buf.h"

#define PIECE    3072 /* decoded bytes at a time */
#define NO_DIGIT 64

void
cwcut_init(struct cwcut *c, struct strv name, size_t rest_max)
{
	memset(c, 0, sizeof(*c));
	/* Both alphabets, as the rules for messages have it. */
	for (int i = 0; i < 256; i++) {
		int v = base64_value(i == '-' ? '+' : i == '_' ? '/' : (char)i);

		c->digit[i] = v >= 0 ? (uint8_t)v : NO_DIGIT;
	}
	c->name = name;
	c->rest_max = rest_max;
}

void
cwcut_clear(struct cwcut *c)
{
	if (c->rest.s != NULL)
		mem_secure_zero(c->rest.s, c->rest.cap);
	strbuf_clear(&c->rest);
}

/* --- our value --------------------------------------------------------- */

/* One digit more; n counts what was put to p. */
static int
take_digit(struct cwcut *c, char ch, char *p, size_t *n)
{
	unsigned v = c->digit[(unsigned char)ch];

	if (ch == '=') {
		/* "xx==" or "xxx=", and nothing after it. */
		c->pads++;
		return c->digits >= 2 && c->digits + c->pads <= 4 ? 0
								  : E_INVALID;
	}
	if (v == NO_DIGIT || c->pads > 0)
		return E_INVALID;
	c->bits = c->bits << 6 | v;
	c->nbits += 6;
	c->digits = (c->digits + 1) % 4;
	if (c->nbits >= 8) {
		c->nbits -= 8;
		p[(*n)++] = (char)(c->bits >> c->nbits);
		c->bits &= (1U << c->nbits) - 1;
	}
	return 0;
}

/* What follows a backslash. Only plain characters can be meant. */
static int
take_escape(struct cwcut *c, char ch, char *p, size_t *n)
{
	int v;

	if (c->nhex == 0) {
		if (ch == 'u') {
			c->nhex = 4;
			c->hex = 0;
			return 0;
		}
		c->escape = false;
		return ch == '/' ? take_digit(c, ch, p, n) : E_INVALID;
	}
	if ((v = str_hex_value(ch)) < 0)
		return E_INVALID;
	c->hex = c->hex << 4 | (unsigned)v;
	if (--c->nhex > 0)
		return 0;
	c->escape = false;
	return c->hex < 0x80 ? take_digit(c, (char)c->hex, p, n) : E_INVALID;
}

/* The closing quote: is what came a whole? */
static int
end_value(struct cwcut *c)
{
	c->state = CUT_PLAIN;
	if (c->digits == 1 || (c->pads > 0 && c->digits + c->pads != 4))
		return E_INVALID;
	strbuf_addc(&c->rest, '"');
	return 0;
}

/* Whole groups of plain digits, most of what there is; returns how much. */
static size_t
take_groups(const struct cwcut *c, struct strv v, char *p, size_t *n)
{
	size_t i = 0;

	if (c->escape || c->pads > 0 || c->digits != 0)
		return 0;
	while (i + 4 <= v.len && *n + 3 <= PIECE) {
		const unsigned char *q = (const unsigned char *)v.p + i;
		unsigned a = c->digit[q[0]], b = c->digit[q[1]];
		unsigned d = c->digit[q[2]], e = c->digit[q[3]];

		if (((a | b | d | e) & NO_DIGIT) != 0)
			break;
		p[(*n)++] = (char)(a << 2 | b >> 4);
		p[(*n)++] = (char)(b << 4 | d >> 2);
		p[(*n)++] = (char)(d << 6 | e);
		i += 4;
	}
	return i;
}

static int
in_value(struct cwcut *c, struct strv *v, struct bufq *out)
{
	char piece[PIECE + 4];
	size_t n = 0, i = 0;
	int r = 0;

	while (r == 0 && n < PIECE && c->state == CUT_VALUE) {
		char ch;

		i += take_groups(c, strv_from(*v, i), piece, &n);
		if (i == v->len || n + 3 > PIECE)
			break;
		ch = v->p[i++];

		if (c->escape)
			r = take_escape(c, ch, piece, &n);
		else if (ch == '"')
			r = end_value(c);
		else if (ch == '\\')
			c->escape = true;
		else
			r = take_digit(c, ch, piece, &n);
	}
	*v = strv_from(*v, i);
	bufq_add(out, piece, n);
	c->size += n;
	return r;
}

/* --- everything else --------------------------------------------------- */

static bool
is_our_name(const struct cwcut *c)
{
	struct strv key = {c->rest.s + c->key_at, c->rest.len - c->key_at};

	return strv_eq(key, c->name);
}

static void
in_string(struct cwcut *c, char ch)
{
	if (c->escape)
		c->escape = false;
	else if (ch == '\\')
		c->escape = true;
	else if (ch == '"')
		c->state = c->state == CUT_KEY && is_our_name(c) ? CUT_COLON
								 : CUT_PLAIN;
}

static void
in_plain(struct cwcut *c, char ch)
{
	switch (ch) {
	case '{':
	case '[':
		c->depth++;
		c->names = ch == '{' && c->depth == 1;
		break;
	case '}':
	case ']':
		c->depth -= c->depth > 0;
		c->names = false;
		break;
	case ',':
		c->names = c->depth == 1;
		break;
	case '"':
		c->state = c->names ? CUT_KEY : CUT_STRING;
		c->names = false;
		c->key_at = c->rest.len + 1;
		break;
	default:
		break;
	}
}

/* Between our name and what it has. */
static int
in_colon(struct cwcut *c, char ch)
{
	if (ch == ':' || ch == ' ' || ch == '\t' || ch == '\r' || ch == '\n')
		return 0;
	if (ch == '"') {
		c->state = CUT_VALUE;
		c->bits = c->nbits = c->digits = c->pads = 0;
		return CWCUT_BEGINS;
	}
	c->state = CUT_PLAIN; /* null, or what it may not be */
	in_plain(c, ch);
	return 0;
}

static int
take_other(struct cwcut *c, char ch)
{
	int r = 0;

	if (c->rest.len >= c->rest_max)
		return E_LIMIT;
	if (c->state == CUT_PLAIN)
		in_plain(c, ch);
	else if (c->state == CUT_COLON)
		r = in_colon(c, ch);
	else
		in_string(c, ch);
	strbuf_addc(&c->rest, ch);
	return r;
}

int
cwcut_feed(struct cwcut *c, struct strv *v, struct bufq *out)
{
	int r = 0;

	while (r == 0 && v->len > 0) {
		if (c->state == CUT_VALUE) {
			r = in_value(c, v, out);
		} else {
			r = take_other(c, v->p[0]);
			*v = strv_from(*v, 1);
		}
	}
	return r;
}
