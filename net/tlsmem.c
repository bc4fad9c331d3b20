/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools for OpenSSL's large buffers. OpenSSL has one allocator per process, so
 * this file, alone in net/, keeps state of its own; a loop is a process here,
 * and no second thread uses OpenSSL.
 */
#include "config.h"

#include "net/tlsmem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>

#include <sys/mman.h>

#include "base/defs.h"

#define TLSMEM_LOW  8192
#define TLSMEM_KEEP 16   /* free pieces of a pool that stay resident */
#define TLSMEM_MAX  4096 /* pieces of a pool; then malloc helps out */

struct tlspool {
	size_t size;   /* of a piece: whole pages */
	char *base;    /* TLSMEM_MAX pieces of address space */
	unsigned used; /* pieces that were ever handed out */
	unsigned nfree;
	uint16_t free[TLSMEM_MAX];
};

static struct tlspool tlspools[] = {
    {.size = 4096},  /* BIO buffers, of handshakes only */
    {.size = 24576}, /* records, handshake messages */
};

static struct tlspool *
tlsmem_pool_for(size_t n)
{
	size_t i;

	/* What lasts is smaller than 4 KiB, or an SSL of some 7.5 KiB. */
	if (n < 4096 || (n > 4096 && n <= TLSMEM_LOW))
		return NULL;
	for (i = 0; i < ARRAY_LEN(tlspools); i++)
		if (n <= tlspools[i].size)
			return &tlspools[i];
	return NULL;
}

static struct tlspool *
tlsmem_pool_of(const void *p)
{
	uintptr_t at = (uintptr_t)p, base;
	size_t i;

	for (i = 0; i < ARRAY_LEN(tlspools); i++) {
		base = (uintptr_t)tlspools[i].base;
		if (at - base < tlspools[i].size * TLSMEM_MAX)
			return &tlspools[i];
	}
	return NULL;
}

static void *
tlsmem_malloc(size_t n, const char *file, int line)
{
	struct tlspool *t = tlsmem_pool_for(n);
	unsigned i;

	(void)file;
	(void)line;
	if (t == NULL || (t->nfree == 0 && t->used == TLSMEM_MAX))
		return malloc(n);
	i = t->nfree > 0 ? t->free[--t->nfree] : t->used++;
	return t->base + i * t->size;
}

static void
tlsmem_free(void *p, const char *file, int line)
{
	struct tlspool *t = tlsmem_pool_of(p);

	(void)file;
	(void)line;
	if (t == NULL) {
		free(p);
		return;
	}
	/* After a peak the memory itself goes back, the addresses stay. */
	if (t->nfree >= TLSMEM_KEEP)
		(void)madvise(p, t->size, MADV_DONTNEED);
	t->free[t->nfree++] =
	    (uint16_t)((size_t)((char *)p - t->base) / t->size);
}

static void *
tlsmem_realloc(void *p, size_t n, const char *file, int line)
{
	struct tlspool *t = tlsmem_pool_of(p);
	void *q;

	if (t == NULL && tlsmem_pool_for(n) == NULL)
		return realloc(p, n);
	if (t != NULL && n <= t->size)
		return p;
	/* From malloc into a pool: how much of it is p's own is not known
	 * here, so it stays malloc's. */
	if (t == NULL)
		return realloc(p, n);
	if ((q = tlsmem_malloc(n, file, line)) == NULL)
		return NULL;
	memcpy(q, p, t->size);
	tlsmem_free(p, file, line);
	return q;
}

void
tlsmem_init(void)
{
	static bool tried;
	size_t i;
	void *p;

	if (tried)
		return;
	tried = true;
#ifdef SBX_SANITIZE
	return; /* let the sanitizer see every buffer */
#endif
	for (i = 0; i < ARRAY_LEN(tlspools); i++) {
		p = mmap(NULL, tlspools[i].size * TLSMEM_MAX,
			 PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (p == MAP_FAILED)
			return;
		tlspools[i].base = p;
	}
	(void)CRYPTO_set_mem_functions(tlsmem_malloc, tlsmem_realloc,
				       tlsmem_free);
}
