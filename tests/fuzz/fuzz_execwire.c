/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever comes on the connection of an interactive command, in whatever
 * pieces, is read as the frames that a simple reader finds in it, up to the
 * first that cannot be. The first byte of the input says which side it is from,
 * and how it is cut.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "net/execwire.h"
#include "tests/fuzz/fuzz.h"

static void
must(bool ok)
{
	if (!ok)
		abort();
}

/* The longest that a frame of that type may be; -1: there is none. */
static long
longest(char type, bool from_agent)
{
	if (from_agent)
		return type != '\0' && strchr("A12XE", type) != NULL ? 65536
								     : -1;
	switch (type) {
	case 'I':
		return 1L << 20;
	case '0':
		return 65536;
	case 'C':
		return 0;
	case 'R':
		return 4;
	case 'S':
		return 1;
	default:
		return -1;
	}
}

/* Takes the next frame by the book. */
static int
by_the_book(struct strv *rest, bool from_agent, char *type, struct strv *body)
{
	const unsigned char *p = (const unsigned char *)rest->p;
	size_t n;

	if (rest->len < 8)
		return E_AGAIN;
	n = (size_t)p[4] << 24 | (size_t)p[5] << 16 | (size_t)p[6] << 8 | p[7];
	*type = rest->p[0];
	if (longest(*type, from_agent) < 0 || p[1] != 0 || p[2] != 0 ||
	    p[3] != 0)
		return E_PROTO;
	if (n > (size_t)longest(*type, from_agent))
		return E_LIMIT;
	if (rest->len - 8 < n)
		return E_AGAIN;
	*body = (struct strv){rest->p + 8, n};
	*rest = strv_from(*rest, 8 + n);
	return 0;
}

/* Reads what is there; E_AGAIN when more is wanted. */
static int
read_some(struct execwire *w, struct bufq *q, struct strbuf *b,
	  struct strv *rest, bool taken)
{
	struct strv body = STRV_NULL;
	char type = 0, got;
	int r;

	while ((r = execwire_open(w, q)) == 0) {
		got = w->type;
		if (taken) { /* as stdin is: piece by piece */
			size_t n = execwire_here(w, q);
			char *p = n > 0 ? malloc(n) : NULL;

			if (n > 0) {
				must(p != NULL && bufq_copy_out(q, p, n) == n);
				strbuf_add(b, p, n);
				bufq_drain(q, n);
			}
			free(p);
			execwire_took(w, n);
			if (w->open)
				return E_AGAIN;
		} else if (execwire_whole(w, q, b) != 0) {
			return E_AGAIN;
		}
		must(by_the_book(rest, w->from_agent, &type, &body) == 0);
		must(type == got);
		must(strv_eq((struct strv){b->s, b->len}, body));
		strbuf_reset(b);
	}
	if (r != E_AGAIN)
		must(by_the_book(rest, w->from_agent, &type, &body) == r);
	return r;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bufpool *pool;
	struct execwire w = {0};
	struct strbuf b = {0};
	struct strv all, rest, body;
	struct bufq q;
	size_t step, n;
	int r = E_AGAIN;
	char type;

	if (size < 1)
		return 0;
	pool = bufpool_new(1);
	bufq_init(&q, pool);
	w.from_agent = (data[0] & 1) != 0;
	step = 1 + (size >> (data[0] >> 5)) / 2;
	all = rest = (struct strv){(const char *)data + 1, size - 1};
	while (r == E_AGAIN && all.len > 0) {
		n = all.len < step ? all.len : step;
		bufq_add(&q, all.p, n);
		all = strv_from(all, n);
		r = read_some(&w, &q, &b, &rest, (data[0] & 2) != 0);
	}
	if (r == E_AGAIN)
		must(by_the_book(&rest, w.from_agent, &type, &body) == E_AGAIN);
	strbuf_clear(&b);
	bufq_clear(&q);
	bufpool_free(pool);
	return 0;
}
