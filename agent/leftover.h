/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What sandboxes leave behind: the homes and processes of an agent that was
 * killed, and objects of the kernel that outlive every process. An id that is
 * given out again must not come with anything of its last owner's.
 */
#ifndef SBX_AGENT_LEFTOVER_H
#define SBX_AGENT_LEFTOVER_H

#include <sys/types.h>

struct uidpool;

/* At the start: ends what runs under the owners of the homes in homes_fd, which
 * is ours alone, and removes these. uids NULL: only homes. */
void leftover_homes(int homes_fd, struct uidpool *uids, uid_t reaper);
/* System V shared memory, queues and semaphores that uid has made or owns.
 * (POSIX queues do not exist in sandboxes, see RLIMIT_MSGQUEUE.) */
void leftover_ipc(uid_t uid);

#endif
