/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building a job's root. Beneath FS there are: data/ (what the job writes when
 * it sees the machine's own system: root, home, tmp, ...), upper/ and work/
 * (what it writes on top of an image), scratch/<name>/data (directories that
 * were asked for), lower/ and new/ (mount points).
 *
 * Nothing of the job runs yet, and names are looked up in directories that only
 * root writes to, or in an image that the administrator has put there; targets
 * within an image are looked up with RESOLVE_IN_ROOT all the same.
 */
#include "config.h"

#include "agent/jobroot.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "base/scratch.h"

/* What is bound from this machine's system. */
static const char *const shown[] = {"usr",   "bin",    "sbin", "lib", "lib32",
				    "lib64", "libx32", "etc",  "opt"};
/* Directories that the job writes to, where no image has its own. */
static const struct {
	const char *name, *path;
	mode_t mode;
	bool own; /* the job's user's, else root's */
} data[] = {{"root", JOBROOT_HOME, 0700, true},
	    {"home", "/home", 0755, true},
	    {"tmp", "/tmp", 01777, true},
	    {"vartmp", "/var/tmp", 01777, true},
	    {"homes", JOBROOT_HOMES, 0711, true}};

static const char *const nodes[] = {"null", "zero",   "full",
				    "tty",  "random", "urandom"};
static const char *const links[][2] = {{"/proc/self/fd", "dev/fd"},
				       {"/proc/self/fd/0", "dev/stdin"},
				       {"/proc/self/fd/1", "dev/stdout"},
				       {"/proc/self/fd/2", "dev/stderr"},
				       {"pts/ptmx", "dev/ptmx"}};

static void
add_lack(struct strbuf *b, const char *what, int eno)
{
	strbuf_addf(b, "%s%s (%s)", b->len > 0 ? "; " : "", what,
		    strerror(eno));
}

/* What came out of a snapshot stays as it is. */
static int
make_dir(const char *path, mode_t mode, uid_t uid)
{
	if (mkdir(path, mode) != 0)
		return errno == EEXIST ? 0 : -1;
	if (chmod(path, mode) != 0)
		return -1;
	return geteuid() == 0 && uid != 0 ? chown(path, uid, uid) : 0;
}

/* "scratch/<name>/data", what is mounted at *place. */
static bool
scratch_dir(const char *entry, char dir[SCRATCH_NAME_MAX + 16],
	    const char **place)
{
	struct strv name;

	if (!scratch_parse(entry, &name, place)) {
		errno = EINVAL;
		return false;
	}
	(void)snprintf(dir, SCRATCH_NAME_MAX + 16, "scratch/%.*s/data",
		       STRV_ARG(name));
	return true;
}

static int
make_scratch(const struct jobroot *r, const char *entry)
{
	char dir[SCRATCH_NAME_MAX + 16], path[PATH_MAX];
	const char *place;

	if (!scratch_dir(entry, dir, &place))
		return -1;
	(void)snprintf(path, sizeof(path), "%s/%s", r->fs, dir);
	*strrchr(path, '/') = '\0';
	if (make_dir(path, 0711, 0) != 0)
		return -1;
	(void)snprintf(path, sizeof(path), "%s/%s", r->fs, dir);
	return make_dir(path, 0755, r->uid);
}

int
jobroot_dirs(const struct jobroot *r)
{
	static const char *const own[] = {"lower", "new", "data", "scratch"};
	char path[PATH_MAX];

	if (make_dir(r->fs, 0711, 0) != 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(own); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", r->fs, own[i]);
		if (make_dir(path, 0711, 0) != 0)
			return -1;
	}
	(void)snprintf(path, sizeof(path), "%s/upper", r->fs);
	if (make_dir(path, 0755, r->uid) != 0)
		return -1;
	(void)snprintf(path, sizeof(path), "%s/work", r->fs);
	if (make_dir(path, 0700, 0) != 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(data); i++) {
		(void)snprintf(path, sizeof(path), "%s/data/%s", r->fs,
			       data[i].name);
		if (make_dir(path, data[i].mode, r->uid) != 0)
			return -1;
	}
	for (size_t i = 0; r->scratch != NULL && r->scratch[i] != NULL; i++)
		if (make_scratch(r, r->scratch[i]) != 0)
			return -1;
	return 0;
}

/* --- mounts ------------------------------------------------------------ */

