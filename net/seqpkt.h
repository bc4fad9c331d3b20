/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A message channel over a SOCK_SEQPACKET unix socket, with descriptors
 * attached (SCM_RIGHTS) when wanted: how the gateway's master, its workers and
 * an agent on the same machine talk. Messages are text, one a packet, words
 * separated by single spaces; what they say is their users' business
 * (doc/PROTOCOL.md).
 */
#ifndef SBX_NET_SEQPKT_H
#define SBX_NET_SEQPKT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/defs.h"
#include "base/str.h"

#define SEQPKT_MAX 16384

struct loop;
struct seqpkt;

struct seqpkt_cbs {
	/* fd: -1 or a descriptor, the callee's. msg is valid during the call
	 * and NUL-terminated. */
	void (*message)(struct seqpkt *sp, struct strv msg, int fd, void *arg);
	/* The other side ended or the channel broke; only seqpkt_close() is
	 * left. */
	void (*closed)(struct seqpkt *sp, void *arg);
};

struct seqpkt *seqpkt_take_fd(struct loop *l, int fd,
			      const struct seqpkt_cbs *cbs, void *arg);
void seqpkt_close(struct seqpkt *sp); /* idempotent, defers the free */
/* Queues a message (sent at once when possible). fd: -1, or one that is
 * duplicated for the other side; the caller keeps its own. E_LIMIT: longer
 * than SEQPKT_MAX, or more than 4096 messages wait (the peer is stuck). */
int seqpkt_send(struct seqpkt *sp, struct strv msg, int fd) SBX_MUST_CHECK;
int seqpkt_sendf(struct seqpkt *sp, int fd, const char *fmt, ...)
    SBX_PRINTF(3, 4) SBX_MUST_CHECK;
/* uid and pid of the other side (SO_PEERCRED). */
int seqpkt_peer(struct seqpkt *sp, uid_t *uid, pid_t *pid) SBX_MUST_CHECK;

/* Two connected ends, close-on-exec. */
int seqpkt_pair(int fds[2]) SBX_MUST_CHECK;
/* A listening SEQPACKET socket at path (as listener_bind does it: mode, owner,
 * abandoned files), or a connection to one. */
int seqpkt_bind(const char *path, mode_t mode, uid_t uid, gid_t gid,
		int *fd) SBX_MUST_CHECK;
int seqpkt_connect(const char *path, int *fd) SBX_MUST_CHECK;

#endif
