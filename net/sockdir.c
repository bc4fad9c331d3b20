/* SPDX-License-Identifier: Apache-2.0 */
/* Connecting to socket files in hostile directories; see the header. */
#include "config.h"

#include "net/sockdir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"

/* Our own definitions, so that it builds where <linux/openat2.h> is missing. */
struct sockdir_how {
	uint64_t flags;
	uint64_t mode;
	uint64_t resolve;
};

#define SOCKDIR_NO_XDEV       0x01
#define SOCKDIR_NO_MAGICLINKS 0x02
#define SOCKDIR_NO_SYMLINKS   0x04
#define SOCKDIR_BENEATH       0x08
#define SOCKDIR_CACHED        0x20

#ifndef SYS_openat2
#define SYS_openat2 437
#endif

#define SOCKDIR_TRIES 16
#define SOCKDIR_LINKS 40 /* as the kernel's own bound */

static int
sockdir_open_error(int eno)
{
	switch (eno) {
	case ENOENT:
	case ENOTDIR:
	case ENAMETOOLONG:
		return E_NOTFOUND;
	case ELOOP:
	case EXDEV:
	case EACCES:
	case EPERM:
		return E_DENIED;
	case EAGAIN:
		return E_AGAIN;
	}
	return E_SYS;
}

static bool
sockdir_uncached(int eno)
{
	return eno == EAGAIN || eno == EINVAL || eno == ENOSYS;
}

/* A path handle of the file; the kernel says EAGAIN when something on the way
 * was renamed meanwhile, which the owner can go on doing for ever. */
static int
sockdir_open(int dirfd, const char *name, uint64_t more, int *fd)
{
	const struct sockdir_how how = {
	    .flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
	    .resolve = SOCKDIR_BENEATH | SOCKDIR_NO_SYMLINKS |
		       SOCKDIR_NO_MAGICLINKS | SOCKDIR_NO_XDEV | more,
	};
	long r = -1;

	for (int i = 0; i < SOCKDIR_TRIES; i++) {
		r = syscall(SYS_openat2, dirfd, name, &how, sizeof(how));
		if (r >= 0 || (errno != EAGAIN && errno != EINTR))
			break;
		if (errno == EAGAIN && more == SOCKDIR_CACHED)
			break;
	}
	if (r < 0 && more == SOCKDIR_CACHED && sockdir_uncached(errno))
		return E_BUSY;
	if (r < 0)
		return sockdir_open_error(errno);
	*fd = (int)r;
	return 0;
}

/* --- directories ------------------------------------------------------- */

struct sockdir_walk {
	int fd;              /* where we are */
	char rest[PATH_MAX]; /* what is left to walk */
	unsigned links;
};

/* Puts the target of the link before what is left. */
static int
sockdir_walk_link(struct sockdir_walk *w, int link, const struct stat *sb)
{
	char target[PATH_MAX], whole[2 * PATH_MAX];
	ssize_t n;

	if (sb->st_uid != 0 && sb->st_uid != geteuid())
		return E_DENIED;
	if (++w->links > SOCKDIR_LINKS)
		return E_DENIED;
	n = readlinkat(link, "", target, sizeof(target));
	if (n < 0 || (size_t)n == sizeof(target))
		return E_SYS;
	n = snprintf(whole, sizeof(whole), "%.*s/%s", (int)n, target, w->rest);
	if ((size_t)n >= sizeof(w->rest))
		return E_NOTFOUND;
	memcpy(w->rest, whole, (size_t)n + 1);
	if (w->rest[0] != '/')
		return 0;
	fd_close(&w->fd);
	w->fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return w->fd == -1 ? E_SYS : 0;
}

static int
sockdir_walk_into(struct sockdir_walk *w, const char *name)
{
	int fd = openat(w->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC), r = 0;
	struct stat sb;

	if (fd == -1)
		return sockdir_open_error(errno);
	if (fstat(fd, &sb) != 0) {
		r = E_SYS;
	} else if (S_ISLNK(sb.st_mode)) {
		r = sockdir_walk_link(w, fd, &sb);
	} else if (!S_ISDIR(sb.st_mode)) {
		r = E_NOTFOUND;
	} else {
		fd_close(&w->fd);
		w->fd = fd;
		return 0;
	}
	fd_close(&fd);
	return r;
}

