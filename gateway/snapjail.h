/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locking the process that reads or writes a job's tree into that tree, with
 * the few capabilities that it needs there, so that neither a race nor a fault
 * in a library leads outside.
 */
#ifndef SBX_GATEWAY_SNAPJAIL_H
#define SBX_GATEWAY_SNAPJAIL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/defs.h"

/* write: the tree is to be written. file_max: of any one file, 0: no bound.
 * Who is not root becomes that of a user namespace, in which there is no other
 * id. -1: errno, and *step (static) says at what. */
int snapjail_enter(int tree_fd, bool write, uint64_t file_max,
		   const char **step) SBX_MUST_CHECK;

#endif
