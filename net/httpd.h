/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server side of HTTP/1.1 on a stream: one explicit state machine per
 * connection, one exchange (request and its response) at a time, pipelined
 * requests in order.
 *
 * A handler gets the head at once and the body piece by piece; it may answer
 * before, while or after the body arrives. Framing, keep-alive, Expect, HEAD,
 * deadlines and malformed input are done here; a handler cannot get them wrong.
 *
 * Life of an exchange:
 *   request(rq)            the head is complete; the handler sets its callbacks
 *     body(rq, in, end)    0..n times; what it leaves in `in` stays (and stops
 *                          reading when it is 64 KiB); end: nothing will
 *                          follow what is in `in`. Called with end at least
 *                          once, also when there is no body; no more after
 *                          that, unless bytes were left and
 *                          httpd_body_resume() asked for them.
 *     drained(rq)          output has room again after httpd_over_high()
 *     peer_eof(rq)         the client ended its direction after its request
 *   closed(rq, err)        exactly once, last: 0 when the whole response was
 *                          handed to the kernel; E_PEER, E_TIMEOUT, E_PROTO,
 *                          E_LIMIT, E_CANCELLED (by httpd_abort), … otherwise.
 *                          rq is gone after it.
 * `closed` comes even if the handler never set callbacks (then it is skipped).
 *
 * No function here calls back before it returns, except where it says so. A
 * handler may do everything at any time: on a connection that has died, and
 * before `closed` says so, responding does nothing.
 *
 * What a handler has written during one of its callbacks is flushed when that
 * callback returns; what it writes at other times, by httpd_flush() or
 * httpd_end().
 *
 * When a response ends before the request body was read, `body` is not called
 * any more: up to 256 KiB of it are dropped within linger_ms, so that the
 * connection can be kept; else it is closed (with lingering, so that the
 * answer arrives).
 *
 * A client that ends its direction after a whole request is still served: it
 * may legally do so. Many that disappear look just the same, and the first
 * write tells; who wants to know earlier sets peer_eof. A reset is `closed`
 * with E_PEER at once.
 */
#ifndef SBX_NET_HTTPD_H
#define SBX_NET_HTTPD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/defs.h"
#include "base/str.h"
#include "net/addr.h"
#include "net/http1.h"

struct bufq;
struct httpd;
struct httpd_conn;
struct httpd_req;
struct loop;
struct stream;

struct httpd_options {
	/* 0 in a time means the default in brackets. */
	uint64_t head_ms;      /* first byte of a head to its end (10 s) */
	uint64_t idle_ms;      /* between requests (75 s) */
	uint64_t handshake_ms; /* TLS, and the first byte after it (10 s) */
	uint64_t body_ms;      /* longest pause within a body (60 s) */
	uint64_t body_rate;    /* bytes/s a body must average once it has
				* taken body_ms; 0: no minimum (default 0) */
	uint64_t write_ms;     /* longest time the peer takes nothing of a
				* response that waits (60 s) */
	uint64_t linger_ms;    /* see stream_finish (2 s) */
	uint64_t max_body;     /* 0: no bound; else 413 */
	unsigned max_requests; /* per connection; 0: no bound */
	const char *server;    /* Server field of own answers; NULL: none */
};

struct httpd_handler {
	/* The stream's handshake is done (TLS). May be NULL. */
	void (*ready)(struct httpd_conn *c, void *arg);
	/* A head is complete. Never NULL. */
	void (*request)(struct httpd_req *rq, void *arg);
	/* The server itself refused something (malformed head, timeout, …):
	 * it asks for the body of the answer; NULL: a short text. The callee
	 * may send the answer itself with httpd_conn_respond() and return
	 * true. */
	bool (*refused)(struct httpd_conn *c, unsigned status, const char *what,
			void *arg);
	/* A connection ended (all exchanges are closed). May be NULL. */
	void (*conn_closed)(struct httpd_conn *c, void *arg);
};

/* Shared by the connections of a listener; everything is borrowed. */
struct httpd *httpd_new(struct loop *l, const struct httpd_options *o,
			const struct httpd_handler *h, void *arg);
/* Closes what is open; not from a callback. NULL is fine. */
void httpd_free(struct httpd *s);
size_t httpd_count(const struct httpd *s); /* open connections */
/* Every connection ends with its next response, which says Connection: close.
 * Idle ones may still send the request for it, within idle_ms: nobody who
 * writes at this moment finds a closed door. */
void httpd_retire(struct httpd *s);
/* The same in a hurry: idle connections close now, those that have not sent
 * anything yet have a second for their first request. */
void httpd_drain(struct httpd *s);
void httpd_close_all(struct httpd *s);
/* Calls fn for each connection (for a state dump). */
void httpd_each(struct httpd *s, void (*fn)(struct httpd_conn *, void *),
		void *arg);

/* Takes a stream (TLS or not) into service. tag: the owner's pointer. */
struct httpd_conn *httpd_serve(struct httpd *s, struct stream *st,
			       const struct addr *peer, void *tag);
void *httpd_conn_tag(const struct httpd_conn *c);
const struct addr *httpd_conn_peer(const struct httpd_conn *c);
struct stream *httpd_conn_stream(struct httpd_conn *c); /* NULL: it ended */
uint64_t httpd_conn_id(const struct httpd_conn *c);     /* unique per process */
/* Room the owner may use for the connection's life (zeroed, HTTPD_CONN_SCRATCH
 * bytes): a cached authorisation, counters. */
void *httpd_conn_scratch(struct httpd_conn *c);
#define HTTPD_CONN_SCRATCH 160
/* Now; its exchange gets closed before this returns (when called from one of
 * the connection's own callbacks: after that one). */
