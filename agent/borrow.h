/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A child process that borrows our memory: vfork with a stack of its own and
 * with a deadline. The child may make system calls and write to what it was
 * given; it has left when it became another program, ended, or closed all its
 * descriptors (and touches no memory from then on).
 */
#ifndef SBX_AGENT_BORROW_H
#define SBX_AGENT_BORROW_H

#include <sys/types.h>

#include "base/defs.h"

struct borrow;

/* What the child runs: the address sanitizer knows nothing of its stack, and
 * would put its house in order (with mmap, under the child's limits) before
 * each _exit. */
#define BORROW_CHILD __attribute__((no_sanitize("address")))

struct borrow *borrow_new(void);
void borrow_free(struct borrow *b);

/* Runs fn(arg) in a child with all signals blocked, and returns when it has
 * left our memory. flags: for clone(2), beside those that it takes. cgroup: a
 * directory of a control group that it is to be in; -1: ours. *pid must
 * be reaped by the caller, through *pidfd, which is the caller's. E_SYS: no
 * process could be made (errno). E_TIMEOUT: somebody stopped the child, which
 * has been killed and reaped; what arg points to is still as the child left it.
 */
int borrow_start(struct borrow *b, int flags, int cgroup, int (*fn)(void *),
		 void *arg, pid_t *pid, int *pidfd) SBX_MUST_CHECK;

#endif
