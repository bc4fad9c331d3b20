/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of net/httpd share: a server with a few handlers, chosen by
 * target, and a raw client that reads responses with the house's own parser.
 *
 *   /ok     "ok"                        /hold   w->held, the test answers
 *   /count  the bytes of the body       /wait   the same, body not read yet
 *   /echo   the body, as it comes       /early  "early", body never read
 *   /big    w->big bytes, w->kind       /up     101, the stream in w->up
 *   /keep   leaves the body in w->in
 */
#ifndef SBX_TEST_HTTPD_HELP_H
#define SBX_TEST_HTTPD_HELP_H

#include "base/str.h"
#include "net/httpd.h"
#include "net/loop.h"
#include "tests/unit/net_help.h"

struct web {
	struct loop *l;
	struct httpd *s;
	struct httpd_options o; /* for web_open() */
	struct httpd_conn *c;
	bool tcp;
	int fd; /* the client's end */

	/* what handlers do */
	size_t big;
	enum http_body kind;
	struct httpd_req *held;
	struct stream *up;
	size_t left; /* of big */
	struct bufq *in;
	bool stop_at_once; /* /keep: pauses itself */
	bool patient;      /* /count: the body may take its time */

	/* what came about */
	unsigned requests, closed, conn_closed, refused, drained, peer_eof;
	int err; /* of the last closed */
	unsigned status;
	uint64_t got; /* body bytes */
	bool bad;     /* they were not the pattern's */
	unsigned ends;
	size_t peak; /* most bytes seen waiting in output */
};

/* A response as the client read it. */
struct answer {
	unsigned status;
	struct strbuf body;
	bool chunked;
	bool close;
	bool keep; /* Connection: keep-alive is said */
	bool has_length;
	struct strbuf head;
};

int web_setup(void **state);     /* socketpair, default options */
int web_setup_tcp(void **state); /* TCP on loopback */
int web_teardown(void **state);
/* Begins anew with w->o. */
void web_open(struct web *w);
/* Another client: its end. */
int web_connect(struct web *w);

void web_send(struct web *w, const char *text);
/* Reads one response; method of the request that it answers. */
void web_read(struct web *w, enum http_method m, struct answer *a);
void answer_clear(struct answer *a);
/* Reads one response to GET, checks status and body. */
void web_expect(struct web *w, unsigned status, const char *body);
/* The connection is ended by the server, in order, with nothing more said. */
void web_expect_end(struct web *w);
/* The same, but other bytes may precede and a reset will do. */
void web_expect_cut(struct web *w, struct strbuf *got);

/* Conditions, for help_wait(). */
bool web_is_closed(void *w); /* an exchange was */
bool web_conn_gone(void *w); /* conn_closed came */
bool web_has_held(void *w);

#endif
