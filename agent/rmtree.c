/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removing a tree. A path can be as deep as its maker has patience, so below
 * a certain depth directories are first moved up to the top of the tree and
 * removed from there in another round.
 */
#include "config.h"

#include "agent/rmtree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"

#define RMTREE_DEPTH 24

struct rmtree {
	int top;
	dev_t dev;
	unsigned long moved; /* directories moved to the top, ever */
	bool again;          /* some were, in this round */
	bool failed;
};

static void rmtree_empty(struct rmtree *t, int fd, unsigned depth);

/* Moves a deep directory to the top under a name that nothing has. */
static void
rmtree_lift(struct rmtree *t, int fd, const char *name)
{
	char to[48];

	for (int i = 0; i < 16; i++) {
		(void)snprintf(to, sizeof(to), ".sbx-lifted-%lu", t->moved++);
		if (renameat2(fd, name, t->top, to, RENAME_NOREPLACE) == 0) {
			t->again = true;
			return;
		}
		if (errno != EEXIST)
			break;
	}
	t->failed = true;
}

static void
rmtree_dir(struct rmtree *t, int fd, const char *name, unsigned depth)
{
	struct stat sb;
	int sub;

	if (unlinkat(fd, name, AT_REMOVEDIR) == 0)
		return;
	if (depth >= RMTREE_DEPTH) {
		rmtree_lift(t, fd, name);
		return;
	}
	sub = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (sub == -1) {
		t->failed = t->failed || errno != ENOENT;
		return;
	}
	if (fstat(sub, &sb) != 0 || sb.st_dev != t->dev) {
		(void)close(sub);
		t->failed = true;
		return;
	}
	rmtree_empty(t, sub, depth + 1); /* closes sub */
	/* What was lifted out of it may be on its way; if it still is not
	 * empty, another round will find it. */
	if (unlinkat(fd, name, AT_REMOVEDIR) != 0 && errno != ENOENT)
		t->failed = true;
}

static void
rmtree_entry(struct rmtree *t, int fd, const struct dirent *e, unsigned depth)
{
	if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
		return;
	if (e->d_type == DT_DIR) {
		rmtree_dir(t, fd, e->d_name, depth);
		return;
	}
	if (unlinkat(fd, e->d_name, 0) == 0 || errno == ENOENT)
		return;
	if (errno == EISDIR || errno == EPERM)
		rmtree_dir(t, fd, e->d_name, depth);
	else
		t->failed = true;
}

static void
rmtree_empty(struct rmtree *t, int fd, unsigned depth)
{
	DIR *d = fdopendir(fd);
	struct dirent *e;

	if (d == NULL) {
		(void)close(fd);
		t->failed = true;
		return;
	}
	while ((e = readdir(d)) != NULL)
		rmtree_entry(t, fd, e, depth);
	(void)closedir(d);
}

/* One pass over everything, from the top. */
static void
rmtree_round(struct rmtree *t)
{
	int fd = openat(t->top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	t->again = t->failed = false;
	if (fd == -1)
		t->failed = true;
	else
		rmtree_empty(t, fd, 0);
}

int
rmtree(int dirfd, const char *name)
{
	struct rmtree t = {.top = -1};
	struct stat sb;
	int r = 0;

	t.top = openat(dirfd, name,
		       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (t.top == -1)
		return err_from_errno(errno);
	if (fstat(t.top, &sb) != 0)
		r = E_SYS;
	t.dev = sb.st_dev;
	while (r == 0) {
		rmtree_round(&t);
		if (!t.again)
			break;
	}
	(void)close(t.top);
	if (r == 0 && unlinkat(dirfd, name, AT_REMOVEDIR) != 0)
		r = E_SYS;
	return r;
}
