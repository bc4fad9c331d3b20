/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connecting to a unix socket file in a directory that somebody hostile may
 * write to. The file is opened once, as a path handle, and everything after
 * that (what it is, whose it is, the connection) goes through the handle: a
 * name is never looked up twice.
 */
#ifndef SBX_NET_SOCKDIR_H
#define SBX_NET_SOCKDIR_H

#include <sys/types.h>

#include "base/defs.h"

#define SOCKDIR_ANY_UID ((uid_t)-1)

/*
 * Connects to the stream socket `name` beneath dirfd: no symlink on the way or
 * at its end, no mount crossed, nothing outside dirfd. The file must be a
 * socket owned by want_uid, and whoever made it listen must have that uid too
 * (SOCKDIR_ANY_UID: both unchecked). On success *fd is connected,
 * non-blocking, close-on-exec, and the caller's.
 *
 * E_NOTFOUND (no such file), E_REFUSED (nothing accepts stream connections on
 * it), E_DENIED (a symlink, not a socket, another uid's, or no permission),
 * E_AGAIN (its backlog is full), E_SYS. Never blocks on the peer.
 */
int sockdir_connect(int dirfd, const char *name, uid_t want_uid,
		    int *fd) SBX_MUST_CHECK;

/* The same for a loop that must not wait for a disk: E_BUSY when the kernel
 * does not hold all that it takes to find the file (or is older than 5.12). */
int sockdir_connect_cached(int dirfd, const char *name, uid_t want_uid,
			   int *fd) SBX_MUST_CHECK;

/*
 * Opens a configured directory as a path handle. Whoever may write to one that
 * lies above it could put a symlink in its place and so lend us, and the uid
 * that is read off the handle, to somebody else's directory: links are only
 * followed where root or our own user has made them.
 *
 * E_NOTFOUND, E_DENIED (another user's symlink, or no permission), E_SYS.
 */
int sockdir_open_dir(const char *path, int *fd) SBX_MUST_CHECK;
/* As sockdir_connect_cached(); E_BUSY also when there is a link on the way. */
int sockdir_open_dir_cached(const char *path, int *fd) SBX_MUST_CHECK;

#endif
