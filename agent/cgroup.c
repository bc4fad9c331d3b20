/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups; see the header. */
#include "config.h"

#include "agent/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"

#ifndef SYS_clone3
#define SYS_clone3 435
#endif

#define CGROUP_PREFIX   "sbx-"
#define CGROUP_LEAF     "sbx-agent"
#define CGROUP_TEXT_MAX (1U << 20)
#define CGROUP_TRIES    100 /* one a millisecond */

struct cgroup {
	struct cgroup_place place;
	int fd;
};

/* --- where ------------------------------------------------------------- */

/* The nth field (from 0) of a line with blanks between. */
static struct strv
cgroup_field(struct strv line, unsigned n)
{
	struct strv f = {0};

	for (unsigned i = 0; i <= n; i++) {
		if (!strv_cut(&line, ' ', &f))
			return STRV_NULL;
	}
	return f;
}

/* "0::/a/b" -> "/a/b". */
static struct strv
cgroup_own_path(const char *self)
{
	struct strv rest = strv_of(self), line;

	while (strv_cut(&rest, '\n', &line)) {
		if (strv_starts(line, STRV("0::/")))
			return strv_from(line, 3);
	}
	return STRV_NULL;
}

/* What of path lies below root; false: it does not. */
static bool
cgroup_below(struct strv path, struct strv root, struct strv *tail)
{
	if (strv_eq(root, STRV("/"))) {
		*tail = strv_eq(path, root) ? STRV("") : path;
		return true;
	}
	if (!strv_starts(path, root))
		return false;
	*tail = strv_from(path, root.len);
	return tail->len == 0 || tail->p[0] == '/';
}

char *
cgroup_own_dir(const char *self, const char *mountinfo, bool *top)
{
	struct strv path = cgroup_own_path(self), rest = strv_of(mountinfo);
	struct strv line, tail, point;
	const char *kind;

	while (path.p != NULL && strv_cut(&rest, '\n', &line)) {
		kind = memmem(line.p, line.len, " - cgroup2 ", 11);
		if (kind == NULL)
			continue;
		line.len = (size_t)(kind - line.p);
		point = cgroup_field(line, 4);
		if (point.p == NULL ||
		    !cgroup_below(path, cgroup_field(line, 3), &tail))
			continue;
		*top = tail.len == 0;
		return xasprintf("%.*s%.*s", STRV_ARG(point), STRV_ARG(tail));
	}
	return NULL;
}

static char *
cgroup_find(bool *top)
{
	char *self = NULL, *mounts = NULL, *dir = NULL;

	if (file_read("/proc/self/cgroup", CGROUP_TEXT_MAX, &self, NULL) == 0 &&
	    file_read("/proc/self/mountinfo", CGROUP_TEXT_MAX, &mounts, NULL) ==
		0)
		dir = cgroup_own_dir(self, mounts, top);
	free(self);
	free(mounts);
	return dir;
}

static bool
cgroup_has(const char *dir, const char *file)
{
	char *path = xasprintf("%s/%s", dir, file);
	bool yes = access(path, F_OK) == 0;

	free(path);
	return yes;
}

/* As systemd marks what it leaves to the unit. */
static bool
cgroup_is_delegated(const char *dir)
{
	char c;

	return (getxattr(dir, "user.delegate", &c, 1) == 1 && c == '1') ||
	       (getxattr(dir, "trusted.delegate", &c, 1) == 1 && c == '1');
}

static int
cgroup_controllers(struct cgroup_place *p, char **why)
{
	char *path = xasprintf("%s/cgroup.controllers", p->dir), *text = NULL;
	struct strv rest, word;
	int r;

	r = file_read(path, CGROUP_TEXT_MAX, &text, NULL);
	if (r != 0 || text == NULL) {
		*why = xasprintf("%s: %s", path, err_text(r));
		free(path);
		return E_UNSUPPORTED;
	}
	free(path);
	text[strcspn(text, "\n")] = '\0';
	rest = strv_of(text);
	while (strv_cut(&rest, ' ', &word)) {
		p->memory = p->memory || strv_eq(word, STRV("memory"));
		p->pids = p->pids || strv_eq(word, STRV("pids"));
		p->cpu = p->cpu || strv_eq(word, STRV("cpu"));
	}
	free(text);
	return 0;
}

