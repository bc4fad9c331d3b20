/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Landlock rulesets by ABI version. The constants and structures of the kernel
 * interface are our own, so that what the running kernel can do counts, not
 * what the headers of the build machine knew.
 */
#include "config.h"

#include "agent/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/mem.h"

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule       445
#define SYS_landlock_restrict_self  446
#endif

#define CREATE_VERSION    (1U << 0)
#define RULE_PATH_BENEATH 1

#define FS_EXECUTE     (1ULL << 0)
#define FS_WRITE_FILE  (1ULL << 1)
#define FS_READ_FILE   (1ULL << 2)
#define FS_READ_DIR    (1ULL << 3)
#define FS_REMOVE_DIR  (1ULL << 4)
#define FS_REMOVE_FILE (1ULL << 5)
#define FS_MAKE_CHAR   (1ULL << 6)
#define FS_MAKE_DIR    (1ULL << 7)
#define FS_MAKE_REG    (1ULL << 8)
#define FS_MAKE_SOCK   (1ULL << 9)
#define FS_MAKE_FIFO   (1ULL << 10)
#define FS_MAKE_BLOCK  (1ULL << 11)
#define FS_MAKE_SYM    (1ULL << 12)
#define FS_REFER       (1ULL << 13)
#define FS_TRUNCATE    (1ULL << 14)
#define FS_IOCTL_DEV   (1ULL << 15)

#define FS_ABI1 (FS_REFER - 1)
#define FS_READ (FS_READ_FILE | FS_READ_DIR)
#define FS_RX   (FS_READ | FS_EXECUTE)
#define FS_DEV  (FS_READ_FILE | FS_WRITE_FILE | FS_TRUNCATE | FS_IOCTL_DEV)
/* The rights that mean something for a file that is not a directory. */
#define FS_OF_FILE                                                             \
	(FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV)

#define NET_BIND_TCP   (1ULL << 0)
#define SCOPE_ABSTRACT (1ULL << 0)

struct ruleset_attr {
	uint64_t fs;
	uint64_t net;
	uint64_t scoped;
};

struct path_attr {
	uint64_t allowed;
	int32_t parent_fd;
} __attribute__((packed));

/* What each version of the interface added. */
static const struct {
	int abi;
	uint64_t fs, net, scoped;
	size_t attr_size;
} versions[] = {
    {1, FS_ABI1, 0, 0, 8},       {2, FS_REFER, 0, 0, 8},
    {3, FS_TRUNCATE, 0, 0, 8},   {4, 0, NET_BIND_TCP, 0, 16},
    {5, FS_IOCTL_DEV, 0, 0, 16}, {6, 0, 0, SCOPE_ABSTRACT, 24},
};

static const struct {
	const char *path;
	uint64_t allowed;
} system_paths[] = {
    {"/usr", FS_RX},
    {"/bin", FS_RX},
    {"/sbin", FS_RX},
    {"/lib", FS_RX},
    {"/lib32", FS_RX},
    {"/lib64", FS_RX},
    {"/libx32", FS_RX},
    {"/etc", FS_RX},
    {"/opt", FS_RX},
    {"/run", FS_RX},
    {"/nix", FS_RX},
    {"/proc", FS_READ},
    {"/sys", FS_READ},
    {"/dev/null", FS_DEV},
    {"/dev/zero", FS_DEV},
    {"/dev/full", FS_DEV},
    {"/dev/tty", FS_DEV},
    {"/dev/random", FS_DEV},
    {"/dev/urandom", FS_DEV},
    {"/dev/ptmx", FS_DEV},
    {"/dev/pts", FS_DEV | FS_READ_DIR},
};

#define NPATHS ARRAY_LEN(system_paths)

struct landlock {
	int abi;
	struct ruleset_attr handled;
	size_t attr_size;
	int fds[NPATHS]; /* -1: not on this machine */
	uint64_t allowed[NPATHS];
};

int
landlock_abi(void)
{
	long r = syscall(SYS_landlock_create_ruleset, NULL, 0, CREATE_VERSION);

	return r > 0 ? (int)r : 0;
}

static void
landlock_open_path(struct landlock *ll, size_t i)
{
	struct stat sb;

	ll->allowed[i] = system_paths[i].allowed & ll->handled.fs;
	ll->fds[i] = open(system_paths[i].path, O_PATH | O_CLOEXEC);
	if (ll->fds[i] == -1)
		return;
	if (fstat(ll->fds[i], &sb) != 0)
		fd_close(&ll->fds[i]);
	else if (!S_ISDIR(sb.st_mode))
		ll->allowed[i] &= FS_OF_FILE;
}

struct landlock *
landlock_new(int abi)
{
	struct landlock *ll = xcalloc(1, sizeof(*ll));
	int kernel = landlock_abi();

	ll->abi = abi < kernel ? abi : kernel;
	for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
		if (versions[i].abi > ll->abi)
			break;
		ll->handled.fs |= versions[i].fs;
		ll->handled.net |= versions[i].net;
		ll->handled.scoped |= versions[i].scoped;
		ll->attr_size = versions[i].attr_size;
	}
	for (size_t i = 0; i < NPATHS; i++)
		landlock_open_path(ll, i);
	return ll;
}

void
landlock_free(struct landlock *ll)
{
	if (ll == NULL)
		return;
	for (size_t i = 0; i < NPATHS; i++)
		fd_close(&ll->fds[i]);
	free(ll);
}

int
landlock_effective_abi(const struct landlock *ll)
{
	return ll->abi;
}

static int
landlock_allow(int ruleset, int fd, uint64_t allowed)
{
	struct path_attr attr = {.allowed = allowed, .parent_fd = fd};

	return syscall(SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &attr,
		       0) == 0
		   ? 0
		   : E_SYS;
}

int
landlock_add(const struct landlock *ll, int ruleset, int fd, bool all)
{
	return landlock_allow(ruleset, fd, all ? ll->handled.fs : FS_READ);
}

static int
landlock_fill(const struct landlock *ll, int home_fd, int ruleset)
{
	int r = landlock_allow(ruleset, home_fd, ll->handled.fs);

	for (size_t i = 0; r == 0 && i < NPATHS; i++) {
		if (ll->fds[i] != -1)
			r = landlock_allow(ruleset, ll->fds[i], ll->allowed[i]);
	}
	return r;
}

int
landlock_ruleset(const struct landlock *ll, int home_fd, bool bind,
		 int *ruleset)
{
	struct ruleset_attr handled = ll->handled;
	int fd, r;

	if (ll->abi == 0)
		return E_UNSUPPORTED;
	if (bind)
		handled.net = 0;
	/* The kernel makes it close-on-exec. */
	fd = (int)syscall(SYS_landlock_create_ruleset, &handled, ll->attr_size,
			  0);
	if (fd == -1)
		return E_SYS;
	if ((r = landlock_fill(ll, home_fd, fd)) != 0) {
		fd_close(&fd);
		return r;
	}
	*ruleset = fd;
	return 0;
}

int
landlock_enforce(int ruleset)
{
	return (int)syscall(SYS_landlock_restrict_self, ruleset, 0);
}
