/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that acts as somebody else with files: its user and group there,
 * its capabilities and its share of disks. All of that is the thread's alone,
 * which the C library's calls for it are not.
 */
#ifndef SBX_AGENT_ACTAS_H
#define SBX_AGENT_ACTAS_H

#include <stdbool.h>
#include <sys/types.h>

#define ACTAS_SELF ((uid_t)-1) /* the agent's own user */

struct actas {
	uid_t uid;
	bool meek; /* has no CAP_SYS_RESOURCE */
};

/* who is the thread's own, {ACTAS_SELF} at first. False: it could not, and
 * must not touch any file. */
bool actas_become(struct actas *who, uid_t uid);

#endif
