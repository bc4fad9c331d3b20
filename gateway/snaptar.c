/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing an archive. The walk holds one open directory for each level and
 * goes from directory to entry by openat() without following links, so that a
 * tree that is changed under it can only make it see less. The size of a file
 * is decided when it is opened: what comes later is left out, what is missing
 * then is zeros, and the archive stays well-formed.
 */
#include "config.h"

#include "gateway/snaptar.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/hash.h"
#include "base/mem.h"
#include "gateway/snaptar_int.h"

#define DEPTH_MAX   SNAPTAR_DEPTH
#define EXTENTS_MAX 8192 /* of one file; what follows is no longer sparse */
#define PIECE       (256U << 10)
#define ZEROS       (64UL << 20) /* of address space: a hole is not read */
#define HOLES_MAX   (1ULL << 50) /* of all files, with what is between */
#define BLOCK       65536

struct level {
	DIR *dir;
	struct hash *names; /* that were written, and may come again */
	size_t path_len;
};

struct walk {
	const struct snaptar_options *o;
	struct snaptar_counts *n;
	struct archive *a;
	struct hash *links; /* "device:inode" -> where it is in the archive */
	struct strbuf path;
	struct level *stack;
	size_t depth;
	uint64_t apparent; /* bytes of files, holes and all */
	char *buf, *zeros;
	char *why;
};

struct extent {
	off_t from, to;
};

/* --- libarchive -------------------------------------------------------- */
static int
archive_failed(struct walk *w)
{
	int eno = archive_errno(w->a);
	const char *text = archive_error_string(w->a);

	if (eno == EFBIG)
		return snaptar_fail(&w->why, E_LIMIT, NULL,
				    "the archive is too large");
	if (eno > 0 && err_from_errno(eno) == E_FULL)
		return snaptar_fail_errno(&w->why, NULL, eno);
	return snaptar_fail(&w->why, E_SYS, w->path.s,
			    text != NULL ? text : "cannot be written");
}

static int
put_head(struct walk *w, struct archive_entry *e)
{
	int r = archive_write_header(w->a, e);

	return r == ARCHIVE_OK || r == ARCHIVE_WARN ? 0 : archive_failed(w);
}

