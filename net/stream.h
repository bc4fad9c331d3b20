/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A non-blocking byte stream over a descriptor, with or without TLS, with an
 * input and an output queue, back-pressure and half-close in both directions.
 *
 * Reading: bytes arrive in stream_input() and `readable` is called. What the
 * owner leaves there stays; once it holds stream_set_input_limit() bytes
 * (default 64 KiB) reading stops, and starts again by itself when the owner
 * has drained it and calls stream_resume(). At most 64 KiB are read per
 * callback, then other connections have their turn.
 *
 * Writing: put bytes into stream_output() and call stream_flush(): it writes
 * at once, and asks epoll only when the kernel takes no more. Queue everything
 * that belongs together first, flush once: one record, one packet.
 * stream_over_high() says when to stop producing; `drained` is called when the
 * output fell to a quarter of the high mark after that, and also whenever an
 * output that could not be written at once became empty (and the shutdown, if
 * it was asked for, is done): then stream_flushed() is true.
 *
 * Lifetime: stream_close() is idempotent, may be called from any callback, and
 * frees the stream after the batch; no callback runs after it. After an
 * `error` callback the stream is dead: only stream_close() is left to call
 * (and its input, and what stream_salvage() finds, to be used).
 */
#ifndef SBX_NET_STREAM_H
#define SBX_NET_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/defs.h"
#include "net/buf.h"

struct loop;
struct stream;

struct stream_cbs {
	/* New bytes in stream_input(). */
	void (*readable)(struct stream *st, void *arg);
	/* The output has room again (see above); may be NULL. */
	void (*drained)(struct stream *st, void *arg);
	/* The peer ended its direction; no more `readable` after this. The
	 * input may still hold bytes. For TLS: a close_notify, or a FIN
	 * without one (then stream_eof_clean() is false). */
	void (*eof)(struct stream *st, void *arg);
	/* Fatal: err is E_PEER, E_TLS, E_TIMEOUT or E_SYS. */
	void (*error)(struct stream *st, int err, void *arg);
};

/* How bytes get to and from the descriptor. The plain one is built in;
 * tlsio.c has the TLS one; tests put a fault-injecting one in between. */
struct stream_io {
	/* Reads up to n bytes. > 0; E_EOF; E_AGAIN; E_PEER, E_TLS, E_SYS.
	 * *more comes in as false when the kernel is known to hold nothing
	 * (then only what is held inside is handed out), and is set to false
	 * when neither kernel nor layer are known to hold more (a short
	 * read), so that no second read is tried. */
	ssize_t (*read)(void *ctx, void *p, size_t n, bool *more);
	/* Writes iov, or the prefix of it that can be written now. > 0 bytes;
	 * E_AGAIN; E_PEER, E_TLS, E_SYS. */
	ssize_t (*writev)(void *ctx, const struct iovec *iov, int n);
	/* Ends our direction (FIN, close_notify). 0, E_AGAIN, or an error. */
	int (*shutdown)(void *ctx);
	/* 0 when the connection is set up, E_AGAIN, or an error. */
	int (*handshake)(void *ctx);
	/* Bytes are held inside (decrypted or read ahead), so that the
	 * descriptor may never become readable for them. */
	bool (*pending)(void *ctx);
	/* The last E_AGAIN (or short write) waits for the descriptor to become
	 * writable, else readable. NULL: reading waits to read, writing to
	 * write. */
	bool (*wants_write)(void *ctx);
	/* After E_EOF: the peer ended its direction in order. NULL: always. */
	bool (*eof_clean)(void *ctx);
	/* After an error: why, as static text; "" when not known. NULL: never
	 * known. */
	const char *(*why)(void *ctx);
	void (*free)(void *ctx);
};

/* Takes fd (owned even on failure, which cannot happen short of OOM).
 * Reading starts at once. cbs is borrowed and must outlive the stream. */
struct stream *stream_take_fd(struct loop *l, int fd,
			      const struct stream_cbs *cbs, void *arg);
void stream_close(struct stream *st);
/* After an `error`: reads what the peer had sent before into the input, as far
 * as its limit goes. False when nothing is left. */
