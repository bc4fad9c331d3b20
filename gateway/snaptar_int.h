/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of snaptar share: ids, attributes, bounds. */
#ifndef SBX_GATEWAY_SNAPTAR_INT_H
#define SBX_GATEWAY_SNAPTAR_INT_H

#include <stdint.h>

#include <archive.h>
#include <archive_entry.h>

#include "base/str.h"
#include "gateway/snaptar.h"

struct hash;
struct stat;

#define SNAPTAR_NOBODY 65534
#define SNAPTAR_BLOCK  65536

/* --- snaptar_io.c ------------------------------------------------------ */
/* An archive's file as libarchive writes or reads it. */
struct snaptar_file {
	int fd;
	struct tlssha *sha; /* NULL: none */
	char *buf;          /* SNAPTAR_BLOCK bytes, for reading */
};

/* f must outlive the archive. ARCHIVE_OK, or the archive says why not. */
int snaptar_open_write(struct archive *a, struct snaptar_file *f);
int snaptar_open_read(struct archive *a, struct snaptar_file *f);
/* Reads on to the end of the file, for f->sha. 0, or -1: errno. */
int snaptar_read_rest(struct snaptar_file *f) SBX_MUST_CHECK;

/* --- snaptar_meta.c ---------------------------------------------------- */
/* An id of this machine -> one in the archive, and back. */
uint32_t snaptar_id_out(const struct snaptar_options *o, uint64_t id);
uint32_t snaptar_id_in(const struct snaptar_options *o, int64_t id);
/* Extended attributes of fd into e, or of e onto fd: users', those of the
 * overlay file system that mean something elsewhere, access lists (their ids
 * adapted) and capabilities of files. 0 or E_SYS (errno). */
int snaptar_xattrs_get(const struct snaptar_options *o, int fd,
		       struct archive_entry *e) SBX_MUST_CHECK;
int snaptar_xattrs_set(const struct snaptar_options *o, int fd,
		       struct archive_entry *e,
		       struct snaptar_counts *n) SBX_MUST_CHECK;
/* One more entry, so many more bytes; E_LIMIT and *why when that is too much.
 */
int snaptar_count(const struct snaptar_options *o, struct snaptar_counts *n,
		  uint64_t entries, uint64_t bytes, char **why) SBX_MUST_CHECK;
/* *why: "path: text" with the path escaped. Returns err. */
int snaptar_fail(char **why, int err, const char *path, const char *text);
int snaptar_fail_errno(char **why, const char *path, int eno);

/* --- snaptar_out.c ----------------------------------------------------- */
/* An archive that is being written. o and n are set by whoever opens it; path
 * is that of the entry, in the archive, which the others go by. */
struct snaptar_out {
	const struct snaptar_options *o;
	struct snaptar_counts *n;
	struct strbuf path;
	char *why; /* set with every error, malloc'ed; not freed by clear */
	/* its own */
	struct archive *a;
	struct hash *links; /* "device:inode" -> where it is in the archive */
	uint64_t apparent;  /* bytes of files, holes and all */
	char *buf, *zeros;
	struct snaptar_file file;
};

/* The descriptor stays the caller's. clear() comes after a failure, too. */
int snaptar_out_open(struct snaptar_out *out, int out_fd) SBX_MUST_CHECK;
int snaptar_out_close(struct snaptar_out *out) SBX_MUST_CHECK; /* synced */
void snaptar_out_clear(struct snaptar_out *out);
/* An entry for path; size and type are the caller's, and freeing it. */
struct archive_entry *snaptar_out_entry(struct snaptar_out *out,
					const struct stat *st);
int snaptar_out_head(struct snaptar_out *out,
		     struct archive_entry *e) SBX_MUST_CHECK;
/* A regular file as path, or a link to where it is in there already. */
int snaptar_out_file(struct snaptar_out *out, int fd,
		     const struct stat *st) SBX_MUST_CHECK;

#endif
