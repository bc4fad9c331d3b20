/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors and small files. Everything here blocks, and is meant for
 * start-up, reloads and helper processes, never for a loop's callback.
 */
#include "config.h"

#include "base/fdio.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

#define SECRET_MAX 16384

void
fd_close(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		close(*fd); /* not again on EINTR: Linux has closed it */
	*fd = -1;
	errno = saved;
}

static int
fd_set_flag(int fd, int get, int set, int flag, bool on)
{
	int old = fcntl(fd, get), flags;

	if (old < 0)
		return E_SYS;
	flags = on ? old | flag : old & ~flag;
	if (flags != old && fcntl(fd, set, flags) < 0)
		return E_SYS;
	return 0;
}

int
fd_set_nonblock(int fd)
{
	return fd_set_flag(fd, F_GETFL, F_SETFL, O_NONBLOCK, true);
}

int
fd_set_cloexec(int fd, bool on)
{
	return fd_set_flag(fd, F_GETFD, F_SETFD, FD_CLOEXEC, on);
}

/* Reads to the end of fd; one byte more than max is room to see the excess.
 * Whatever is given up was overwritten: it may have been a secret. */
static int
read_up_to(int fd, size_t first, size_t max, char **out, size_t *len)
{
	size_t cap = first < max ? first + 1 : max + 1, n = 0;
	char *p = xmalloc(cap + 1);
	int r = 0;

	for (;;) {
		ssize_t got = read(fd, p + n, cap - n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			r = err_from_errno(errno);
		if (got <= 0)
			break;
		n += (size_t)got;
		if (n > max) {
			r = E_LIMIT;
			break;
		}
		if (n == cap) {
			cap = cap <= max / 2 ? 2 * cap : max + 1;
			p = xrealloc(p, cap + 1);
		}
	}
	if (r != 0) {
		mem_secure_zero(p, n);
		free(p);
		return r;
	}
	p[n] = '\0';
	*out = p;
	*len = n;
	return 0;
}

int
file_read(const char *path, size_t max, char **out, size_t *len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	struct stat st;
	size_t n = 0;
	int r;

	if (fd < 0)
		return err_from_errno(errno);
	if (max > SSIZE_MAX - 2)
		max = SSIZE_MAX - 2;
	if (fstat(fd, &st) != 0)
		r = E_SYS;
	else if (S_ISDIR(st.st_mode))
		r = E_INVALID;
	else if (st.st_size > 0 && (uintmax_t)st.st_size > max)
		r = E_LIMIT;
	else
		r = read_up_to(fd, st.st_size > 0 ? (size_t)st.st_size : 4095,
			       max, out, &n);
	if (r == 0 && len != NULL)
		*len = n;
	fd_close(&fd);
	return r;
}

int
file_read_secret(const char *path, char **out)
{
	size_t n = 0, line;
	char *p = NULL;
	int r;

	if ((r = file_read(path, SECRET_MAX, &p, &n)) != 0)
		return r;
	line = n;
	if (line > 0 && p[line - 1] == '\n')
		line--;
	if (line > 0 && p[line - 1] == '\r')
		line--;
	if (line == 0 || memchr(p, '\n', line) != NULL ||
	    memchr(p, '\r', line) != NULL || memchr(p, '\0', line) != NULL) {
		mem_secure_zero(p, n);
		free(p);
		return E_INVALID;
	}
	p[line] = '\0';
	*out = p;
	return 0;
}

/* Makes the rename itself durable. Not every file system can; then the name
 * is as durable as it gets. */
static void
sync_parent(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *dir;
	int fd;

	if (slash == NULL)
		dir = xstrdup(".");
	else
		dir =
		    xstrndup(path, slash == path ? 1 : (size_t)(slash - path));
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		(void)fsync(fd);
	fd_close(&fd);
	free(dir);
}

int
file_write_atomic(const char *path, const void *p, size_t n, mode_t mode)
{
	char *tmp = xasprintf("%s.XXXXXX", path);
	int fd = mkostemp(tmp, O_CLOEXEC), r;

	if (fd < 0) {
		r = err_from_errno(errno);
		free(tmp);
		return r;
	}
	r = fd_write_all(fd, p, n);
	if (r == 0 && (fchmod(fd, mode) != 0 || fsync(fd) != 0))
		r = err_from_errno(errno);
	fd_close(&fd);
	if (r == 0 && rename(tmp, path) != 0)
		r = err_from_errno(errno);
	if (r == 0)
		sync_parent(path);
	else
		(void)unlink(tmp);
	free(tmp);
	return r;
}

static int
dir_make_one(const char *path, mode_t mode)
{
	struct stat st;
	int eno;

	if (mkdir(path, mode) == 0)
		return 0;
	eno = errno;
	/* Not only on EEXIST: mkdir("/proc") is EROFS or EACCES at times. */
	if (stat(path, &st) == 0)
		return S_ISDIR(st.st_mode) ? 0 : E_EXISTS;
	return eno == ENOTDIR ? E_EXISTS : err_from_errno(eno);
}

int
dir_make(const char *path, mode_t mode)
{
	char *copy, *at;
	int r = 0;

	if (*path == '\0')
		return E_INVALID;
	copy = xstrdup(path);
	for (at = copy + 1; r == 0 && *at != '\0'; at++) {
		if (*at != '/')
			continue;
		*at = '\0';
		r = dir_make_one(copy, mode);
		*at = '/';
	}
	if (r == 0)
		r = dir_make_one(copy, mode);
	free(copy);
	return r;
}

int
fd_write_all(int fd, const void *p, size_t n)
{
	const char *at = p;

	while (n > 0) {
		ssize_t did = write(fd, at, n);

		if (did < 0 && errno == EINTR)
			continue;
		if (did < 0)
			return err_from_errno(errno);
		at += did;
		n -= (size_t)did;
	}
	return 0;
}

static int
lock_whole(int fd, pid_t *holder)
{
	struct flock fl = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	if (fcntl(fd, F_SETLK, &fl) == 0)
		return 0;
	if (errno != EAGAIN && errno != EACCES)
		return E_SYS;
	if (holder != NULL) {
		fl.l_type = F_WRLCK;
		*holder = 0; /* 0: it let go in between */
		if (fcntl(fd, F_GETLK, &fl) == 0 && fl.l_type != F_UNLCK)
			*holder = fl.l_pid;
	}
	return E_BUSY;
}

static bool
is_same_file(int fd, const char *path)
{
	struct stat a, b;

	return fstat(fd, &a) == 0 && stat(path, &b) == 0 &&
	       a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* A POSIX record lock, not flock(2): children do not inherit it, so a worker
 * that outlives its master does not keep the next master from starting. */
int
pidfile_lock(const char *path, pid_t *holder, int *out)
{
	char text[32];
	int fd, n, r;

	do {
		fd = open(path,
			  O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY,
			  0600);
		if (fd < 0)
			return err_from_errno(errno);
		r = lock_whole(fd, holder);
		if (r == 0 && is_same_file(fd, path))
			break;
		fd_close(&fd); /* replaced under our hands: once more */
	} while (r == 0);
	if (r != 0)
		return r;
	n = snprintf(text, sizeof(text), "%ld\n", (long)getpid());
	if (ftruncate(fd, 0) != 0)
		r = err_from_errno(errno);
	else
		r = fd_write_all(fd, text, (size_t)n);
	if (r != 0)
		fd_close(&fd);
	else
		*out = fd;
	return r;
}

uint64_t
fd_raise_limit(uint64_t want)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) != 0)
		return 0;
	if (rl.rlim_cur < want && rl.rlim_cur < rl.rlim_max) {
		struct rlimit up = rl;

		up.rlim_cur = want < rl.rlim_max ? want : rl.rlim_max;
		if (setrlimit(RLIMIT_NOFILE, &up) == 0)
			rl = up;
	}
	return rl.rlim_cur;
}
