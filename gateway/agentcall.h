/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request of the master to a job's agent, over a connection of its own:
 * non-blocking, with back-pressure in both directions, and one deadline for
 * all of it. What the agent refuses is collected here, with its words.
 */
#ifndef SBX_GATEWAY_AGENTCALL_H
#define SBX_GATEWAY_AGENTCALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/defs.h"
#include "base/str.h"
#include "net/http1.h"

struct agentcall;
struct bufq;
struct loop;
struct stream;

/* Where an agent is and what opens it; borrowed by the functions below. */
struct agentcall_to {
	const char *address; /* "unix:/path", "tcp:ip:port" */
	const char *token;   /* NULL: none is wanted */
};

struct agentcall_ask {
	enum http_method method; /* M_GET, M_POST, M_PUT or M_DELETE */
	struct strv target;
	enum http_body body; /* BODY_NONE, BODY_LENGTH or BODY_CHUNKED */
	uint64_t length;
	const char *upgrade; /* the protocol to ask for; NULL: none */
	uint64_t ms;         /* from now to the end of it; 0: no deadline */
};

/* An answer that is not 2xx (or not 101 where that was asked for). */
struct agentcall_no {
	unsigned status;
	const char *code; /* the agent's word, "" when it said none */
	const char *text; /* for people, never NULL */
};

/* Exactly one of `body` with end true, upgraded, refused and failed comes
 * last; agentcall_free() is then due, and may be called in any of them. */
struct agentcall_cbs {
	/* A 2xx head, valid until this returns. */
	void (*head)(struct agentcall *a, const struct http_head *h, void *arg);
	/* Bytes of the answer; what is left in `in` stays, and reading stops;
	 * agentcall_resume() asks for it again. end: nothing follows what is
	 * in `in`. */
	void (*body)(struct agentcall *a, struct bufq *in, bool end, void *arg);
	/* After agentcall_over_high(): there is room again. May be NULL. */
	void (*drained)(struct agentcall *a, void *arg);
	/* The stream is the callee's, who sets its callbacks before it
	 * returns. NULL when nothing was asked for. */
	void (*upgraded)(struct agentcall *a, struct stream *st, void *arg);
	void (*refused)(struct agentcall *a, const struct agentcall_no *no,
			void *arg);
	/* E_TIMEOUT: the deadline; else the agent is out of reach, or its
	 * answer ended too soon. what: static text. */
	void (*failed)(struct agentcall *a, int err, const char *what,
		       void *arg);
};

/* Never calls back before it returns; cbs is borrowed (static). */
struct agentcall *agentcall_start(struct loop *l, const struct agentcall_to *to,
				  const struct agentcall_ask *ask,
				  const struct agentcall_cbs *cbs, void *arg);
/* The request's body, if there is to be one. Neither calls back; after an
 * answer that came early they do nothing. */
void agentcall_move(struct agentcall *a, struct bufq *src, size_t n);
void agentcall_end(struct agentcall *a);
bool agentcall_over_high(const struct agentcall *a);
void agentcall_resume(struct agentcall *a);
/* Ends the connection, whatever it is at; no callback follows. NULL is fine. */
void agentcall_free(struct agentcall *a);

/* Adds v to a target's query, percent-encoded. */
void agentcall_escape(struct strbuf *b, struct strv v);

#endif
