/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking an HTTP server, one request after another: the loop runs until the
 * answer is complete. The connection is kept for the next request.
 */
#ifndef SBX_CLI_WEB_H
#define SBX_CLI_WEB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/defs.h"
#include "base/str.h"

struct addr;
struct dial;
struct loop;
struct stream;
struct web;

#define WEB_ANSWER_MAX (64U << 20)

struct web_ask {
	const char *method; /* GET, POST, PUT, DELETE */
	const char *target; /* path and query */
	const char *bearer; /* NULL: none */
	const char *token;  /* X-Sandbox-Token; NULL: none */
	struct strv json;   /* a body; p NULL: none, or: */
	int fd;             /* what to read one of `length` bytes from; 0: no */
	uint64_t length;
	/* Pieces of the body of an answer below 300, as they come; NULL: it is
	 * collected. */
	void (*data)(struct strv piece, void *arg);
	/* So much of the body was sent or received. May be NULL. */
	void (*moved)(uint64_t bytes, void *arg);
	void *arg;
	/* To ask for another protocol with: an answer of 101 puts the
	 * connection here, whose callbacks are then to be set at once. */
	const char *upgrade;
	struct stream **stream;
	const int *stop; /* becomes not 0: E_CANCELLED; may be NULL */
};

struct web_answer {
	unsigned status;
	uint64_t length; /* of the body, when the server said so; else 0 */
	bool has_length;
	struct strbuf body; /* unless it went to `data` */
	char link[1024];    /* the Link field; "" when there is none */
	char why[256];      /* after a failure: in words */
};

/* origin: "https://host:port". ca: a file to trust instead of the system's
 * roots, or NULL. *msg (malloc'ed) says why not. */
int web_new(struct loop *l, const char *origin, const char *ca,
	    struct web **out, char **msg) SBX_MUST_CHECK;
void web_free(struct web *w);
const char *web_origin(const struct web *w);
const char *web_authority(const struct web *w);

/* 0: there is an answer, whatever its status. Else an error, with why. Clear
 * the answer in both cases. A request on a kept connection that was closed
 * meanwhile is sent again, if nothing of its body was. */
int web_ask(struct web *w, const struct web_ask *q,
	    struct web_answer *a) SBX_MUST_CHECK;
void web_answer_clear(struct web_answer *a);

/* For who speaks to it himself, on the loop: a dial (net/dialer.h), NULL when
 * the name does not resolve, and a stream from the descriptor that it gives. */
struct dial *web_dial(struct web *w,
		      void (*done)(int err, int fd, const struct addr *used,
				   void *arg),
		      void *arg);
struct stream *web_stream(struct web *w, int fd);

#endif
