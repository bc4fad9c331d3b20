/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of a sandbox. Every path is looked up beneath a handle of its home, and
 * the caller is a thread of the pool that acts with its user (work.h): no
 * symlink, "..", race or mount leads anywhere else, and nothing is possible
 * that its own processes could not do. In dedicated mode paths are the
 * machine's. Everything here may block.
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

struct iovec;
struct sandbox;

#define FILES_NOT_FILE (-100000)
#define FILES_MORE     (-100001)
#define FILES_PATH_MAX 4095
/* A listing's entries, and bytes of their names; more is -EOVERFLOW. */
#define FILES_LIST_MAX   1000000
#define FILES_LIST_BYTES (32U << 20)

struct files_stat {
	enum files_type { FILES_FILE, FILES_DIR, FILES_SYMLINK } type;
	uint64_t size;
	int64_t mtime_ms;
	unsigned mode; /* permission bits */
};

/* The path that is meant by one that was sent (malloc'ed): filename.h. */
char *filepath_meant(const struct sandbox *sb, const char *path);

/* For reading; a directory is -EISDIR. *size is 0 for files whose size only
 * reading tells (/proc). */
int files_open(const struct sandbox *sb, const char *path, int *fd,
	       uint64_t *size) SBX_MUST_CHECK;
int files_stat(const struct sandbox *sb, const char *path,
	       struct files_stat *out) SBX_MUST_CHECK;

/* A directory's names, sorted. Zeroed is closed. */
struct files_list {
	int dirfd;
	char **v; /* into names */
	char *names;
	size_t n, at;
	size_t held; /* bytes of memory */
};
int files_list_open(const struct sandbox *sb, const char *path,
		    struct files_list *l) SBX_MUST_CHECK;
/* The next entry that still exists. False: there is none. */
bool files_list_next(struct files_list *l, const char **name,
		     struct files_stat *st);
void files_list_close(struct files_list *l);

int files_mkdir(const struct sandbox *sb, const char *path) SBX_MUST_CHECK;
/* A directory to be removed with all that is in it, which takes its time. */
struct files_removal {
	int dirfd;
	char *name;
};

/* FILES_MORE: path is a directory that is not empty; then files_delete_rest()
 * removes it, and lets go. more NULL: that is -ENOTEMPTY. */
int files_delete(const struct sandbox *sb, const char *path,
		 struct files_removal *more) SBX_MUST_CHECK;
int files_delete_rest(struct files_removal *m) SBX_MUST_CHECK;
void files_delete_end(struct files_removal *m); /* without removing it */

/* One file being written. Zeroed is closed. */
struct files_upload {
	int dirfd;
	int fd;
	char *name;    /* what it will be called; NULL: written in place */
	char temp[40]; /* what it is called meanwhile */
	int mode;      /* -1: as the old one's, or 0644 */
	uint64_t at;
	uint64_t written;
	uint64_t limit; /* 0: none */
	bool open;
};

/* offset -1: a new file that takes the old one's place at the end, else bytes
 * are put there in place. mode -1: not given. parents: made when missing. */
int files_upload_begin(const struct sandbox *sb, const char *path, int mode,
		       int64_t offset, bool parents,
		       struct files_upload *u) SBX_MUST_CHECK;
/* iov is used up. */
int files_upload_write(struct files_upload *u, struct iovec *iov,
		       int niov) SBX_MUST_CHECK;
/* The same of what can be read from sock now, most bytes at the most; *got is
 * what was taken from there, on failure too. */
int files_upload_pull(struct files_upload *u, int sock, uint64_t most,
		      uint64_t *got) SBX_MUST_CHECK;
/* Makes it the file. u is closed afterwards in any case, and nothing of a new
 * file stays when that fails. */
int files_upload_end(struct files_upload *u) SBX_MUST_CHECK;
/* Gives it up: nothing of a new file stays. */
void files_upload_abort(struct files_upload *u);
/* The same where nothing can stay: its home is gone. */
void files_upload_close(struct files_upload *u);

#endif
