/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state directory, and who the workers are. When started as root the
 * directory is root's and 0711: workers may pass through to what is meant for
 * them (the agent's sockets), and list nothing.
 */
#include "config.h"

#include "gateway/state.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/mem.h"

int
state_user(const struct gw_conf *conf, struct state_user *out, char **msg)
{
	struct passwd *pw;

	if (geteuid() != 0) {
		*out = (struct state_user){geteuid(), getegid(), false};
		return 0;
	}
	if (conf->user != NULL) {
		pw = getpwnam(conf->user);
	} else {
		pw = getpwnam("sbx");
		if (pw == NULL)
			pw = getpwnam("nobody");
	}
	if (pw == NULL) {
		*msg = xasprintf("there is no user %s for the workers",
				 conf->user != NULL ? conf->user : "nobody");
		return E_NOTFOUND;
	}
	*out = (struct state_user){pw->pw_uid, pw->pw_gid, pw->pw_uid != 0};
	return 0;
}

int
state_drop(const struct state_user *u)
{
	if (!u->drop)
		return 0;
	if (setgroups(0, NULL) != 0 || setresgid(u->gid, u->gid, u->gid) != 0 ||
	    setresuid(u->uid, u->uid, u->uid) != 0)
		return E_SYS;
	/* That root cannot be had back is the whole point. */
	if (setuid(0) == 0 || getuid() != u->uid || geteuid() != u->uid)
		return E_DENIED;
	return 0;
}

static int
make_dir(const char *path, mode_t mode, const struct state_user *u, char **msg)
{
	int r = dir_make(path, mode);
	int eno = errno;

	if (r == 0 && u != NULL &&
	    (chown(path, (uid_t)-1, u->gid) != 0 || chmod(path, mode) != 0)) {
		eno = errno;
		r = E_SYS;
	}
	if (r != 0)
		*msg = xasprintf("cannot make %s: %s", path,
				 r == E_SYS ? strerror(eno) : err_text(r));
	return r;
}

/* Gives the file to the workers. Not what a link leads to, or has another name:
 * where workers may write to the directory, one that was taken over could so
 * ask for any file of root's. */
static int
give_log(int fd, bool link, const struct state_user *u)
{
	struct stat st;

	if (!u->drop || link)
		return 0;
	if (fstat(fd, &st) != 0)
		return -1;
	if (!S_ISREG(st.st_mode) || st.st_nlink != 1)
		return 0;
	return fchown(fd, u->uid, (gid_t)-1);
}

/* A log file that workers append to and open anew after logrotate. */
static int
make_log(const char *path, const struct state_user *u, char **msg)
{
	const int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY;
	bool link = false;
	int fd;

	if (path == NULL)
		return 0;
	fd = open(path, flags | O_NOFOLLOW, 0640);
	if (fd < 0 && errno == ELOOP) {
		link = true;
		fd = open(path, flags & ~O_CREAT);
	}
	if (fd < 0 || give_log(fd, link, u) != 0) {
		*msg = xasprintf("cannot open %s: %s", path, strerror(errno));
		fd_close(&fd);
		return E_SYS;
	}
	fd_close(&fd);
	return 0;
}

int
state_prepare(const struct gw_conf *conf, const struct state_user *u,
	      char **msg)
{
	char *agent = xasprintf("%s/agent", conf->state_dir);
	char *tunnels = xasprintf("%s/tunnels", conf->state_dir);
	int r;

	r = make_dir(conf->state_dir, geteuid() == 0 ? 0711 : 0700, NULL, msg);
	/* What the agent makes there belongs to the workers' group. */
	if (r == 0 && conf->agent)
		r = make_dir(agent, 02710, u, msg);
	if (r == 0 && conf->ntunnels > 0)
		r = make_dir(tunnels, 02710, u, msg);
	if (r == 0)
		r = make_log(conf->access == ACCESS_OFF ? NULL
							: conf->access_file,
			     u, msg);
	if (r == 0)
		r = make_log(conf->log_file, u, msg);
	free(agent);
	free(tunnels);
	return r;
}

int
state_lock(const struct gw_conf *conf, int *fd, char **msg)
{
	char *path = xasprintf("%s/gateway.pid", conf->state_dir);
	pid_t holder = 0;
	int r = pidfile_lock(path, &holder, fd);
	int eno = errno;

	if (r == E_BUSY)
		*msg = xasprintf("another gateway (pid %ld) uses %s; give "
				 "--state-dir for a second one",
				 (long)holder, conf->state_dir);
	else if (r != 0)
		*msg = xasprintf("cannot lock %s: %s", path,
				 r == E_SYS ? strerror(eno) : err_text(r));
	free(path);
	return r;
}
