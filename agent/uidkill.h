/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals to the processes of one uid and to no others, whatever their number
 * and however fast they fork. The caller is root and becomes that user for the
 * one system call; the kernel does the choosing.
 */
#ifndef SBX_AGENT_UIDKILL_H
#define SBX_AGENT_UIDKILL_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/defs.h"

/* reaper: an id that no process has, for the caller's real uid meanwhile (the
 * user's processes could otherwise signal the caller). target: as for kill(2),
 * -1 is every process of that uid. E_NOTFOUND, E_DENIED, E_SYS. */
int uidkill(uid_t reaper, uid_t uid, pid_t target, int sig) SBX_MUST_CHECK;
/* True while any process, a zombie included, has that real uid. */
bool uidkill_alive(uid_t uid);

#endif