/* A handle of path, looked up as if root_fd were "/". */
static int
open_in(int root_fd, const char *path, uint64_t flags)
{
	struct open_how how = {.flags = flags | O_CLOEXEC,
			       .mode = (flags & O_CREAT) != 0 ? 0644 : 0,
			       .resolve = RESOLVE_IN_ROOT};

	return (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
}

/* Binds what `from` is to the place that `to` names beneath root_fd. attr:
 * MOUNT_ATTR_* for it and all that is mounted in it. */
static int
bind_to(int root_fd, const char *from, const char *to, uint64_t attr)
{
	struct mount_attr a = {.attr_set = attr, .propagation = MS_PRIVATE};
	int tree, at = -1, r = -1, eno;

	tree = open_tree(AT_FDCWD, from,
			 OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
	if (tree == -1)
		return -1;
	if (mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &a,
			  sizeof(a)) == 0 &&
	    (at = open_in(root_fd, to, O_PATH)) != -1)
		r = move_mount(tree, "", at, "",
			       MOVE_MOUNT_F_EMPTY_PATH |
				   MOVE_MOUNT_T_EMPTY_PATH);
	eno = errno;
	fd_close(&at);
	fd_close(&tree);
	errno = eno;
	return r;
}

/* mount(2) of a new file system at `to` beneath root_fd. */
static int
mount_in(int root_fd, const char *type, const char *to, unsigned long flags,
	 const char *options)
{
	int at = open_in(root_fd, to, O_PATH), r, eno;
	char path[64];

	if (at == -1)
		return -1;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", at);
	r = mount(type, path, type, flags, options);
	eno = errno;
	fd_close(&at);
	errno = eno;
	return r;
}

/* mkdir -p beneath root_fd; what is made belongs to uid. */
static int
dirs_of(int root_fd, const char *path, uid_t uid)
{
	char part[PATH_MAX];
	const char *end = path;
	int up, r;

	do {
		const char *slash;

		end = strchrnul(end + 1, '/');
		(void)snprintf(part, sizeof(part), "%.*s", (int)(end - path),
			       path);
		slash = strrchr(part, '/');
		if (slash == NULL || slash == part) {
			up = fcntl(root_fd, F_DUPFD_CLOEXEC, 3);
		} else {
			part[slash - part] = '\0';
			up = open_in(root_fd, part, O_PATH | O_DIRECTORY);
		}
		if (up == -1)
			return -1;
		r = mkdirat(up, slash == NULL ? part : slash + 1, 0755);
		if (r == 0 && geteuid() == 0 && uid != 0)
			r = fchownat(up, slash == NULL ? part : slash + 1, uid,
				     uid, AT_SYMLINK_NOFOLLOW);
		else if (r != 0 && errno == EEXIST)
			r = 0;
		(void)close(up);
		if (r != 0)
			return -1;
	} while (*end != '\0');
	return 0;
}

static int
dirs_in(int root_fd, const char *path)
{
	return dirs_of(root_fd, path, 0);
}

/* --- the machine's system ---------------------------------------------- */

static int
show(int root_fd, const char *name)
{
	char path[PATH_MAX], target[PATH_MAX];
	struct stat sb;
	ssize_t n;

	(void)snprintf(path, sizeof(path), "/%s", name);
	if (lstat(path, &sb) != 0)
		return 0;
	if (S_ISLNK(sb.st_mode)) { /* /bin -> usr/bin */
		n = readlink(path, target, sizeof(target) - 1);
		if (n < 0)
			return -1;
		target[n] = '\0';
		/* One that is there came out of a snapshot. */
		return symlinkat(target, root_fd, name) == 0 || errno == EEXIST
			   ? 0
			   : -1;
	}
	if (!S_ISDIR(sb.st_mode))
		return 0;
	if (dirs_in(root_fd, name) != 0)
		return -1;
	return bind_to(root_fd, path, name,
		       MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID |
			   MOUNT_ATTR_NODEV);
}

static int
make_own(const struct jobroot *r, struct strbuf *lacks, const char **step)
{
	char path[PATH_MAX];
	int root_fd;

	*step = "/";
	if (bind_to(AT_FDCWD, "upper", "new",
		    MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV) != 0)
		return -1;
	root_fd = open("new", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root_fd == -1)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(shown); i++) {
		*step = shown[i];
		if (show(root_fd, shown[i]) != 0)
			return -1;
	}
	for (size_t i = 0; r->expose != NULL && r->expose[i] != NULL; i++)
		if (dirs_in(root_fd, r->expose[i] + 1) != 0 ||
		    bind_to(root_fd, r->expose[i], r->expose[i] + 1,
			    MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID |
				MOUNT_ATTR_NODEV) != 0)
			add_lack(lacks, r->expose[i], errno);
	for (size_t i = 0; i < ARRAY_LEN(data); i++) {
		*step = data[i].path;
		(void)snprintf(path, sizeof(path), "%s/data/%s", r->fs,
			       data[i].name);
		if (dirs_in(root_fd, data[i].path + 1) != 0 ||
		    bind_to(root_fd, path, data[i].path + 1,
			    MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV) != 0)
			return -1;
	}
	return root_fd;
}

