/* SPDX-License-Identifier: Apache-2.0 */
/* The job.sock of a job: who connects, what is said. */
#ifndef SBX_AGENT_JOBSOCK_H
#define SBX_AGENT_JOBSOCK_H

#include "base/defs.h"
#include "base/str.h"

struct jobsock;
struct jobsock_conn;
struct loop;

struct jobsock_cbs {
	void (*greet)(struct jobsock_conn *c, void *arg); /* a new one */
	void (*order)(struct jobsock_conn *c, struct strv msg, void *arg);
};

/* listen_fd, first_fd (-1: none): taken. */
struct jobsock *jobsock_new(struct loop *l, int listen_fd, int first_fd,
			    const struct jobsock_cbs *cbs, void *arg);
void jobsock_free(struct jobsock *s); /* closes all connections */
/* Nobody is waited for: a peer that does not read loses its connection. */
void jobsock_say(struct jobsock_conn *c, const char *fmt, ...) SBX_PRINTF(2, 3);
void jobsock_say_all(struct jobsock *s, const char *fmt, ...) SBX_PRINTF(2, 3);

#endif
