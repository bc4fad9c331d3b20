/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The growing byte string of str.h, and the escapes that answers are written
 * with. It doubles when it grows; s[len] is always a NUL.
 */
#include "config.h"

#include "base/str.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"

/* Makes room for n more bytes and the NUL. */
static void
strbuf_reserve(struct strbuf *b, size_t n)
{
	size_t need, cap = b->cap != 0 ? b->cap : 64;

	if (__builtin_add_overflow(b->len, n, &need) ||
	    __builtin_add_overflow(need, 1, &need))
		need = SIZE_MAX; /* which xrealloc cannot give */
	if (need <= b->cap)
		return;
	while (cap < need && cap <= SIZE_MAX / 2)
		cap *= 2;
	if (cap < need)
		cap = need;
	b->s = xrealloc(b->s, cap);
	b->cap = cap;
}

void
strbuf_clear(struct strbuf *b)
{
	free(b->s);
	*b = (struct strbuf){0};
}

void
strbuf_reset(struct strbuf *b)
{
	b->len = 0;
	if (b->s != NULL)
		b->s[0] = '\0';
}

void
strbuf_add(struct strbuf *b, const void *p, size_t n)
{
	strbuf_reserve(b, n);
	if (n != 0)
		memcpy(b->s + b->len, p, n);
	b->len += n;
	b->s[b->len] = '\0';
}

void
strbuf_addv(struct strbuf *b, struct strv v)
{
	strbuf_add(b, v.p, v.len);
}

void
strbuf_adds(struct strbuf *b, const char *s)
{
	strbuf_add(b, s, strlen(s));
}

void
strbuf_addc(struct strbuf *b, char c)
{
	strbuf_add(b, &c, 1);
}

void
strbuf_addf(struct strbuf *b, const char *fmt, ...)
{
	va_list ap, again;
	size_t room;
	int n;

	strbuf_reserve(b, 64);
	room = b->cap - b->len;
	va_start(ap, fmt);
	va_copy(again, ap);
	n = vsnprintf(b->s + b->len, room, fmt, ap);
	va_end(ap);
	assert(n >= 0); /* only a bad format or a string of 2 GiB */
	if ((size_t)n >= room) {
		strbuf_reserve(b, (size_t)n);
		n = vsnprintf(b->s + b->len, b->cap - b->len, fmt, again);
		assert(n >= 0);
	}
	va_end(again);
	b->len += (size_t)n;
}

static void
add_json_escape(struct strbuf *b, unsigned char c)
{
	static const char short_for[] = "\bb\tt\nn\ff\rr\"\"\\\\";

	for (size_t i = 0; i + 1 < sizeof(short_for); i += 2) {
		if ((unsigned char)short_for[i] == c) {
			char esc[2] = {'\\', short_for[i + 1]};

			strbuf_add(b, esc, 2);
			return;
		}
	}
	strbuf_addf(b, "\\u%04x", c);
}

/* U+0085, U+2028 and U+2029 need no escape in JSON, but some read lines of JSON
 * with what splits text there too (Python's str.splitlines). p is a whole
 * character; 0: none of them. */
static unsigned
json_line_end(const char *p)
{
	if (memcmp(p, "\xc2\x85", 2) == 0)
		return 0x85;
	if (memcmp(p, "\xe2\x80", 2) != 0)
		return 0;
	return p[2] == '\xa8' ? 0x2028 : p[2] == '\xa9' ? 0x2029 : 0;
}

