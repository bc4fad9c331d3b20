/* SPDX-License-Identifier: Apache-2.0 */
/* Headers of frames are gathered byte by byte, payloads are skipped whole. */
#include "config.h"

#include "gateway/wsframe.h"

#define OP_CLOSE 8

/* How long the header is, as far as its first two bytes tell. */
static size_t
head_len(const struct wsframe *f)
{
	unsigned len7;
	size_t n = 2;

	if (f->have < 2)
		return 2;
	len7 = f->head[1] & 0x7f;
	if (len7 == 126)
		n += 2;
	else if (len7 == 127)
		n += 8;
	return (f->head[1] & 0x80) != 0 ? n + 4 : n;
}

static void
head_done(struct wsframe *f)
{
	unsigned len7 = f->head[1] & 0x7f, i;
	unsigned bytes = len7 == 126 ? 2 : len7 == 127 ? 8 : 0;

	f->left = len7;
	if (bytes > 0) {
		f->left = 0;
		for (i = 0; i < bytes; i++)
			f->left = f->left << 8 | f->head[2 + i];
	}
	if (f->left >> 63 != 0)
		f->lost = true; /* no frame has that length */
	if ((f->head[0] & 0x0f) == OP_CLOSE)
		f->closed = true;
	f->have = 0;
	f->in_payload = f->left > 0;
}

void
wsframe_feed(struct wsframe *f, const void *p, size_t n)
{
	const uint8_t *b = p;

	while (n > 0 && !f->lost) {
		if (f->in_payload) {
			size_t skip = f->left < n ? (size_t)f->left : n;

			f->left -= skip;
			b += skip;
			n -= skip;
			f->in_payload = f->left > 0;
			continue;
		}
		f->head[f->have++] = *b++;
		n--;
		if (f->have >= 2 && f->have == head_len(f))
			head_done(f);
	}
}

bool
wsframe_at_end(const struct wsframe *f)
{
	return !f->lost && !f->closed && !f->in_payload && f->have == 0;
}

void
wsframe_close(uint8_t out[4], uint16_t code)
{
	out[0] = 0x80 | OP_CLOSE;
	out[1] = 2;
	out[2] = (uint8_t)(code >> 8);
	out[3] = (uint8_t)code;
}
