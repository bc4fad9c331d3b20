/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Response heads: the answer is the same for every cut of the input, views
 * stay inside, and what is written anew parses to the same (http1_diff.h).
 */
#include "config.h"

#include <stdlib.h>

#include "base/err.h"
#include "net/buf.h"
#include "net/http1.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/http1_diff.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *p = (const char *)data;
	struct bufpool *pool;
	struct http_reject rej;
	struct http_head h;
	int m;

	if (http1_diff_parse(p, size, false, &h, &rej) != 0)
		return 0;
	for (m = M_OTHER; m <= M_PATCH; m++)
		if (http1_response_body(&h, (enum http_method)m) == 0 &&
		    h.body == BODY_UNTIL_CLOSE && h.keep_alive)
			abort();
	if (http1_diff_parse(p, size, false, &h, &rej) != 0)
		abort();
	pool = bufpool_new(0);
	http1_diff_rewrite(&h, pool);
	bufpool_free(pool);
	return 0;
}
