/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One call of a method of the CoreWeave service, between a transport, which
 * knows no method, and a method, which knows no transport.
 *
 * Life of a call, for the method:
 *   fn(c)              c->req is the request; NULL when the client streams.
 *                      Answers at once, or sets cbs (cwcall_set_cbs) and
 *                      answers later.
 *     message(c, m)    the client streams: one message, the call's (use it in
 *                      the callback). None while paused.
 *     half_closed(c)   the client streams: there will be no more of them
 *     raw(c, in, end)  bytes of method->raw, a field of the request that may
 *                      be large and is not in c->req: as they come, and at
 *                      least once. What is left in `in` stays; the client
 *                      waits when that is much, and while it is paused. end:
 *                      nothing follows, and c->late_req is the whole of the
 *                      request but for those bytes (c->req may lack what
 *                      stood behind them).
 *     writable(c)      there is room again after cwcall_over_high()
 *   closed(c, code)    exactly once, last, also after the answer: what the
 *                      method keeps for the call ends here. CW_OK: all was
 *                      said; CW_DEADLINE_EXCEEDED: its time was up (the
 *                      client was told already); CW_CANCELLED: the client has
 *                      gone; else what the method failed with. c is gone
 *                      after it.
 * Only `closed` may free what the callbacks need: it also comes when the
 * deadline or the client ended the call, soon after that, however long the
 * client takes to read what was said; and it never comes from inside a
 * function that methods call. After cwcall_end(), cwcall_fail(), or when time
 * is up, no callback but `closed` comes, and sending does nothing.
 *
 * A method that does not stream: cwcall_reply(), fields, cwcall_answer(); or
 * cwcall_fail(). One that streams: as often as one likes cwcall_reply(),
 * fields, cwcall_send(); then cwcall_end() or cwcall_fail(). An answer with
 * large fields: cwcall_reply() and the small ones, if there are any; then for
 * each large one cwcall_raw_begin(), and cwcall_raw() as writable() has it;
 * then cwcall_end(). cwcall_fail() leaves it visibly cut short.
 */
#ifndef SBX_GATEWAY_CWCALL_H
#define SBX_GATEWAY_CWCALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/defs.h"
#include "base/str.h"
#include "gateway/apiwho.h"
#include "gateway/cwerr.h"
#include "gateway/cwmsg.h"
#include "gateway/cwout.h"
#include "net/loop.h"

struct cwcall;
struct cwsvc;

struct bufq;

struct cwcall_method {
	const char *name; /* "GetSandbox" */
	const struct cwmsg_desc *in, *out;
	bool client_streams, server_streams;
	bool changes;    /* not for who may only read */
	size_t max;      /* bytes of a message from the client, as JSON */
	const char *raw; /* a field of `in`, of bytes; NULL: none. max is then
			  * for the rest of the message */
	void (*fn)(struct cwcall *c);
};

struct cwcall_cbs {
	void (*message)(struct cwcall *c, const struct cwmsg *m, void *arg);
	void (*half_closed)(struct cwcall *c, void *arg);
	void (*raw)(struct cwcall *c, struct bufq *in, bool end, void *arg);
	void (*writable)(struct cwcall *c, void *arg);
	void (*closed)(struct cwcall *c, enum cwerr_code code, void *arg);
};

/* What a transport does. None of them calls back before it returns. */
struct cwcall_ops {
	/* A whole message in its codec. */
	void (*send)(struct cwcall *c, struct strv msg);
	/* The last word. CW_OK of a method that does not stream: after its
	 * message. */
	void (*end)(struct cwcall *c, const struct cwerr *e);
	bool (*over_high)(const struct cwcall *c);
	/* No (more) messages of the client, for now. */
	void (*pause)(struct cwcall *c, bool on);
	/* A message with large fields: what stands before them, if this is
	 * the first one (in its codec, a whole message; empty: nothing), name
	 * and size of one, its bytes, and so on, then end(). NULL for
	 * transports of streams. */
	void (*raw_begin)(struct cwcall *c, struct strv before,
			  const char *field, uint64_t size);
	void (*raw)(struct cwcall *c, struct strv piece);
};

/* Embedded in the transport's own. Methods read what stands above the line. */
struct cwcall {
	const struct cwcall_method *method;
	struct cwsvc *svc;
	struct loop *loop;
	const struct api_who *who;
	struct strv ns;         /* of who: the default one */
	struct cwmsg *req;      /* NULL: the client streams */
	uint64_t deadline_ms;   /* as loop_now_ms(); 0: none */
	struct cwmsg *late_req; /* see raw() above */
	const char *late; /* the method's: reason when time is up, static */
	/* --- */
	const struct cwcall_ops *ops;
	const struct cwout_codec *codec;
	const struct cwcall_cbs *cbs;
	void *arg;
	struct cwcall *next, **prevp; /* of all that are open */
	struct timer timer;
	struct task gone;
	struct cwout out;
	struct strbuf buf;
	enum cwerr_code code; /* once it has ended */
	bool ended, closed;
};

/* --- for methods ------------------------------------------------------- */
void cwcall_set_cbs(struct cwcall *c, const struct cwcall_cbs *cbs, void *arg);
/* What its message is written with; until it is sent or the call fails. */
struct cwout *cwcall_reply(struct cwcall *c);
void cwcall_send(struct cwcall *c);   /* of a stream: one message */
void cwcall_end(struct cwcall *c);    /* of a stream: all is said */
void cwcall_answer(struct cwcall *c); /* of others: that was it */
/* reason NULL: none. */
void cwcall_fail(struct cwcall *c, enum cwerr_code code, const char *reason,
		 const char *fmt, ...) SBX_PRINTF(4, 5);
/* INVALID_ARGUMENT that names a field (as cwjson.h does). */
void cwcall_bad_field(struct cwcall *c, const char *field, const char *fmt, ...)
    SBX_PRINTF(3, 4);
void cwcall_fail_with(struct cwcall *c, const struct cwerr *e);
/* More than enough waits for the client: produce nothing until writable. */
bool cwcall_over_high(const struct cwcall *c);
void cwcall_pause(struct cwcall *c, bool on);
/* A field of method->out, of so many bytes. */
void cwcall_raw_begin(struct cwcall *c, const char *field, uint64_t size);
void cwcall_raw(struct cwcall *c, struct strv piece);

/* --- for transports ---------------------------------------------------- */
/* method, svc, loop, who, ops and codec are set; timeout_ms 0: none. */
void cwcall_begin(struct cwcall *c, uint64_t timeout_ms);
/* Runs the method; req, for one whose client does not stream, is moved from.
 * Refuses who may not. */
void cwcall_run(struct cwcall *c, struct cwmsg *req);
void cwcall_message(struct cwcall *c, struct cwmsg *m); /* moved from */
void cwcall_half_close(struct cwcall *c);
void cwcall_raw_in(struct cwcall *c, struct bufq *in, bool end);
void cwcall_writable(struct cwcall *c);
/* The client has gone, or has taken all that was said. */
void cwcall_close(struct cwcall *c);

#endif
