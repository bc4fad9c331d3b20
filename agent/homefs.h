/* SPDX-License-Identifier: Apache-2.0 */
/* A file system of a limited size for one home, in memory, mounted nowhere
 * yet. */
#ifndef SBX_AGENT_HOMEFS_H
#define SBX_AGENT_HOMEFS_H

#include <stdint.h>

#include "base/defs.h"

/* *fd: a path handle of its root, which is root's own; the caller's. It lasts
 * as long as that, or as what it is moved to. E_SYS with errno. */
int homefs_new(uint64_t bytes, int *fd) SBX_MUST_CHECK;
/* Puts that where path leads, in the caller's mount namespace. Only a system
 * call: 0 or -1 with errno. */
int homefs_put(int fd, const char *path) SBX_MUST_CHECK;
/* The directory that path leads to, with all that is mounted in it, as such a
 * file system. Only a system call: -1 with errno. */
int homefs_clone(const char *path);

#endif
