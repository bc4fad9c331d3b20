/* SPDX-License-Identifier: Apache-2.0 */
/* Base64; see the header. */
#include "config.h"

#include "base/base64.h"

#include <stdint.h>

#include "base/err.h"

void
base64_encode(struct strv v, struct strbuf *out)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				     "abcdefghijklmnopqrstuvwxyz0123456789+/";
	char room[4 * 256];
	size_t n = 0;

	for (size_t i = 0; i < v.len; i += 3) {
		size_t left = v.len - i;
		unsigned w = (unsigned)(unsigned char)v.p[i] << 16;

		if (left > 1)
			w |= (unsigned)(unsigned char)v.p[i + 1] << 8;
		if (left > 2)
			w |= (unsigned char)v.p[i + 2];
		room[n++] = digits[w >> 18];
		room[n++] = digits[w >> 12 & 63];
		room[n++] = left > 1 ? digits[w >> 6 & 63] : '=';
		room[n++] = left > 2 ? digits[w & 63] : '=';
		if (n == sizeof(room)) {
			strbuf_add(out, room, n);
			n = 0;
		}
	}
	strbuf_add(out, room, n);
}

int
base64_value(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

int
base64_decode(struct strv text, struct strbuf *out)
{
	size_t n = text.len;
	uint32_t bits = 0;

	if (n % 4 != 0)
		return E_INVALID;
	for (int pads = 0; pads < 2 && n > 0 && text.p[n - 1] == '='; pads++)
		n--;
	for (size_t i = 0; i < n; i++) {
		int v = base64_value(text.p[i]);

		if (v < 0)
			return E_INVALID;
		bits = bits << 6 | (uint32_t)v;
		if (i % 4 != 0)
			strbuf_addc(out,
				    (char)(bits >> (6 - 2 * (i % 4)) & 0xff));
	}
	return 0;
}
