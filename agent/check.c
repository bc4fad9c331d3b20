/* SPDX-License-Identifier: Apache-2.0 */
/* What this machine gives, line by line; see the header. */
#include "config.h"

#include "agent/check.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <linux/capability.h>

#include "agent/cgroup.h"
#include "agent/hostcheck.h"
#include "agent/landlock.h"
#include "agent/ns.h"
#include "agent/seccomp.h"
#include "base/err.h"
#include "base/mem.h"

#define CHECK_TEXT_MAX 1024

static void check_add(struct check *c, const char *name, enum check_state s,
		      const char *fmt, ...) SBX_PRINTF(4, 5);

static void
check_add(struct check *c, const char *name, enum check_state s,
	  const char *fmt, ...)
{
	struct check_item *it = &c->items[c->n++];
	char text[CHECK_TEXT_MAX];
	va_list ap;

	assert(c->n <= ARRAY_LEN(c->items));
	it->name = name;
	it->state = s;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	it->text = xstrdup(text);
}

/* --- the machine ------------------------------------------------------- */

static void
check_kernel(struct check *c)
{
	struct utsname u;

	if (uname(&u) != 0)
		memset(&u, 0, sizeof(u));
	check_add(c, "kernel", CHECK_YES, "%s %s, %s", u.sysname, u.release,
		  u.machine);
}

static void
check_root(struct check *c)
{
	if (geteuid() == 0)
		check_add(c, "root", CHECK_YES,
			  "runs as root, so each sandbox gets a user of its "
			  "own");
	else
		check_add(c, "root", CHECK_NO,
			  "runs as user %ld: all sandboxes would share it",
			  (long)geteuid());
}

static const struct {
	unsigned bit;
	bool must;
	const char *name, *use;
} check_caps_wanted[] = {
    {CAP_SETUID, true, "SETUID", "to become a sandbox's user"},
    {CAP_SETGID, true, "SETGID", "to become a sandbox's user"},
    {CAP_CHOWN, true, "CHOWN", "to give homes away"},
    {CAP_KILL, true, "KILL", "to end commands"},
    {CAP_DAC_OVERRIDE, true, "DAC_OVERRIDE", "to remove homes"},
    {CAP_SYS_ADMIN, false, "SYS_ADMIN", "for namespaces"},
    {CAP_SYS_CHROOT, false, "SYS_CHROOT", "for namespaces"},
};

static uint64_t
check_effective_caps(void)
{
	struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct d[2] = {{0, 0, 0}, {0, 0, 0}};

	if (syscall(SYS_capget, &h, d) != 0)
		return 0;
	return d[0].effective | (uint64_t)d[1].effective << 32;
}

static void
check_caps(struct check *c)
{
	uint64_t have = check_effective_caps();
	enum check_state s = CHECK_YES;
	struct strbuf b = {0};

	for (size_t i = 0; i < ARRAY_LEN(check_caps_wanted); i++) {
		if (have >> check_caps_wanted[i].bit & 1)
			continue;
		strbuf_addf(&b, "%s%s (%s)", b.len > 0 ? ", " : "lacks ",
			    check_caps_wanted[i].name,
			    check_caps_wanted[i].use);
		if (check_caps_wanted[i].must)
			s = CHECK_NO;
		else if (s == CHECK_YES)
			s = CHECK_PART;
	}
	check_add(c, "capabilities", s, "%s",
		  s == CHECK_YES ? "all that are of use" : b.s);
	strbuf_clear(&b);
}

/* --- walls ------------------------------------------------------------- */

