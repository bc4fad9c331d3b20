/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases on user ids. A lease is also a lock on one byte of a file that all
 * agents of a machine share, so that two of them never give the same uid to
 * two sandboxes; the kernel lets go of it when an agent dies.
 */
#ifndef SBX_AGENT_UIDPOOL_H
#define SBX_AGENT_UIDPOOL_H

#include <sys/types.h>

#include "base/defs.h"

#define UIDPOOL_FIRST 20000
#define UIDPOOL_LAST  64999

struct uidpool;

/* Ids first..last. lock_path: the shared file, made when missing; NULL: no
 * other agent is to be heeded. E_DENIED, E_NOTFOUND, E_SYS. */
int uidpool_new(uid_t first, uid_t last, const char *lock_path,
		struct uidpool **out) SBX_MUST_CHECK;
void uidpool_free(struct uidpool *p);

/* The next free id, in turn (so that one that was given back is used again as
 * late as possible). Ids that some process on the machine has are passed over.
 * E_FULL when there is none. */
int uidpool_lease(struct uidpool *p, uid_t *out) SBX_MUST_CHECK;
/* Leases that one, used by some process or not. E_BUSY: it is leased already;
 * E_INVALID: not one of ours. */
int uidpool_claim(struct uidpool *p, uid_t uid) SBX_MUST_CHECK;
/* Gives it back. While a process still has it, nobody gets it (see above). */
void uidpool_return(struct uidpool *p, uid_t uid);
unsigned uidpool_leased(const struct uidpool *p);

#endif
