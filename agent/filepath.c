/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths of a sandbox. The home is the root of its paths, as the kernel sees to
 * (openat2, RESOLVE_IN_ROOT): what is in a symlink does not matter. A path
 * that begins with where the home really is, as commands print them, means the
 * same file.
 */
#include "config.h"

#include "agent/files_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/filename.h"
#include "agent/sandbox.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "base/str.h"

#define NO_XDEV       0x01
#define NO_MAGICLINKS 0x02
#define IN_ROOT       0x10

#ifndef SYS_openat2
#define SYS_openat2 437
#endif

#define FILEPATH_TRIES 32

/* As the kernel has it. */
struct filepath_how {
	uint64_t flags;
	uint64_t mode;
	uint64_t resolve;
};

/* The path below the home. */
static const char *
filepath_local(const struct sandbox *sb, const char *path)
{
	size_t n = sb->home != NULL ? strlen(sb->home) : 0;

	if (n > 0 && strncmp(path, sb->home, n) == 0 &&
	    (path[n] == '/' || path[n] == '\0'))
		path += n;
	return *path != '\0' ? path : ".";
}

int
filepath_open(const struct sandbox *sb, const char *path, int flags,
	      mode_t mode)
{
	/* openat2 refuses flags that do not go together. */
	int all = flags | O_CLOEXEC | ((flags & O_PATH) != 0 ? 0 : O_NOCTTY);
	struct filepath_how how = {
	    .flags = (uint64_t)(unsigned)all,
	    .mode = (flags & O_CREAT) != 0 ? mode : 0,
	    .resolve = IN_ROOT | NO_MAGICLINKS | NO_XDEV,
	};
	long fd = -1;

	if (sb->home_fd == -1) {
		fd = open(path, all, mode);
		return fd >= 0 ? (int)fd : -errno;
	}
	path = filepath_local(sb, path);
	/* EAGAIN: something was renamed on the way. */
	for (int i = 0; i < FILEPATH_TRIES; i++) {
		fd = syscall(SYS_openat2, sb->home_fd, path, &how, sizeof(how));
		if (fd >= 0 || (errno != EAGAIN && errno != EINTR))
			break;
	}
	return fd >= 0 ? (int)fd : -errno;
}

/* One directory of a path that may not exist yet: opened, or made in prev (the
 * one before it; -1: none). */
static int
filepath_step(const struct sandbox *sb, int prev, const char *prefix)
{
	int fd = filepath_open(sb, prefix, O_PATH | O_DIRECTORY, 0);
	const char *name;

	if (fd != -ENOENT || prev == -1)
		return fd;
	name = strrchr(prefix, '/');
	name = name != NULL ? name + 1 : prefix;
	if (mkdirat(prev, name, 0755) != 0 && errno != EEXIST)
		return -errno;
	return filepath_open(sb, prefix, O_PATH | O_DIRECTORY, 0);
}

int
filepath_mkdirs(const struct sandbox *sb, const char *path)
{
	const char *local = sb->home_fd != -1 ? filepath_local(sb, path) : path;
	char *copy = xstrdup(local);
	size_t i = strspn(copy, "/"), n;
	int fd, next;

	fd = filepath_open(sb, i > 0 ? "/" : ".", O_PATH | O_DIRECTORY, 0);
	while (fd >= 0 && copy[i] != '\0') {
		n = strcspn(copy + i, "/");
		char end = copy[i + n];

		copy[i + n] = '\0';
		next = filepath_step(sb, fd, copy);
		(void)close(fd);
		fd = next;
		copy[i + n] = end;
		i += n + strspn(copy + i + n, "/");
	}
	free(copy);
	return fd;
}

int
filepath_parent(const struct sandbox *sb, const char *path, bool make,
		char **name)
{
	struct strv v =
	    strv_of(sb->home_fd != -1 ? filepath_local(sb, path) : path);
	struct strv last;
	char *dir;
	int fd;

	while (v.len > 0 && v.p[v.len - 1] == '/')
		v.len--;
	last = v;
	while (v.len > 0 && v.p[v.len - 1] != '/')
		v.len--;
	last = strv_from(last, v.len);
	if (last.len == 0 || strv_eq(last, STRV(".")) ||
	    strv_eq(last, STRV("..")))
		return -EINVAL;
	dir = v.len > 0 ? xstrndup(v.p, v.len) : xstrdup(".");
	fd = filepath_open(sb, dir, O_PATH | O_DIRECTORY, 0);
	if (fd == -ENOENT && make)
		fd = filepath_mkdirs(sb, dir);
	free(dir);
	if (fd >= 0)
		*name = xstrndup(last.p, last.len);
	return fd;
}

/* --- names that are no text --------------------------------------------- */

static bool
filepath_exists(const struct sandbox *sb, const char *path)
{
	int fd = filepath_open(sb, path, O_PATH | O_NOFOLLOW, 0);

	if (fd >= 0)
		(void)close(fd);
	return fd >= 0;
}

/* One part of a path: as it is, unless only what it stands for exists. */
static void
filepath_part(const struct sandbox *sb, struct strbuf *b, struct strv part)
{
	size_t before = b->len;

	strbuf_addv(b, part);
	if (!filename_escaped(part) || filepath_exists(sb, b->s))
		return;
	b->len = before;
	filename_unescape(b, part);
	if (filepath_exists(sb, b->s))
		return;
	b->len = before;
	strbuf_addv(b, part);
}

char *
filepath_meant(const struct sandbox *sb, const char *path)
{
	struct strv rest = strv_of(path), part;
	struct strbuf b = {0};

	if (!filename_escaped(rest))
		return xstrdup(path);
	while (strv_cut(&rest, '/', &part)) {
		filepath_part(sb, &b, part);
		if (rest.p != NULL)
			strbuf_addc(&b, '/');
	}
	return strbuf_take(&b);
}
