/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One SSH connection: libssh2 as a pure state machine on a stream's buffers.
 *
 * libssh2 never sees the socket. Its receive callback takes from the stream's
 * input, its send callback always takes the whole packet into the stream's
 * output; above that output's high mark no channel is written to. So a packet
 * is never partly sent, which avoids libssh2's rekey deadlock, and all
 * channels have fair turns.
 */
#ifndef SBX_TUNNEL_SESSION_H
#define SBX_TUNNEL_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/defs.h"

struct auth;
struct chan;
struct loop;
struct options;
struct session;
struct spec_end;

/* Why a session ended; the texts are OpenSSH's. */
enum session_end {
	SESSION_END_UNREACHED, /* there never was one */
	SESSION_END_LOST,      /* the connection broke or was closed */
	SESSION_END_TIMEOUT,   /* no answer within the limits */
	SESSION_END_HANDSHAKE,
	SESSION_END_HOSTKEY,
	SESSION_END_DENIED
};

struct session_cbs {
	/* Authenticated. */
	void (*up)(void *arg);
	/* It is over; called once, never from inside a call into the session.
	 * session_close() is left to do. */
	void (*down)(enum session_end end, const char *text, void *arg);
	/* A connection to a port that session_listen() got. */
	void (*accepted)(struct chan *c, void *fwd, void *arg);
	/* What session_exec()'s command wrote; empty when it failed. */
	void (*executed)(const char *out, void *arg);
	/* The answer to session_listen(): 0 with the port, or E_DENIED. */
	void (*listening)(int err, uint16_t port, void *fwd, void *arg);
	/* The session ends and this local connection, of which nothing was read
	 * yet, has no channel; before `down`. fd is the callee's. */
	void (*unopened)(const struct spec_end *target, int fd, void *arg);
	/* Some work was done: the counts below may have changed. May be NULL.
	 */
	void (*load)(void *arg);
};

/* Takes fd, a connected socket. */
struct session *session_take_fd(struct loop *l, int fd, const struct options *o,
				const struct auth *auth,
				const struct session_cbs *cbs, void *arg);
/* Resets what still runs over it; no callback follows. NULL is fine. */
void session_close(struct session *s);
bool session_is_up(const struct session *s);
/* Asks the far side to listen; answered by `listening`. */
void session_listen(struct session *s, const struct spec_end *at, void *fwd);
/* Runs cmd on the far side, if it lets us; one at a time (a second is dropped).
 * Answered by `executed`. */
void session_exec(struct session *s, const char *cmd);
/* Says goodbye to the server; what is queued is written if it can be at once.
 */
void session_goodbye(struct session *s);
unsigned session_channels(const struct session *s);
unsigned session_opening(const struct session *s); /* of them, not open yet */
/* Whether this libssh2 can do what is asked; else why not (static). */
const char *session_lacks(const struct spec_end *listen);
const char *session_library(void); /* "libssh2 1.11.1" */

#endif
