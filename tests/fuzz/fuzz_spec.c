/* SPDX-License-Identifier: Apache-2.0 */
/* Forward specifications: never more than the text, and what is accepted
 * keeps the promises of spec.h. */
#include "config.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "tests/fuzz/fuzz.h"
#include "tunnel/spec.h"

static void
check_end(const struct spec_end *e, bool listening)
{
	assert(e->path == NULL || (e->path[0] == '/' && e->path[1] != '\0'));
	assert(e->path == NULL || (e->host == NULL && e->port == 0));
	if (!listening && e->path == NULL)
		assert(e->host != NULL && *e->host != '\0' && e->port != 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	char *text = xstrndup((const char *)p, n);
	struct strbuf b = {0};
	const char *why = NULL;
	struct spec *sp;

	if (spec_parse(SPEC_LOCAL, text, &sp, &why) == 0) {
		check_end(&sp->listen, true);
		check_end(&sp->target, false);
		spec_end_text(&sp->target, &b);
		assert(b.len > 0 && b.len <= strlen(text) + 2);
		strbuf_clear(&b);
		spec_free(sp);
	} else {
		assert(why != NULL);
	}
	free(text);
	return 0;
}
