/* SPDX-License-Identifier: Apache-2.0 */
/* URLs; see the header. */
#include "config.h"

#include "cli/url.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"

int
url_parse(const char *text, struct url *out)
{
	const char *p = strstr(text, "://"), *path;
	size_t n;

	if (p == NULL || strpbrk(text, "?# \t\r\n") != NULL)
		return E_INVALID;
	if ((path = strchr(p + 3, '/')) == NULL)
		path = text + strlen(text);
	n = strlen(path);
	while (n > 0 && path[n - 1] == '/')
		n--;
	out->origin = xstrndup(text, (size_t)(path - text));
	out->path = xstrndup(path, n);
	return 0;
}

void
url_clear(struct url *u)
{
	free(u->origin);
	free(u->path);
	u->origin = u->path = NULL;
}

void
url_encode(struct strbuf *b, struct strv v)
{
	for (size_t i = 0; i < v.len; i++) {
		unsigned char c = (unsigned char)v.p[i];

		if (isalnum(c) || (c != '\0' && strchr("-._~", c) != NULL))
			strbuf_addc(b, (char)c);
		else
			strbuf_addf(b, "%%%02X", c);
	}
}
