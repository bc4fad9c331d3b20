/* SPDX-License-Identifier: Apache-2.0 */
/* NAME=value arguments; see the header. */
#include "config.h"

#include "cli/pair.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/place.h"

void
pair_add(struct strbuf *b, const char *name, const char *value)
{
	if (b->len > 0)
		strbuf_addc(b, ',');
	strbuf_add_json(b, strv_of(name));
	strbuf_addc(b, ':');
	strbuf_add_json(b, strv_of(value));
}

int
pair_parse(struct strbuf *b, const char *option, const char *pair, bool own)
{
	size_t n = strcspn(pair, "=");
	char *name = xstrndup(pair, n);
	const char *value = pair[n] == '=' ? pair + n + 1
			    : own          ? getenv(name)
					   : NULL;
	int r = 0;

	if (n > 0 && value != NULL) {
		pair_add(b, name, value);
	} else {
		say_error("%s %s: NAME=value%s is wanted", option, pair,
			  own ? ", or the NAME of a variable that is set" : "");
		r = EXIT_USAGE;
	}
	free(name);
	return r;
}
