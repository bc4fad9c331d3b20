/* SPDX-License-Identifier: Apache-2.0 */
/* What stream.c (life, facts) and stream_ev.c (events) share; private. */
#ifndef SBX_NET_STREAM_INT_H
#define SBX_NET_STREAM_INT_H

#include <event2/event_struct.h>

#include "net/loop.h"
#include "net/stream.h"

#define STREAM_MAGIC    0x5354524dU
#define STREAM_READ_MAX 65536 /* per callback, then others have their turn */
#define STREAM_ROOM_MIN 2048  /* no read into less room than this */
#define STREAM_IOV_MAX  16

enum stream_state {
	STREAM_HANDSHAKE,
	STREAM_OPEN,
	STREAM_FAILED, /* error was told: only stream_close() is left */
	STREAM_CLOSED
};

struct finish;

struct stream {
	uint32_t magic;
	int fd;
	enum stream_state state;
	int err;        /* to be told, or told */
	int werr;       /* writing failed; reading may still find bytes */
	bool rd_on : 1; /* rd is in the base */
	bool wr_on : 1; /* wr is in the base */
	bool paused : 1;
	bool lent : 1; /* another one reads */
	bool hint : 1; /* the descriptor may hold bytes for us */
	bool eof : 1;  /* seen */
	bool eof_told : 1;
	bool err_told : 1;
	bool shut : 1; /* shutdown asked for */
	bool shut_done : 1;
	bool over : 1;        /* output was over high: drained is owed */
	bool owed : 1;        /* output was not all written at once: as well */
	bool rd_wants_wr : 1; /* TLS: reading waits for writability */
	bool wr_wants_rd : 1; /* TLS: writing waits for readability */
	bool not_tcp : 1;
	/* What the task has to do. */
	bool kick_read : 1;
	bool kick_fill : 1;
	bool kick_drained : 1;
	bool kick_ready : 1;
	struct loop *loop;
	const struct stream_cbs *cbs;
	void *arg;
	const struct stream_io *io;
	void *io_ctx;
	void (*ready)(struct stream *, void *);
	struct bufq in;
	struct bufq out;
	size_t in_limit;
	size_t high;
	uint64_t bytes_in;
	uint64_t bytes_out;
	struct finish *finish; /* it finishes on its own */
	struct task task;
	struct event rd;
	struct event wr;
};

void stream_want_read(struct stream *st, bool on);
void stream_want_write(struct stream *st, bool on);
/* The io layer holds bytes that no event will announce. */
bool stream_io_pending(struct stream *st);
/* Reads what there is into the input and tells nobody. True when it stopped
 * for another reason than that there is nothing more for now. */
bool stream_read_in(struct stream *st);
/* 0, E_AGAIN, or why the handshake failed; tells nobody. */
int stream_handshake_step(struct stream *st);

void stream_read_cb(evutil_socket_t fd, short what, void *arg);
void stream_write_cb(evutil_socket_t fd, short what, void *arg);
void stream_task_cb(void *arg);

#endif
