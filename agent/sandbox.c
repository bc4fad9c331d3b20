/* SPDX-License-Identifier: Apache-2.0 */
/* One sandbox; see the header. */
#include "config.h"

#include "agent/sandbox.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/enclose.h"
#include "agent/homefs.h"
#include "agent/jobout.h"
#include "agent/ns.h"
#include "agent/repl.h"
#include "base/err.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "net/sockdir.h"

#define SANDBOX_PROXY_DIR   ".sbx/proxy"
#define SANDBOX_LOOKS       8 /* in an idle time */
#define SANDBOX_LOOK_MIN_MS 250
#define SANDBOX_LOOK_MAX_MS 30000
#define SANDBOX_DIR_MAX     (4 << 20)

extern char **environ;

/* --- home -------------------------------------------------------------- */

static int
sandbox_dir(int fd, const char *name, uid_t uid)
{
	if (mkdirat(fd, name, 0700) != 0)
		return E_SYS;
	if (uid != SANDBOX_NO_UID &&
	    fchownat(fd, name, uid, (gid_t)uid, AT_SYMLINK_NOFOLLOW) != 0)
		return E_SYS;
	return 0;
}

/* The home becomes the sandbox's last, so that nobody else is ever at work in
 * it while root is. */
int
sandbox_make_home(struct sandbox *sb, int homes_fd)
{
	static const char *const dirs[] = {".tmp", ".sbx", SANDBOX_PROXY_DIR};

	if (mkdirat(homes_fd, sb->id, 0700) != 0)
		return E_SYS;
	sb->home_fd = openat(homes_fd, sb->id,
			     O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (sb->home_fd == -1)
		return E_SYS;
	if (sb->spec.disk_mb != 0) {
		fd_close(&sb->home_fd);
		if (homefs_new(sb->spec.disk_mb << 20, &sb->home_fd) != 0)
			return E_SYS;
		sb->in_memory = true;
	}
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		if (sandbox_dir(sb->home_fd, dirs[i], sb->uid) != 0)
			return E_SYS;
	}
	if (sb->uid != SANDBOX_NO_UID &&
	    fchownat(sb->home_fd, "", sb->uid, (gid_t)sb->uid, AT_EMPTY_PATH) !=
		0)
		return E_SYS;
	sb->runs.place.home_fd = sb->home_fd;
	return 0;
}

/* --- environment ------------------------------------------------------- */

const char *
sandbox_env_refused(const char *name)
{
	if (*name == '\0')
		return "a name is empty";
	if (strchr(name, '=') != NULL)
		return "a name has an equals sign in it";
	if (strncmp(name, "SBX_", 4) == 0)
		return "names beginning with SBX_ are reserved";
	return NULL;
}

static size_t
sandbox_count(char **v)
{
	size_t n = 0;

	while (v != NULL && v[n] != NULL)
		n++;
	return n;
}

/* From scratch: nothing of the agent's own environment. */
static char **
sandbox_env(const struct sandbox *sb, char **extra)
{
	const char *h = sb->home;
	size_t n = 0, more = sandbox_count(extra);
	char **v = xcalloc(more + 8, sizeof(*v));

	v[n++] = xasprintf("PATH=%s/.local/bin:/usr/local/sbin:/usr/local/bin:"
			   "/usr/sbin:/usr/bin:/sbin:/bin",
			   h);
	v[n++] = xasprintf("HOME=%s", h);
	v[n++] = xasprintf("TMPDIR=%s/.tmp", h);
	v[n++] = xasprintf("USER=%s", sb->id);
	v[n++] = xasprintf("LOGNAME=%s", sb->id);
	v[n++] = xasprintf("SBX_SANDBOX_ID=%s", sb->id);
	v[n++] = xasprintf("SBX_PROXY_DIR=%s/" SANDBOX_PROXY_DIR, h);
	for (size_t i = 0; i < more; i++)
		v[n++] = xstrdup(extra[i]);
	return v;
}

