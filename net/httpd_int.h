/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the HTTP server share; private. httpd.c: the server and
 * its memory; httpd_conn.c: a connection and its states; httpd_pace.c: who
 * keeps it waiting; httpd_req.c: a request and its body; httpd_resp.c:
 * responses.
 *
 * Whatever calls into a connection does it between httpd_conn_enter() and
 * httpd_conn_leave(). Handlers only ever note down what they want; the
 * outermost leave() then does it (deliver, flush, finish, next request) in one
 * loop, so nothing recurses, and what a handler wrote goes out in one piece.
 */
#ifndef SBX_NET_HTTPD_INT_H
#define SBX_NET_HTTPD_INT_H

#include <stddef.h>

#include "net/buf.h"
#include "net/chunk.h"
#include "net/httpd.h"
#include "net/loop.h"

#define HTTPD_CONN_MAGIC 0x48434f4eU
#define HTTPD_IN_LIMIT   65536        /* decoded body a handler leaves */
#define HTTPD_DROP_MAX   (256 * 1024) /* unread body swallowed at most */
#define HTTPD_BURST      16           /* pipelined requests in one turn */
#define HTTPD_BLOCK_SIZE 8192

enum httpd_conn_state {
	CONN_WAIT, /* nothing of a request has come */
	CONN_HEAD, /* a part of a head has */
	CONN_BUSY, /* an exchange is open */
	CONN_DROP, /* the rest of its request body is being dropped */
	CONN_CLOSED
};

enum httpd_resp_state {
	RESP_NONE,
	RESP_HEAD, /* between httpd_begin() and httpd_end_head() */
	RESP_BODY,
	RESP_DONE
};

enum httpd_how {
	HOW_FINISH, /* what is queued goes out, then FIN, then linger */
	HOW_CLOSE,
	HOW_RESET
};

/* A piece of arena; an exchange owns one, and more when it asks for much. */
struct httpd_block {
	struct httpd_block *next;
	size_t size;
	max_align_t data[];
};

/* How the request body on the connection is read. */
struct httpd_body {
	enum http_body kind;
	bool done;
	uint64_t left; /* BODY_LENGTH */
	struct chunk_dec dec;
};

/* One direction's progress: bytes at the last change, and when that was. */
struct httpd_mark {
	uint64_t bytes;
	uint64_t since_ms; /* 0: nothing is waited for */
};

_Static_assert(HTTPD_CONN_SCRATCH % sizeof(max_align_t) == 0,
	       "what is promised must be what there is");

struct httpd_conn {
	uint32_t magic;
	enum httpd_conn_state state;
	unsigned depth; /* of enter() */
	unsigned nreq;
	int err;       /* what closed() will be told, once CLOSED */
	bool consumed; /* something of the input, since enter() */
	struct httpd *s;
	struct stream *st; /* NULL once CLOSED */
	struct httpd_req *rq;
	struct httpd_conn *next, **prevp;
	void *tag;
	uint64_t id;
	size_t scanned;  /* of an incomplete head */
	size_t dropped;  /* of a body that nobody reads */
	uint64_t queued; /* stream_bytes_out() when all is out */
	struct httpd_body body;
	struct httpd_mark in, out;
	struct timer timer; /* the one deadline that comes first */
	struct task task;
	struct addr peer;
	max_align_t scratch[HTTPD_CONN_SCRATCH / sizeof(max_align_t)];
};

struct httpd_req {
	struct httpd_conn *c;
	struct httpd_block *blocks; /* the first one holds this very struct */
	char *at, *end;             /* room in the newest block */
	const struct httpd_req_cbs *cbs;
	void *arg;
	uint64_t started_us;

	struct bufq in;   /* decoded body the handler has not taken */
	bool reading : 1; /* the handler wants the body */
	bool paused : 1;
	bool lent : 1; /* another one reads the body */
	bool kick : 1; /* tell it of what is in `in` once more */
	bool end_told : 1;
	bool continued : 1; /* 100 was sent */
	bool over_told : 1; /* peer_eof was called */
	bool keep : 1;      /* the connection goes on after this */
	bool last : 1;      /* it must not */
	bool head_only : 1; /* the response has no body on the wire */
	bool patient : 1;   /* pauses are not judged */
	uint64_t max_body;
	uint64_t waited_ms; /* for body bytes, in sum (body_rate) */
	uint64_t wait_from;
	uint64_t rate_due;

	enum httpd_resp_state resp;
	enum http_body kind; /* of the response body */
	unsigned status;
	uint64_t length; /* BODY_LENGTH: bytes to come */
	uint64_t sent;
	struct http_writer w;

	struct http_head head;
};

struct httpd {
	struct loop *loop;
	struct httpd_options o;
	struct httpd_handler h;
	void *arg;
	struct httpd_conn *conns;
	size_t count;
	bool draining; /* each next response is the last of its connection */
	bool hurry;    /* and the idle ones close */
	struct httpd_block *free; /* last in, first out: cache warm */
	size_t nfree;
	char date[40];
	uint64_t date_ms;
};

/* httpd.c */
struct httpd_req *httpd_req_new(struct httpd_conn *c);
void httpd_req_free(struct httpd_req *rq);
/* The Date field for now, with its CRLF. */
struct strv httpd_date(struct httpd *s);

/* httpd_conn.c */
void httpd_conn_enter(struct httpd_conn *c);
void httpd_conn_leave(struct httpd_conn *c);
/* Gives the stream up and notes err; closed and conn_closed follow on the
 * outermost leave, or after the batch. */
void httpd_conn_end(struct httpd_conn *c, int err, enum httpd_how how);
/* The same, so that the client sees an incomplete response as such. */
void httpd_conn_abort(struct httpd_conn *c, int err);
/* Answers status if nothing was answered yet, and ends the connection. */
void httpd_conn_refuse(struct httpd_conn *c, int err, unsigned status,
		       const char *what);
void httpd_conn_flush(struct httpd_conn *c);
/* The connection lives on without its stream until conn_closed is told. */
struct stream *httpd_conn_detach(struct httpd_conn *c);

/* httpd_pace.c */
/* Sets the timer to when the exchange is to be judged next. */
void httpd_pace_watch(struct httpd_conn *c);
/* When the timer fires: does the client take nothing, or send too little? */
enum httpd_pace { PACE_FINE, PACE_NOT_TAKEN, PACE_NOT_SENT };
enum httpd_pace httpd_pace_judge(const struct httpd_conn *c);

/* httpd_req.c */
void httpd_body_begin(struct httpd_conn *c, const struct http_head *h);
/* Decodes body bytes into dst, room at most. 0: the end; E_AGAIN, E_PROTO,
 * E_LIMIT. */
int httpd_body_take(struct httpd_conn *c, struct bufq *dst,
		    size_t room) SBX_MUST_CHECK;
/* Hands body bytes to the handler; true when something happened. */
bool httpd_req_read(struct httpd_req *rq);
/* True while the handler waits for body bytes from the client. */
bool httpd_req_waits(const struct httpd_req *rq);
void httpd_req_close(struct httpd_req *rq, int err);

#endif
