/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tree out of an archive, which may say anything: each path is checked, then
 * its directory is looked up beneath the root without following symlinks, and
 * nothing that exists is replaced. Times of directories come last, since
 * filling them changes them.
 */
#include "config.h"

#include "gateway/snaptar.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "gateway/snaptar_int.h"

struct dir_time {
	char *path;
	struct timespec mtime;
};

struct restore {
	const struct snaptar_options *o;
	struct snaptar_counts *n;
	struct archive *a;
	struct snaptar_file file;
	int root_fd;
	/* The directory of the last entry: the next is mostly in it, too. */
	char *parent;
	int parent_fd;
	struct dir_time *times;
	size_t ntimes, cap;
	char *why;
};

bool
snaptar_path_ok(const char *const *parts, struct strv path)
{
	struct strv rest = path, one;
	bool found = false;

	if (path.len == 0 || path.len >= PATH_MAX ||
	    memchr(path.p, '\0', path.len) != NULL)
		return false;
	while (strv_cut(&rest, '/', &one))
		if (one.len == 0 || strv_eq(one, STRV(".")) ||
		    strv_eq(one, STRV("..")))
			return false;
	for (size_t i = 0; !found && parts[i] != NULL; i++) {
		struct strv part = strv_of(parts[i]);

		found = strv_starts(path, part) &&
			(path.len == part.len || path.p[part.len] == '/');
	}
	return found;
}

/* --- where ------------------------------------------------------------- */
static int
open_beneath(const struct restore *x, const char *path, uint64_t flags)
{
	struct open_how how = {.flags = flags | O_CLOEXEC,
			       .resolve =
				   RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};

	return (int)syscall(SYS_openat2, x->root_fd, path, &how, sizeof(how));
}

/* Splits path in its place; *name is in it. -1: *fd is the root's. */
static const char *
cut_name(char *path)
{
	char *slash = strrchr(path, '/');

	if (slash == NULL)
		return path;
	*slash = '\0';
	return slash + 1;
}

/* The directory of path, kept open for the next call; *name is in path. */
static int
open_parent(struct restore *x, char *path, const char **name, int *fd)
{
	*name = cut_name(path);
	if (*name == path) {
		*fd = x->root_fd;
		return 0;
	}
	if (x->parent == NULL || strcmp(x->parent, path) != 0) {
		fd_close(&x->parent_fd);
		free(x->parent);
		x->parent = NULL;
		x->parent_fd = open_beneath(x, path, O_PATH | O_DIRECTORY);
		if (x->parent_fd < 0)
			return snaptar_fail(&x->why, E_PROTO, path,
					    errno == ENOENT
						? "is not in the archive"
						: "is no directory");
		x->parent = xstrdup(path);
	}
	*fd = x->parent_fd;
	return 0;
}

/* What the parts are in; the archive has no entries for these. */
static int
make_parents(struct restore *x)
{
	for (size_t i = 0; x->o->parts[i] != NULL; i++) {
		char *part = xstrdup(x->o->parts[i]);
		char *slash = strchr(part, '/');

		if (slash != NULL) {
			*slash = '\0';
			if (mkdirat(x->root_fd, part, 0711) != 0 &&
			    errno != EEXIST) {
				int r =
				    snaptar_fail_errno(&x->why, part, errno);

				free(part);
				return r;
			}
		}
		free(part);
	}
	return 0;
}

/* --- what -------------------------------------------------------------- */
static int
failed(struct restore *x, struct archive_entry *e)
{
	return snaptar_fail_errno(&x->why, archive_entry_pathname(e), errno);
}

static mode_t
mode_of(struct archive_entry *e)
{
	return (mode_t)archive_entry_mode(e) & 07777;
}

/* Owner first: changing it takes set-uid bits and capabilities away. */
static int
dress(struct restore *x, struct archive_entry *e, int fd)
{
	if (fchown(fd, snaptar_id_in(x->o, archive_entry_uid(e)),
		   snaptar_id_in(x->o, archive_entry_gid(e))) != 0 ||
	    snaptar_xattrs_set(x->o, fd, e, x->n) != 0 ||
	    fchmod(fd, mode_of(e)) != 0)
		return failed(x, e);
	return 0;
}

static struct timespec
mtime_of(struct archive_entry *e)
{
	return (struct timespec){archive_entry_mtime(e),
				 archive_entry_mtime_nsec(e)};
}

static int
read_content(struct restore *x, struct archive_entry *e, int fd)
{
	const void *p;
	size_t len;
	la_int64_t at;
	ssize_t n;
	int r;

	while ((r = archive_read_data_block(x->a, &p, &len, &at)) ==
	       ARCHIVE_OK) {
		if ((r = snaptar_count(x->o, x->n, 0, len, &x->why)) != 0)
			return r;
		for (const char *from = p; len > 0;
		     from += n, at += n, len -= (size_t)n) {
			n = pwrite(fd, from, len, at);
			if (n < 0 && errno == EINTR)
				n = 0;
			else if (n <= 0)
				return failed(x, e);
		}
	}
	if (r != ARCHIVE_EOF)
		return snaptar_fail(&x->why, E_PROTO, archive_entry_pathname(e),
				    "is cut off");
	return ftruncate(fd, archive_entry_size(e)) == 0 ? 0 : failed(x, e);
}