static void
sandbox_env_free(char **v)
{
	for (size_t i = 0; v != NULL && v[i] != NULL; i++)
		free(v[i]);
	free(v);
}

/* --- birth ------------------------------------------------------------- */

void
sandbox_ask(struct sandbox *sb, const struct sandbox_means *m,
	    const struct sandbox_spec *spec)
{
	sb->means = m;
	sb->spec = *spec;
	sb->spec.env = NULL;
	sb->idle_ms = spec->idle_ms;
	sb->max_file = spec->max_file_mb << 20;
	enclose_ask(sb);
	sb->runs.place.confine = &sb->confine;
	sb->runs.place.env = sandbox_env(sb, spec->env);
}

void
sandbox_drop(struct sandbox *sb)
{
	repl_set_free(sb->repls);
	sb->repls = NULL;
	run_set_clear(&sb->runs);
	jobout_free(sb->outside);
	sb->outside = NULL;
	ns_free(sb->ns);
	sb->ns = NULL;
	sb->confine.ns = NULL;
	fd_close(&sb->confine.ruleset);
	fd_close(&sb->confine.cgroup);
	fd_close(&sb->home_fd);
	sandbox_env_free(sb->runs.place.env);
	sb->runs.place.env = NULL;
	free(sb->home);
	free(sb->proxy_dir);
	sb->home = sb->proxy_dir = NULL;
	lent_clear(&sb->lent);
	mem_secure_zero(sb->token, sizeof(sb->token));
	sb->dropped = true;
	if (sb->busy == 0)
		loop_defer_free(sb->runs.place.loop, sb, NULL);
}

/* --- dedicated mode ---------------------------------------------------- */

/* The agent's own environment without what is meant for the agent. */
static char **
sandbox_inherited(const char *proxy_dir)
{
	char **v = xcalloc(sandbox_count(environ) + 2, sizeof(*v));
	size_t n = 0;

	for (char **e = environ; *e != NULL; e++) {
		if (strncmp(*e, "SBX_", 4) != 0 && strncmp(*e, "TB_", 3) != 0)
			v[n++] = xstrdup(*e);
	}
	if (proxy_dir != NULL)
		v[n++] = xasprintf("SBX_PROXY_DIR=%s", proxy_dir);
	return v;
}

struct sandbox *
sandbox_new_dedicated(struct proc_env *procs, struct loop *l,
		      const char *proxy_dir)
{
	struct sandbox *sb = xcalloc(1, sizeof(*sb));

	sb->uid = SANDBOX_NO_UID;
	sb->home_fd = -1;
	sb->confine.ruleset = -1;
	sb->confine.cgroup = -1;
	run_set_init(&sb->runs);
	sb->runs.place.procs = procs;
	sb->runs.place.loop = l;
	sb->runs.place.env = sandbox_inherited(proxy_dir);
	if (proxy_dir != NULL)
		sb->proxy_dir = xstrdup(proxy_dir);
	return sb;
}

/* --- use --------------------------------------------------------------- */

void
sandbox_enter(struct sandbox *sb)
{
	sb->busy++;
}

void
sandbox_leave(struct sandbox *sb)
{
	assert(sb->busy > 0);
	sb->busy--;
	sb->active_ms = loop_now_ms(sb->runs.place.loop);
	if (sb->busy == 0 && sb->dropped)
		loop_defer_free(sb->runs.place.loop, sb, NULL);
}

bool
sandbox_idle(struct sandbox *sb)
{
	return sb->busy == 0 && sb->runs.nbackground == 0 &&
	       !lent_any(&sb->lent);
}

uint64_t
sandbox_active_ms(const struct sandbox *sb)
{
	return sb->runs.ended_ms > sb->active_ms ? sb->runs.ended_ms
						 : sb->active_ms;
}

