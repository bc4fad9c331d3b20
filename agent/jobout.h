/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Endpoints outside for a job or a sandbox with a network of its own: a socket
 * that was made in there listens on its loopback, and belongs to the supervisor
 * (the agent), which connects what comes to the endpoint on this side. No
 * program or file in there is needed.
 *
 * An entry of spec.json's `outside` is "PORT HOST:PORT": where it listens in
 * there, and what is meant, localhost or a numeric address.
 */
#ifndef SBX_AGENT_JOBOUT_H
#define SBX_AGENT_JOBOUT_H

#include <stdbool.h>

#include "base/defs.h"

#define JOBOUT_MAX 64

struct jobout;
struct loop;

bool jobout_entry_ok(const char *entry);
/* In the job's network namespace: a listening socket for it. */
int jobout_listen(const char *entry, int *fd) SBX_MUST_CHECK;

struct jobout *jobout_new(struct loop *l);
/* Ends its connections; NULL is fine. */
void jobout_free(struct jobout *o);
/* Serves fd (taken) for that entry. */
void jobout_take_fd(struct jobout *o, int fd, const char *entry);

/* Listens for all entries in the network namespace of the process behind pidfd,
 * and serves them. What cannot be had there is said in the log. */
void jobout_enter(struct jobout *o, int pidfd, char *const *entries);

#endif
