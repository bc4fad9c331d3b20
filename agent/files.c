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
#include "base/str.h"

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
	int handle, r;

	r = handle = filepath_open(sb, path, O_PATH, 0);
	if (handle >= 0) {
		r = files_reopen(handle, size);
		(void)close(handle);
	}
	if (r < 0)
		return r;
	*fd = r;
	return 0;
}

/* --- stat and list ----------------------------------------------------- */

int
files_stat(const struct sandbox *sb, const char *path, struct files_stat *out)
{
	struct stat st;
	int fd = filepath_open(sb, path, O_PATH | O_NOFOLLOW, 0), r = 0;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) != 0)
		r = -errno;
	else
		files_fill(out, &st);
	(void)close(fd);
	return r;
}

/* All names, one behind the other. */
static int
files_list_names(DIR *d, struct files_list *l, struct strbuf *b)
{
	struct dirent *e;

	while (errno = 0, (e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (l->n == FILES_LIST_MAX || b->len > FILES_LIST_BYTES)
			return -EOVERFLOW;
		strbuf_add(b, e->d_name, strlen(e->d_name) + 1);
		l->n++;
	}
	return -errno;
}

static int
files_list_compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void
files_list_sort(struct files_list *l, struct strbuf *b)
{
	char *p;

	l->held = b->len + l->n * sizeof(*l->v);
	l->names = p = strbuf_take(b);
	l->v = xcalloc(l->n + 1, sizeof(*l->v));
	for (size_t i = 0; i < l->n; i++) {
		l->v[i] = p;
		p += strlen(p) + 1;
	}
	if (l->n > 1)
		qsort(l->v, l->n, sizeof(*l->v), files_list_compare);
}

int
files_list_open(const struct sandbox *sb, const char *path,
		struct files_list *l)
{
	struct strbuf b = {0};
	DIR *d = NULL;
	int r, fd;

	memset(l, 0, sizeof(*l));
	r = fd = filepath_open(sb, path, O_RDONLY | O_DIRECTORY, 0);
	l->dirfd = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : -1;
	if (fd >= 0 && (l->dirfd == -1 || (d = fdopendir(fd)) == NULL)) {
		r = -errno;
		(void)close(fd);
	}
	if (d != NULL) {
		r = files_list_names(d, l, &b);
		(void)closedir(d);
	}
	if (r >= 0)
		files_list_sort(l, &b);
	else
		files_list_close(l);
	strbuf_clear(&b);
	return r < 0 ? r : 0;
}

bool
files_list_next(struct files_list *l, const char **name, struct files_stat *out)
{
	struct stat st;

	while (l->at < l->n) {
		*name = l->v[l->at++];
		if (fstatat(l->dirfd, *name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
			files_fill(out, &st);
			return true;
		}
	}
	return false;
}

void
files_list_close(struct files_list *l)
{
	if (l->v != NULL || l->dirfd > 0)
		fd_close(&l->dirfd);
	free(l->v);
	free(l->names);
	memset(l, 0, sizeof(*l));
}

/* --- change ------------------------------------------------------------ */

int
files_mkdir(const struct sandbox *sb, const char *path)
{
	int fd = filepath_mkdirs(sb, path);

	if (fd >= 0)
		(void)close(fd);
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
	char *name = NULL;
	int dir, r;

	r = dir = filepath_parent(sb, path, false, &name);
	if (dir >= 0)
		r = files_remove(dir, name);
	if (r == FILES_MORE && more != NULL) {
		*more = (struct files_removal){dir, name};
		return r;
	}
	if (dir >= 0)
		(void)close(dir);
	free(name);
	return r == FILES_MORE ? -ENOTEMPTY : r;
}

int
files_delete_rest(struct files_removal *m)
{
	int r = rmtree(m->dirfd, m->name) == 0 ? 0 : -EACCES;

	files_delete_end(m);
	return r;
}

void
files_delete_end(struct files_removal *m)
{
	if (m->name == NULL)
		return;
	fd_close(&m->dirfd);
	free(m->name);
	m->name = NULL;
}
