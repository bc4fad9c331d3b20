/* SPDX-License-Identifier: Apache-2.0 */
/* net/sockdir: what a hostile directory may hold, and what it gets. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "net/sockdir.h"

#define OTHER_UID 12345

struct dir {
	char path[64];
	int fd;
};

static int
setup(void **state)
{
	static struct dir d;

	(void)snprintf(d.path, sizeof(d.path), "/tmp/sockdir.XXXXXX");
	assert_non_null(mkdtemp(d.path));
	d.fd = open(d.path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(d.fd >= 0);
	*state = &d;
	return 0;
}

static int
teardown(void **state)
{
	struct dir *d = *state;
	char cmd[128];

	close(d->fd);
	(void)snprintf(cmd, sizeof(cmd), "rm -rf '%s'", d->path);
	return system(cmd);
}

static int
bind_at(struct dir *d, const char *name, int type)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	int s = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	assert_true(s >= 0);
	(void)snprintf(un.sun_path, sizeof(un.sun_path), "%s/%s", d->path,
		       name);
	assert_int_equal(bind(s, (struct sockaddr *)(void *)&un, sizeof(un)),
			 0);
	return s;
}

static int
listen_at(struct dir *d, const char *name)
{
	int s = bind_at(d, name, SOCK_STREAM);

	assert_int_equal(listen(s, 8), 0);
	return s;
}

static int
fds_open(void)
{
	int n = 0;

	for (int i = 0; i < 256; i++)
		n += fcntl(i, F_GETFD) != -1;
	return n;
}

/* Expects err, and that no descriptor stays behind. */
static void
expect(struct dir *d, const char *name, uid_t uid, int err)
{
	int before = fds_open();
	int fd = -7, cached;

	assert_int_equal(sockdir_connect(d->fd, name, uid, &fd), err);
	assert_int_equal(fd, -7);
	cached = sockdir_connect_cached(d->fd, name, uid, &fd);
	if (cached != E_BUSY) /* the kernel's word, each time anew */
		assert_int_equal(cached, err);
	assert_int_equal(fd, -7);
	assert_int_equal(fds_open(), before);
}

static void
test_connects(void **state)
{
	struct dir *d = *state;
	int s = listen_at(d, "80.sock");
	int fd = -1, in;
	char c = 0;

	assert_int_equal(sockdir_connect(d->fd, "80.sock", getuid(), &fd), 0);
	assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	in = accept(s, NULL, NULL);
	assert_true(in >= 0);
	assert_int_equal(write(fd, "x", 1), 1);
	assert_int_equal(read(in, &c, 1), 1);
	assert_int_equal(c, 'x');
	close(in);
	close(fd);
	assert_int_equal(
	    sockdir_connect(d->fd, "80.sock", SOCKDIR_ANY_UID, &fd), 0);
	close(fd);
	/* It was looked up just now. */
	assert_int_equal(
	    sockdir_connect_cached(d->fd, "80.sock", getuid(), &fd), 0);
	close(fd);
	close(s);
}

static void
test_nothing_there(void **state)
{
	struct dir *d = *state;
	char longname[5000];

	expect(d, "80.sock", getuid(), E_NOTFOUND);
	expect(d, "", getuid(), E_NOTFOUND);
	expect(d, "no/80.sock", getuid(), E_NOTFOUND);
	memset(longname, 'a', sizeof(longname) - 1);
	longname[sizeof(longname) - 1] = '\0';
	expect(d, longname, getuid(), E_NOTFOUND);
}

static void
test_not_accepting(void **state)
{
	struct dir *d = *state;
	int s = listen_at(d, "dead.sock");
	int b, g, q;

	close(s);
	expect(d, "dead.sock", getuid(), E_REFUSED);
	b = bind_at(d, "bound.sock", SOCK_STREAM);
	expect(d, "bound.sock", getuid(), E_REFUSED);
	g = bind_at(d, "dgram.sock", SOCK_DGRAM);
	expect(d, "dgram.sock", getuid(), E_REFUSED);
	q = bind_at(d, "seq.sock", SOCK_SEQPACKET);
	assert_int_equal(listen(q, 8), 0);
	expect(d, "seq.sock", getuid(), E_REFUSED);
	close(b);
	close(g);
	close(q);
}

static void
test_symlinks(void **state)
{
	struct dir *d = *state;
	char at[128];
	int s;

	(void)snprintf(at, sizeof(at), "%s/real", d->path);
	assert_int_equal(mkdir(at, 0700), 0);
	s = listen_at(d, "real/80.sock");
	assert_int_equal(symlinkat("real", d->fd, "dir"), 0);
	assert_int_equal(symlinkat("real/80.sock", d->fd, "80.sock"), 0);
	assert_int_equal(symlinkat(at, d->fd, "abs"), 0);
	assert_int_equal(symlinkat("loop", d->fd, "loop"), 0);
	assert_int_equal(symlinkat("nowhere", d->fd, "dangling"), 0);
	assert_int_equal(symlinkat("/proc/self/fd/0", d->fd, "magic"), 0);
	expect(d, "dir/80.sock", getuid(), E_DENIED);
	expect(d, "80.sock", getuid(), E_DENIED);
	expect(d, "abs/80.sock", getuid(), E_DENIED);
	expect(d, "loop", getuid(), E_DENIED);
	expect(d, "dangling", getuid(), E_DENIED);
	expect(d, "magic", getuid(), E_DENIED);
	close(s);
}

