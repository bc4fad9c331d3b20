/* SPDX-License-Identifier: Apache-2.0 */
/* Looking up paths (filepath.c) for files.c and upload.c; private. */
#ifndef SBX_AGENT_FILES_INT_H
#define SBX_AGENT_FILES_INT_H

#include "agent/files.h"

/* Results are descriptors or -errno. */

/* Opens path; flags and mode as for open(2). */
int filepath_open(const struct sandbox *sb, const char *path, int flags,
		  mode_t mode) SBX_MUST_CHECK;
/* The directory that path's last part is in, which *name (malloc'ed) gets.
 * make: missing directories are made. -EINVAL when there is no last part. */
int filepath_parent(const struct sandbox *sb, const char *path, bool make,
		    char **name) SBX_MUST_CHECK;
/* mkdir -p: a descriptor of the last one. */
int filepath_mkdirs(const struct sandbox *sb, const char *path) SBX_MUST_CHECK;

#endif
