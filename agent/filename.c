/* SPDX-License-Identifier: Apache-2.0 */
/* Names that are not UTF-8; see the header. */
#include "config.h"

#include "agent/filename.h"

#include "base/utf8.h"

/* U+EF80 + (byte - 0x80): EE BE 80 to EE BF BF. */
static void
filename_add_byte(struct strbuf *b, unsigned char c)
{
	strbuf_addc(b, (char)0xee);
	strbuf_addc(b, (char)(c < 0xc0 ? 0xbe : 0xbf));
	strbuf_addc(b, (char)(0x80 | (c & 0x3f)));
}

void
filename_add_json(struct strbuf *b, struct strv name)
{
	struct strbuf text = {0};
	size_t step;
	bool ok;

	if (utf8_valid(name)) {
		strbuf_add_json(b, name);
		return;
	}
	for (size_t i = 0; i < name.len; i += step) {
		step = utf8_step(name.p + i, name.len - i, &ok);
		for (size_t k = i; !ok && k < i + step; k++)
			filename_add_byte(&text, (unsigned char)name.p[k]);
		if (ok)
			strbuf_add(&text, name.p + i, step);
	}
	strbuf_add_json(b, (struct strv){text.s, text.len});
	strbuf_clear(&text);
}

/* The byte that stands at i; -1: none. */
static int
filename_byte(struct strv name, size_t i)
{
	const unsigned char *p = (const unsigned char *)name.p + i;

	if (name.len - i < 3 || p[0] != 0xee || (p[1] & 0xfe) != 0xbe ||
	    (p[2] & 0xc0) != 0x80)
		return -1;
	return (p[1] == 0xbe ? 0x80 : 0xc0) | (p[2] & 0x3f);
}

bool
filename_escaped(struct strv name)
{
	for (size_t i = 0; i < name.len; i++) {
		if (filename_byte(name, i) >= 0)
			return true;
	}
	return false;
}

void
filename_unescape(struct strbuf *b, struct strv name)
{
	for (size_t i = 0; i < name.len; i++) {
		int c = filename_byte(name, i);

		strbuf_addc(b, c >= 0 ? (char)c : name.p[i]);
		i += c >= 0 ? 2 : 0;
	}
}