static int
make_file(struct restore *x, struct archive_entry *e, int dirfd,
	  const char *name)
{
	const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, mtime_of(e)};
	int fd = openat(dirfd, name,
			O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			0600),
	    r;

	if (fd < 0)
		return failed(x, e);
	if ((r = read_content(x, e, fd)) == 0 && (r = dress(x, e, fd)) == 0 &&
	    futimens(fd, times) != 0)
		r = failed(x, e);
	(void)close(fd);
	return r;
}

static void
remember_time(struct restore *x, const char *path, struct timespec t)
{
	if (x->ntimes == x->cap) {
		x->cap = x->cap != 0 ? x->cap * 2 : 64;
		x->times = xreallocarray(x->times, x->cap, sizeof(*x->times));
	}
	x->times[x->ntimes].path = xstrdup(path);
	x->times[x->ntimes++].mtime = t;
}

/* A part may be there already. */
static int
make_dir(struct restore *x, struct archive_entry *e, const char *path,
	 int dirfd, const char *name)
{
	int fd, r;

	if (mkdirat(dirfd, name, 0700) != 0 && errno != EEXIST)
		return failed(x, e);
	fd = openat(dirfd, name,
		    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return failed(x, e);
	if ((r = dress(x, e, fd)) == 0)
		remember_time(x, path, mtime_of(e));
	(void)close(fd);
	return r;
}

static int
make_link(struct restore *x, struct archive_entry *e, int dirfd,
	  const char *name)
{
	char *target = xstrdup(archive_entry_hardlink(e));
	const char *last;
	struct stat st;
	int at = -1, r = 0;

	if (!snaptar_path_ok(x->o->parts, strv_of(target))) {
		r = snaptar_fail(&x->why, E_PROTO, archive_entry_pathname(e),
				 "is a link that leads outside");
		goto out;
	}
	last = cut_name(target);
	if (last != target)
		at = open_beneath(x, target, O_PATH | O_DIRECTORY);
	if (at < 0 || fstatat(at, last, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
	    !S_ISREG(st.st_mode))
		r = snaptar_fail(&x->why, E_PROTO, archive_entry_pathname(e),
				 "is a link to no file of the archive");
	else if (linkat(at, last, dirfd, name, 0) != 0)
		r = failed(x, e);
out:
	fd_close(&at);
	free(target);
	return r;
}

/* Symlinks, fifos, deletions of the overlay file system. */
static int
make_other(struct restore *x, struct archive_entry *e, int dirfd,
	   const char *name)
{
	const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, mtime_of(e)};
	mode_t type = archive_entry_filetype(e);
	int r;

	if (type == AE_IFLNK)
		r = archive_entry_symlink(e) == NULL
			? -1
			: symlinkat(archive_entry_symlink(e), dirfd, name);
	else if (type == AE_IFIFO)
		r = mkfifoat(dirfd, name, mode_of(e));
	else
		r = mknodat(dirfd, name, S_IFCHR | mode_of(e), 0);
	if (r == 0)
		r = fchownat(dirfd, name,
			     snaptar_id_in(x->o, archive_entry_uid(e)),
			     snaptar_id_in(x->o, archive_entry_gid(e)),
			     AT_SYMLINK_NOFOLLOW);
	if (r == 0 && type != AE_IFLNK)
		r = fchmodat(dirfd, name, mode_of(e), 0);
	if (r == 0)
		r = utimensat(dirfd, name, times, AT_SYMLINK_NOFOLLOW);
	return r == 0 ? 0 : failed(x, e);
}

static int
make_entry(struct restore *x, struct archive_entry *e, char *path)
{
	char *full = xstrdup(path);
	mode_t type = archive_entry_filetype(e);
	const char *name;
	int dirfd = -1, r;

	if ((r = open_parent(x, path, &name, &dirfd)) != 0)
		;
	else if (archive_entry_hardlink(e) != NULL)
		r = make_link(x, e, dirfd, name);
	else if (type == AE_IFREG)
		r = make_file(x, e, dirfd, name);
	else if (type == AE_IFDIR)
		r = make_dir(x, e, full, dirfd, name);
	else if (type == AE_IFLNK || type == AE_IFIFO ||
		 (type == AE_IFCHR && archive_entry_rdev(e) == 0))
		r = make_other(x, e, dirfd, name);
	else
		r = snaptar_fail(&x->why, E_PROTO, full,
				 "is a device, or of no known type");
	free(full);
	return r;
}

/* The path with `to` in the place of `from`, malloc'ed; NULL: it is not in
 * there. */
static char *
renamed(const struct snaptar_options *o, const char *path)
{
	size_t n = strlen(o->from);

	if (path == NULL || strncmp(path, o->from, n) != 0 ||
	    (path[n] != '\0' && path[n] != '/'))
		return NULL;
	return xasprintf("%s%s", o->to, path + n);
}

static void
rename_entry(const struct restore *x, struct archive_entry *e)
{
	char *path, *target;

	if (x->o->from == NULL)
		return;
	path = renamed(x->o, archive_entry_pathname(e));
	target = renamed(x->o, archive_entry_hardlink(e));
	if (path != NULL)
		archive_entry_copy_pathname(e, path);
	if (target != NULL)
		archive_entry_copy_hardlink(e, target);
	free(path);
	free(target);
}

static int
take_entry(struct restore *x, struct archive_entry *e)
{
	const char *text = archive_entry_pathname(e);
	struct strv path = strv_of(text);
	char *own;
	int r;

	if (path.len > 1 && path.p[path.len - 1] == '/')
		path.len--;
	if (text != NULL && !snaptar_path_ok(x->o->parts, path) &&
	    x->o->ignored != NULL && snaptar_path_ok(x->o->ignored, path)) {
		x->n->skipped++;
		return snaptar_count(x->o, x->n, 1, 0, &x->why);
	}
	if (text == NULL || !snaptar_path_ok(x->o->parts, path))
		return snaptar_fail(&x->why, E_PROTO, text,
				    "a path that is not acceptable");
	if ((r = snaptar_count(x->o, x->n, 1, 0, &x->why)) != 0)
		return r;
	own = xstrndup(path.p, path.len);
	r = make_entry(x, e, own);
	free(own);
	return r;
}

/* --- all of it --------------------------------------------------------- */
static int
unreadable(struct restore *x)
{
	const char *text = archive_error_string(x->a);

	return snaptar_fail(&x->why, E_PROTO, NULL,
			    text != NULL ? text : "not an archive");
}

static int
open_archive(struct restore *x)
{
	x->a = archive_read_new();
	if (x->a == NULL)
		abort();
	return snaptar_open_read(x->a, &x->file) == ARCHIVE_OK ? 0
							       : unreadable(x);
}

static int
take_entries(struct restore *x)
{
	struct archive_entry *e;
	int r, ar;

	while ((ar = archive_read_next_header(x->a, &e)) == ARCHIVE_OK ||
	       ar == ARCHIVE_WARN) {
		rename_entry(x, e);
		if ((r = take_entry(x, e)) != 0)
			return r;
	}
	if (ar != ARCHIVE_EOF)
		return unreadable(x);
	/* Zeros, as a file may be after a power failure, are a tar file, too.
	 * What we write begins with its part. */
	return x->n->entries != 0 ? 0
				  : snaptar_fail(&x->why, E_PROTO, NULL,
						 "there is nothing in it");
}

/* Whether it is the archive that was written; r is how it went until now. What
 * is damaged may fail in any way, and has no better reason than that. */
static int
verify(struct restore *x, int r)
{
	uint8_t sum[TLSSHA_LEN];

	if (x->o->sum == NULL || r == E_FULL)
		return r;
	if (snaptar_read_rest(&x->file) != 0)
		return r != 0
			   ? r
			   : snaptar_fail_errno(&x->why, "the archive", errno);
	tlssha_end(x->file.sha, sum);
	if (memcmp(sum, x->o->sum, sizeof(sum)) == 0)
		return r;
	free(x->why);
	return snaptar_fail(&x->why, E_PROTO, NULL, "the archive is damaged");
}

static int
set_times(struct restore *x)
{
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}};
	int fd, r = 0;

	for (size_t i = x->ntimes; r == 0 && i > 0; i--) {
		times[1] = x->times[i - 1].mtime;
		fd = open_beneath(x, x->times[i - 1].path,
				  O_RDONLY | O_DIRECTORY);
		if (fd < 0 || futimens(fd, times) != 0)
			r = snaptar_fail_errno(&x->why, x->times[i - 1].path,
					       errno);
		fd_close(&fd);
	}
	return r;
}

static void
clear(struct restore *x)
{
	if (x->a != NULL)
		(void)archive_read_free(x->a);
	for (size_t i = 0; i < x->ntimes; i++)
		free(x->times[i].path);
	free(x->times);
	free(x->file.buf);
	free(x->parent);
	fd_close(&x->parent_fd);
}

int
snaptar_restore(int root_fd, int in_fd, const struct snaptar_options *o,
		struct snaptar_counts *n, char **why)
{
	struct restore x = {
	    .o = o,
	    .n = n,
	    .file = {.fd = in_fd, .sha = o->sha, .buf = xmalloc(SNAPTAR_BLOCK)},
	    .root_fd = root_fd,
	    .parent_fd = -1};
	int r;

	memset(n, 0, sizeof(*n));
	if ((r = make_parents(&x)) == 0)
		r = open_archive(&x);
	if (r == 0)
		r = take_entries(&x);
	if (r == 0)
		r = set_times(&x);
	r = verify(&x, r);
	clear(&x);
	if (r != 0)
		*why = x.why;
	return r;
}
