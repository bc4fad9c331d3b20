/* SPDX-License-Identifier: Apache-2.0 */
/* What session.c (life), setup.c, pump.c (work) and chan.c share; private. */
#ifndef SBX_TUNNEL_SESSION_INT_H
#define SBX_TUNNEL_SESSION_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <libssh2.h>

#include "net/loop.h"
#include "net/stream.h"
#include "tunnel/chan.h"
#include "tunnel/session.h"

#define SESSION_MAGIC 0x53534821U
#define SESSION_HIGH  (512 * 1024) /* of the SSH connection's output */
#define SESSION_INPUT (256 * 1024)
#define CHAN_HIGH     (256 * 1024) /* of a local stream's output */
#define CHAN_TURN     32700        /* libssh2 writes no more at a time */
#define CHAN_WINDOW   (2 * 1024 * 1024)
#define CHAN_PACKET   32768
/* Linux's <sys/queue.h> has no safe walk. */
#ifndef TAILQ_FOREACH_SAFE
#define TAILQ_FOREACH_SAFE(v, head, field, next)                               \
	for ((v) = TAILQ_FIRST(head);                                          \
	     (v) != NULL && ((next) = TAILQ_NEXT(v, field), 1); (v) = (next))
#endif
#define LISTEN_QUEUE 0 /* without limit: CHANS_MAX is ours */
#define CHANS_MAX    8192

struct exec;
struct openstate;

enum session_state {
	SESSION_HANDSHAKE,
	SESSION_AUTH,
	SESSION_UP,
	SESSION_DOWN, /* told, or about to be */
	SESSION_CLOSED
};

enum chan_state {
	CHAN_QUEUED,   /* to be opened, or being opened */
	CHAN_ACCEPTED, /* no local stream yet */
	CHAN_OPEN,
	CHAN_CLOSING, /* the local side is gone; the far side not yet */
	CHAN_DEAD
};

struct chan {
	TAILQ_ENTRY(chan) all;  /* of the session */
	TAILQ_ENTRY(chan) link; /* opening, writing or closing queue */
	struct session *s;
	LIBSSH2_CHANNEL *ssh;
	struct stream *st;
	int fd;                        /* of a queued one: it is not read yet */
	struct openstate *open;        /* of a queued one; NULL: not begun */
	const struct spec_end *target; /* of a queued one; borrowed */
	enum chan_state state;
	bool writing;  /* in the session's writing queue */
	bool blocked;  /* waits for a window (or the end of a key exchange) */
	bool eof_sent; /* ours went out */
	bool eof_seen; /* theirs came in, and all before it */
	bool held;     /* not all was read: the local output is full */
	char *message; /* of CHANNEL_OPEN */
	size_t message_len;
	bool streamlocal;
	void (*gone)(void *arg);
	void *gone_arg;
	uint64_t bytes_in;
	uint64_t bytes_out;
};

TAILQ_HEAD(chan_list, chan);

enum remote_kind {
	REMOTE_GIVEN,    /* the address that was given */
	REMOTE_SOCKET,   /* `host` is its path */
	REMOTE_LOOPBACK, /* 127.0.0.1, because none was */
	REMOTE_EXTRA     /* ::1 beside it: nobody is told if it fails */
};

/* A port on the far side, wanted or had. */
struct remote_port {
	TAILQ_ENTRY(remote_port) link;
	LIBSSH2_LISTENER *listener; /* NULL: asked for */
	char *host;
	int port;
	void *fwd;
	enum remote_kind kind;
};
TAILQ_HEAD(remote_list, remote_port);

struct session {
	uint32_t magic;
	enum session_state state;
	struct loop *loop;
	const struct options *o;
	const struct auth *auth;
	const struct session_cbs *cbs;
	void *arg;
	LIBSSH2_SESSION *ssh;
	struct stream *st;
	struct auth_try *try;
	LIBSSH2_CHANNEL *idle; /* carries probes */
	bool idle_tried;
	bool fresh; /* bytes came in since the channels were looked at */
	bool running;
	bool deaf; /* the receive callback says that there is nothing */
	bool dead; /* the send callback swallows, receive says end */
	bool probing;
	uint64_t rx_ms;   /* when the last byte came */
	uint64_t tick_ms; /* when the keep-alive timer last ran */
	unsigned nchans;
	unsigned nopening; /* in `opening` */
	struct chan_list chans;
	struct chan_list opening;
	struct chan_list writing;
	struct chan_list closing;
	struct exec *exec; /* a command that runs; NULL: none */
	struct remote_list wanted;
	struct remote_list remotes;
	struct task task;
	struct timer alive;
	struct timer setup; /* handshake and authentication */
	enum session_end end;
	char *end_text;
};

/* Frees what libssh2 holds for channels that are being opened; when dead. */
void pump_forget(struct session *s);
/* All that can be done now while it is up: opens, reads, writes, closes. */
void pump_run(struct session *s);
/* Steps the set-up, then the pump. */
void session_run(struct session *s);
/* Runs soon; cheap. */
void session_kick(struct session *s);
/* It is over; `down` is told after this batch. */
void session_fail(struct session *s, enum session_end end, const char *text);
/* True when rc ends the whole session, which is then failed. */
bool session_fatal(struct session *s, int rc);

/* The algorithms we offer; before the first byte. */
void setup_methods(struct session *s);
/* Steps the set-up as far as the input goes. */
void setup_run(struct session *s);

void exec_free(struct exec *e);
/* Runs a command that does nothing, unless there is one, or it is unwanted. */
void exec_nudge(struct session *s);
/* False while libssh2's one place for opening a channel is taken. */
bool exec_run(struct session *s);

struct chan *chan_new(struct session *s);
void chan_opened(struct chan *c, LIBSSH2_CHANNEL *ssh);
void chan_failed(struct chan *c);
/* A queued one ends; its descriptor is the caller's. */
int chan_unqueue(struct chan *c);
/* From the far side to the local stream. */
void chan_pull(struct chan *c);
/* One turn the other way. */
void chan_push(struct chan *c);
void chan_want_write(struct chan *c);
/* Drops the local side at once (the session is gone). */
void chan_abort(struct chan *c);
/* Frees the libssh2 channel if it is done with; true when it is. */
bool chan_reap(struct chan *c);

#endif
