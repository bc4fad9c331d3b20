/* SPDX-License-Identifier: Apache-2.0 */
/* Lines; see the header. */
#include "config.h"

#include "cli/lines.h"

static void
lines_tell(struct lines *l, struct strv v)
{
	if (v.len > 0 && v.p[v.len - 1] == '\r')
		v.len--;
	l->line(v, l->arg);
}

void
lines_add(struct lines *l, struct strv piece)
{
	ptrdiff_t at;

	while ((at = strv_index(piece, '\n')) >= 0) {
		struct strv v = {piece.p, (size_t)at};

		piece = strv_from(piece, (size_t)at + 1);
		if (l->part.len > 0) {
			strbuf_addv(&l->part, v);
			lines_tell(l, (struct strv){l->part.s, l->part.len});
			strbuf_reset(&l->part);
		} else {
			lines_tell(l, v);
		}
	}
	strbuf_addv(&l->part, piece);
}

void
lines_end(struct lines *l)
{
	if (l->part.len > 0)
		lines_tell(l, (struct strv){l->part.s, l->part.len});
	strbuf_clear(&l->part);
}
