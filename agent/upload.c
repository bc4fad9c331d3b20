/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing a file. A new one is written beside its place and renamed into it
 * when it is whole, so that nobody ever sees half of it.
 */
#include "config.h"

#include "agent/files_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/sandbox.h"
#include "base/fdio.h"
#include "base/token.h"

static void
upload_close(struct files_upload *u)
{
	fd_close(&u->fd);
	fd_close(&u->dirfd);
	free(u->name);
	u->name = NULL;
	u->open = false;
}

/* What is there already may be replaced, and tells the mode. */
static int
upload_check_old(struct files_upload *u)
{
	struct stat st;

	if (fstatat(u->dirfd, u->name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return errno == ENOENT ? 0 : -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
		return FILES_NOT_FILE;
	if (u->mode == -1 && S_ISREG(st.st_mode))
		u->mode = (int)(st.st_mode & 0777);
	return 0;
}

static int
upload_begin_new(const struct sandbox *sb, const char *path, bool parents,
		 struct files_upload *u)
{
	char tag[17];
	int r;

	r = u->dirfd = filepath_parent(sb, path, parents, &u->name);
	if (r < 0 || (r = upload_check_old(u)) != 0)
		return r;
	token_hex(tag, 8);
	(void)snprintf(u->temp, sizeof(u->temp), ".sbx-upload-%s", tag);
	u->fd =
	    openat(u->dirfd, u->temp,
		   O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return u->fd >= 0 ? 0 : -errno;
}

static int
upload_begin_inplace(const struct sandbox *sb, const char *path, bool parents,
		     struct files_upload *u)
{
	mode_t mode = u->mode != -1 ? (mode_t)u->mode : 0644;
	struct stat st;
	char *name = NULL;
	int r;

	if (parents) {
		r = u->dirfd = filepath_parent(sb, path, true, &name);
		free(name);
		if (r < 0)
			return r;
	}
	r = u->fd =
	    filepath_open(sb, path, O_WRONLY | O_CREAT | O_NONBLOCK, mode);
	if (r == -ENXIO) /* a FIFO that nobody reads, a socket */
		return FILES_NOT_FILE;
	if (r < 0)
		return r;
	if (fstat(u->fd, &st) != 0)
		return -errno;
	return S_ISREG(st.st_mode) ? 0 : FILES_NOT_FILE;
}

int
files_upload_begin(const struct sandbox *sb, const char *path, int mode,
		   int64_t offset, bool parents, struct files_upload *u)
{
	struct filepath_id id;
	int r;

	memset(u, 0, sizeof(*u));
	u->dirfd = u->fd = -1;
	u->mode = mode;
	u->at = offset >= 0 ? (uint64_t)offset : 0;
	filepath_enter(sb, &id);
	if (offset >= 0)
		r = upload_begin_inplace(sb, path, parents, u);
	else
		r = upload_begin_new(sb, path, parents, u);
	filepath_leave(&id);
	if (r != 0)
		upload_close(u);
	else
		u->open = true;
	return r;
}

int
files_upload_write(const struct sandbox *sb, struct files_upload *u,
		   const void *p, size_t n)
{
	struct filepath_id id;
	ssize_t k = 0;
	size_t done = 0;

	filepath_enter(sb, &id); /* quotas are charged to the file's owner */
	while (done < n && k >= 0) {
		k = pwrite(u->fd, (const char *)p + done, n - done,
			   (off_t)(u->at + done));
		if (k < 0 && errno == EINTR)
			k = 0;
		else if (k > 0)
			done += (size_t)k;
	}
	filepath_leave(&id);
	u->at += done;
	u->written += done;
	return k < 0 ? -errno : 0;
}

int
files_upload_end(const struct sandbox *sb, struct files_upload *u)
{
	struct filepath_id id;
	int r = 0;

	filepath_enter(sb, &id);
	if (u->name != NULL) {
		if (fchmod(u->fd, u->mode != -1 ? (mode_t)u->mode : 0644) !=
			0 ||
		    renameat(u->dirfd, u->temp, u->dirfd, u->name) != 0) {
			r = -errno;
			(void)unlinkat(u->dirfd, u->temp, 0);
		}
	} else if (u->mode != -1 && fchmod(u->fd, (mode_t)u->mode) != 0) {
		r = -errno;
	}
	filepath_leave(&id);
	upload_close(u);
	return r;
}

void
files_upload_abort(const struct sandbox *sb, struct files_upload *u)
{
	struct filepath_id id;

	if (!u->open)
		return;
	filepath_enter(sb, &id);
	if (u->name != NULL)
		(void)unlinkat(u->dirfd, u->temp, 0);
	filepath_leave(&id);
	upload_close(u);
}
