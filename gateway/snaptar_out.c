/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The archive that snaptar.c writes: its entries, and what is in files, holes
 * and all. The size of a file is decided when it is opened: what comes later is
 * left out, what is missing then is zeros, and the archive stays well-formed.
 */
#include "config.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "gateway/snaptar_int.h"

#define EXTENTS_MAX 8192 /* of one file; what follows is no longer sparse */
#define PIECE       (256U << 10)
#define ZEROS       (64UL << 20) /* of address space: a hole is not read */
#define HOLES_MAX   (1ULL << 50) /* of all files, with what is between */

struct extent {
	off_t from, to;
};

/* --- libarchive -------------------------------------------------------- */
static int
archive_failed(struct snaptar_out *out)
{
	int eno = archive_errno(out->a);
	const char *text = archive_error_string(out->a);

	if (eno == EFBIG)
		return snaptar_fail(&out->why, E_LIMIT, NULL,
				    "the archive is too large");
	if (eno > 0 && err_from_errno(eno) == E_FULL)
		return snaptar_fail_errno(&out->why, NULL, eno);
	return snaptar_fail(&out->why, E_SYS, out->path.s,
			    text != NULL ? text : "cannot be written");
}

int
snaptar_out_head(struct snaptar_out *out, struct archive_entry *e)
{
	int r = archive_write_header(out->a, e);

	return r == ARCHIVE_OK || r == ARCHIVE_WARN ? 0 : archive_failed(out);
}