static int
put_data(struct walk *w, const char *p, size_t len)
{
	la_ssize_t n;

	while (len > 0) {
		n = archive_write_data(w->a, p, len);
		if (n <= 0)
			return archive_failed(w);
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

static int
put_zeros(struct walk *w, uint64_t len)
{
	int r = 0;

	while (r == 0 && len > 0) {
		size_t n = len < ZEROS ? (size_t)len : ZEROS;

		r = put_data(w, w->zeros, n);
		len -= n;
	}
	return r;
}

/* Its size and type are the caller's. */
static struct archive_entry *
new_entry(struct walk *w, const struct stat *st)
{
	struct archive_entry *e = archive_entry_new();

	if (e == NULL)
		abort();
	archive_entry_copy_pathname(e, w->path.s);
	archive_entry_set_mode(e, st->st_mode);
	archive_entry_set_uid(e, snaptar_id_out(w->o, st->st_uid));
	archive_entry_set_gid(e, snaptar_id_out(w->o, st->st_gid));
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
put_extent(struct walk *w, int fd, struct extent x, bool *changed)
{
	ssize_t n;
	int r;

	for (off_t at = x.from; at < x.to; at += n) {
		off_t left = x.to - at;

		n = pread(fd, w->buf, left < PIECE ? (size_t)left : PIECE, at);
		if (n < 0 && errno == EINTR) {
			n = 0;
			continue;
		}
		if (n < 0)
			return snaptar_fail_errno(&w->why, w->path.s, errno);
		if (n == 0) { /* it has become shorter */
			*changed = true;
			if ((r = snaptar_count(w->o, w->n, 0, (uint64_t)left,
					       &w->why)) != 0)
				return r;
			return put_zeros(w, (uint64_t)left);
		}
		if ((r = snaptar_count(w->o, w->n, 0, (uint64_t)n, &w->why)) !=
			0 ||
		    (r = put_data(w, w->buf, (size_t)n)) != 0)
			return r;
	}
	return 0;
}

static int
put_content(struct walk *w, int fd, const struct stat *st,
	    const struct extent *v, size_t n)
{
	struct stat now;
	bool changed = false;
	off_t at = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++) {
		if ((r = put_zeros(w, (uint64_t)(v[i].from - at))) == 0)
			r = put_extent(w, fd, v[i], &changed);
		at = v[i].to;
	}
	if (r == 0)
		r = put_zeros(w, (uint64_t)(st->st_size - at));
	if (fstat(fd, &now) != 0 || now.st_size != st->st_size ||
	    now.st_mtim.tv_sec != st->st_mtim.tv_sec ||
	    now.st_mtim.tv_nsec != st->st_mtim.tv_nsec)
		changed = true;
	w->n->changed += changed;
	return r;
}

static int
put_open_file(struct walk *w, int fd, const struct stat *st)
{
	struct extent *v = xcalloc(EXTENTS_MAX, sizeof(*v));
	struct archive_entry *e = new_entry(w, st);
	bool sparse;
	size_t n = find_extents(fd, st, v, &sparse);
	int r;

	archive_entry_set_size(e, st->st_size);
	for (size_t i = 0; sparse && i < n; i++)
		archive_entry_sparse_add_entry(e, v[i].from,
					       v[i].to - v[i].from);
	if (sparse && n == 0)
		archive_entry_sparse_add_entry(e, 0, 0);
	if (snaptar_xattrs_get(w->o, fd, e) != 0)
		r = snaptar_fail_errno(&w->why, w->path.s, errno);
	else if ((r = put_head(w, e)) == 0)
		r = put_content(w, fd, st, v, n);
	archive_entry_free(e);
	free(v);
	return r;
}

static int
put_link(struct walk *w, const struct stat *st, const char *target)
{
	struct archive_entry *e = new_entry(w, st);
	int r;

	archive_entry_copy_hardlink(e, target);
	r = put_head(w, e);
	archive_entry_free(e);
	return r;
}

static int
put_file(struct walk *w, int fd, const struct stat *st)
{
	char key[48];
	const char *first;
	int r;

	(void)snprintf(key, sizeof(key), "%llx:%llx",
		       (unsigned long long)st->st_dev,
		       (unsigned long long)st->st_ino);
	if (st->st_nlink > 1 &&
	    (first = hash_get(w->links, strv_of(key))) != NULL)
		return put_link(w, st, first);
	/* A hole is cheap, but not for nothing. */
	if ((uint64_t)st->st_size > HOLES_MAX - w->apparent)
		return snaptar_fail(&w->why, E_LIMIT, w->path.s,
				    "more than 1 PiB with the holes of files");
	w->apparent += (uint64_t)st->st_size;
	r = put_open_file(w, fd, st);
	if (r == 0 && st->st_nlink > 1)
		(void)hash_set(w->links, strv_of(key), xstrdup(w->path.s));
	return r;
}

/* --- one entry --------------------------------------------------------- */
static int
gone(struct walk *w)
{
	w->n->changed++;
	w->n->entries--;
	return 0;
}

static int
put_regular(struct walk *w, int dirfd, const char *name)
{
	int fd = openat(dirfd, name,
			O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY |
			    O_CLOEXEC),
	    r;
	struct stat st;

	if (fd < 0 && (errno == ENOENT || errno == ELOOP || errno == ENXIO ||
		       errno == ENODEV))
		return gone(w);
	if (fd < 0)
		return snaptar_fail_errno(&w->why, w->path.s, errno);
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		r = gone(w); /* something else by now */
	else
		r = put_file(w, fd, &st);
	(void)close(fd);
	return r;
}

static int
put_symlink(struct walk *w, int dirfd, const char *name, const struct stat *st)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(dirfd, name, target, sizeof(target) - 1);
	struct archive_entry *e;
	int r;

	if (n < 0)
		return gone(w);
	target[n] = '\0';
	e = new_entry(w, st);
	archive_entry_copy_symlink(e, target);
	r = put_head(w, e);
	archive_entry_free(e);
	return r;
}

static int
put_node(struct walk *w, const struct stat *st)
{
	struct archive_entry *e = new_entry(w, st);
	int r;

	archive_entry_set_rdev(e, 0);
	r = put_head(w, e);
	archive_entry_free(e);
	return r;
}

static int
put_dir(struct walk *w, int fd)
{
	struct archive_entry *e;
	struct stat st;
	int r;

	if (fstat(fd, &st) != 0)
		return snaptar_fail_errno(&w->why, w->path.s, errno);
	e = new_entry(w, &st);
	if (snaptar_xattrs_get(w->o, fd, e) != 0)
		r = snaptar_fail_errno(&w->why, w->path.s, errno);
	else
		r = put_head(w, e);
	archive_entry_free(e);
	return r;
}

/* Goes down; fd is taken. */
static int
enter(struct walk *w, int fd)
{
	struct level *l;
	int r;

	if (w->depth == DEPTH_MAX) {
		(void)close(fd);
		return snaptar_fail(&w->why, E_LIMIT, w->path.s,
				    "is nested too deeply");
	}
	if ((r = put_dir(w, fd)) != 0) {
		(void)close(fd);
		return r;
	}
	l = &w->stack[w->depth];
	if ((l->dir = fdopendir(fd)) == NULL) {
		(void)close(fd);
		return snaptar_fail_errno(&w->why, w->path.s, ENOMEM);
	}
	l->names = hash_new();
	l->path_len = w->path.len;
	w->depth++;
	return 0;
}

static void
leave(struct walk *w)
{
	struct level *l = &w->stack[--w->depth];

	(void)closedir(l->dir);
	hash_free(l->names);
}

static int
put_subdir(struct walk *w, int dirfd, const char *name)
{
	int fd = openat(dirfd, name,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0)
		return enter(w, fd);
	if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)
		return gone(w);
	return snaptar_fail_errno(&w->why, w->path.s, errno);
}

