/* SPDX-License-Identifier: Apache-2.0 */
/* TLS session ticket keys: rotation, and their text form. */
#include "config.h"

#include "gateway/tlskeys.h"

#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/token.h"

void
tlskeys_rotate(struct tls_ticket_keys *k)
{
	memmove(&k->k[1], &k->k[0], sizeof(k->k) - sizeof(k->k[0]));
	token_random(&k->k[0], sizeof(k->k[0]));
	if (k->n < TLS_TICKET_KEYS)
		k->n++;
}

void
tlskeys_add(const struct tls_ticket_keys *k, struct strbuf *out)
{
	char hex[2 * sizeof(struct tls_ticket_key) + 1];

	for (unsigned i = 0; i < k->n; i++) {
		token_hex_encode(hex, &k->k[i], sizeof(k->k[i]));
		strbuf_addf(out, " %s", hex);
	}
	mem_secure_zero(hex, sizeof(hex));
}

int
tlskeys_parse(struct strv text, struct tls_ticket_keys *out)
{
	struct tls_ticket_keys k = {0};
	struct strv word;
	int r = 0;

	while (r == 0 && strv_cut(&text, ' ', &word)) {
		if (k.n == TLS_TICKET_KEYS)
			r = E_INVALID;
		else
			r = token_hex_decode(word, &k.k[k.n++], sizeof(k.k[0]));
	}
	if (r == 0)
		*out = k;
	mem_secure_zero(&k, sizeof(k));
	return r;
}