/* --- an image ---------------------------------------------------------- */

/* The image's ids become the job's: its root may read and change what is
 * root's in there. */
static int
mount_lower(const struct jobroot *r, struct strbuf *lacks, bool *mapped)
{
	struct mount_attr ro = {.attr_set = MOUNT_ATTR_RDONLY,
				.propagation = MS_PRIVATE};
	struct mount_attr map = {.attr_set = MOUNT_ATTR_IDMAP,
				 .userns_fd = (uint64_t)r->userns};
	int tree, ret;

	tree =
	    open_tree(AT_FDCWD, r->rootfs, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (tree == -1)
		return -1;
	*mapped = false;
	if (r->userns != -1) {
		*mapped = mount_setattr(tree, "", AT_EMPTY_PATH, &map,
					sizeof(map)) == 0;
		if (!*mapped)
			add_lack(lacks, "the image's files are not root's",
				 errno);
	}
	ret = mount_setattr(tree, "", AT_EMPTY_PATH, &ro, sizeof(ro));
	if (ret == 0)
		ret = move_mount(tree, "", AT_FDCWD, "lower",
				 MOVE_MOUNT_F_EMPTY_PATH);
	(void)close(tree);
	return ret;
}

static int
make_image(const struct jobroot *r, struct strbuf *lacks, const char **step)
{
	char path[PATH_MAX];
	bool mapped;
	int root_fd;

	*step = r->rootfs;
	if (mount_lower(r, lacks, &mapped) != 0)
		return -1;
	*step = "overlay";
	if (mount("overlay", "new", "overlay", MS_NODEV,
		  geteuid() == 0 && r->uid != 0
		      ? "lowerdir=lower,upperdir=upper,workdir=work"
		      : "lowerdir=lower,upperdir=upper,workdir=work,"
			"userxattr") != 0) {
		add_lack(lacks, "the image is read-only: no overlay", errno);
		if (mount("lower", "new", NULL, MS_BIND, NULL) != 0)
			return -1;
	}
	root_fd = open("new", O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; root_fd != -1 && i < ARRAY_LEN(data); i++) {
		/* tmp and the like are data, not changes of an image; the
		 * image's /root and /home are kept. */
		if (strcmp(data[i].path, JOBROOT_HOME) == 0 ||
		    strcmp(data[i].path, "/home") == 0)
			continue;
		(void)snprintf(path, sizeof(path), "%s/data/%s", r->fs,
			       data[i].name);
		if (dirs_in(root_fd, data[i].path + 1) != 0 ||
		    bind_to(root_fd, path, data[i].path + 1,
			    MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV) != 0)
			add_lack(lacks, data[i].path, errno);
	}
	return root_fd;
}

/* --- what both have ---------------------------------------------------- */

static int
make_dev(int root_fd)
{
	char from[32], to[32];
	int fd;

	if (dirs_in(root_fd, "dev") != 0 ||
	    mount_in(root_fd, "tmpfs", "dev", MS_NOSUID | MS_NOEXEC,
		     "mode=755,size=64k") != 0 ||
	    dirs_in(root_fd, "dev/pts") != 0 ||
	    dirs_in(root_fd, "dev/shm") != 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(nodes); i++) {
		(void)snprintf(from, sizeof(from), "/dev/%s", nodes[i]);
		(void)snprintf(to, sizeof(to), "dev/%s", nodes[i]);
		fd = open_in(root_fd, "dev", O_PATH | O_DIRECTORY);
		if (fd == -1)
			return -1;
		(void)!mknodat(fd, nodes[i], S_IFREG | 0666, 0);
		(void)close(fd);
		if (bind_to(root_fd, from, to, MOUNT_ATTR_NOSUID) != 0)
			return -1;
	}
	fd = open_in(root_fd, ".", O_PATH | O_DIRECTORY);
	for (size_t i = 0; fd != -1 && i < ARRAY_LEN(links); i++)
		(void)!symlinkat(links[i][0], fd, links[i][1]);
	if (fd != -1)
		(void)close(fd);
	(void)!mount_in(root_fd, "devpts", "dev/pts", MS_NOSUID | MS_NOEXEC,
			"newinstance,ptmxmode=0666,mode=620");
	return mount_in(root_fd, "tmpfs", "dev/shm", MS_NOSUID | MS_NODEV,
			"mode=1777");
}

/* This machine's, for the time being: process 1 mounts the job's own above it,
 * which the kernel permits only where there is one already. */
static int
make_proc(int root_fd)
{
	if (dirs_in(root_fd, "proc") != 0)
		return -1;
	return bind_to(root_fd, "/proc", "proc", 0);
}

static int
make_sys(const struct jobroot *r, int root_fd)
{
	const unsigned long flags =
	    MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY;

	if (dirs_in(root_fd, "sys") != 0)
		return -1;
	if (r->new_net && mount_in(root_fd, "sysfs", "sys", flags, NULL) == 0)
		return 0;
	return bind_to(root_fd, "/sys", "sys",
		       MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID |
			   MOUNT_ATTR_NODEV);
}

/* /etc/resolv.conf may be a link into /run, which is empty here. */
static int
make_resolv(const struct jobroot *r, int root_fd)
{
	char path[PATH_MAX], link[PATH_MAX];
	int etc = open_in(root_fd, "etc", O_PATH | O_DIRECTORY), fd;
	ssize_t n;

	if (etc == -1)
		return -1;
	n = readlinkat(etc, "resolv.conf", link, sizeof(link) - 1);
	(void)close(etc);
	if (n > 0) {
		char *last;

		link[n] = '\0';
		while (strncmp(link, "../", 3) == 0)
			memmove(link, link + 3, strlen(link) - 2);
		last = strrchr(link, '/');
		if (last != NULL && last != link) {
			*last = '\0';
			if (dirs_in(root_fd, link + (*link == '/')) != 0)
				return -1;
			*last = '/';
		}
		fd = open_in(root_fd, link,
			     O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK);
		if (fd == -1)
			return -1;
		n = fd_write_all(fd, r->resolv, strlen(r->resolv));
		(void)fchmod(fd, 0644);
		(void)close(fd);
		return n == 0 ? 0 : -1;
	}
	(void)snprintf(path, sizeof(path), "%s/data/resolv.conf", r->fs);
	if (file_write_atomic(path, r->resolv, strlen(r->resolv), 0644) != 0)
		return -1;
	return bind_to(root_fd, path, "etc/resolv.conf", MOUNT_ATTR_RDONLY);
}

/* Last, so that one may lie in another, or in what is ours. */
static int
mount_scratch(const struct jobroot *r, int root_fd, const char **step)
{
	char dir[SCRATCH_NAME_MAX + 16];
	const char *place;

	for (size_t i = 0; r->scratch != NULL && r->scratch[i] != NULL; i++) {
		*step = r->scratch[i];
		if (!scratch_dir(r->scratch[i], dir, &place) ||
		    dirs_of(root_fd, place + 1, r->uid) != 0 ||
		    bind_to(root_fd, dir, place + 1,
			    MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV) != 0)
			return -1;
	}
	return 0;
}

static int
enter(int root_fd)
{
	if (fchdir(root_fd) != 0 || syscall(SYS_pivot_root, ".", ".") != 0 ||
	    umount2(".", MNT_DETACH) != 0)
		return -1;
	return chdir("/");
}

int
jobroot_enter(const struct jobroot *r, struct strbuf *lacks, const char **step)
{
	int root_fd, ret = -1, eno;
	char options[96];

	*step = "private mounts";
	/* From here, relative names: no character of r->fs is special then. */
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    chdir(r->fs) != 0)
		return -1;
	root_fd = r->rootfs != NULL ? make_image(r, lacks, step)
				    : make_own(r, lacks, step);
	if (root_fd == -1)
		return -1;
	*step = "/run";
	(void)snprintf(options, sizeof(options),
		       "mode=755,size=16m,uid=%lu,gid=%lu",
		       (unsigned long)r->uid, (unsigned long)r->uid);
	if (dirs_in(root_fd, "run") != 0 ||
	    mount_in(root_fd, "tmpfs", "run", MS_NOSUID | MS_NODEV, options) !=
		0)
		goto out;
	if (r->resolv != NULL && make_resolv(r, root_fd) != 0)
		add_lack(lacks, "no /etc/resolv.conf", errno);
	*step = "/dev";
	if (make_dev(root_fd) != 0)
		goto out;
	*step = "/proc";
	if (make_proc(root_fd) != 0)
		goto out;
	if (make_sys(r, root_fd) != 0)
		add_lack(lacks, "no /sys", errno);
	if (mount_scratch(r, root_fd, step) != 0)
		goto out;
	*step = "pivot_root";
	ret = enter(root_fd);
out:
	eno = errno;
	(void)close(root_fd);
	errno = eno;
	return ret;
}
