/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocation that cannot fail. It stands on log.c, which allocates nothing,
 * so the last line of a process out of memory still gets written.
 */
#include "config.h"

#include "base/mem.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

static SBX_NORETURN void
mem_exhausted(size_t n)
{
	log_fatal("mem.exhausted", "bytes=%zu", n);
}

void *
xmalloc(size_t n)
{
	void *p = malloc(n != 0 ? n : 1);

	if (p == NULL)
		mem_exhausted(n);
	return p;
}

void *
xcalloc(size_t count, size_t size)
{
	void *p;

	if (count == 0 || size == 0)
		count = size = 1;
	p = calloc(count, size); /* checks the product itself */
	if (p == NULL)
		mem_exhausted(count);
	return p;
}

void *
xrealloc(void *p, size_t n)
{
	void *q = realloc(p, n != 0 ? n : 1);

	if (q == NULL)
		mem_exhausted(n);
	return q;
}

void *
xreallocarray(void *p, size_t count, size_t size)
{
	size_t n;

	if (__builtin_mul_overflow(count, size, &n))
		mem_exhausted(SIZE_MAX);
	return xrealloc(p, n);
}

void *
xmemdup(const void *p, size_t n)
{
	void *q = xmalloc(n);

	if (n != 0)
		memcpy(q, p, n);
	return q;
}

char *
xstrdup(const char *s)
{
	return xmemdup(s, strlen(s) + 1);
}

char *
xstrndup(const char *s, size_t n)
{
	size_t len = n != 0 ? strnlen(s, n) : 0;
	char *q = xmalloc(len + 1);

	if (len != 0)
		memcpy(q, s, len);
	q[len] = '\0';
	return q;
}

char *
xasprintf(const char *fmt, ...)
{
	char *s = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&s, fmt, ap);
	va_end(ap);
	if (n < 0)
		mem_exhausted(0);
	return s;
}

void
mem_secure_zero(void *p, size_t n)
{
	if (n != 0)
		explicit_bzero(p, n);
}

void
mem_free_secret(char *s)
{
	if (s == NULL)
		return;
	mem_secure_zero(s, strlen(s));
	free(s);
}
