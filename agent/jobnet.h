/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way out of a job's private network: a user-mode network stack (pasta or
 * slirp4netns) that runs on this machine's side and reaches what this machine
 * reaches, but for this machine's own loopback services.
 */
#ifndef SBX_AGENT_JOBNET_H
#define SBX_AGENT_JOBNET_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/defs.h"

/* Text for the job's /etc/resolv.conf (malloc'ed), NULL: as it is. */
char *jobnet_resolv(const char *program);
/* Starts it for the namespaces of that process. Its output goes to fd. Returns
 * its pid, or -1 with errno. */
pid_t jobnet_start(const char *program, pid_t target, int fd);
/* True when that process's network has a default route. */
bool jobnet_connected(pid_t target);

#endif
