/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listening sockets. A listener never spins on EMFILE: it keeps a reserve
 * descriptor, closes what it cannot serve politely, pauses, and resumes when
 * descriptors are free again.
 */
#ifndef SBX_NET_LISTENER_H
#define SBX_NET_LISTENER_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/defs.h"
#include "net/addr.h"

struct listener;
struct loop;

struct listen_options {
	int backlog;    /* default 1024 when 0 */
	bool reuseport; /* TCP: one socket per worker */
	bool v6only;    /* [::] without IPv4 */
	mode_t mode;    /* unix: mode of the socket file (0: 0660) */
	uid_t uid;      /* unix: owner; (uid_t)-1 keeps */
	gid_t gid;
	bool seqpacket; /* unix: message sockets (seqpkt_bind) */
};

/* A bound, listening, non-blocking, close-on-exec socket in *fd. An abandoned
 * unix socket file is replaced, one in use is E_BUSY; anything else at that
 * path is E_EXISTS. TCP address in use: E_BUSY. */
int listener_bind(const struct addr *a, const struct listen_options *o,
		  int *fd) SBX_MUST_CHECK;

/* accepted: fd is the callee's (non-blocking, close-on-exec). */
struct listener *
listener_take_fd(struct loop *l, int fd,
		 void (*accepted)(int fd, const struct addr *peer, void *arg),
		 void *arg);
void listener_pause(struct listener *ls);
void listener_resume(struct listener *ls);
bool listener_paused(const struct listener *ls);
/* Stops accepting and closes the socket. */
void listener_close(struct listener *ls);
int listener_fd(const struct listener *ls);
/* Times accepting was paused for want of descriptors. */
unsigned long listener_starved(const struct listener *ls);

#endif
