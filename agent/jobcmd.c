/* SPDX-License-Identifier: Apache-2.0 */
/* sbx-agent job: arguments, the directory, and what is left behind. */
#include "config.h"

#include "agent/jobcmd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/jobend.h"
#include "agent/jobgroup.h"
#include "agent/jobrun.h"
#include "agent/jobdef.h"
#include "agent/rmtree.h"
#include "base/err.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/seqpkt.h"

#define FIRST_FD   4
#define LISTEN_FD  3
#define LOCK_TRIES 500 /* of 10 ms */

static const char usage[] =
    "usage: sbx-agent job [--inherited] DIR\n"
    "       sbx-agent job --clean [--all] DIR...\n"
    "Runs what DIR/spec.json says and writes DIR/log and DIR/exit.json.\n"
    "  --inherited  descriptor 3 is DIR/job.sock, 4 a connection to it\n"
    "  --clean      removes what a dead supervisor has left behind\n"
    "  --all        kills a live one, removes the log, exit.json and DIR\n";

struct job {
	bool inherited, clean, all;
	char *dir, *arg;
	int dirfd, lock;
};

/* --- what is left ------------------------------------------------------ */

/* fs: also what the job has written, unless that is to be kept. */
static void
remove_parts(const struct job *j, bool fs)
{
	static const char *const names[] = {
	    "spec.json", "agent.sock", "control.sock", "job.sock",
	    "pid",       "slot",       "layout",       "keep"};
	char *path = xasprintf("%s/cgroup", j->dir), *group = NULL;
	size_t len, n = ARRAY_LEN(names) - (fs ? 0 : 3);
	int r = fs ? rmtree(j->dirfd, "fs") : 0;

	if (file_read(path, 4096, &group, &len) == 0)
		jobgroup_remove(group);
	free(group);
	free(path);

	if (r != 0 && r != E_NOTFOUND)
		log_error("job.clean", "dir=%s error=\"%s\"",
			  log_esc(strv_of(j->dir)), err_text(r));
	for (size_t i = 0; i < n; i++)
		(void)unlinkat(j->dirfd, names[i], 0);
}

/* Waits until nobody of an earlier supervisor lives: both halves hold the
 * lock. */
static bool
await_lock(const struct job *j)
{
	for (int i = 0; i < LOCK_TRIES; i++) {
		if (flock(j->lock, LOCK_EX | LOCK_NB) == 0)
			return true;
		(void)usleep(10000);
	}
	return false;
}

/* Tells a supervisor that still is there to kill. The connection (-1: none) is
 * to stay open: what it has to say would be lost, and the order with it. */
static int
order_kill(const struct job *j)
{
	char *path = xasprintf("%s/job.sock", j->dir);
	int fd;

	if (seqpkt_connect(path, &fd) != 0)
		fd = -1;
	else
		(void)!write(fd, "kill", 4);
	free(path);
	return fd;
}

static int
clean(const struct job *j)
{
	struct jobend e = {.reason = "lost",
			   .code = -1,
			   .message = "its supervisor was killed"};
	int r, fd = j->all ? order_kill(j) : -1;
	bool locked = await_lock(j);

	fd_close(&fd);
	if (!locked) {
		log_error("job.clean", "dir=%s error=\"it still runs\"",
			  log_esc(strv_of(j->dir)));
		return 1;
	}
	remove_parts(j, true);
	if (!j->all) {
		r = jobend_write(j->dirfd, &e);
		return r == 0 || r == E_EXISTS ? 0 : 1;
	}
	r = rmtree(AT_FDCWD, j->dir);
	return r == 0 || r == E_NOTFOUND ? 0 : 1;
}

/* --- start ------------------------------------------------------------- */

