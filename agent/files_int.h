/* SPDX-License-Identifier: Apache-2.0 */
/* Looking up paths (filepath.c) for files.c and upload.c; private. */
#ifndef SBX_AGENT_FILES_INT_H
#define SBX_AGENT_FILES_INT_H

#include "agent/files.h"

struct filepath_id {
	bool changed;
	int death;
};

/* Acts as the sandbox's user until leave; nothing may block in between. errno
 * survives leave. */
void filepath_enter(const struct sandbox *sb, struct filepath_id *id);
void filepath_enter_uid(uid_t uid, struct filepath_id *id);
void filepath_leave(const struct filepath_id *id);

/* What follows is called in between. Results are descriptors or -errno. */

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
