/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client side of HTTP/1.1 on a stream, and a pool of idle connections.
 * One request at a time per connection; the request body and the response
 * flow at the same time. Responses are judged as strictly as requests.
 */
#ifndef SBX_NET_HTTPC_H
#define SBX_NET_HTTPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/defs.h"
#include "base/str.h"
#include "net/http1.h"

struct bufq;
struct httpc;
struct httpc_pool;
struct loop;
struct stream;

struct httpc_cbs {
	/* A response head, valid until this callback returns. Interim ones
	 * (1xx, not 101) come with interim true, up to 32 times. */
	void (*head)(struct httpc *c, const struct http_head *h, bool interim,
		     void *arg);
	/* Body bytes; what is left in `in` stays and stops reading at 64 KiB;
	 * httpc_body_resume() asks for them again, after the batch. end:
	 * nothing will follow what is in `in`. Called with end at least once,
	 * also for a response without a body, and no more after that unless
	 * bytes were left and asked for. */
	void (*body)(struct httpc *c, struct bufq *in, bool end, void *arg);
	/* The request's output has room again; may be NULL. */
	void (*drained)(struct httpc *c, void *arg);
	/* The exchange failed, after all that came of it was delivered.
	 * Not called once `end` was told. begun: a byte of the response had
	 * come (then nothing may be retried). err: E_PEER, E_EOF (closed
	 * early), E_PROTO (what: why, static text), E_TIMEOUT, E_LIMIT. The
	 * connection is closed and c is gone after this. */
	void (*failed)(struct httpc *c, int err, bool begun, const char *what,
		       void *arg);
};

/* Takes a connected stream (handshake may be under way). key: what the pool
 * knows it by, copied; empty: never pooled. pool may be NULL. */
struct httpc *httpc_take_stream(struct loop *l, struct httpc_pool *pool,
				struct strv key, struct stream *st);
bool httpc_reused(const struct httpc *c); /* has served a request before */
struct stream *httpc_stream(struct httpc *c);

/*
 * A request:
 *   w = httpc_begin(c, cbs, arg, method, method_id, target, body, length,
 * room); http1_put(w, …)…       any field but Connection, Content-Length,
 *                          Transfer-Encoding, Upgrade, TE
 *   httpc_end_head(c, upgrade)  upgrade: protocol to ask for, empty: none
 *   httpc_move(c, src, n)…      body bytes, as they come
 *   httpc_end(c)                the body is complete
 * body: BODY_NONE, BODY_LENGTH or BODY_CHUNKED. Nothing leaves before
 * httpc_flush() or httpc_end(), which may be called more than once. Neither
 * calls back. A connection that is not to be pooled says Connection: close.
 */
struct http_writer *httpc_begin(struct httpc *c, const struct httpc_cbs *cbs,
				void *arg, struct strv method,
				enum http_method id, struct strv target,
				enum http_body body, uint64_t length,
				size_t room);
int httpc_end_head(struct httpc *c, struct strv upgrade) SBX_MUST_CHECK;
void httpc_move(struct httpc *c, struct bufq *src, size_t n);
void httpc_write(struct httpc *c, const void *p, size_t n);
void httpc_flush(struct httpc *c);
void httpc_end(struct httpc *c);
bool httpc_over_high(const struct httpc *c);
/* Deadline for the response head, from now (0: none): E_TIMEOUT. */
void httpc_set_head_ms(struct httpc *c, uint64_t ms);
/* Longest pause within the response body (0: none). */
void httpc_set_body_ms(struct httpc *c, uint64_t ms);
void httpc_body_resume(struct httpc *c);
/* True while a response body that has begun is not at its end. */
bool httpc_busy(const struct httpc *c);

/* After `end`: gives the connection back. It goes into the pool when both
 * sides are clean (request complete, keep-alive, nothing unread, key given),
 * else it is closed. c is not the caller's any more. */
void httpc_release(struct httpc *c);
/* Drops the exchange and the connection; no callback follows. */
void httpc_close(struct httpc *c);
/* In or after `head` with status 101 that was asked for: gives the stream
 * away, early bytes in its input; c is gone. The caller sets the stream's
 * callbacks before it returns to the loop. An unasked 101 never gets here
 * (E_PROTO). */
struct stream *httpc_upgrade(struct httpc *c);

/* --- pool -------------------------------------------------------------- */
struct httpc_pool_options {
	uint64_t idle_ms;  /* an idle connection lives this long (4 s) */
	unsigned max_idle; /* in all */
	unsigned max_per_key;
};
struct httpc_pool *httpc_pool_new(struct loop *l,
				  const struct httpc_pool_options *o);
void httpc_pool_free(struct httpc_pool *p);
/* The most recently used idle connection under key, or NULL. A connection
 * that is known to have been ended, or to have sent bytes unasked, is never
 * handed out; what has not been read yet is not known (asking would cost a
 * system call a request), so the next use may fail with begun false. */
struct httpc *httpc_pool_get(struct httpc_pool *p, struct strv key);
/* Closes the idle connections under every key that starts with prefix (a
 * sandbox that stopped); busy ones will not come back either when the
 * generation is part of the key. */
void httpc_pool_flush(struct httpc_pool *p, struct strv prefix);
size_t httpc_pool_count(const struct httpc_pool *p);

#endif
