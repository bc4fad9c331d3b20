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
#include <sys/uio.h>
#include <unistd.h>

#include "agent/sandbox.h"
#include "base/fdio.h"
#include "base/token.h"
#include "net/loop.h"

/* On the stack of a thread. From the socket into a file through a cache that
 * still has it; larger costs more again. */
#define UPLOAD_PULL    (128U * 1024)
#define UPLOAD_TURN_US 20000 /* a slow disk's turn is shorter */

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
	int r;

	memset(u, 0, sizeof(*u));
	u->dirfd = u->fd = -1;
	u->mode = mode;
	u->at = offset >= 0 ? (uint64_t)offset : 0;
	u->limit = sb->max_file;
	if (offset >= 0)
		r = upload_begin_inplace(sb, path, parents, u);
	else
		r = upload_begin_new(sb, path, parents, u);
	if (r != 0)
		upload_close(u);
	else
		u->open = true;
	return r;
}

/* Takes the n bytes that were written off the front of iov. */
static void
upload_advance(struct iovec **iov, int *niov, size_t n)
{
	while (*niov > 0 && n >= (*iov)->iov_len) {
		n -= (*iov)->iov_len;
		(*iov)++;
		(*niov)--;
	}
	if (*niov > 0) {
		(*iov)->iov_base = (char *)(*iov)->iov_base + n;
		(*iov)->iov_len -= n;
	}
}

int
files_upload_write(struct files_upload *u, struct iovec *iov, int niov)
{
	size_t total = 0;
	ssize_t k;

	for (int i = 0; i < niov; i++)
		total += iov[i].iov_len;
	if (u->limit != 0 && (u->at > u->limit || total > u->limit - u->at))
		return -EFBIG;
	upload_advance(&iov, &niov, 0);
	while (niov > 0) {
		k = pwritev(u->fd, iov, niov, (off_t)u->at);
		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return -errno;
		upload_advance(&iov, &niov, (size_t)k);
		u->at += (uint64_t)k;
		u->written += (uint64_t)k;
	}
	return 0;
}

int
files_upload_pull(struct files_upload *u, int sock, uint64_t most,
		  uint64_t *got)
{
	char buf[UPLOAD_PULL];
	struct iovec iov;
	uint64_t room;
	uint64_t end = loop_clock_us() + UPLOAD_TURN_US;
	ssize_t k;
	int r = 0;

	for (*got = 0; *got < most && r == 0; *got += (uint64_t)k) {
		if (loop_clock_us() > end)
			break;
		room = most - *got;
		k = read(sock, buf, room < sizeof(buf) ? room : sizeof(buf));
		/* Its end, or an error: who owns it will find that, too. */
		if (k <= 0)
			break;
		iov = (struct iovec){buf, (size_t)k};
		r = files_upload_write(u, &iov, 1);
	}
	return r;
}

/* Some file systems say only at the end that there was no room. */
static int
upload_commit(struct files_upload *u)
{
	int fd = u->fd;

	u->fd = -1;
	if (close(fd) != 0 && errno != EINTR)
		return -errno;
	if (u->name != NULL &&
	    renameat(u->dirfd, u->temp, u->dirfd, u->name) != 0)
		return -errno;
	return 0;
}

int
files_upload_end(struct files_upload *u)
{
	int mode = u->mode != -1 ? u->mode : u->name != NULL ? 0644 : -1;
	int r = 0;

	if (mode != -1 && fchmod(u->fd, (mode_t)mode) != 0)
		r = -errno;
	if (r == 0)
		r = upload_commit(u);
	if (r != 0)
		files_upload_abort(u);
	else
		upload_close(u);
	return r;
}

void
files_upload_abort(struct files_upload *u)
{
	if (u->open && u->name != NULL)
		(void)unlinkat(u->dirfd, u->temp, 0);
	files_upload_close(u);
}

void
files_upload_close(struct files_upload *u)
{
	if (u->open)
		upload_close(u);
}