uint64_t
sandbox_look_ms(uint64_t idle_ms)
{
	uint64_t ms = idle_ms / SANDBOX_LOOKS;

	if (ms < SANDBOX_LOOK_MIN_MS)
		return SANDBOX_LOOK_MIN_MS;
	return ms < SANDBOX_LOOK_MAX_MS ? ms : SANDBOX_LOOK_MAX_MS;
}

/* Who serves it is as trusted as the agent: whoever runs here is the same. */
static int
sandbox_connect_dedicated(const struct sandbox *sb, const char *name, bool wait,
			  int *fd)
{
	int dir, r = E_NOTFOUND;

	if (sb->proxy_dir != NULL)
		r = wait ? sockdir_open_dir(sb->proxy_dir, &dir)
			 : sockdir_open_dir_cached(sb->proxy_dir, &dir);
	if (r != 0)
		return r == E_BUSY ? r : E_UNSUPPORTED;
	r = wait ? sockdir_connect(dir, name, SOCKDIR_ANY_UID, fd)
		 : sockdir_connect_cached(dir, name, SOCKDIR_ANY_UID, fd);
	fd_close(&dir);
	return r == E_NOTFOUND || r == E_REFUSED ? E_UNSUPPORTED : r;
}

static int
sandbox_connect_with(const struct sandbox *sb, uint16_t port, bool wait,
		     int *fd)
{
	char name[sizeof(SANDBOX_PROXY_DIR) + 16];
	uid_t uid = sb->uid != SANDBOX_NO_UID ? sb->uid : geteuid();

	(void)snprintf(name, sizeof(name), "%s%u.sock",
		       sb->home_fd == -1 ? "" : SANDBOX_PROXY_DIR "/",
		       (unsigned)port);
	if (sb->home_fd == -1)
		return sandbox_connect_dedicated(sb, name, wait, fd);
	return wait ? sockdir_connect(sb->home_fd, name, uid, fd)
		    : sockdir_connect_cached(sb->home_fd, name, uid, fd);
}

int
sandbox_connect(const struct sandbox *sb, uint16_t port, int *fd)
{
	return sandbox_connect_with(sb, port, false, fd);
}

int
sandbox_connect_wait(const struct sandbox *sb, uint16_t port, int *fd)
{
	return sandbox_connect_with(sb, port, true, fd);
}

static uint16_t
sandbox_port_of(const char *file)
{
	struct strv v = strv_of(file);
	uint64_t port;

	if (!strv_ends(v, STRV(".sock")))
		return 0;
	v.len -= 5;
	return strv_parse_u64(v, 65535, true, &port) == 0 ? (uint16_t)port : 0;
}

static int
sandbox_open_proxy_dir(const struct sandbox *sb)
{
	int fd, sub;

	if (sb->home_fd == -1)
		return open(sb->proxy_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* One step at a time, so that no symlink is followed. */
	sub = openat(sb->home_fd, ".sbx",
		     O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (sub == -1)
		return -1;
	fd = openat(sub, "proxy",
		    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	fd_close(&sub);
	return fd;
}

int
sandbox_ports(const struct sandbox *sb, void (*fn)(uint16_t, void *), void *arg)
{
	struct dirent *e;
	uint16_t port;
	DIR *d;
	struct stat st;
	int fd;

	if (sb->home_fd == -1 && sb->proxy_dir == NULL)
		return E_UNSUPPORTED;
	fd = sandbox_open_proxy_dir(sb);
	/* A directory never shrinks, and what it holds of deleted names is read
	 * in one system call, for seconds if there were millions. */
	if (fd != -1 && fstat(fd, &st) == 0 && st.st_size > SANDBOX_DIR_MAX) {
		fd_close(&fd);
		return E_LIMIT;
	}
	if (fd == -1 || (d = fdopendir(fd)) == NULL) {
		fd_close(&fd);
		return E_NOTFOUND;
	}
	for (int n = 0; n < 65536 && (e = readdir(d)) != NULL; n++) {
		if ((port = sandbox_port_of(e->d_name)) != 0)
			fn(port, arg);
	}
	(void)closedir(d);
	return 0;
}