/* The agent's own group, when it may be taken. */
static int
cgroup_judge_own(struct cgroup_place *p, bool top, char **why)
{
	/* The root of the whole hierarchy has no such file. */
	bool root = !cgroup_has(p->dir, "cgroup.events");

	p->delegated = (top && !root) || cgroup_is_delegated(p->dir);
	if (!p->memory && !p->pids)
		*why = xasprintf("%s has neither the memory nor the pids "
				 "controller (cgroup v1 may hold them)",
				 p->dir);
	else if (!p->delegated)
		*why = xasprintf("%s is not delegated to the agent (systemd: "
				 "Delegate=yes; or name a directory with "
				 "SBX_CGROUP)",
				 p->dir);
	else if (access(p->dir, W_OK) != 0)
		*why = xasprintf("%s: %s", p->dir, strerror(errno));
	else
		return 0;
	return E_UNSUPPORTED;
}

int
cgroup_look(const char *want, struct cgroup_place *p, char **why)
{
	bool top = false;
	int r;

	memset(p, 0, sizeof(*p));
	*why = NULL;
	p->ours = want == NULL;
	p->dir = want != NULL ? xstrdup(want) : cgroup_find(&top);
	if (p->dir == NULL) {
		*why = xstrdup("no cgroup v2 here");
		return E_UNSUPPORTED;
	}
	r = E_UNSUPPORTED;
	if (strcmp(p->dir, "off") == 0)
		*why = xstrdup("switched off");
	else if (syscall(SYS_clone3, NULL, 0) == -1 && errno == ENOSYS)
		*why = xstrdup("the clone3 system call is not permitted");
	else
		r = cgroup_controllers(p, why);
	if (r == 0 && p->ours)
		r = cgroup_judge_own(p, top, why);
	if (r != 0)
		cgroup_place_clear(p);
	return r;
}

void
cgroup_place_clear(struct cgroup_place *p)
{
	free(p->dir);
	p->dir = NULL;
	memset(p, 0, sizeof(*p));
}

/* --- writing ----------------------------------------------------------- */

/* One write, as the kernel wants it. 0 or -1 with errno. */
static int
cgroup_write(int dir, const char *file, const char *text)
{
	int fd = openat(dir, file, O_WRONLY | O_CLOEXEC), eno;
	ssize_t n;

	if (fd == -1)
		return -1;
	n = write(fd, text, strlen(text));
	eno = errno;
	(void)close(fd);
	errno = eno;
	return n == (ssize_t)strlen(text) ? 0 : -1;
}

static int
cgroup_write_u64(int dir, const char *file, uint64_t n)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)n);
	return cgroup_write(dir, file, text);
}

/* --- taking it --------------------------------------------------------- */

/* A group with processes may not hand controllers down: the agent goes into a
 * leaf. */
static int
cgroup_step_down(struct cgroup *cg, char **why)
{
	if (!cg->place.ours)
		return 0;
	if ((mkdirat(cg->fd, CGROUP_LEAF, 0755) == 0 || errno == EEXIST) &&
	    cgroup_write(cg->fd, CGROUP_LEAF "/cgroup.procs", "0") == 0)
		return 0;
	*why =
	    xasprintf("%s/" CGROUP_LEAF ": %s", cg->place.dir, strerror(errno));
	return E_UNSUPPORTED;
}

static void
cgroup_step_up(struct cgroup *cg)
{
	if (!cg->place.ours)
		return;
	(void)cgroup_write(cg->fd, "cgroup.procs", "0");
	(void)unlinkat(cg->fd, CGROUP_LEAF, AT_REMOVEDIR);
}

static int
cgroup_hand_down(struct cgroup *cg, char **why)
{
	const struct {
		bool there;
		const char *word;
	} v[] = {{cg->place.memory, "+memory"},
		 {cg->place.pids, "+pids"},
		 {cg->place.cpu, "+cpu"}};

	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		if (!v[i].there ||
		    cgroup_write(cg->fd, "cgroup.subtree_control", v[i].word) ==
			0)
			continue;
		*why = xasprintf("%s: %s: %s", cg->place.dir, v[i].word,
				 errno == EBUSY
				     ? "other processes are in that group"
				     : strerror(errno));
		return E_UNSUPPORTED;
	}
	return 0;
}