/* What the overlay file system calls a deletion. */
static bool
is_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == 0;
}

/* What has an id of others was not made in there, but for it, like the places
 * where /usr and /dev are mounted; the next one gets its own. */
static bool
is_theirs(const struct snaptar_options *o, const struct stat *st)
{
	return (st->st_uid >= o->base && st->st_uid - o->base < o->ids) ||
	       is_whiteout(st);
}

static int
put_entry(struct walk *w, int dirfd, const char *name)
{
	struct stat st;
	int r;

	if (w->path.len >= PATH_MAX)
		return snaptar_fail(&w->why, E_LIMIT, NULL,
				    "a path of more than 4095 bytes");
	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
		w->n->changed++;
		return 0;
	}
	if (!is_theirs(w->o, &st))
		return 0;
	if ((r = snaptar_count(w->o, w->n, 1, 0, &w->why)) != 0)
		return r;
	if (S_ISDIR(st.st_mode))
		return put_subdir(w, dirfd, name);
	if (S_ISREG(st.st_mode))
		return put_regular(w, dirfd, name);
	if (S_ISLNK(st.st_mode))
		return put_symlink(w, dirfd, name, &st);
	if (S_ISFIFO(st.st_mode) || is_whiteout(&st))
		return put_node(w, &st);
	w->n->entries--;
	w->n->skipped++;
	return 0;
}

/* --- the walk ---------------------------------------------------------- */
/* A file that is replaced while its directory is read is met twice on some file
 * systems. What is in the archive already is not written again: an archive that
 * has a name twice cannot be made into a tree. */
static int
put_once(struct walk *w, struct level *l, const char *name)
{
	uint64_t entries = w->n->entries;
	int r;

	if (hash_get(l->names, strv_of(name)) != NULL) {
		w->n->changed++;
		return 0;
	}
	r = put_entry(w, dirfd(l->dir), name);
	if (r == 0 && w->n->entries > entries)
		(void)hash_set(l->names, strv_of(name), l);
	return r;
}

static int
step(struct walk *w)
{
	struct level *l = &w->stack[w->depth - 1];
	struct dirent *de;

	w->path.len = l->path_len;
	w->path.s[w->path.len] = '\0';
	errno = 0;
	if ((de = readdir(l->dir)) == NULL) {
		int eno = errno;

		leave(w);
		return eno == 0 || eno == ENOENT
			   ? 0
			   : snaptar_fail_errno(&w->why, w->path.s, eno);
	}
	if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0)
		return 0;
	strbuf_addc(&w->path, '/');
	strbuf_adds(&w->path, de->d_name);
	return put_once(w, l, de->d_name);
}

