/* SPDX-License-Identifier: Apache-2.0 */
/* What confines a sandbox's processes; see the header. */
#include "config.h"

#include "agent/enclose.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "agent/baseenv.h"
#include "agent/cgroup.h"
#include "agent/jobout.h"
#include "agent/landlock.h"
#include "agent/ns.h"
#include "agent/sandbox.h"
#include "agent/walls.h"
#include "base/err.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"

#define ENCLOSE_NOFILE 65536

/* --- what is asked for ------------------------------------------------- */

int
enclose_possible(const struct sandbox_means *m, const struct sandbox_spec *spec,
		 char **why)
{
	if (spec->disk_mb != 0 && m->walls->borrow == NULL)
		*why = xstrdup("disk_mb: needs namespaces, which this machine "
			       "does not permit; max_file_mb bounds each file");
	else if (spec->net == SANDBOX_NET_NONE && m->walls->borrow == NULL)
		*why = xstrdup("network: \"none\" needs namespaces, which this "
			       "machine does not permit");
	else if (spec->net == SANDBOX_NET_OUTBOUND &&
		 walls_landlock_abi(m->walls) < LANDLOCK_ABI_BIND)
		*why = xstrdup("network: \"outbound\" needs Landlock ABI 4, "
			       "which this kernel lacks");
	else
		return 0;
	return E_UNSUPPORTED;
}

static void
enclose_limit(struct spawn_confine *c, int resource, uint64_t soft,
	      uint64_t hard)
{
	struct rlimit rl;

	assert(c->nlimits < SPAWN_LIMITS_MAX);
	/* Never above what the agent itself may have. */
	if (getrlimit((__rlimit_resource_t)resource, &rl) == 0 &&
	    rl.rlim_max != RLIM_INFINITY && rl.rlim_max < hard)
		hard = rl.rlim_max;
	c->limits[c->nlimits].resource = resource;
	c->limits[c->nlimits].limit.rlim_cur = soft < hard ? soft : hard;
	c->limits[c->nlimits].limit.rlim_max = hard;
	c->nlimits++;
}

/* Memory is limited through RLIMIT_DATA, which counts what a process can write
 * to. RLIMIT_AS would also count reservations, and runtimes that reserve tens
 * of gigabytes (Node, Go, Java) would not start. */
static void
enclose_limits(struct sandbox *sb)
{
	const struct sandbox_spec *spec = &sb->spec;
	struct spawn_confine *c = &sb->confine;
	uint64_t mem = spec->max_mem_mb << 20;

	if (sb->uid != SANDBOX_NO_UID) /* else it would count the agent's */
		enclose_limit(c, RLIMIT_NPROC, spec->max_procs,
			      spec->max_procs);
	enclose_limit(c, RLIMIT_DATA, mem, mem);
	enclose_limit(c, RLIMIT_NOFILE, 1024, ENCLOSE_NOFILE);
	enclose_limit(c, RLIMIT_CORE, 0, 0);
	/* POSIX queues would outlive the sandbox and meet the next one. */
	enclose_limit(c, RLIMIT_MSGQUEUE, 0, 0);
	if (spec->max_file_mb != 0)
		enclose_limit(c, RLIMIT_FSIZE, spec->max_file_mb << 20,
			      spec->max_file_mb << 20);
}

/* --- when the first process is to be started --------------------------- */

/* On a loopback of its own, whatever it likes. */
static bool
enclose_may_bind(const struct sandbox_spec *spec)
{
	return spec->net == SANDBOX_NET_NONE || spec->net == SANDBOX_NET_HOST;
}

static int
enclose_ruleset(struct sandbox *sb, char **why)
{
	const struct landlock *ll = sb->means->walls->landlock;

	if (ll == NULL || landlock_effective_abi(ll) == 0)
		return 0;
	if (landlock_ruleset(ll, sb->home_fd, enclose_may_bind(&sb->spec),
			     &sb->confine.ruleset) == 0)
		return 0;
	*why = xasprintf("Landlock: %s", strerror(errno));
	return E_SYS;
}

static int
enclose_group(struct sandbox *sb, char **why)
{
	struct cgroup *cg = sb->means->walls->cgroup;

	if (cg == NULL || sb->confine.cgroup != -1)
		return 0;
	return cgroup_make(cg, sb->id, sb->spec.max_mem_mb << 20,
			   sb->spec.max_procs, &sb->confine.cgroup, why);
}

/* What it may call although it has a network of its own. */
static void
enclose_outside(struct sandbox *sb)
{
	const struct baseenv *b = sb->runs.place.base;

	if (sb->spec.net != SANDBOX_NET_NONE || b == NULL || b->outside == NULL)
		return;
	sb->outside = jobout_new(sb->means->loop);
	jobout_enter(sb->outside, ns_fd(sb->ns), b->outside);
}

static int
enclose_namespaces(struct sandbox *sb, char **why)
{
	const struct sandbox_means *m = sb->means;
	const struct ns_spec ns = {
	    .home = sb->home,
	    .homes = m->homes,
	    .ll = m->walls->landlock,
	    .ruleset = sb->confine.ruleset,
	    .home_fs = sb->in_memory ? sb->home_fd : -1,
	    .network = sb->spec.net == SANDBOX_NET_NONE,
	    .shm_bytes = sb->spec.max_mem_mb << 19, /* half of it */
	    .ended = m->died,
	    .arg = sb,
	};
	int r;

	if (m->walls->borrow == NULL)
		return 0;
	if ((r = ns_new(m->loop, m->walls->borrow, &ns, &sb->ns, why)) != 0)
		return r;
	sb->confine.ns = sb->ns;
	sb->confine.home = sb->home;
	enclose_outside(sb);
	return 0;
}

static int
enclose_make(void *arg, struct spawn_error *err)
{
	struct sandbox *sb = arg;
	char *why = NULL;
	int r;

	if ((r = enclose_ruleset(sb, &why)) == 0 &&
	    (r = enclose_group(sb, &why)) == 0)
		r = enclose_namespaces(sb, &why);
	if (r == 0) {
		sb->confine.make = NULL;
		return 0;
	}
	log_warn("sandbox.enclose", "id=%s error=\"%s\"", sb->id, why);
	free(why);
	/* It may know of mounts that are gone. */
	fd_close(&sb->confine.ruleset);
	*err = (struct spawn_error){EPERM, "the sandbox cannot be enclosed"};
	return r;
}

int
enclose_early(struct sandbox *sb)
{
	struct spawn_error err;

	return sb->spec.net == SANDBOX_NET_NONE ? enclose_make(sb, &err) : 0;
}

void
enclose_ask(struct sandbox *sb)
{
	struct spawn_confine *c = &sb->confine;

	*c = (struct spawn_confine){
	    .uid = sb->uid,
	    .gid = (gid_t)sb->uid,
	    .ruleset = -1,
	    .cgroup = -1,
	    .no_userns = walls_userns_each(sb->means->walls),
	    .make = enclose_make,
	    .arg = sb,
	};
	enclose_limits(sb);
}
