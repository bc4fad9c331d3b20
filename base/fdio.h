/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors and small files, without an event loop. */
#ifndef SBX_BASE_FDIO_H
#define SBX_BASE_FDIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/defs.h"

/* Closes *fd unless it is -1, and makes it -1. */
void fd_close(int *fd);
int fd_set_nonblock(int fd) SBX_MUST_CHECK;
int fd_set_cloexec(int fd, bool on) SBX_MUST_CHECK;

/* Reads a whole file of at most max bytes into a NUL-terminated, malloc'ed
 * string. E_NOTFOUND, E_DENIED, E_LIMIT (larger), E_SYS. */
int file_read(const char *path, size_t max, char **out,
	      size_t *len) SBX_MUST_CHECK;
/* As file_read, for a secret: one line, its end of line cut off, not empty.
 * Free with mem_free_secret(). */
int file_read_secret(const char *path, char **out) SBX_MUST_CHECK;
/* Replaces path atomically (temporary file, fsync, rename) with mode. */
int file_write_atomic(const char *path, const void *p, size_t n,
		      mode_t mode) SBX_MUST_CHECK;
/* mkdir -p; a part that exists as something else is E_EXISTS. */
int dir_make(const char *path, mode_t mode) SBX_MUST_CHECK;

/* Writes all n bytes to a blocking fd (EINTR and short writes handled). */
int fd_write_all(int fd, const void *p, size_t n) SBX_MUST_CHECK;

/* Locks path (created, 0600) for this process's life and writes the pid into
 * it; E_BUSY when another process holds it (its pid in *holder, may be
 * NULL). The descriptor is handed over in *fd. */
int pidfile_lock(const char *path, pid_t *holder, int *fd) SBX_MUST_CHECK;

/* Raises RLIMIT_NOFILE's soft limit as far as the hard one (at most want)
 * allows; returns the limit in force. */
uint64_t fd_raise_limit(uint64_t want);

#endif
