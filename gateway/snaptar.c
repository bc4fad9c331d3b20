/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing an archive. The walk holds one open directory for each level and
 * goes from directory to entry by openat() without following links, so that a
 * tree that is changed under it can only make it see less.
 */
#include "config.h"

#include "gateway/snaptar.h"

#include <dirent.h>
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
#include "base/hash.h"
#include "base/mem.h"
#include "gateway/snaptar_int.h"

#define DEPTH_MAX SNAPTAR_DEPTH

struct level {
	DIR *dir;
	struct hash *names; /* that were written, and may come again */
	size_t path_len;
};

struct walk {
	struct snaptar_out out;
	struct level *stack;
	size_t depth;
};

/* --- one entry --------------------------------------------------------- */
static int
gone(struct walk *w)
{
	w->out.n->changed++;
	w->out.n->entries--;
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
		return snaptar_fail_errno(&w->out.why, w->out.path.s, errno);
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		r = gone(w); /* something else by now */
	else
		r = snaptar_out_file(&w->out, fd, &st);
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
	e = snaptar_out_entry(&w->out, st);
	archive_entry_copy_symlink(e, target);
	r = snaptar_out_head(&w->out, e);
	archive_entry_free(e);
	return r;
}

static int
put_node(struct walk *w, const struct stat *st)
{
	struct archive_entry *e = snaptar_out_entry(&w->out, st);
	int r;

	archive_entry_set_rdev(e, 0);
	r = snaptar_out_head(&w->out, e);
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
		return snaptar_fail_errno(&w->out.why, w->out.path.s, errno);
	e = snaptar_out_entry(&w->out, &st);
	if (snaptar_xattrs_get(w->out.o, fd, e) != 0)
		r = snaptar_fail_errno(&w->out.why, w->out.path.s, errno);
	else
		r = snaptar_out_head(&w->out, e);
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
		return snaptar_fail(&w->out.why, E_LIMIT, w->out.path.s,
				    "is nested too deeply");
	}
	if ((r = put_dir(w, fd)) != 0) {
		(void)close(fd);
		return r;
	}
	l = &w->stack[w->depth];
	if ((l->dir = fdopendir(fd)) == NULL) {
		(void)close(fd);
		return snaptar_fail_errno(&w->out.why, w->out.path.s, ENOMEM);
	}
	l->names = hash_new();
	l->path_len = w->out.path.len;
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
	return snaptar_fail_errno(&w->out.why, w->out.path.s, errno);
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

	if (w->out.path.len >= PATH_MAX)
		return snaptar_fail(&w->out.why, E_LIMIT, NULL,
				    "a path of more than 4095 bytes");
	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
		w->out.n->changed++;
		return 0;
	}
	if (!is_theirs(w->out.o, &st))
		return 0;
	if ((r = snaptar_count(w->out.o, w->out.n, 1, 0, &w->out.why)) != 0)
		return r;
	if (S_ISDIR(st.st_mode))
		return put_subdir(w, dirfd, name);
	if (S_ISREG(st.st_mode))
		return put_regular(w, dirfd, name);
	if (S_ISLNK(st.st_mode))
		return put_symlink(w, dirfd, name, &st);
	if (S_ISFIFO(st.st_mode) || is_whiteout(&st))
		return put_node(w, &st);
	w->out.n->entries--;
	w->out.n->skipped++;
	return 0;
}

/* --- the walk ---------------------------------------------------------- */
/* A file that is replaced while its directory is read is met twice on some file
 * systems. What is in the archive already is not written again: an archive that
 * has a name twice cannot be made into a tree. */
static int
put_once(struct walk *w, struct level *l, const char *name)
{
	uint64_t entries = w->out.n->entries;
	int r;

	if (hash_get(l->names, strv_of(name)) != NULL) {
		w->out.n->changed++;
		return 0;
	}
	r = put_entry(w, dirfd(l->dir), name);
	if (r == 0 && w->out.n->entries > entries)
		(void)hash_set(l->names, strv_of(name), l);
	return r;
}

static int
step(struct walk *w)
{
	struct level *l = &w->stack[w->depth - 1];
	struct dirent *de;

	w->out.path.len = l->path_len;
	w->out.path.s[w->out.path.len] = '\0';
	errno = 0;
	if ((de = readdir(l->dir)) == NULL) {
		int eno = errno;

		leave(w);
		return eno == 0 || eno == ENOENT
			   ? 0
			   : snaptar_fail_errno(&w->out.why, w->out.path.s,
						eno);
	}
	if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0)
		return 0;
	strbuf_addc(&w->out.path, '/');
	strbuf_adds(&w->out.path, de->d_name);
	return put_once(w, l, de->d_name);
}

static int
walk_part(struct walk *w, int root_fd, const char *part)
{
	struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
			       .resolve =
				   RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
	int fd, r;

	strbuf_reset(&w->out.path);
	strbuf_adds(&w->out.path, part);
	fd = (int)syscall(SYS_openat2, root_fd, part, &how, sizeof(how));
	if (fd < 0)
		return errno == ENOENT
			   ? 0
			   : snaptar_fail_errno(&w->out.why, part, errno);
	if ((r = snaptar_count(w->out.o, w->out.n, 1, 0, &w->out.why)) != 0) {
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

int
snaptar_create(int root_fd, int out_fd, const struct snaptar_options *o,
	       struct snaptar_counts *n, char **why)
{
	struct walk w = {.out = {.o = o, .n = n},
			 .stack = xcalloc(DEPTH_MAX, sizeof(*w.stack))};
	int r;

	memset(n, 0, sizeof(*n));
	r = snaptar_out_open(&w.out, out_fd);
	for (size_t i = 0; r == 0 && o->parts[i] != NULL; i++)
		r = walk_part(&w, root_fd, o->parts[i]);
	if (r == 0)
		r = snaptar_out_close(&w.out);
	snaptar_out_clear(&w.out);
	free(w.stack);
	if (r != 0)
		*why = w.out.why;
	return r;
}
