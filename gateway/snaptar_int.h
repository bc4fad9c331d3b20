/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of snaptar share: ids, attributes, bounds. */
#ifndef SBX_GATEWAY_SNAPTAR_INT_H
#define SBX_GATEWAY_SNAPTAR_INT_H

#include <archive.h>
#include <archive_entry.h>

#include "gateway/snaptar.h"

#define SNAPTAR_NOBODY 65534

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

#endif
