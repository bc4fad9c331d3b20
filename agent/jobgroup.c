/* SPDX-License-Identifier: Apache-2.0 */
/* The control group of a job; see the header. */
#include "config.h"

#include "agent/jobgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fdio.h"
#include "base/mem.h"

#define REMOVE_TRIES 200 /* of 5 ms */
#define CPU_PERIOD   100000ULL

static int
put(int dirfd, const char *name, const char *text)
{
	int fd = openat(dirfd, name, O_WRONLY | O_CLOEXEC), r, eno;

	if (fd == -1)
		return -1;
	r = write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
	eno = errno;
	(void)close(fd);
	errno = eno;
	return r;
}

static void
limit(int fd, const char *name, const char *text, const char *what,
      struct strbuf *lacks)
{
	if (put(fd, name, text) != 0)
		strbuf_addf(lacks, "%sno limit of %s (%s)",
			    lacks->len > 0 ? "; " : "", what, strerror(errno));
}

static void
set_limits(int fd, const struct jobgroup_limits *l, struct strbuf *lacks)
{
	char text[64];

	if (l->memory != 0) {
		(void)snprintf(text, sizeof(text), "%llu",
			       (unsigned long long)l->memory);
		limit(fd, "memory.max", text, "memory", lacks);
		(void)!put(fd, "memory.oom.group", "0");
	}
	if (l->cpu_milli != 0) {
		(void)snprintf(
		    text, sizeof(text), "%llu %llu",
		    (unsigned long long)(l->cpu_milli * (CPU_PERIOD / 1000)),
		    CPU_PERIOD);
		limit(fd, "cpu.max", text, "CPU", lacks);
	}
	if (l->pids != 0) {
		(void)snprintf(text, sizeof(text), "%llu",
			       (unsigned long long)l->pids);
		(void)!put(fd, "pids.max", text); /* there is RLIMIT_NPROC */
	}
}

int
jobgroup_make(const char *parent, const char *id,
	      const struct jobgroup_limits *l, struct strbuf *lacks, int *fd)
{
	static const char *const controllers[] = {"+memory", "+cpu", "+pids"};
	int up = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (up == -1)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(controllers); i++)
		(void)!put(up, "cgroup.subtree_control", controllers[i]);
	*fd = -1;
	if (mkdirat(up, id, 0755) == 0 || errno == EEXIST)
		*fd = openat(up, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	(void)close(up);
	if (*fd == -1)
		return -1;
	set_limits(*fd, l, lacks);
	return 0;
}

int
jobgroup_enter(int fd, pid_t pid)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%ld", (long)pid);
	return put(fd, "cgroup.procs", text);
}

bool
jobgroup_starved(int fd)
{
	int events = openat(fd, "memory.events", O_RDONLY | O_CLOEXEC);
	char text[512], *p;
	ssize_t n;

	if (events == -1)
		return false;
	n = read(events, text, sizeof(text) - 1);
	(void)close(events);
	text[n > 0 ? n : 0] = '\0';
	p = strstr(text, "oom_kill ");
	return p != NULL && p[9] != '0';
}

void
jobgroup_thaw(int fd)
{
	(void)!put(fd, "cgroup.freeze", "0");
}

void
jobgroup_remove(const char *path)
{
	const struct timespec pause = {.tv_nsec = 5000000};
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd == -1)
		return;
	(void)!put(fd, "cgroup.kill", "1");
	(void)close(fd);
	for (int i = 0; i < REMOVE_TRIES && rmdir(path) != 0 && errno == EBUSY;
	     i++)
		(void)nanosleep(&pause, NULL);
}
