/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UTF-8 by table: what may follow depends on the first byte only, and for the
 * second byte the bounds below keep out overlong forms, surrogates and what
 * lies beyond U+10FFFF (Unicode, table 3-7).
 */
#include "config.h"

#include "base/utf8.h"

static size_t
utf8_lead(unsigned char c, unsigned char *lo, unsigned char *hi)
{
	*lo = 0x80;
	*hi = 0xbf;
	if (c >= 0xc2 && c <= 0xdf)
		return 2;
	if (c >= 0xe0 && c <= 0xef) {
		if (c == 0xe0)
			*lo = 0xa0;
		if (c == 0xed)
			*hi = 0x9f;
		return 3;
	}
	if (c >= 0xf0 && c <= 0xf4) {
		if (c == 0xf0)
			*lo = 0x90;
		if (c == 0xf4)
			*hi = 0x8f;
		return 4;
	}
	return 0;
}

size_t
utf8_step(const char *p, size_t n, bool *ok)
{
	const unsigned char *s = (const unsigned char *)p;
	unsigned char lo, hi;
	size_t want, i;

	*ok = true;
	if (s[0] < 0x80)
		return 1;
	*ok = false;
	want = utf8_lead(s[0], &lo, &hi);
	if (want == 0)
		return 1;
	for (i = 1; i < want && i < n; i++) {
		if (s[i] < lo || s[i] > hi)
			return i;
		lo = 0x80;
		hi = 0xbf;
	}
	*ok = i == want;
	return i;
}

bool
utf8_valid(struct strv v)
{
	bool ok = true;

	for (size_t i = 0; i < v.len && ok;)
		i += utf8_step(v.p + i, v.len - i, &ok);
	return ok;
}

size_t
utf8_tail(struct strv v)
{
	for (size_t n = 1; n <= 3 && n <= v.len; n++) {
		const char *p = v.p + v.len - n;
		unsigned char c = (unsigned char)*p, lo, hi;
		bool ok;

		if ((c & 0xc0) == 0x80)
			continue; /* its lead stands before it */
		/* One error of n bytes: everything so far could still be
		 * the beginning of a character. */
		if (utf8_lead(c, &lo, &hi) > n && utf8_step(p, n, &ok) == n)
			return n;
		return 0;
	}
	return 0;
}