static int
sockdir_walk(const char *path, int *out)
{
	struct sockdir_walk w = {.links = 0};
	char name[NAME_MAX + 1];
	int r = 0;

	if (strlen(path) >= sizeof(w.rest))
		return E_NOTFOUND;
	memcpy(w.rest, path, strlen(path) + 1);
	w.fd =
	    open(path[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (w.fd == -1)
		return E_SYS;
	while (r == 0 && w.rest[0] != '\0') {
		size_t n = strcspn(w.rest, "/");
		size_t skip = n + strspn(w.rest + n, "/");

		if (n >= sizeof(name)) {
			r = E_NOTFOUND;
			break;
		}
		memcpy(name, w.rest, n);
		name[n] = '\0';
		memmove(w.rest, w.rest + skip, strlen(w.rest + skip) + 1);
		if (n > 0)
			r = sockdir_walk_into(&w, name);
	}
	if (r != 0)
		fd_close(&w.fd);
	else
		*out = w.fd;
	return r;
}

int
sockdir_open_dir(const char *path, int *out)
{
	const struct sockdir_how how = {
	    .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
	    .resolve = SOCKDIR_NO_SYMLINKS | SOCKDIR_NO_MAGICLINKS,
	};
	long r = syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));

	if (r >= 0) { /* the usual: no link anywhere */
		*out = (int)r;
		return 0;
	}
	return errno == ELOOP ? sockdir_walk(path, out)
			      : sockdir_open_error(errno);
}

int
sockdir_open_dir_cached(const char *path, int *out)
{
	const struct sockdir_how how = {
	    .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
	    .resolve =
		SOCKDIR_NO_SYMLINKS | SOCKDIR_NO_MAGICLINKS | SOCKDIR_CACHED,
	};
	long r = syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));

	if (r < 0 && (errno == ELOOP || sockdir_uncached(errno)))
		return E_BUSY;
	if (r < 0)
		return sockdir_open_error(errno);
	*out = (int)r;
	return 0;
}

/* --- sockets ----------------------------------------------------------- */

static int
sockdir_check_file(int fd, uid_t want_uid)
{
	struct stat sb;

	if (fstat(fd, &sb) != 0)
		return E_SYS;
	if (!S_ISSOCK(sb.st_mode))
		return E_DENIED;
	if (want_uid != SOCKDIR_ANY_UID && sb.st_uid != want_uid)
		return E_DENIED;
	return 0;
}

static int
sockdir_connect_error(int eno)
{
	switch (eno) {
	case EAGAIN:
	case EINPROGRESS:
		return E_AGAIN;
	case ECONNREFUSED:
	case ENOENT:     /* removed since, while nothing listened */
	case EPROTOTYPE: /* a datagram or seqpacket socket */
		return E_REFUSED;
	case EACCES:
	case EPERM:
		return E_DENIED;
	}
	return E_SYS;
}

/* The listener's credentials are those at its listen(). */
static int
sockdir_check_peer(int fd, uid_t want_uid)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (want_uid == SOCKDIR_ANY_UID)
		return 0;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) != 0)
		return E_SYS;
	return cred.uid == want_uid ? 0 : E_DENIED;
}

static int
sockdir_connect_handle(int handle, uid_t want_uid, int *fd)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	int s, r;

	(void)snprintf(un.sun_path, sizeof(un.sun_path), "/proc/self/fd/%d",
		       handle);
	s = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (s == -1)
		return E_SYS;
	do
		r = connect(s, (struct sockaddr *)(void *)&un, sizeof(un));
	while (r != 0 && errno == EINTR);
	r = r == 0 ? sockdir_check_peer(s, want_uid)
		   : sockdir_connect_error(errno);
	if (r != 0) {
		fd_close(&s);
		return r;
	}
	*fd = s;
	return 0;
}

static int
sockdir_connect_with(int dirfd, const char *name, uint64_t more, uid_t want_uid,
		     int *fd)
{
	int handle = -1;
	int r;

	if ((r = sockdir_open(dirfd, name, more, &handle)) != 0)
		return r;
	r = sockdir_check_file(handle, want_uid);
	if (r == 0)
		r = sockdir_connect_handle(handle, want_uid, fd);
	fd_close(&handle);
	return r;
}

int
sockdir_connect(int dirfd, const char *name, uid_t want_uid, int *fd)
{
	return sockdir_connect_with(dirfd, name, 0, want_uid, fd);
}

int
sockdir_connect_cached(int dirfd, const char *name, uid_t want_uid, int *fd)
{
	return sockdir_connect_with(dirfd, name, SOCKDIR_CACHED, want_uid, fd);
}
