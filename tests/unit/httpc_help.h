/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of net/httpc share: an owner of one connection that writes
 * down what it is told, and a raw server end.
 */
#ifndef SBX_TEST_HTTPC_HELP_H
#define SBX_TEST_HTTPC_HELP_H

#include "base/str.h"
#include "net/httpc.h"
#include "net/loop.h"
#include "tests/unit/net_help.h"

struct cli {
	struct loop *l;
	struct httpc_pool *pool;
	struct httpc_pool_options o;
	struct httpc *c;
	int fd; /* the server's end */
	bool tcp;

	/* what the owner does */
	bool hold;    /* leaves the body */
	bool release; /* gives back at the end */
	bool again;   /* ... and begins the next request there */
	bool take;    /* upgrades in head */

	/* what came about */
	unsigned status, heads, interims, ends, drained, failed;
	struct strbuf body;
	struct bufq *in;
	struct stream *up;
	int err;
	bool begun;
	const char *what;
};

extern const struct httpc_cbs cli_cbs;

#define GET_TEXT "GET /x HTTP/1.1\r\nHost: h\r\n\r\n"
#define OK_TEXT  "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

int cli_setup(void **state);     /* socketpair */
int cli_setup_tcp(void **state); /* TCP on loopback */
int cli_teardown(void **state);
/* A fresh connection under key; the server's end in *fd. */
struct httpc *cli_connect(struct cli *e, const char *key, int *fd);
/* Begins anew on a fresh connection, key "k". */
void cli_fresh(struct cli *e);

void cli_send_head(struct cli *e, const char *method, enum http_method id,
		   enum http_body kind, uint64_t n, const char *upgrade);
void cli_send_get(struct cli *e);
/* The server says this; it hears exactly that. */
void cli_say(struct cli *e, const char *text);
void cli_hears(struct cli *e, const char *text);
/* A whole response came, and nothing else. */
void cli_expect(struct cli *e, unsigned status, const char *body);

/* Conditions, for help_wait(). */
bool cli_has_ended(void *e);
bool cli_has_failed(void *e);
bool cli_has_head(void *e);

#endif
