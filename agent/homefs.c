/* SPDX-License-Identifier: Apache-2.0 */
/* Mounts as descriptors; see the header. */
#include "config.h"

#include "agent/homefs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"

/* Our own, so that it builds with old headers; the same on all machines. */
#ifndef SYS_open_tree
#define SYS_open_tree  428
#define SYS_move_mount 429
#define SYS_fsopen     430
#define SYS_fsconfig   431
#define SYS_fsmount    432
#endif

#define HOMEFS_FSOPEN_CLOEXEC 1U
#define HOMEFS_SET_STRING     1U
#define HOMEFS_CREATE         6U
#define HOMEFS_MOUNT_CLOEXEC  1U
#define HOMEFS_NOSUID         2U
#define HOMEFS_NODEV          4U
#define HOMEFS_CLONE          1U
#define HOMEFS_RECURSIVE      0x8000U
#define HOMEFS_EMPTY_FROM     4U

/* One file for so many bytes at most: each costs the kernel about 1 KiB. */
#define HOMEFS_BYTES_PER_FILE 4096
#define HOMEFS_FILES_MIN      1024

static int
homefs_set(int fs, const char *key, uint64_t n)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)n);
	return (int)syscall(SYS_fsconfig, fs, HOMEFS_SET_STRING, key, text, 0);
}

int
homefs_new(uint64_t bytes, int *fd)
{
	uint64_t files = bytes / HOMEFS_BYTES_PER_FILE;
	int fs = (int)syscall(SYS_fsopen, "tmpfs", HOMEFS_FSOPEN_CLOEXEC);
	int got = -1, eno;

	if (fs == -1)
		return E_SYS;
	if (homefs_set(fs, "size", bytes) == 0 &&
	    homefs_set(fs, "nr_inodes",
		       files > HOMEFS_FILES_MIN ? files : HOMEFS_FILES_MIN) ==
		0 &&
	    syscall(SYS_fsconfig, fs, HOMEFS_SET_STRING, "mode", "700", 0) ==
		0 &&
	    syscall(SYS_fsconfig, fs, HOMEFS_CREATE, NULL, NULL, 0) == 0)
		got = (int)syscall(SYS_fsmount, fs, HOMEFS_MOUNT_CLOEXEC,
				   HOMEFS_NOSUID | HOMEFS_NODEV);
	eno = errno;
	fd_close(&fs);
	errno = eno;
	if (got == -1)
		return E_SYS;
	*fd = got;
	return 0;
}

int
homefs_put(int fd, const char *path)
{
	return (int)syscall(SYS_move_mount, fd, "", AT_FDCWD, path,
			    HOMEFS_EMPTY_FROM);
}

int
homefs_clone(const char *path)
{
	return (int)syscall(SYS_open_tree, AT_FDCWD, path,
			    HOMEFS_CLONE | HOMEFS_RECURSIVE | O_CLOEXEC);
}