static void
cgroup_sweep(struct cgroup *cg)
{
	int fd = openat(cg->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), sub;
	DIR *d = fd == -1 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (d == NULL) {
		fd_close(&fd);
		return;
	}
	while ((e = readdir(d)) != NULL) {
		if (strncmp(e->d_name, CGROUP_PREFIX, 4) != 0 ||
		    strcmp(e->d_name, CGROUP_LEAF) == 0)
			continue;
		log_warn("cgroup.leftover", "group=%s",
			 log_esc(strv_of(e->d_name)));
		sub = openat(cg->fd, e->d_name, O_PATH | O_CLOEXEC);
		if (sub != -1 && cgroup_kill(sub) != 0) {
			/* nothing in it, or an old kernel */
		}
		fd_close(&sub);
		(void)!cgroup_remove(cg, e->d_name + 4);
	}
	(void)closedir(d);
}

int
cgroup_open(const char *want, struct cgroup **out, char **why)
{
	struct cgroup *cg = xcalloc(1, sizeof(*cg));
	int r;

	cg->fd = -1;
	if ((r = cgroup_look(want, &cg->place, why)) != 0)
		goto fail;
	cg->fd = open(cg->place.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (cg->fd == -1 || flock(cg->fd, LOCK_EX | LOCK_NB) != 0) {
		*why = xasprintf("%s: %s", cg->place.dir,
				 cg->fd == -1 ? strerror(errno)
					      : "another agent uses it");
		r = E_BUSY;
		goto fail;
	}
	cgroup_sweep(cg);
	if ((r = cgroup_step_down(cg, why)) != 0)
		goto fail;
	if ((r = cgroup_hand_down(cg, why)) != 0) {
		cgroup_step_up(cg);
		goto fail;
	}
	*out = cg;
	return 0;
fail:
	cgroup_free(cg);
	return r;
}

void
cgroup_free(struct cgroup *cg)
{
	if (cg == NULL)
		return;
	cgroup_place_clear(&cg->place);
	fd_close(&cg->fd);
	free(cg);
}

const struct cgroup_place *
cgroup_where(const struct cgroup *cg)
{
	return &cg->place;
}

/* --- sandboxes --------------------------------------------------------- */

static int
cgroup_limit(const struct cgroup *cg, int fd, uint64_t memory, uint64_t procs,
	     const char **file)
{
	*file = "memory.max";
	if (cg->place.memory && cgroup_write_u64(fd, *file, memory) != 0)
		return E_SYS;
	/* Not there when the kernel accounts for no swap. */
	if (cg->place.memory)
		(void)cgroup_write(fd, "memory.swap.max", "0");
	*file = "pids.max";
	if (cg->place.pids && cgroup_write_u64(fd, *file, procs) != 0)
		return E_SYS;
	return 0;
}

int
cgroup_make(struct cgroup *cg, const char *id, uint64_t memory, uint64_t procs,
	    int *fd, char **why)
{
	char *name = xasprintf(CGROUP_PREFIX "%s", id);
	const char *what = name;
	int sub = -1, r = E_SYS;

	if (mkdirat(cg->fd, name, 0755) == 0 || errno == EEXIST)
		sub = openat(cg->fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (sub != -1)
		r = cgroup_limit(cg, sub, memory, procs, &what);
	if (r != 0) {
		*why = xasprintf("%s/%s: %s", cg->place.dir, what,
				 strerror(errno));
		fd_close(&sub);
		(void)unlinkat(cg->fd, name, AT_REMOVEDIR);
	} else {
		*fd = sub;
	}
	free(name);
	return r;
}

int
cgroup_kill(int fd)
{
	return cgroup_write(fd, "cgroup.kill", "1") == 0 ? 0 : E_UNSUPPORTED;
}

int
cgroup_remove(struct cgroup *cg, const char *id)
{
	const struct timespec ms = {.tv_nsec = 1000000};
	char *name = xasprintf(CGROUP_PREFIX "%s", id);
	int r = E_BUSY;

	for (int i = 0; r != 0 && i < CGROUP_TRIES; i++) {
		if (unlinkat(cg->fd, name, AT_REMOVEDIR) == 0 ||
		    errno == ENOENT)
			r = 0;
		else if (errno != EBUSY)
			i = CGROUP_TRIES;
		else
			(void)nanosleep(&ms, NULL);
	}
	free(name);
	return r;
}
