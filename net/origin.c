/* SPDX-License-Identifier: Apache-2.0 */
/* "https://huggingface.co", "http://127.0.0.1:8080"; see the header. */
#include "config.h"

#include "net/origin.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "net/addr.h"

int
origin_parse(struct origin *h, const char *url)
{
	struct strv s = strv_of(url), host, rest;
	uint16_t port;
	char *whole;
	int r;

	if (strv_starts(s, STRV("https://"))) {
		h->tls = true;
		s = strv_from(s, 8);
	} else if (strv_starts(s, STRV("http://"))) {
		s = strv_from(s, 7);
	} else {
		return E_INVALID;
	}
	rest = s;
	(void)strv_cut(&rest, '/', &s); /* a trailing slash is fine */
	if (s.len == 0 || rest.len > 0 || strv_index(s, '@') >= 0)
		return E_INVALID;
	h->authority = xstrndup(s.p, s.len);
	h->port = h->tls ? 443 : 80;
	if (addr_split(s, &host, &port) != 0) {
		whole = xasprintf("%.*s:%u", STRV_ARG(s), h->port);
		r = addr_split(strv_of(whole), &host, &port);
		if (r == 0)
			h->host = xstrndup(host.p, host.len);
		free(whole);
		return r;
	}
	h->port = port;
	h->host = xstrndup(host.p, host.len);
	return 0;
}

void
origin_clear(struct origin *h)
{
	free(h->host);
	free(h->authority);
	memset(h, 0, sizeof(*h));
}
