/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Landlock: what a sandbox's processes may reach of the file system and the
 * network, whatever their uid may do. A ruleset is built once per sandbox;
 * each command then only enforces it on itself.
 */
#ifndef SBX_AGENT_LANDLOCK_H
#define SBX_AGENT_LANDLOCK_H

#include <stdbool.h>

#include "base/defs.h"

struct landlock;

#define LANDLOCK_ABI_BIND 4 /* the first that knows of TCP ports */

/* The kernel's Landlock ABI; 0: it has none. */
int landlock_abi(void);

/* Opens the system directories that every sandbox may read, for rulesets up
 * to that ABI (at most the kernel's; 0: nothing is restricted, and
 * landlock_ruleset() gives E_UNSUPPORTED). */
struct landlock *landlock_new(int abi);
void landlock_free(struct landlock *ll);
int landlock_effective_abi(const struct landlock *ll);

/*
 * A ruleset for one sandbox: everything beneath home_fd; read and execute in
 * the system directories; read in /proc and /sys; the harmless device nodes;
 * no binding of TCP ports (ABI 4) unless bind is true, no abstract sockets from
 * outside (ABI 6). The descriptor is the caller's.
 */
int landlock_ruleset(const struct landlock *ll, int home_fd, bool bind,
		     int *ruleset) SBX_MUST_CHECK;

/* Allows that directory too, with all that is beneath it: everything, or only
 * reading. Only a system call. 0 or E_SYS with errno. */
int landlock_add(const struct landlock *ll, int ruleset, int fd,
		 bool all) SBX_MUST_CHECK;

/* Restricts the calling thread; it must have no_new_privs. Only a system call:
 * fit for a child before execve. 0 or -1 with errno. */
int landlock_enforce(int ruleset);

#endif
