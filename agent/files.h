/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of a sandbox. Every path is looked up beneath a handle of its home,
 * with its own uid: no symlink, "..", race or mount leads anywhere else, and
 * nothing is possible that its own processes could not do. In dedicated mode
 * paths are the machine's. Calls are short; data moves in pieces.
 *
 * Failures are negated errno values, since callers tell many apart; plus
 * FILES_NOT_FILE for FIFOs, sockets and devices.
 */
#ifndef SBX_AGENT_FILES_H
#define SBX_AGENT_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/defs.h"

struct sandbox;

#define FILES_NOT_FILE (-100000)
#define FILES_MORE     (-100001)
#define FILES_PATH_MAX 4095
#define FILES_LIST_MAX 100000 /* entries; more is -EOVERFLOW */

struct files_stat {
	enum files_type { FILES_FILE, FILES_DIR, FILES_SYMLINK } type;
	uint64_t size;
	int64_t mtime_ms;
	unsigned mode; /* permission bits */
};

/* For reading; a directory is -EISDIR. *size is 0 for files whose size only
 * reading tells (/proc). */
int files_open(const struct sandbox *sb, const char *path, int *fd,
	       uint64_t *size) SBX_MUST_CHECK;
int files_stat(const struct sandbox *sb, const char *path,
	       struct files_stat *out) SBX_MUST_CHECK;
/* Calls fn for each entry, sorted by name. */
int files_list(const struct sandbox *sb, const char *path,
	       void (*fn)(const char *name, const struct files_stat *st,
			  void *arg),
	       void *arg) SBX_MUST_CHECK;
int files_mkdir(const struct sandbox *sb, const char *path) SBX_MUST_CHECK;
/* A directory to be removed with all that is in it, which takes its time. */
struct files_removal {
	int dirfd;
	char *name;
	uid_t uid;
	int result;
};

/* FILES_MORE: path is a directory that is not empty; then files_delete_run(),
 * on a thread, gives the result, and files_delete_end() lets go. more NULL:
 * that is -ENOTEMPTY. */
int files_delete(const struct sandbox *sb, const char *path,
		 struct files_removal *more) SBX_MUST_CHECK;
void files_delete_run(struct files_removal *m);
void files_delete_end(struct files_removal *m);

/* One file being written. Zeroed is closed. */
struct files_upload {
	int dirfd;
	int fd;
	char *name;    /* what it will be called; NULL: written in place */
	char temp[40]; /* what it is called meanwhile */
	int mode;      /* -1: as the old one's, or 0644 */
	uint64_t at;
	uint64_t written;
	bool open;
};

/* offset -1: a new file that takes the old one's place at the end, else bytes
 * are put there in place. mode -1: not given. parents: made when missing. */
int files_upload_begin(const struct sandbox *sb, const char *path, int mode,
		       int64_t offset, bool parents,
		       struct files_upload *u) SBX_MUST_CHECK;
int files_upload_write(const struct sandbox *sb, struct files_upload *u,
		       const void *p, size_t n) SBX_MUST_CHECK;
/* Makes it the file. u is closed afterwards in any case. */
int files_upload_end(const struct sandbox *sb,
		     struct files_upload *u) SBX_MUST_CHECK;
/* Gives it up: nothing of a new file stays. */
void files_upload_abort(const struct sandbox *sb, struct files_upload *u);

#endif