bool stream_salvage(struct stream *st);
/* Closes so that the peer sees a reset (SO_LINGER 0): for a response that
 * must not look complete. */
void stream_reset(struct stream *st);
/* Writes what is queued, shuts down our direction, reads and drops what the
 * peer still sends (at most linger_ms, at most 16 MiB) and closes: so that a
 * last answer is not lost to a reset. Takes the stream over: no callback
 * follows. */
void stream_finish(struct stream *st, uint64_t linger_ms);

/* Changes owner: later callbacks go to cbs/arg. The queues stay. If input is
 * waiting, `readable` is called for it after this batch, and `eof` after that
 * if it was seen. */
void stream_set_cbs(struct stream *st, const struct stream_cbs *cbs, void *arg);
/* Takes the stream from its owner: nobody hears of it until the next one calls
 * stream_set_cbs(), which it does at once. */
void stream_orphan(struct stream *st);
/* Puts io (with ctx, owned: io->free) between stream and descriptor; before
 * the first byte. A handshake, if io has one, starts at once; until it is done
 * nothing is delivered and writes are queued. */
void stream_set_io(struct stream *st, const struct stream_io *io, void *ctx);
/* Hands the layer in place over to one that will sit above it (and calls its
 * free, if it has one); stream_set_io() must follow. */
const struct stream_io *stream_take_io(struct stream *st, void **ctx);
void *stream_io_ctx(struct stream *st, const struct stream_io *io);
/* The plain descriptor layer, for io's that sit above it: ctx is the fd cast
 * to a pointer (see STREAM_FD_CTX). */
extern const struct stream_io stream_io_fd;
#define STREAM_FD_CTX(fd) ((void *)(intptr_t)(fd))
/* Called once, when a handshake has ended well; may be NULL. */
void stream_on_ready(struct stream *st, void (*fn)(struct stream *, void *));
bool stream_ready(const struct stream *st); /* no handshake under way */

int stream_fd(const struct stream *st); /* -1 once closed */
struct loop *stream_loop(const struct stream *st);
struct bufq *stream_input(struct stream *st);
struct bufq *stream_output(struct stream *st);

void stream_set_input_limit(struct stream *st, size_t bytes);
void stream_set_high(struct stream *st, size_t bytes); /* default 64 KiB */
/* Lends the descriptor to whoever wants to read from it himself (a thread, on
 * a dup() of his own: the stream may be closed meanwhile). -1 when that would
 * miss bytes: a layer holds some, or the input does. Until stream_return(),
 * with the bytes that were read, the stream itself reads nothing. */
int stream_lend(struct stream *st);
void stream_return(struct stream *st, uint64_t n);

void stream_pause(struct stream *st); /* no `readable` until resume */
/* Reads again if the input is below its limit; also delivers what the io
 * layer holds. `readable` is never called from inside this function. */
void stream_resume(struct stream *st);
bool stream_paused(const struct stream *st);

/* Writes what it can now. Errors come through `error` after the batch, never
 * from inside this call. */
void stream_flush(struct stream *st);
bool stream_over_high(const struct stream *st);
/* After the output is written: FIN or close_notify+FIN. Idempotent. */
void stream_shutdown(struct stream *st);
bool stream_shut(const struct stream *st);    /* shutdown was asked for */
bool stream_flushed(const struct stream *st); /* output empty, shutdown done
					       * if it was asked for */
bool stream_eof(const struct stream *st);
bool stream_eof_clean(const struct stream *st);
/* In the error callback: what the io layer knows of it, static; or "". */
const char *stream_why(const struct stream *st);

/* Bytes that crossed in each direction (application bytes). */
uint64_t stream_bytes_in(const struct stream *st);
uint64_t stream_bytes_out(const struct stream *st);
/* TCP_NODELAY and keep-alive (idle 30 s, 3 x 10 s); no effect on unix, nor on
 * what a listener accepted (it has them already). */
void stream_tune_tcp(struct stream *st);
/* Re-arms TCP_QUICKACK: call when a message has begun and its rest is still
 * awaited (a client that sends head and body apart would wait 40 ms). */
void stream_quickack(struct stream *st);

#endif
