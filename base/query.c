/* SPDX-License-Identifier: Apache-2.0 */
/* Query parameters; see the header. */
#include "config.h"

#include "base/query.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"

/* What the three characters at the front of v stand for; -1: nothing. */
static int
query_escape(struct strv v)
{
	int hi, lo;

	if (v.len < 3 || (hi = str_hex_value(v.p[1])) < 0 ||
	    (lo = str_hex_value(v.p[2])) < 0)
		return -1;
	return hi << 4 | lo;
}

ssize_t
query_decode(struct strv v, enum query_how how, char *out)
{
	ssize_t n = 0;

	for (size_t i = 0; i < v.len; i++) {
		char c = v.p[i];
		int code;

		if (c == '+' && how != QUERY_PATH) {
			c = ' ';
		} else if (c == '%') {
			code = query_escape(strv_from(v, i));
			if (code <= 0 && how != QUERY_LENIENT)
				return E_INVALID;
			if (code >= 0) {
				c = (char)code;
				i += 2;
			}
		}
		out[n++] = c;
	}
	return n;
}

bool
query_next(struct strv *rest, struct strv *name, struct strv *value)
{
	struct strv one;

	do {
		if (!strv_cut(rest, '&', &one))
			return false;
	} while (one.len == 0);
	(void)strv_cut(&one, '=', name);
	*value = one.p != NULL ? one : STRV("");
	return true;
}

bool
query_get(struct strv query, const char *name, struct strbuf *out)
{
	struct strv rest = query, key, value;
	char *text;
	ssize_t n;

	do {
		if (!query_next(&rest, &key, &value))
			return false;
	} while (!strv_eq(key, strv_of(name)));
	if (out == NULL)
		return true;
	text = xmalloc(value.len + 1);
	n = query_decode(value, QUERY_LENIENT, text);
	strbuf_add(out, text, n > 0 ? (size_t)n : 0);
	free(text);
	return true;
}
