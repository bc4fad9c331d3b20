/* SPDX-License-Identifier: Apache-2.0 */
/* Query parameters; see the header. */
#include "config.h"

#include "agent/query.h"

static void
query_decode(struct strv v, struct strbuf *out)
{
	for (size_t i = 0; i < v.len; i++) {
		int hi = -1, lo = -1;

		if (v.p[i] == '%' && v.len - i > 2) {
			hi = str_hex_value(v.p[i + 1]);
			lo = str_hex_value(v.p[i + 2]);
		}
		if (hi >= 0 && lo >= 0) {
			strbuf_addc(out, (char)(hi << 4 | lo));
			i += 2;
		} else {
			strbuf_addc(out, v.p[i] == '+' ? ' ' : v.p[i]);
		}
	}
}

bool
query_get(struct strv query, const char *name, struct strbuf *out)
{
	struct strv rest = query, pair, key;

	while (strv_cut(&rest, '&', &pair)) {
		(void)strv_cut(&pair, '=', &key);
		if (!strv_eq(key, strv_of(name)))
			continue;
		if (out != NULL) {
			strbuf_add(out, "", 0);
			query_decode(pair, out);
		}
		return true;
	}
	return false;
}