static void
check_landlock(struct check *c)
{
	static const struct {
		int abi;
		const char *what;
	} adds[] = {
	    {1, "files"},
	    {3, "truncation"},
	    {4, "no listening on TCP ports"},
	    {5, "ioctls of devices"},
	    {6, "no abstract sockets of others"},
	};
	struct strbuf yes = {0}, no = {0}, *b;
	int abi = landlock_abi();

	if (abi == 0) {
		check_add(c, "landlock", CHECK_NO,
			  "none (Linux 5.13 or later has it, with \"landlock\""
			  " among its security modules): commands could read "
			  "what all users may");
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(adds); i++) {
		b = adds[i].abi <= abi ? &yes : &no;
		strbuf_addf(b, "%s%s", b->len > 0 ? ", " : "", adds[i].what);
	}
	check_add(c, "landlock", no.len > 0 ? CHECK_PART : CHECK_YES,
		  "ABI %d: %s%s%s", abi, yes.s,
		  no.len > 0 ? "; not with this kernel: " : "",
		  no.len > 0 ? no.s : "");
	strbuf_clear(&yes);
	strbuf_clear(&no);
}

static void
check_namespaces(struct check *c, const char *homes)
{
	char *why = NULL;

	if (geteuid() != 0)
		check_add(c, "namespaces", CHECK_NO, "only with root");
	else if (ns_try(&why) != 0)
		check_add(c, "namespaces", CHECK_NO,
			  "not permitted here (%s): sandboxes see each other's "
			  "processes, and /tmp and /dev/shm are closed to them",
			  why);
	else if (ns_hides(homes, "/tmp"))
		check_add(
		    c, "namespaces", CHECK_PART,
		    "processes, mounts, IPC, host name, network; but /tmp "
		    "is closed to sandboxes, because homes are beneath it");
	else
		check_add(c, "namespaces", CHECK_YES,
			  "processes, mounts (with a /tmp and a /dev/shm of "
			  "its own), IPC, host name, network");
	free(why);
}

static void
check_cgroup(struct check *c, const char *want)
{
	struct cgroup_place p;
	char *why = NULL;

	if (geteuid() != 0) {
		check_add(c, "cgroup", CHECK_NO, "only with root");
	} else if (cgroup_look(want, &p, &why) != 0) {
		check_add(c, "cgroup", CHECK_NO,
			  "%s: memory is limited for each process by itself",
			  why);
		free(why);
	} else {
		check_add(c, "cgroup",
			  p.memory && p.pids && p.cpu ? CHECK_YES : CHECK_PART,
			  "%s, with%s%s%s%s", p.dir, p.memory ? " memory" : "",
			  p.pids ? " pids" : "", p.cpu ? " cpu" : "",
			  p.memory || p.pids || p.cpu ? ""
						      : "out any controller");
		cgroup_place_clear(&p);
	}
}

static void
check_seccomp(struct check *c)
{
	if (seccomp_available())
		check_add(c, "seccomp", CHECK_YES,
			  "no io_uring, keyrings, user namespaces, bpf, perf, "
			  "kernel log, odd kinds of sockets, 32-bit programs");
	else
		check_add(c, "seccomp", CHECK_NO,
			  "not with this kernel: all system calls are open");
}

/* How many processes have one of our users. */
static unsigned
check_uids_used(const struct agentconf *conf)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	struct stat sb;
	unsigned n = 0;

	if (d == NULL)
		return 0;
	while ((e = readdir(d)) != NULL) {
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9' &&
		    fstatat(dirfd(d), e->d_name, &sb, 0) == 0)
			n += sb.st_uid >= conf->uid_first &&
			     sb.st_uid <= conf->uid_last;
	}
	(void)closedir(d);
	return n;
}

static void
check_uids(struct check *c, const struct agentconf *conf)
{
	unsigned n = check_uids_used(conf);

	check_add(c, "users", n == 0 ? CHECK_YES : CHECK_PART,
		  "ids %u to %u; %u processes have one of them now",
		  (unsigned)conf->uid_first, (unsigned)conf->uid_last, n);
}

/* The deepest part of path that exists. */
static char *
check_existing(const char *path)
{
	char *p = xstrdup(path), *slash;
	struct stat sb;

	while (stat(p, &sb) != 0 && (slash = strrchr(p, '/')) != NULL &&
	       p[1] != '\0')
		*(slash == p ? slash + 1 : slash) = '\0';
	return p;
}

