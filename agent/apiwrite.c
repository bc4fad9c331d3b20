/* SPDX-License-Identifier: Apache-2.0 */
/*
 * files/write: what comes from the client is handed to a thread as it comes.
 * While one piece is written the next may gather, up to a bound; beyond it the
 * client waits. A small file is made in one go.
 *
 * Of a large one that comes over a plain connection the thread reads what
 * follows a piece from the socket itself: what goes through the loop goes from
 * one core's cache to another's, which costs more than all the rest.
 */
#include "config.h"

#include "agent/apifiles_int.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/uio.h>

#include "agent/filename.h"
#include "base/err.h"
#include "base/fdio.h"
#include "net/buf.h"
#include "net/loop.h"

#define APIWRITE_HELD (256U * 1024)
#define APIWRITE_IOV  64
/* What a thread reads at a time, then others have their turn. */
#define APIWRITE_PULL (8U << 20)
/* A client that sends first and listens then would never hear an answer that
 * comes too soon: so much is taken of what will not be written. */
#define APIWRITE_DROP (64U << 20)

struct apiwrite {
	struct fileop op;
	struct files_upload up;
	int mode;
	int64_t offset;
	bool parents;
	bool ended;  /* nothing more will come */
	bool last;   /* what is being written is the end of it */
	int refused; /* the answer, when all has come */
	uint64_t dropped;
	struct bufq waiting, writing;
	struct iovec iov[APIWRITE_IOV];
	int niov;
	int sock;      /* a dup of the client's; -1: not yet */
	bool lent;     /* the thread reads from it, too */
	uint64_t left; /* then: what is to come from there, and what came */
	uint64_t got;
};

/* --- on a thread ------------------------------------------------------- */

static void
apiwrite_work(struct fileop *op)
{
	struct apiwrite *x = (struct apiwrite *)op;

	if (!x->up.open)
		op->result = files_upload_begin(op->sb, op->meant, x->mode,
						x->offset, x->parents, &x->up);
	if (op->result == 0)
		op->result = files_upload_write(&x->up, x->iov, x->niov);
	if (op->result == 0 && x->lent) {
		op->result = files_upload_pull(
		    &x->up, x->sock,
		    x->left < APIWRITE_PULL ? x->left : APIWRITE_PULL, &x->got);
		x->last = x->got == x->left;
	}
	if (op->result == 0 && x->last)
		op->result = files_upload_end(&x->up);
	else if (op->result != 0)
		files_upload_abort(&x->up);
}

static void
apiwrite_end(struct fileop *op)
{
	struct apiwrite *x = (struct apiwrite *)op;

	if (op->job.uid == op->sb->uid)
		files_upload_abort(&x->up);
	else
		files_upload_close(&x->up);
}

/* --- on the loop ------------------------------------------------------- */

static void apiwrite_next(struct fileop *op);

/* With nothing left here, the thread may go on by itself. */
static void
apiwrite_lend(struct apiwrite *x)
{
	int fd;

	x->got = 0;
	if (x->ended || x->waiting.len > 0 ||
	    (fd = httpd_body_lend(x->op.c->rq, &x->left)) == -1)
		return;
	if (x->sock == -1)
		x->sock = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	x->lent = x->sock != -1;
	if (!x->lent)
		httpd_body_return(x->op.c->rq, 0);
}

static void
apiwrite_run(struct apiwrite *x)
{
	size_t n;

	x->niov = bufq_iovec(&x->waiting, x->iov, APIWRITE_IOV, &n);
	x->last = x->ended && n == x->waiting.len;
	bufq_move(&x->writing, &x->waiting, n);
	apiwrite_lend(x);
	fileop_run(&x->op, apiwrite_work, apiwrite_next);
}

static void
apiwrite_answer(struct apiwrite *x)
{
	struct strbuf b = {0};

	strbuf_adds(&b, "{\"path\":");
	filename_add_json(&b, (struct strv){x->op.path.s, x->op.path.len});
	strbuf_addf(&b, ",\"size\":%" PRIu64 "}", x->up.written);
	api_answer(x->op.c, 200, &b);
}

static void
apiwrite_drop(struct apiwrite *x, struct bufq *in)
{
	x->dropped += in->len;
	bufq_clear(in);
	if (!x->ended && x->dropped <= APIWRITE_DROP)
		return;
	x->op.c->on_body = NULL;
	fileop_fail(&x->op, x->refused);
}

