/* SPDX-License-Identifier: Apache-2.0 */
/* What keeps sandboxes apart; see the header. */
#include "config.h"

#include "agent/walls.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/borrow.h"
#include "agent/cgroup.h"
#include "agent/landlock.h"
#include "agent/ns.h"
#include "agent/seccomp.h"
#include "base/log.h"

static void
walls_namespaces(struct walls *w)
{
	char *why = NULL;

	if (ns_try(&why) == 0) {
		w->borrow = borrow_new();
		return;
	}
	log_warn("host.namespaces",
		 "reason=\"%s\" note=\"sandboxes see each other's processes\"",
		 why);
	free(why);
}

static void
walls_cgroup(struct walls *w, const char *want)
{
	char *why = NULL;

	if (cgroup_open(want, &w->cgroup, &why) != 0)
		log_info("host.cgroup",
			 "reason=\"%s\" note=\"limits are of each process\"",
			 why);
	free(why);
}

void
walls_raise(struct walls *w, const char *cgroup)
{
	int abi = landlock_abi();

	if (abi > 0)
		w->landlock = landlock_new(abi);
	if (geteuid() == 0) {
		walls_namespaces(w);
		walls_cgroup(w, cgroup);
	}
	/* Last: what it refuses, commands are to go without, and the agent has
	 * it done already. */
	w->seccomp =
	    seccomp_available() && seccomp_restrict(w->cgroup == NULL) == 0;
	if (!w->seccomp)
		log_warn("host.seccomp",
			 "reason=\"no filter for system calls\"");
}

void
walls_clear(struct walls *w)
{
	landlock_free(w->landlock);
	borrow_free(w->borrow);
	cgroup_free(w->cgroup);
	memset(w, 0, sizeof(*w));
}

int
walls_landlock_abi(const struct walls *w)
{
	return w->landlock != NULL ? landlock_effective_abi(w->landlock) : 0;
}

/* Groups need clone3, whose flags no filter can see: the agent keeps it. */
bool
walls_userns_each(const struct walls *w)
{
	return w->seccomp && w->cgroup != NULL;
}
