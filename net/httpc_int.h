/* SPDX-License-Identifier: Apache-2.0 */
/* What httpc.c (a connection) and httpc_pool.c share; private. */
#ifndef SBX_NET_HTTPC_INT_H
#define SBX_NET_HTTPC_INT_H

#include "net/buf.h"
#include "net/chunk.h"
#include "net/httpc.h"
#include "net/loop.h"

#define HTTPC_MAGIC 0x48545043U

enum httpc_req_state {
	CREQ_NONE, /* no exchange */
	CREQ_HEAD, /* between httpc_begin() and httpc_end_head() */
	CREQ_BODY,
	CREQ_DONE
};

enum httpc_res_state {
	CRES_NONE,
	CRES_HEAD,    /* awaited */
	CRES_BODY,    /* until the connection is given back */
	CRES_UPGRADED /* the stream waits to be taken */
};

struct httpc {
	uint32_t magic;
	enum httpc_req_state req;
	enum httpc_res_state res;
	bool closed;
	bool pooled;
	bool keep;    /* the response lets the connection live on */
	bool reading; /* inside the stream's readable callback */
	bool in_done; /* the body is decoded to its end */
	bool end_told;
	bool kick; /* tell of what is in `in` once more */
	int err;   /* the stream has failed: nothing more will come */
	unsigned served;
	unsigned interim;
	unsigned serial; /* of the exchange */
	struct loop *loop;
	struct stream *st;
	const struct httpc_cbs *cbs;
	void *arg;

	/* request */
	enum http_method method;
	enum http_body req_kind;
	uint64_t req_left; /* BODY_LENGTH */
	struct http_writer w;
	char upgrade[32]; /* protocol asked for; "": none */

	/* response */
	size_t scanned;
	size_t head_len;  /* of a 101, still in the input */
	uint64_t in_mark; /* stream_bytes_in() when the request began */
	enum http_body kind;
	uint64_t left;
	struct chunk_dec dec;
	struct bufq in; /* decoded, not taken yet */

	/* deadlines */
	uint64_t body_ms;
	uint64_t wait_bytes;
	uint64_t wait_since;
	struct timer timer;
	struct task task;

	/* in the pool: by key, and by age */
	struct httpc_pool *pool;
	struct httpc *next, **prevp;
	struct httpc *younger, *older;
	uint64_t idle_since;
	uint64_t hash;
	size_t key_len;
	char key[];
};

/* httpc_pool.c */
uint64_t httpc_pool_hash(struct strv key);
/* True when the pool took it; else it is the caller's still. */
bool httpc_pool_put(struct httpc_pool *p, struct httpc *c);
/* Takes an idle connection out. */
void httpc_pool_remove(struct httpc *c);

#endif
