/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding descendants: one pass over /proc notes who is whose child, then each
 * is followed upwards. Between the look and the signal a process may end and
 * its number may come to a stranger's: so the signal goes through a pidfd, and
 * only after a second look at when it began. Who its parent is may well have
 * changed: the parent has had its signal.
 */
#include "config.h"

#include "agent/descend.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"

#define DESCEND_MAX   (1U << 18)
#define DESCEND_DEPTH 4096

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif

struct descend_one {
	pid_t pid, parent, session;
	uint64_t began; /* with pid: which process it is */
	bool zombie;
};

struct descend {
	struct descend_one *v;
	size_t n, cap;
};

/* The 22nd field, of which p is the 3rd. */
static bool
descend_began(const char *p, uint64_t *out)
{
	char *end;

	for (int i = 3; i < 22 && p != NULL; i++) {
		p = strchr(p, ' ');
		if (p != NULL)
			p++;
	}
	if (p == NULL)
		return false;
	*out = strtoull(p, &end, 10);
	return end != p;
}

/* "17 (a name) S 1 ...": the name may hold anything, parentheses too. */
static bool
descend_read(pid_t pid, struct descend_one *out)
{
	char path[32], text[512];
	const char *p;
	char *end;
	ssize_t n;
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd == -1)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	(void)close(fd);
	text[n > 0 ? n : 0] = '\0';
	p = strrchr(text, ')');
	if (p == NULL || strlen(p) < 5)
		return false;
	out->pid = pid;
	out->zombie = p[2] == 'Z' || p[2] == 'X';
	out->parent = (pid_t)strtol(p + 4, &end, 10);
	(void)strtol(end, &end, 10); /* its group */
	out->session = (pid_t)strtol(end, &end, 10);
	return *end == ' ' && descend_began(p + 2, &out->began);
}

static void
descend_add(struct descend *d, const char *name)
{
	struct descend_one one;
	uint64_t pid;

	if (strv_parse_u64(strv_of(name), INT32_MAX, true, &pid) != 0 ||
	    d->n >= DESCEND_MAX || !descend_read((pid_t)pid, &one))
		return;
	if (d->n == d->cap) {
		d->cap = d->cap != 0 ? 2 * d->cap : 256;
		d->v = xrealloc(d->v, d->cap * sizeof(*d->v));
	}
	d->v[d->n++] = one;
}

static int
descend_compare(const void *a, const void *b)
{
	const struct descend_one *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

static pid_t
descend_parent(const struct descend *d, pid_t pid)
{
	struct descend_one key = {.pid = pid}, *one;

	one = bsearch(&key, d->v, d->n, sizeof(key), descend_compare);
	return one != NULL ? one->parent : 0;
}

static bool
descend_is_ours(const struct descend *d, pid_t pid)
{
	pid_t self = getpid();

	for (int i = 0; i < DESCEND_DEPTH && pid > 0; i++) {
		pid = descend_parent(d, pid);
		if (pid == self)
			return true;
	}
	return false;
}

static void
descend_signal(const struct descend_one *one, int sig)
{
	int fd = (int)syscall(SYS_pidfd_open, one->pid, 0);
	struct descend_one now;

	if (fd == -1)
		return; /* it has ended */
	if (descend_read(one->pid, &now) && now.began == one->began)
		(void)syscall(SYS_pidfd_send_signal, fd, sig, NULL, 0);
	(void)close(fd);
}

static void
descend_look(struct descend *d)
{
	DIR *dir = opendir("/proc");
	struct dirent *e;

	if (dir == NULL)
		return;
	while ((e = readdir(dir)) != NULL) {
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9')
			descend_add(d, e->d_name);
	}
	(void)closedir(dir);
}

/* session 0: those that descend from this process. */
static unsigned
descend_all(pid_t session, int sig)
{
	struct descend d = {NULL, 0, 0};
	unsigned n = 0;

	descend_look(&d);
	if (d.n > 0)
		qsort(d.v, d.n, sizeof(*d.v), descend_compare);
	for (size_t i = 0; i < d.n; i++) {
		if (d.v[i].zombie ||
		    (session != 0 ? d.v[i].session != session
				  : !descend_is_ours(&d, d.v[i].pid)))
			continue;
		descend_signal(&d.v[i], sig);
		n++;
	}
	free(d.v);
	return n;
}

unsigned
descend_kill(int sig)
{
	return descend_all(0, sig);
}

unsigned
descend_session(pid_t session, int sig)
{
	return descend_all(session, sig);
}

bool
descend_any(void)
{
	siginfo_t si = {0};

	return waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT) == 0;
}