static void
test_way_out(void **state)
{
	struct dir *d = *state;
	char at[128];
	int s = listen_at(d, "80.sock");
	int sub;

	(void)snprintf(at, sizeof(at), "%s/sub", d->path);
	assert_int_equal(mkdir(at, 0700), 0);
	sub = open(at, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(sub >= 0);
	(void)snprintf(at, sizeof(at), "%s/80.sock", d->path);
	expect(&(struct dir){.fd = sub}, "../80.sock", getuid(), E_DENIED);
	expect(&(struct dir){.fd = sub}, at, getuid(), E_DENIED);
	close(sub);
	close(s);
}

/* What stands above a proxy directory may be a sandbox's to change. */
static void
test_directories(void **state)
{
	struct dir *d = *state;
	char path[128];
	struct stat a, b;
	int fd;

	assert_int_equal(mkdirat(d->fd, "real", 0755), 0);
	assert_int_equal(mkdirat(d->fd, "real/sub", 0755), 0);
	assert_int_equal(symlinkat("real", d->fd, "link"), 0);
	assert_int_equal(symlinkat("link", d->fd, "again"), 0);
	assert_int_equal(symlinkat("loop", d->fd, "loop"), 0);
	assert_int_equal(fstatat(d->fd, "real/sub", &a, 0), 0);
	for (int i = 0; i < 4; i++) {
		static const char *const ways[] = {"real/sub", "link/sub/",
						   "again//./sub",
						   "link/../link/sub"};

		(void)snprintf(path, sizeof(path), "%s/%s", d->path, ways[i]);
		assert_int_equal(sockdir_open_dir(path, &fd), 0);
		assert_int_equal(fstat(fd, &b), 0);
		assert_int_equal(a.st_ino, b.st_ino);
		close(fd);
		assert_int_equal(sockdir_open_dir_cached(path, &fd),
				 i == 0 ? 0 : E_BUSY);
		if (i == 0)
			close(fd);
	}
	(void)snprintf(path, sizeof(path), "%s/link/nothing", d->path);
	assert_int_equal(sockdir_open_dir(path, &fd), E_NOTFOUND);
	(void)snprintf(path, sizeof(path), "%s/loop/sub", d->path);
	assert_int_equal(sockdir_open_dir(path, &fd), E_DENIED);
	if (geteuid() != 0)
		return;
	assert_int_equal(
	    fchownat(d->fd, "link", OTHER_UID, OTHER_UID, AT_SYMLINK_NOFOLLOW),
	    0);
	(void)snprintf(path, sizeof(path), "%s/link/sub", d->path);
	assert_int_equal(sockdir_open_dir(path, &fd), E_DENIED);
	(void)snprintf(path, sizeof(path), "%s/again/sub", d->path);
	assert_int_equal(sockdir_open_dir(path, &fd), E_DENIED);
}

static void
test_other_things(void **state)
{
	struct dir *d = *state;
	int f = openat(d->fd, "file", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	assert_true(f >= 0);
	close(f);
	assert_int_equal(mkdirat(d->fd, "sub", 0700), 0);
	assert_int_equal(mkfifoat(d->fd, "fifo", 0600), 0);
	expect(d, "file", getuid(), E_DENIED);
	expect(d, "sub", getuid(), E_DENIED);
	expect(d, ".", getuid(), E_DENIED);
	expect(d, "fifo", getuid(), E_DENIED); /* and does not hang */
	expect(d, "file/80.sock", getuid(), E_NOTFOUND);
}

static void
test_other_owner(void **state)
{
	struct dir *d = *state;
	int s = listen_at(d, "80.sock");

	expect(d, "80.sock", getuid() + 1, E_DENIED);
	close(s);
}

/* The file is theirs (a hard link, or chown by mistake), the server is not. */
static void
test_other_peer(void **state)
{
	struct dir *d = *state;
	int s;

	if (getuid() != 0)
		skip();
	s = listen_at(d, "80.sock");
	assert_int_equal(fchownat(d->fd, "80.sock", OTHER_UID, (gid_t)-1, 0),
			 0);
	expect(d, "80.sock", OTHER_UID, E_DENIED);
	close(s);
}

/* A server of that uid is reached by root, whatever its file's mode. */
static void
test_their_peer(void **state)
{
	struct dir *d = *state;
	int fd = -1, status, pipefd[2];
	pid_t pid;
	char c;

	if (getuid() != 0)
		skip();
	assert_int_equal(chmod(d->path, 0777), 0);
	assert_int_equal(pipe(pipefd), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		int s;

		close(pipefd[0]);
		if (setresuid(OTHER_UID, OTHER_UID, OTHER_UID) != 0)
			_exit(1);
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		s = listen_at(d, "80.sock");
		if (write(pipefd[1], "k", 1) != 1)
			_exit(1);
		s = accept(s, NULL, NULL);
		_exit(s >= 0 ? 0 : 1);
	}
	close(pipefd[1]);
	assert_int_equal(read(pipefd[0], &c, 1), 1);
	close(pipefd[0]);
	expect(d, "80.sock", getuid(), E_DENIED);
	assert_int_equal(sockdir_connect(d->fd, "80.sock", OTHER_UID, &fd), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(fd);
}

static void
test_backlog_full(void **state)
{
	struct dir *d = *state;
	int s = bind_at(d, "80.sock", SOCK_STREAM);
	int fds[8], n = 0, r = 0;

	assert_int_equal(listen(s, 1), 0);
	while (n < 8) {
		r = sockdir_connect(d->fd, "80.sock", getuid(), &fds[n]);
		if (r != 0)
			break;
		n++;
	}
	assert_int_equal(r, E_AGAIN);
	assert_true(n > 0);
	while (n > 0)
		close(fds[--n]);
	close(s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_connects, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_nothing_there, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(test_not_accepting, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(test_symlinks, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_way_out, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_directories, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_other_things, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_other_owner, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_other_peer, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_their_peer, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_backlog_full, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