static void
apiwrite_refuse(struct apiwrite *x, int err)
{
	x->refused = err;
	apiwrite_drop(x, &x->waiting);
	if (!x->ended)
		httpd_body_resume(x->op.c->rq);
}

static void
apiwrite_next(struct fileop *op)
{
	struct apiwrite *x = (struct apiwrite *)op;

	bufq_clear(&x->writing);
	if (x->lent) {
		x->lent = false;
		x->ended = x->got == x->left;
		httpd_body_return(op->c->rq, x->got);
	}
	if (op->result != 0) {
		apiwrite_refuse(x, op->result);
	} else if (x->last) {
		op->c->on_body = NULL;
		apiwrite_answer(x);
	} else {
		if (!x->ended)
			httpd_body_resume(op->c->rq);
		if (x->waiting.len > 0 || x->ended)
			apiwrite_run(x);
	}
}

static void
apiwrite_body(struct call *c, struct bufq *in, bool end)
{
	struct apiwrite *x = c->state;
	size_t room = APIWRITE_HELD - x->waiting.len;

	if (x->refused != 0) {
		x->ended = end;
		apiwrite_drop(x, in);
		return;
	}
	bufq_move(&x->waiting, in, in->len < room ? in->len : room);
	x->ended = end && in->len == 0;
	if (!x->op.busy && (x->waiting.len > 0 || x->ended))
		apiwrite_run(x);
}

static void
apiwrite_clear(struct fileop *op)
{
	struct apiwrite *x = (struct apiwrite *)op;

	bufq_clear(&x->waiting);
	bufq_clear(&x->writing);
	fd_close(&x->sock);
}

/* --- start ------------------------------------------------------------- */

static int
apiwrite_mode(struct call *c, int *mode)
{
	struct strbuf b = {0};
	unsigned long m;
	char *end;

	*mode = -1;
	if (api_query(c, "mode", &b) && b.len > 0) {
		m = strtoul(b.s, &end, 8);
		if (*end != '\0' || m > 07777 || b.s[0] < '0' || b.s[0] > '7') {
			api_error(c->rq, 400, "bad_query",
				  "mode: an octal mode is wanted");
			strbuf_clear(&b);
			return E_INVALID;
		}
		*mode = (int)m;
	}
	strbuf_clear(&b);
	return 0;
}

/* Missing directories are made unless it says no. */
static bool
apiwrite_parents(struct call *c)
{
	struct strbuf b = {0};
	bool given = api_query(c, "mkdir", &b) && b.len > 0;

	strbuf_clear(&b);
	return !given || api_query_flag(c, "mkdir");
}

/* What would be too large is not even begun. */
static bool
apiwrite_fits(const struct apiwrite *x)
{
	const struct http_head *h = httpd_head(x->op.c->rq);
	uint64_t limit = x->op.sb->max_file;
	uint64_t at = x->offset > 0 ? (uint64_t)x->offset : 0;

	return limit == 0 || h->body != BODY_LENGTH ||
	       (at <= limit && h->content_length <= limit - at);
}

void
api_files_write(struct call *c)
{
	uint64_t offset = 0;
	struct apiwrite *x;
	int mode, given;

	if (apiwrite_mode(c, &mode) != 0 ||
	    (given = api_query_u64(c, "offset", &offset)) == E_INVALID ||
	    (x = fileop_new(c, sizeof(*x))) == NULL)
		return;
	x->mode = mode;
	x->offset = given == 0 ? (int64_t)offset : -1;
	x->parents = apiwrite_parents(c);
	x->sock = -1;
	bufq_init(&x->waiting, loop_bufpool(c->api->o.loop));
	bufq_init(&x->writing, loop_bufpool(c->api->o.loop));
	x->op.end = apiwrite_end;
	x->op.clear = apiwrite_clear;
	httpd_set_max_body(c->rq, 0);
	if (httpd_has_body(c->rq)) {
		c->on_body = apiwrite_body;
		if (!apiwrite_fits(x))
			apiwrite_refuse(x, -EFBIG);
	} else {
		x->ended = true;
		apiwrite_run(x);
	}
}
