/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes and tiny macros that every file may use. */
#ifndef SBX_BASE_DEFS_H
#define SBX_BASE_DEFS_H

#include <stddef.h>

#define SBX_MUST_CHECK   __attribute__((warn_unused_result))
#define SBX_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define SBX_NORETURN     __attribute__((noreturn))

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define CONTAINER_OF(p, type, member)                                          \
	((type *)(void *)((char *)(p)-offsetof(type, member)))

#endif
