/* SPDX-License-Identifier: Apache-2.0 */
/* The frames of an interactive command; see the header. */
#include "config.h"

#include "net/execwire.h"

#include <string.h>

#include "base/err.h"

#define EXECWIRE_HEAD 8

static const struct {
	char type;
	bool from_agent;
	unsigned max;
} execwire_types[] = {
    {EXECWIRE_STDIN, false, EXECWIRE_MAX},
    {EXECWIRE_STDOUT, true, EXECWIRE_MAX},
    {EXECWIRE_STDERR, true, EXECWIRE_MAX},
    {EXECWIRE_RESIZE, false, 4},
    {EXECWIRE_SIGNAL, false, 1},
    {EXECWIRE_CLOSE, false, 0},
    {EXECWIRE_INIT, false, EXECWIRE_INIT_MAX},
    {EXECWIRE_ACCEPTED, true, EXECWIRE_MAX},
    {EXECWIRE_EXIT, true, EXECWIRE_MAX},
    {EXECWIRE_ERROR, true, EXECWIRE_MAX},
};

static size_t
execwire_max(char type)
{
	return type == EXECWIRE_INIT ? EXECWIRE_INIT_MAX : EXECWIRE_MAX;
}

int
execwire_open(struct execwire *w, struct bufq *q)
{
	unsigned char h[EXECWIRE_HEAD];
	size_t n, i = 0;

	if (w->open)
		return 0;
	if (bufq_copy_out(q, h, sizeof(h)) < sizeof(h))
		return E_AGAIN;
	while (i < ARRAY_LEN(execwire_types) &&
	       (execwire_types[i].type != (char)h[0] ||
		execwire_types[i].from_agent != w->from_agent))
		i++;
	if (i == ARRAY_LEN(execwire_types) || (h[1] | h[2] | h[3]) != 0)
		return E_PROTO;
	n = (size_t)h[4] << 24 | (size_t)h[5] << 16 | (size_t)h[6] << 8 | h[7];
	if (n > execwire_types[i].max)
		return E_LIMIT;
	bufq_drain(q, sizeof(h));
	w->open = true;
	w->type = (char)h[0];
	w->left = n;
	return 0;
}

size_t
execwire_here(const struct execwire *w, const struct bufq *q)
{
	return q->len < w->left ? q->len : w->left;
}

void
execwire_took(struct execwire *w, size_t n)
{
	w->left -= n;
	w->open = w->left > 0;
}

int
execwire_whole(struct execwire *w, struct bufq *q, struct strbuf *b)
{
	struct strv v;

	while (w->left > 0 && (v = bufq_front(q)).len > 0) {
		if (v.len > w->left)
			v.len = w->left;
		strbuf_addv(b, v);
		bufq_drain(q, v.len);
		w->left -= v.len;
	}
	w->open = w->left > 0;
	return w->open ? E_AGAIN : 0;
}

void
execwire_put_head(struct bufq *q, char type, size_t n)
{
	const char h[EXECWIRE_HEAD] = {
	    type,           0,      0, 0, (char)(n >> 24), (char)(n >> 16),
	    (char)(n >> 8), (char)n};

	bufq_add(q, h, sizeof(h));
}

void
execwire_put(struct bufq *q, char type, struct strv v)
{
	size_t max = execwire_max(type), n;

	do {
		n = v.len < max ? v.len : max;
		execwire_put_head(q, type, n);
		bufq_add(q, v.p, n);
		v = strv_from(v, n);
	} while (v.len > 0);
}
