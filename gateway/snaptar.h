/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The archive of a tree: written from one and made into one again. A tar file
 * (pax), compressed with zstd or gzip, in which ids are relative to the tree's
 * owner's, so that it fits whoever gets it. Only snaptar*.c include libarchive.
 *
 * A tree may be hostile, and change while it is read: nothing is looked up
 * through a symlink, and what changes, shrinks or vanishes meanwhile is in the
 * archive somehow and counted. An archive may be hostile, too. Both functions
 * work beneath root_fd, block, and are for a
 * process of their own (snapjail.h).
 */
#ifndef SBX_GATEWAY_SNAPTAR_H
#define SBX_GATEWAY_SNAPTAR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/defs.h"
#include "base/str.h"
#include "net/tlssha.h"

#define SNAPTAR_DEPTH 2000 /* directories in one another, all of them open */

struct snaptar_counts {
	uint64_t bytes;   /* of files, without holes */
	uint64_t entries; /* files, directories, links, ... */
	uint64_t changed; /* while they were read */
	uint64_t skipped; /* sockets and devices; attributes that the file
			   * system does not take */
};

struct snaptar_options {
	/* Directories beneath root_fd, relative, NULL-ended: all that is read,
	 * or may be in an archive. */
	const char *const *parts;
	/* What is in these and in no part is left out of what is restored;
	 * NULL: nothing is. */
	const char *const *ignored;
	/* What an archive has in the first of these parts is restored to the
	 * second; NULL: nothing is. */
	const char *from, *to;
	uid_t base;   /* of this machine: what is id 0 in the archive */
	unsigned ids; /* how many belong to the tree; others are nobody's */
	uint64_t max_bytes, max_entries;
	/* All bytes of the archive's file are added to it, in either direction;
	 * NULL: to nothing. */
	struct tlssha *sha;
	/* What that must be then for an archive to be restored (sha is ended);
	 * NULL: whatever it is. */
	const uint8_t *sum;
	/* Called now and then; may be NULL. */
	void (*progress)(const struct snaptar_counts *n, void *arg);
	void *arg;
};

/* ".tar.zst", or ".tar.gz" where libarchive has no zstd. */
const char *snaptar_suffix(void);
/* Whether path is one of the parts or in one, and has no part that is empty,
 * "." or "..". */
bool snaptar_path_ok(const char *const *parts, struct strv path);

/* Parts that are missing are left out. *why (malloc'ed) says what failed:
 * E_LIMIT: more than there may be; E_FULL: no room for the archive; E_SYS.
 * out_fd is synced when 0 is returned. */
int snaptar_create(int root_fd, int out_fd, const struct snaptar_options *o,
		   struct snaptar_counts *n, char **why) SBX_MUST_CHECK;
/* E_PROTO: not an archive, a damaged one, or one that wants out of its parts;
 * E_LIMIT, E_FULL, E_SYS. What was made by then stays. */
int snaptar_restore(int root_fd, int in_fd, const struct snaptar_options *o,
		    struct snaptar_counts *n, char **why) SBX_MUST_CHECK;

#endif
