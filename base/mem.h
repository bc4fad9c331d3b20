/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocation that cannot fail: out of memory ends the process with a log
 * line. Sizes that come from outside are bounded before they get here.
 */
#ifndef SBX_BASE_MEM_H
#define SBX_BASE_MEM_H

#include <stddef.h>

#include "base/defs.h"

void *xmalloc(size_t n);
void *xcalloc(size_t count, size_t size); /* overflow-checked */
void *xrealloc(void *p, size_t n);
void *xreallocarray(void *p, size_t count, size_t size);
void *xmemdup(const void *p, size_t n);
char *xstrdup(const char *s);
char *xstrndup(const char *s, size_t n); /* at most n bytes, NUL-terminated */
char *xasprintf(const char *fmt, ...) SBX_PRINTF(1, 2);

/* Overwrites n bytes in a way the compiler keeps. */
void mem_secure_zero(void *p, size_t n);
/* Overwrites and frees a NUL-terminated secret; NULL is fine. */
void mem_free_secret(char *s);

#endif
