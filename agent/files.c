/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a sandbox: reading, listing, removing; see the header. */
#include "config.h"

#include "agent/files_int.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/rmtree.h"
#include "agent/sandbox.h"
#include "base/err.h"
#include "base/fdio.h"
#include "base/mem.h"

static void
files_fill(struct files_stat *out, const struct stat *sb)
{
	out->type = S_ISDIR(sb->st_mode)   ? FILES_DIR
		    : S_ISLNK(sb->st_mode) ? FILES_SYMLINK
					   : FILES_FILE;
	out->size = (uint64_t)sb->st_size;
	out->mtime_ms =
	    (int64_t)sb->st_mtim.tv_sec * 1000 + sb->st_mtim.tv_nsec / 1000000;
	out->mode = sb->st_mode & 07777;
}

/* --- read -------------------------------------------------------------- */

/* A path handle is judged before the file is really opened: opening some
 * devices does something, and opening a FIFO waits. */
static int
files_reopen(int handle, uint64_t *size)
{
	char self[40];
	struct stat sb;
	int fd;

	if (fstat(handle, &sb) != 0)
		return -errno;
	if (S_ISDIR(sb.st_mode))
		return -EISDIR;
	if (!S_ISREG(sb.st_mode))
		return FILES_NOT_FILE;
	(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", handle);
	fd = open(self, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd == -1)
		return -errno;
	*size = (uint64_t)sb.st_size;
	return fd;
}

int
files_open(const struct sandbox *sb, const char *path, int *fd, uint64_t *size)
{
	struct filepath_id id;
	int handle, r;

	filepath_enter(sb, &id);
	r = handle = filepath_open(sb, path, O_PATH, 0);
	if (handle >= 0) {
		r = files_reopen(handle, size);
		(void)close(handle);
	}
	filepath_leave(&id);
	if (r < 0)
		return r;
	*fd = r;
	return 0;
}

/* --- stat and list ----------------------------------------------------- */

int
files_stat(const struct sandbox *sb, const char *path, struct files_stat *out)
{
	struct filepath_id id;
	struct stat st;
	int fd, r = 0;

	filepath_enter(sb, &id);
	fd = filepath_open(sb, path, O_PATH | O_NOFOLLOW, 0);
	if (fd < 0)
		r = fd;
	else if (fstat(fd, &st) != 0)
		r = -errno;
	if (fd >= 0)
		(void)close(fd);
	filepath_leave(&id);
	if (r == 0)
		files_fill(out, &st);
	return r;
}

struct files_names {
	char **v;
	size_t n, cap;
};

static int
files_compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int
files_names(DIR *d, struct files_names *names)
{
	struct dirent *e;

	while ((e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (names->n == FILES_LIST_MAX)
			return -EOVERFLOW;
		if (names->n == names->cap) {
			names->cap = names->cap != 0 ? 2 * names->cap : 64;
			names->v = xreallocarray(names->v, names->cap,
						 sizeof(*names->v));
		}
		names->v[names->n++] = xstrdup(e->d_name);
	}
	if (names->n > 0)
		qsort(names->v, names->n, sizeof(*names->v), files_compare);
	return 0;
}

static int
files_list_dir(DIR *d,
	       void (*fn)(const char *, const struct files_stat *, void *),
	       void *arg)
{
	struct files_names names = {0};
	struct files_stat fs;
	struct stat st;
	int r = files_names(d, &names);

	for (size_t i = 0; i < names.n; i++) {
		if (r == 0 && fstatat(dirfd(d), names.v[i], &st,
				      AT_SYMLINK_NOFOLLOW) == 0) {
			files_fill(&fs, &st);
			fn(names.v[i], &fs, arg);
		}
		free(names.v[i]);
	}
	free(names.v);
	return r;
}

int
files_list(const struct sandbox *sb, const char *path,
	   void (*fn)(const char *, const struct files_stat *, void *),
	   void *arg)
{
	struct filepath_id id;
	DIR *d = NULL;
	int fd, r;

	filepath_enter(sb, &id);
	r = fd = filepath_open(sb, path, O_RDONLY | O_DIRECTORY, 0);
	if (fd >= 0 && (d = fdopendir(fd)) == NULL) {
		r = -errno;
		(void)close(fd);
	}
	if (d != NULL) {
		r = files_list_dir(d, fn, arg);
		(void)closedir(d);
	}
	filepath_leave(&id);
	return r < 0 ? r : 0;
}

/* --- change ------------------------------------------------------------ */

int
files_mkdir(const struct sandbox *sb, const char *path)
{
	struct filepath_id id;
	int fd;

	filepath_enter(sb, &id);
	fd = filepath_mkdirs(sb, path);
	if (fd >= 0)
		(void)close(fd);
	filepath_leave(&id);
	return fd < 0 ? fd : 0;
}

/* FILES_MORE: a directory that is not empty. */
static int
files_remove(int dir, const char *name)
{
	if (unlinkat(dir, name, 0) == 0)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	if (unlinkat(dir, name, AT_REMOVEDIR) == 0)
		return 0;
	return errno == ENOTEMPTY || errno == EEXIST ? FILES_MORE : -errno;
}

int
files_delete(const struct sandbox *sb, const char *path,
	     struct files_removal *more)
{
	struct filepath_id id;
	char *name = NULL;
	int dir, r;

	filepath_enter(sb, &id);
	r = dir = filepath_parent(sb, path, false, &name);
	if (dir >= 0)
		r = files_remove(dir, name);
	filepath_leave(&id);
	if (r == FILES_MORE && more != NULL) {
		*more = (struct files_removal){dir, name, sb->uid, 0};
		return r;
	}
	if (dir >= 0)
		(void)close(dir);
	free(name);
	return r == FILES_MORE ? -ENOTEMPTY : r;
}

void
files_delete_run(struct files_removal *m)
{
	struct filepath_id id;

	filepath_enter_uid(m->uid, &id);
	m->result = rmtree(m->dirfd, m->name) == 0 ? 0 : -EACCES;
	filepath_leave(&id);
}

void
files_delete_end(struct files_removal *m)
{
	fd_close(&m->dirfd);
	free(m->name);
	m->name = NULL;
}