static void
write_pid(const struct job *j)
{
	int fd = openat(j->dirfd, "pid", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	if (fd == -1)
		return;
	(void)!dprintf(fd, "%ld\n", (long)getpid());
	(void)close(fd);
}

/* The file goes as soon as it was read: nobody needs it again, and it has
 * secrets in it. */
static int
read_spec(const struct job *j, struct jobdef *s, char **why)
{
	char *path = xasprintf("%s/spec.json", j->dir), *text = NULL;
	size_t len = 0;
	int r = file_read(path, JOBDEF_MAX, &text, &len);

	if (r != 0)
		*why = xstrdup(err_text(r));
	else
		r = jobdef_parse((struct strv){text, len}, s, why);
	(void)unlink(path);
	if (text != NULL)
		mem_secure_zero(text, len);
	free(text);
	free(path);
	return r;
}

static int
listen_fd(const struct job *j, int *fd)
{
	char *path;
	int r;

	if (j->inherited) {
		*fd = LISTEN_FD;
		return fd_set_cloexec(LISTEN_FD, true);
	}
	path = xasprintf("%s/job.sock", j->dir);
	r = seqpkt_bind(path, 0600, (uid_t)-1, (gid_t)-1, fd);
	free(path);
	return r;
}

static int
run(const struct job *j)
{
	struct jobrun_options o = {.dir = j->dir,
				   .dirfd = j->dirfd,
				   .arg = j->arg,
				   .lock = j->lock,
				   .first_fd = -1};
	struct jobend e = {.reason = "unstarted", .code = -1};
	struct jobdef s = {0};
	char *why = NULL;
	int r;

	if (flock(j->lock, LOCK_EX | LOCK_NB) != 0) {
		log_error("job.start", "dir=%s error=\"it runs already\"",
			  log_esc(strv_of(j->dir)));
		return 1;
	}
	write_pid(j);
	jobend_reserve(j->dirfd);
	if (j->inherited && fd_set_cloexec(FIRST_FD, true) == 0)
		o.first_fd = FIRST_FD;
	if ((r = listen_fd(j, &o.listen_fd)) != 0) {
		why = xasprintf("job.sock: %s", err_text(r));
	} else if ((r = read_spec(j, &s, &why)) != 0) {
		char *text = xasprintf("spec.json: %s", why);

		free(why);
		why = text;
	} else {
		o.spec = &s;
		jobrun(&o);
		jobdef_clear(&s);
	}
	if (r != 0) {
		(void)snprintf(e.message, sizeof(e.message), "%s", why);
		(void)!jobend_write(j->dirfd, &e);
		log_error("job.start", "error=%s", log_esc(strv_of(why)));
		free(why);
	}
	(void)signal(SIGTERM, SIG_IGN); /* what is left is removed to its end */
	remove_parts(j, faccessat(j->dirfd, "keep", F_OK, 0) != 0);
	return r == 0 ? 0 : 1;
}

static void
set_process(void)
{
	for (int s = 1; s < NSIG; s++)
		(void)signal(s, SIG_DFL);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGHUP, SIG_IGN);
	(void)umask(077);
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

static int
open_dir(struct job *j, const char *name)
{
	j->dir = realpath(name, NULL);
	j->dirfd = j->dir == NULL
		       ? -1
		       : open(j->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (j->dirfd == -1)
		return -1;
	/* A descriptor of its own, which the inner half inherits. */
	j->lock = openat(j->dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return j->lock;
}

static int
in_dir(struct job j, char *name)
{
	int r;

	if (open_dir(&j, name) == -1) {
		log_error("job.start", "dir=%s error=\"%s\"",
			  log_esc(strv_of(name)), strerror(errno));
		return 1;
	}
	j.arg = name;
	r = j.clean ? clean(&j) : run(&j);
	free(j.dir);
	(void)close(j.dirfd);
	(void)close(j.lock);
	return r;
}

int
jobcmd_main(int argc, char **argv)
{
	struct job j = {0};
	int i = 0, r;

	for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
		if (strcmp(argv[i], "--inherited") == 0)
			j.inherited = true;
		else if (strcmp(argv[i], "--clean") == 0)
			j.clean = true;
		else if (strcmp(argv[i], "--all") == 0)
			j.all = true;
		else
			break;
	}
	if (i >= argc || (i != argc - 1 && !j.clean) || *argv[i] == '-') {
		(void)fputs(usage, stderr);
		return 2;
	}
	set_process();
	for (r = 0; i < argc; i++)
		r |= in_dir(j, argv[i]);
	return r;
}
