/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of the HTTP client: the head with the fields that frame it, and
 * the body. Nothing here calls back.
 */
#include "config.h"

#include "net/httpc_int.h"

#include <assert.h>
#include <string.h>

#include "base/err.h"
#include "net/stream.h"

#define OWN_ROOM 256

struct http_writer *
httpc_begin(struct httpc *c, const struct httpc_cbs *cbs, void *arg,
	    struct strv method, enum http_method id, struct strv target,
	    enum http_body body, uint64_t length, size_t room)
{
	struct bufq *in = stream_input(c->st);

	assert(c->req == CREQ_NONE && c->res == CRES_NONE);
	assert(body != BODY_UNTIL_CLOSE);
	c->cbs = cbs;
	c->arg = arg;
	c->serial++;
	c->req = CREQ_HEAD;
	c->method = id;
	c->req_kind = body;
	c->req_left = body == BODY_LENGTH ? length : 0;
	c->upgrade[0] = '\0';
	c->interim = 0;
	c->scanned = 0;
	c->body_ms = 0;
	c->kick = false;
	c->in_done = false;
	c->in_mark = stream_bytes_in(c->st) - in->len;
	http1_write_request(&c->w, stream_output(c->st),
			    room + method.len + target.len + OWN_ROOM, method,
			    target);
	return &c->w;
}

static int
put_upgrade(struct httpc *c, struct strv upgrade)
{
	if (upgrade.len >= sizeof(c->upgrade))
		return E_LIMIT;
	memcpy(c->upgrade, upgrade.p, upgrade.len);
	c->upgrade[upgrade.len] = '\0';
	http1_put(&c->w, STRV("Connection"), STRV("Upgrade"));
	http1_put(&c->w, STRV("Upgrade"), upgrade);
	return 0;
}

static void
put_framing(struct httpc *c)
{
	switch (c->req_kind) {
	case BODY_NONE:
		if (c->method != M_POST && c->method != M_PUT &&
		    c->method != M_PATCH)
			break; /* RFC 9110, 8.6: the others need none */
		__attribute__((fallthrough));
	case BODY_LENGTH:
		http1_put_u64(&c->w, STRV("Content-Length"), c->req_left);
		break;
	case BODY_CHUNKED:
	case BODY_UNTIL_CLOSE:
		http1_put(&c->w, STRV("Transfer-Encoding"), STRV("chunked"));
		break;
	}
}

int
httpc_end_head(struct httpc *c, struct strv upgrade)
{
	int r;

	assert(c->req == CREQ_HEAD);
	put_framing(c);
	if (upgrade.len > 0)
		c->w.err = c->w.err != 0 ? c->w.err : put_upgrade(c, upgrade);
	else if (c->pool == NULL)
		http1_put(&c->w, STRV("Connection"), STRV("close"));
	if ((r = http1_write_end(&c->w)) != 0) {
		c->req = CREQ_NONE;
		return r;
	}
	c->req = CREQ_BODY;
	c->res = CRES_HEAD;
	/* What came, or ended, before the request did is looked at anew. */
	if (stream_input(c->st)->len > 0 || c->err != 0 || stream_eof(c->st))
		task_post(c->loop, &c->task);
	return 0;
}

/* How many of n body bytes are sent. */
static size_t
body_admit(struct httpc *c, size_t n)
{
	if (c->closed || c->err != 0 || c->req != CREQ_BODY ||
	    c->req_kind == BODY_NONE)
		return 0;
	if (c->req_kind == BODY_CHUNKED)
		return n;
	if (n > c->req_left)
		n = (size_t)c->req_left;
	c->req_left -= n;
	return n;
}

void
httpc_move(struct httpc *c, struct bufq *src, size_t n)
{
	size_t take = body_admit(c, n);

	if (take > 0 && c->req_kind == BODY_CHUNKED)
		chunk_encode(stream_output(c->st), src, take);
	else if (take > 0)
		bufq_move(stream_output(c->st), src, take);
	bufq_drain(src, n - take);
}

void
httpc_write(struct httpc *c, const void *p, size_t n)
{
	if ((n = body_admit(c, n)) == 0)
		return;
	if (c->req_kind == BODY_CHUNKED)
		chunk_encode_mem(stream_output(c->st), p, n);
	else
		bufq_add(stream_output(c->st), p, n);
}

void
httpc_flush(struct httpc *c)
{
	if (!c->closed)
		stream_flush(c->st);
}

void
httpc_end(struct httpc *c)
{
	if (c->closed || c->req != CREQ_BODY)
		return;
	if (c->req_kind == BODY_CHUNKED && c->err == 0)
		chunk_encode_end(stream_output(c->st));
	/* Cut short: the server waits for the rest until this is closed. */
	if (c->req_left == 0)
		c->req = CREQ_DONE;
	stream_flush(c->st);
}

bool
httpc_over_high(const struct httpc *c)
{
	return !c->closed && stream_over_high(c->st);
}

bool
httpc_busy(const struct httpc *c)
{
	return !c->closed && c->res == CRES_BODY && !c->in_done;
}