static int
put_data(struct snaptar_out *out, const char *p, size_t len)
{
	la_ssize_t n;

	while (len > 0) {
		n = archive_write_data(out->a, p, len);
		if (n <= 0)
			return archive_failed(out);
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

static int
put_zeros(struct snaptar_out *out, uint64_t len)
{
	int r = 0;

	while (r == 0 && len > 0) {
		size_t n = len < ZEROS ? (size_t)len : ZEROS;

		r = put_data(out, out->zeros, n);
		len -= n;
	}
	return r;
}

struct archive_entry *
snaptar_out_entry(struct snaptar_out *out, const struct stat *st)
{
	struct archive_entry *e = archive_entry_new();

	if (e == NULL)
		abort();
	archive_entry_copy_pathname(e, out->path.s);
	archive_entry_set_mode(e, st->st_mode);
	archive_entry_set_uid(e, snaptar_id_out(out->o, st->st_uid));
	archive_entry_set_gid(e, snaptar_id_out(out->o, st->st_gid));
	archive_entry_set_mtime(e, st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
	archive_entry_set_size(e, 0);
	return e;
}

/* --- one file ---------------------------------------------------------- */
/* Where it has data. Returns how many; 0 and *sparse: nowhere. */
static size_t
find_extents(int fd, const struct stat *st, struct extent *v, bool *sparse)
{
	off_t at = 0, end;
	size_t n = 0;

	*sparse = (uint64_t)st->st_blocks * 512 < (uint64_t)st->st_size;
	while (*sparse && at < st->st_size && n < EXTENTS_MAX) {
		at = lseek(fd, at, SEEK_DATA);
		if (at < 0 && errno == ENXIO)
			return n;
		end = at < 0 ? -1 : lseek(fd, at, SEEK_HOLE);
		if (end <= at) {
			*sparse = false; /* the file system cannot say */
			break;
		}
		if (at >= st->st_size)
			return n;
		v[n].from = at;
		v[n++].to = end < st->st_size ? end : st->st_size;
		at = end;
	}
	if (*sparse && n == EXTENTS_MAX)
		v[n - 1].to = st->st_size;
	if (*sparse && !(n == 1 && v[0].from == 0 && v[0].to == st->st_size))
		return n;
	*sparse = false;
	v[0] = (struct extent){0, st->st_size};
	return st->st_size > 0 ? 1 : 0;
}

static int
put_extent(struct snaptar_out *out, int fd, struct extent x, bool *changed)
{
	ssize_t n;
	int r;

	for (off_t at = x.from; at < x.to; at += n) {
		off_t left = x.to - at;

		n = pread(fd, out->buf, left < PIECE ? (size_t)left : PIECE,
			  at);
		if (n < 0 && errno == EINTR) {
			n = 0;
			continue;
		}
		if (n < 0)
			return snaptar_fail_errno(&out->why, out->path.s,
						  errno);
		if (n == 0) { /* it has become shorter */
			*changed = true;
			if ((r = snaptar_count(out->o, out->n, 0,
					       (uint64_t)left, &out->why)) != 0)
				return r;
			return put_zeros(out, (uint64_t)left);
		}
		if ((r = snaptar_count(out->o, out->n, 0, (uint64_t)n,
				       &out->why)) != 0 ||
		    (r = put_data(out, out->buf, (size_t)n)) != 0)
			return r;
	}
	return 0;
}

static int
put_content(struct snaptar_out *out, int fd, const struct stat *st,
	    const struct extent *v, size_t n)
{
	struct stat now;
	bool changed = false;
	off_t at = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++) {
		if ((r = put_zeros(out, (uint64_t)(v[i].from - at))) == 0)
			r = put_extent(out, fd, v[i], &changed);
		at = v[i].to;
	}
	if (r == 0)
		r = put_zeros(out, (uint64_t)(st->st_size - at));
	if (fstat(fd, &now) != 0 || now.st_size != st->st_size ||
	    now.st_mtim.tv_sec != st->st_mtim.tv_sec ||
	    now.st_mtim.tv_nsec != st->st_mtim.tv_nsec)
		changed = true;
	out->n->changed += changed;
	return r;
}

static int
put_open_file(struct snaptar_out *out, int fd, const struct stat *st)
{
	struct extent *v = xcalloc(EXTENTS_MAX, sizeof(*v));
	struct archive_entry *e = snaptar_out_entry(out, st);
	bool sparse;
	size_t n = find_extents(fd, st, v, &sparse);
	int r;

	archive_entry_set_size(e, st->st_size);
	for (size_t i = 0; sparse && i < n; i++)
		archive_entry_sparse_add_entry(e, v[i].from,
					       v[i].to - v[i].from);
	if (sparse && n == 0)
		archive_entry_sparse_add_entry(e, 0, 0);
	if (snaptar_xattrs_get(out->o, fd, e) != 0)
		r = snaptar_fail_errno(&out->why, out->path.s, errno);
	else if ((r = snaptar_out_head(out, e)) == 0)
		r = put_content(out, fd, st, v, n);
	archive_entry_free(e);
	free(v);
	return r;
}

static int
put_link(struct snaptar_out *out, const struct stat *st, const char *target)
{
	struct archive_entry *e = snaptar_out_entry(out, st);
	int r;

	archive_entry_copy_hardlink(e, target);
	r = snaptar_out_head(out, e);
	archive_entry_free(e);
	return r;
}

int
snaptar_out_file(struct snaptar_out *out, int fd, const struct stat *st)
{
	char key[48];
	const char *first;
	int r;

	(void)snprintf(key, sizeof(key), "%llx:%llx",
		       (unsigned long long)st->st_dev,
		       (unsigned long long)st->st_ino);
	if (st->st_nlink > 1 &&
	    (first = hash_get(out->links, strv_of(key))) != NULL)
		return put_link(out, st, first);
	/* A hole is cheap, but not for nothing. */
	if ((uint64_t)st->st_size > HOLES_MAX - out->apparent)
		return snaptar_fail(&out->why, E_LIMIT, out->path.s,
				    "more than 1 PiB with the holes of files");
	out->apparent += (uint64_t)st->st_size;
	r = put_open_file(out, fd, st);
	if (r == 0 && st->st_nlink > 1)
		(void)hash_set(out->links, strv_of(key), xstrdup(out->path.s));
	return r;
}

/* --- beginning and end ------------------------------------------------- */
int
snaptar_out_open(struct snaptar_out *out, int out_fd)
{
	void *zeros = mmap(NULL, ZEROS, PROT_READ,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	out->file = (struct snaptar_file){.fd = out_fd, .sha = out->o->sha};
	out->links = hash_new();
	out->buf = xmalloc(PIECE);
	if (zeros == MAP_FAILED)
		return snaptar_fail_errno(&out->why, NULL, errno);
	out->zeros = zeros;
	if ((out->a = archive_write_new()) == NULL)
		abort();
	return snaptar_open_write(out->a, &out->file) == ARCHIVE_OK
		   ? 0
		   : archive_failed(out);
}

int
snaptar_out_close(struct snaptar_out *out)
{
	strbuf_reset(&out->path);
	strbuf_adds(&out->path, "the archive");
	if (archive_write_close(out->a) != ARCHIVE_OK)
		return archive_failed(out);
	if (fsync(out->file.fd) != 0)
		return snaptar_fail_errno(&out->why, NULL, errno);
	return 0;
}

void
snaptar_out_clear(struct snaptar_out *out)
{
	char *at;
	size_t pos = 0;

	if (out->a != NULL)
		(void)archive_write_free(out->a);
	while ((at = hash_next(out->links, &pos, NULL)) != NULL)
		free(at);
	hash_free(out->links);
	strbuf_clear(&out->path);
	free(out->buf);
	if (out->zeros != NULL)
		(void)munmap(out->zeros, ZEROS);
}