static void
check_homes(struct check *c, const char *homes)
{
	char *there = check_existing(homes), *why = NULL;
	struct stat sb;

	if (*homes != '/')
		why = xasprintf("SBX_HOMES=%s: not an absolute path", homes);
	else if (stat(there, &sb) != 0 || !S_ISDIR(sb.st_mode))
		why = xasprintf("%s: not a directory", there);
	else if (access(there, W_OK | X_OK) != 0)
		why = xasprintf("%s: %s", there, strerror(errno));
	else if (geteuid() == 0)
		(void)!hostcheck_homes(there, &why);
	check_add(c, "homes", why != NULL ? CHECK_NO : CHECK_YES, "%s%s",
		  why != NULL ? why : homes,
		  why == NULL && strcmp(there, homes) != 0 ? " (will be made)"
							   : "");
	free(why);
	free(there);
}

/* --- all of it --------------------------------------------------------- */

/* Without these there is no host mode, however little isolation is asked for.
 */
static bool
check_fatal(const struct check_item *it)
{
	if (it->state != CHECK_NO)
		return false;
	return strcmp(it->name, "homes") == 0 ||
	       (strcmp(it->name, "capabilities") == 0 && geteuid() == 0);
}

static void
check_judge(struct check *c, bool best_effort)
{
	c->verdict = CHECK_FULL;
	for (unsigned i = 0; i < c->n; i++) {
		if (check_fatal(&c->items[i])) {
			c->verdict = CHECK_REFUSED;
			c->why = xasprintf("%s: %s", c->items[i].name,
					   c->items[i].text);
			return;
		}
	}
	if (hostcheck_isolation(landlock_abi(), false, &c->why) != 0)
		c->verdict = best_effort ? CHECK_LESS : CHECK_REFUSED;
}

void
check_run(struct check *c, const struct agentconf *conf)
{
	memset(c, 0, sizeof(*c));
	check_kernel(c);
	check_root(c);
	check_caps(c);
	check_landlock(c);
	check_namespaces(c, conf->homes);
	check_cgroup(c, conf->cgroup);
	check_seccomp(c);
	check_uids(c, conf);
	check_homes(c, conf->homes);
	check_judge(c, conf->best_effort);
}

static const char *
check_state_word(enum check_state s)
{
	return s == CHECK_YES ? "yes" : s == CHECK_PART ? "part" : "no";
}

static const char *
check_verdict_word(enum check_verdict v)
{
	return v == CHECK_FULL ? "full" : v == CHECK_LESS ? "less" : "refused";
}

void
check_text(const struct check *c, struct strbuf *out)
{
	for (unsigned i = 0; i < c->n; i++)
		strbuf_addf(out, "%-5s %-13s %s\n",
			    check_state_word(c->items[i].state),
			    c->items[i].name, c->items[i].text);
	if (c->verdict == CHECK_FULL)
		strbuf_adds(out, "host mode: full isolation\n");
	else
		strbuf_addf(out, "host mode: %s: %s\n",
			    c->verdict == CHECK_LESS ? "less isolation"
						     : "refused",
			    c->why);
}

void
check_json(const struct check *c, struct strbuf *out)
{
	strbuf_addf(out, "{\"version\":\"%s\",\"host_mode\":\"%s\",\"why\":",
		    PACKAGE_VERSION, check_verdict_word(c->verdict));
	if (c->why != NULL)
		strbuf_add_json(out, strv_of(c->why));
	else
		strbuf_adds(out, "null");
	strbuf_adds(out, ",\"checks\":[");
	for (unsigned i = 0; i < c->n; i++) {
		strbuf_addf(out,
			    "%s{\"name\":\"%s\",\"state\":\"%s\",\"text\":",
			    i > 0 ? "," : "", c->items[i].name,
			    check_state_word(c->items[i].state));
		strbuf_add_json(out, strv_of(c->items[i].text));
		strbuf_addc(out, '}');
	}
	strbuf_adds(out, "]}\n");
}

void
check_clear(struct check *c)
{
	for (unsigned i = 0; i < c->n; i++)
		free(c->items[i].text);
	free(c->why);
	memset(c, 0, sizeof(*c));
}