void
strbuf_add_json(struct strbuf *b, struct strv v)
{
	size_t i = 0, run = 0; /* v[run..i) waits to be added as it is */
	unsigned end = 0;
	bool ok;

	strbuf_reserve(b, v.len + 2);
	strbuf_addc(b, '"');
	while (i < v.len) {
		unsigned char c = (unsigned char)v.p[i];
		size_t step = 1;

		if (c >= 0x20 && c < 0x80 && c != '"' && c != '\\') {
			i++;
			continue;
		}
		if (c >= 0x80) {
			step = utf8_step(v.p + i, v.len - i, &ok);
			end = ok ? json_line_end(v.p + i) : 0;
			if (ok && end == 0) {
				i += step;
				continue;
			}
		}
		strbuf_add(b, v.p + run, i - run);
		if (c >= 0x80 && end != 0)
			strbuf_addf(b, "\\u%04x", end);
		else if (c >= 0x80)
			strbuf_adds(b, "\xef\xbf\xbd"); /* U+FFFD */
		else
			add_json_escape(b, c);
		i += step;
		run = i;
	}
	if (i != run)
		strbuf_add(b, v.p + run, i - run);
	strbuf_addc(b, '"');
}

/* The character of the escape at v, which is whole; returns the escape's
 * length. */
static size_t
json_escape(struct strv v, unsigned *code)
{
	static const char shorts[] = "b\bt\tn\nf\fr\r";
	const char *at;

	*code = '\\';
	if (v.len >= 6 && v.p[1] == 'u') {
		*code = 0;
		for (size_t i = 2; i < 6; i++) {
			int digit = str_hex_value(v.p[i]);

			*code = *code << 4 | (unsigned)(digit < 0 ? 0 : digit);
		}
		return 6;
	}
	if (v.len < 2)
		return v.len;
	at = v.p[1] != '\0' ? strchr(shorts, v.p[1]) : NULL;
	*code = (unsigned char)(at != NULL ? at[1] : v.p[1]);
	return 2;
}

size_t
str_json_len(struct strv v)
{
	size_t n = 0;
	unsigned code = 0;
	const char *esc;

	while (v.len > 0 && (esc = memchr(v.p, '\\', v.len)) != NULL) {
		n += (size_t)(esc - v.p);
		v = strv_from(v, (size_t)(esc - v.p));
		v = strv_from(v, json_escape(v, &code));
		n += code < 0x80 ? 1 : code < 0x800 ? 2 : 3;
	}
	return n + v.len;
}

static void
add_utf8(struct strbuf *b, unsigned code)
{
	if (code < 0x80) {
		strbuf_addc(b, (char)code);
		return;
	}
	if (code < 0x800) {
		strbuf_addc(b, (char)(0xc0 | code >> 6));
	} else {
		strbuf_addc(b, (char)(0xe0 | code >> 12));
		strbuf_addc(b, (char)(0x80 | (code >> 6 & 0x3f)));
	}
	strbuf_addc(b, (char)(0x80 | (code & 0x3f)));
}

void
strbuf_add_unjson(struct strbuf *b, struct strv v)
{
	unsigned code = 0;
	const char *esc;

	while (v.len > 0 && (esc = memchr(v.p, '\\', v.len)) != NULL) {
		strbuf_add(b, v.p, (size_t)(esc - v.p));
		v = strv_from(v, (size_t)(esc - v.p));
		v = strv_from(v, json_escape(v, &code));
		add_utf8(b, code);
	}
	strbuf_addv(b, v);
}

void
strbuf_add_html(struct strbuf *b, struct strv v)
{
	for (size_t i = 0; i < v.len; i++) {
		switch (v.p[i]) {
		case '&':
			strbuf_adds(b, "&amp;");
			break;
		case '<':
			strbuf_adds(b, "&lt;");
			break;
		case '>':
			strbuf_adds(b, "&gt;");
			break;
		case '"':
			strbuf_adds(b, "&quot;");
			break;
		case '\'':
			strbuf_adds(b, "&#39;");
			break;
		default:
			strbuf_addc(b, v.p[i]);
		}
	}
}

char *
strbuf_take(struct strbuf *b)
{
	char *s;

	strbuf_reserve(b, 0);
	b->s[b->len] = '\0';
	s = b->s;
	*b = (struct strbuf){0};
	return s;
}
