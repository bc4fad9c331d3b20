/* SPDX-License-Identifier: Apache-2.0 */
/* The namespaces of a job: system calls that libc has no names for. */
#ifndef SBX_AGENT_JOBNS_H
#define SBX_AGENT_JOBNS_H

#include <stddef.h>
#include <sys/types.h>

#include "base/defs.h"

/* All return 0 or -1 with errno, if nothing else is said. */

/* fork() into new namespaces (CLONE_NEW* flags). */
pid_t jobns_fork(int flags);
/* A user namespace in which ids 0..n-1 are first..first+n-1 of ours; needs
 * root. The descriptor is the caller's. */
int jobns_user(uid_t first, unsigned n, int *fd) SBX_MUST_CHECK;
/* For who is not root: a user namespace in which we are, without other ids. */
int jobns_user_self(void) SBX_MUST_CHECK;
/* A network namespace that belongs to that user namespace (-1: to ours), with
 * its loopback interface up; we are in it afterwards. */
int jobns_net(int userns) SBX_MUST_CHECK;
/* Becomes root of that user namespace. */
int jobns_enter_user(int userns) SBX_MUST_CHECK;
/* Takes away, for good and for all descendants, what a container's root is
 * not wont to have. */
void jobns_bound_caps(void);
/* Closes all descriptors above 2 but these n (at most 16; -1 is passed over,
 * the order is changed). */
void jobns_close_but(int *keep, size_t n);

#endif
