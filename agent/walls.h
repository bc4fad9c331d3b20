/* SPDX-License-Identifier: Apache-2.0 */
/* What keeps sandboxes apart beside their users: as much as the machine gives,
 * tried once at start. What is missing is said in the log. */
#ifndef SBX_AGENT_WALLS_H
#define SBX_AGENT_WALLS_H

#include <stdbool.h>

struct borrow;
struct cgroup;
struct landlock;

struct walls {
	struct landlock *landlock; /* NULL: none */
	struct borrow *borrow;     /* for namespaces; NULL: none */
	struct cgroup *cgroup;     /* NULL: none */
	bool seccomp;
};

/* cgroup: see cgroup_look(). All but Landlock need root. The agent itself is
 * bound by the filter of system calls from then on. */
void walls_raise(struct walls *w, const char *cgroup);
void walls_clear(struct walls *w);

int walls_landlock_abi(const struct walls *w); /* 0: none */
/* Must each command give up user namespaces by itself? */
bool walls_userns_each(const struct walls *w);

#endif
