/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control groups (version 2): a sandbox's processes share one limit of memory
 * and one of processes, and sandboxes share the CPU fairly. Possible where a
 * part of the hierarchy was given to the agent: a container with its own cgroup
 * namespace, a systemd unit with Delegate=yes, or a directory that is named.
 */
#ifndef SBX_AGENT_CGROUP_H
#define SBX_AGENT_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/defs.h"

struct cgroup;

/* What was found. */
struct cgroup_place {
	char *dir;
	bool ours;      /* the agent is in it (it will move into a leaf) */
	bool delegated; /* nobody else manages it */
	bool memory, pids, cpu;
};

/* Which directory /proc/self/cgroup and /proc/self/mountinfo (their texts) mean
 * for version 2: malloc'ed, NULL when there is none. *top: the topmost of this
 * cgroup namespace. */
char *cgroup_own_dir(const char *self, const char *mountinfo, bool *top);

/* Looks and changes nothing. want: a directory; NULL: the agent's own; "off".
 * E_UNSUPPORTED with *why (malloc'ed). */
int cgroup_look(const char *want, struct cgroup_place *p,
		char **why) SBX_MUST_CHECK;
void cgroup_place_clear(struct cgroup_place *p);

/* Takes the place (one agent each), clears away what an earlier agent left
 * there, and hands its controllers down. E_UNSUPPORTED, E_BUSY with *why. */
int cgroup_open(const char *want, struct cgroup **out,
		char **why) SBX_MUST_CHECK;
void cgroup_free(struct cgroup *cg);
const struct cgroup_place *cgroup_where(const struct cgroup *cg);

/* A group for one sandbox: a descriptor of its directory, the caller's, for
 * borrow_start(). E_SYS with *why. */
int cgroup_make(struct cgroup *cg, const char *id, uint64_t memory,
		uint64_t procs, int *fd, char **why) SBX_MUST_CHECK;
/* Kills all that is in it, at once. E_UNSUPPORTED before Linux 5.14. */
int cgroup_kill(int fd) SBX_MUST_CHECK;
/* Once nothing is in it. Waits a little; for a thread that may. E_BUSY. */
int cgroup_remove(struct cgroup *cg, const char *id) SBX_MUST_CHECK;

#endif
