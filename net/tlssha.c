/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 in pieces; see the header. */
#include "config.h"

#include "net/tlssha.h"

#include <stdlib.h>

#include <openssl/evp.h>

#include "base/mem.h"
#include "net/tlsmem.h"

struct tlssha {
	EVP_MD_CTX *ctx;
};

struct tlssha *
tlssha_new(void)
{
	struct tlssha *h = xcalloc(1, sizeof(*h));

	tlsmem_init();
	h->ctx = EVP_MD_CTX_new();
	if (h->ctx != NULL &&
	    EVP_DigestInit_ex(h->ctx, EVP_sha256(), NULL) == 1)
		return h;
	tlssha_free(h);
	return NULL;
}

void
tlssha_free(struct tlssha *h)
{
	if (h == NULL)
		return;
	EVP_MD_CTX_free(h->ctx);
	free(h);
}

/* Neither of these can fail once it has begun. */
void
tlssha_add(struct tlssha *h, const void *p, size_t n)
{
	if (EVP_DigestUpdate(h->ctx, p, n) != 1)
		abort();
}

void
tlssha_end(struct tlssha *h, uint8_t out[TLSSHA_LEN])
{
	if (EVP_DigestFinal_ex(h->ctx, out, NULL) != 1)
		abort();
}