static int
walk_part(struct walk *w, int root_fd, const char *part)
{
	struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
			       .resolve =
				   RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
	int fd, r;

	strbuf_reset(&w->path);
	strbuf_adds(&w->path, part);
	fd = (int)syscall(SYS_openat2, root_fd, part, &how, sizeof(how));
	if (fd < 0)
		return errno == ENOENT
			   ? 0
			   : snaptar_fail_errno(&w->why, part, errno);
	if ((r = snaptar_count(w->o, w->n, 1, 0, &w->why)) != 0) {
		(void)close(fd);
		return r;
	}
	r = enter(w, fd);
	while (r == 0 && w->depth > 0)
		r = step(w);
	while (w->depth > 0)
		leave(w);
	return r;
}

static bool
add_zstd(struct archive *a)
{
	return archive_write_add_filter_zstd(a) == ARCHIVE_OK &&
	       archive_write_set_filter_option(a, "zstd", "compression-level",
					       "3") == ARCHIVE_OK;
}

const char *
snaptar_suffix(void)
{
	struct archive *a = archive_write_new();
	bool zstd = a != NULL && add_zstd(a);

	if (a != NULL)
		(void)archive_write_free(a);
	return zstd ? ".tar.zst" : ".tar.gz";
}

/* Names are bytes: nothing is to be looked up in a locale. */
static int
open_archive(struct walk *w, int out_fd)
{
	struct archive *a = w->a = archive_write_new();

	if (a == NULL)
		abort();
	if (strcmp(snaptar_suffix(), ".tar.zst") == 0
		? !add_zstd(a)
		: archive_write_add_filter_gzip(a) != ARCHIVE_OK)
		return archive_failed(w);
	if (archive_write_set_format_pax(a) != ARCHIVE_OK ||
	    archive_write_set_format_option(a, "pax", "hdrcharset", "BINARY") !=
		ARCHIVE_OK ||
	    archive_write_set_format_option(a, "pax", "xattrheader",
					    "SCHILY") != ARCHIVE_OK ||
	    archive_write_set_bytes_per_block(a, BLOCK) != ARCHIVE_OK ||
	    archive_write_set_bytes_in_last_block(a, 1) != ARCHIVE_OK ||
	    archive_write_open_fd(a, out_fd) != ARCHIVE_OK)
		return archive_failed(w);
	return 0;
}

static void
clear(struct walk *w)
{
	char *at;
	size_t pos = 0;

	if (w->a != NULL)
		(void)archive_write_free(w->a);
	while ((at = hash_next(w->links, &pos, NULL)) != NULL)
		free(at);
	hash_free(w->links);
	strbuf_clear(&w->path);
	free(w->stack);
	free(w->buf);
	if (w->zeros != NULL)
		(void)munmap(w->zeros, ZEROS);
}

int
snaptar_create(int root_fd, int out_fd, const struct snaptar_options *o,
	       struct snaptar_counts *n, char **why)
{
	struct walk w = {.o = o,
			 .n = n,
			 .links = hash_new(),
			 .stack = xcalloc(DEPTH_MAX, sizeof(*w.stack)),
			 .buf = xmalloc(PIECE)};
	void *zeros = mmap(NULL, ZEROS, PROT_READ,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int r;

	memset(n, 0, sizeof(*n));
	w.zeros = zeros != MAP_FAILED ? zeros : NULL;
	r = w.zeros != NULL ? open_archive(&w, out_fd)
			    : snaptar_fail_errno(&w.why, NULL, errno);
	for (size_t i = 0; r == 0 && o->parts[i] != NULL; i++)
		r = walk_part(&w, root_fd, o->parts[i]);
	strbuf_reset(&w.path);
	strbuf_adds(&w.path, "the archive");
	if (r == 0 && archive_write_close(w.a) != ARCHIVE_OK)
		r = archive_failed(&w);
	if (r == 0 && fsync(out_fd) != 0)
		r = snaptar_fail_errno(&w.why, NULL, errno);
	clear(&w);
	if (r != 0)
		*why = w.why;
	return r;
}