void httpd_conn_close(struct httpd_conn *c);

struct httpd_req_cbs {
	void (*body)(struct httpd_req *rq, struct bufq *in, bool end,
		     void *arg);
	void (*drained)(struct httpd_req *rq, void *arg);
	void (*closed)(struct httpd_req *rq, int err, void *arg);
	void (*peer_eof)(struct httpd_req *rq, void *arg);
};

/* --- the request ------------------------------------------------------- */
const struct http_head *httpd_head(const struct httpd_req *rq);
struct httpd_conn *httpd_req_conn(struct httpd_req *rq);
struct loop *httpd_loop(const struct httpd_req *rq);
void httpd_set_cbs(struct httpd_req *rq, const struct httpd_req_cbs *cbs,
		   void *arg);
/* Memory that lives as long as the exchange (until closed has returned). */
void *httpd_alloc(struct httpd_req *rq, size_t n);
uint64_t httpd_started_us(const struct httpd_req *rq); /* loop_clock_us() */
bool httpd_has_body(const struct httpd_req *rq);
/* Bodies are not read (and 100-continue not sent) until this is called or a
 * body callback is set; it may be called again to take up reading after a
 * `body` callback left bytes: body is called anew for what waits, after the
 * batch. */
void httpd_body_resume(struct httpd_req *rq);
void httpd_body_pause(struct httpd_req *rq);
/* Lends the descriptor that the rest of the body comes from (stream_lend()),
 * so that a thread can read it without a copy on the loop; *left: how much it
 * may read at most. -1: not now (TLS, chunked, something is buffered, nothing
 * has come yet). Neither body is called nor the client's pace watched until
 * httpd_body_return(), with what was read; body is called with end if that was
 * all. A response before that is the connection's last. */
int httpd_body_lend(struct httpd_req *rq, uint64_t *left);
void httpd_body_return(struct httpd_req *rq, uint64_t n);
/* This exchange may pause for as long as its client likes, in either direction:
 * there may be somebody who types and looks. (Who is allowed that is known by
 * then, and a peer that vanished is found out by the transport.) */
void httpd_patient(struct httpd_req *rq);
uint64_t httpd_body_bytes(const struct httpd_req *rq); /* received so far */
/* Sets the bound for this request's body (0: none): 413 beyond it. */
void httpd_set_max_body(struct httpd_req *rq, uint64_t bytes);

/* --- the response ------------------------------------------------------ */
/* A whole response in one write: head, type (may be NULL), body. More fields
 * come from extra ("Name: value\r\n"..., may be empty, trusted). */
void httpd_respond(struct httpd_req *rq, unsigned status, const char *type,
		   struct strv extra, struct strv body);
/* Only from `refused`: the answer to a request that could not be parsed or
 * read. The connection ends after it. */
void httpd_conn_respond(struct httpd_conn *c, unsigned status, const char *type,
			struct strv extra, struct strv body);

/*
 * A response of one's own making, in steps:
 *   w = httpd_begin(rq, status, reason, body, length);
 *   http1_put(w, …)…            any field but Connection, Keep-Alive,
 *                               Content-Length, Transfer-Encoding, Upgrade
 *   httpd_end_head(rq)          E_INVALID/E_LIMIT: a field was bad; the
 *                               response has not begun, send another
 *   httpd_write / httpd_move …  body bytes (dropped for HEAD)
 *   httpd_end(rq)               all is said
 * Nothing leaves before httpd_flush() or httpd_end(). body BODY_UNTIL_CLOSE
 * means "length unknown": chunked on 1.1, until close on 1.0. room: bytes to
 * reserve for the head.
 */
struct http_writer *httpd_begin(struct httpd_req *rq, unsigned status,
				struct strv reason, enum http_body body,
				uint64_t length, size_t room);
int httpd_end_head(struct httpd_req *rq) SBX_MUST_CHECK;
void httpd_write(struct httpd_req *rq, const void *p, size_t n);
/* Moves n bytes from src. */
void httpd_move(struct httpd_req *rq, struct bufq *src, size_t n);
void httpd_flush(struct httpd_req *rq);
void httpd_end(struct httpd_req *rq);
/* An interim response (100, 103, …), its fields already serialised as for
 * httpd_respond's extra; not sent to HTTP/1.0. */
void httpd_inform(struct httpd_req *rq, unsigned status, struct strv fields);
/* Gives the exchange up. If the response has begun, the connection is ended
 * so that the client sees it is incomplete; else it is closed without one.
 * `closed` is called with E_CANCELLED after the batch. */
void httpd_abort(struct httpd_req *rq);
bool httpd_begun(const struct httpd_req *rq);     /* a final head was written */
bool httpd_over_high(const struct httpd_req *rq); /* stop producing */
unsigned httpd_status(const struct httpd_req *rq); /* 0 before the head */
uint64_t httpd_sent(const struct httpd_req *rq);   /* body bytes queued */
/* The response must be the connection's last. */
void httpd_close_after(struct httpd_req *rq);

/*
 * 101: writes a head with the given fields (Connection: Upgrade and Upgrade:
 * protocol are added), then gives the connection's stream away, bytes that
 * arrived early in its input. `closed` is called with 0 before this returns.
 * NULL if the connection died meanwhile. conn_closed is called at the end of
 * the batch, so the caller takes over any accounting. w: from
 * httpd_begin(rq, 101, …), filled but not ended. The caller sets the stream's
 * callbacks before it returns to the loop, or misses what happens there.
 */
struct stream *httpd_upgrade(struct httpd_req *rq, struct strv protocol);

#endif
