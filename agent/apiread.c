/* SPDX-License-Identifier: Apache-2.0 */
/*
 * files/read: a thread reads into buffers of the loop, a piece at a time; a
 * small file is opened, read and closed in one go.
 */
#include "config.h"

#include "agent/apifiles_int.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"
#include "net/buf.h"
#include "net/loop.h"

#define APIREAD_BUFS  16 /* slabs a piece; a small file fits the first */
#define APIREAD_PIECE (APIREAD_BUFS * BUF_SLAB_SIZE)
/* A file that does not tell its size is read into memory up to this. */
#define APIREAD_UNSIZED_MAX (16U << 20)

/* What is wanted: of the query (offset, length) or of a Range field. */
struct apiread_want {
	enum { WANT_ALL, WANT_PART, WANT_RANGE, WANT_LAST } what;
	uint64_t from, n; /* WANT_RANGE: the last byte; WANT_LAST: how many */
};

struct apiread {
	struct fileop op;
	struct apiread_want want;
	int fd;
	uint64_t size, from, n; /* of the file; the part that is sent */
	uint64_t at, left;
	struct strbuf whole; /* of a file without a size */
	struct bufq q[APIREAD_BUFS];
	struct iovec iov[APIREAD_BUFS];
	int niov;
	size_t got;
};

/* --- what is wanted ---------------------------------------------------- */

/* "bytes=a-b", "bytes=a-", "bytes=-n". All else is no Range, as RFC 9110 has
 * it. */
static void
apiread_range(struct call *c, struct apiread_want *want)
{
	struct strv v = http1_get(httpd_head(c->rq), H_RANGE), a;
	uint64_t first = 0, last = UINT64_MAX;

	if (v.p == NULL || !strv_starts(v, STRV("bytes=")) ||
	    strv_index(v, ',') >= 0)
		return;
	v = strv_from(v, 6);
	if (!strv_cut(&v, '-', &a) || v.p == NULL || (a.len == 0 && !v.len))
		return;
	if (a.len > 0 && strv_parse_u64(a, INT64_MAX, false, &first) != 0)
		return;
	if (v.len > 0 && strv_parse_u64(v, INT64_MAX, false, &last) != 0)
		return;
	if (a.len > 0 && last < first)
		return;
	*want = (struct apiread_want){a.len > 0 ? WANT_RANGE : WANT_LAST, first,
				      last};
}

static int
apiread_query(struct call *c, struct apiread_want *want)
{
	int a, b;

	want->n = UINT64_MAX;
	if ((a = api_query_u64(c, "offset", &want->from)) == E_INVALID ||
	    (b = api_query_u64(c, "length", &want->n)) == E_INVALID)
		return E_INVALID;
	want->what = a == 0 || b == 0 ? WANT_PART : WANT_ALL;
	if (want->what == WANT_ALL)
		apiread_range(c, want);
	return 0;
}

/* The part of the file that is meant. False: there is none. */
static bool
apiread_part(struct apiread *x)
{
	const struct apiread_want *w = &x->want;
	uint64_t from = w->from, n = w->n;

	if (w->what == WANT_LAST) {
		n = w->n < x->size ? w->n : x->size;
		from = x->size - n;
		if (n == 0)
			return false;
	} else if (from > x->size ||
		   (w->what == WANT_RANGE && from == x->size)) {
		return false;
	} else if (w->what == WANT_RANGE) {
		n = w->n - from < x->size - from ? w->n - from + 1
						 : x->size - from;
	} else if (n > x->size - from) {
		n = x->size - from;
	}
	x->from = x->at = from;
	x->n = x->left = n;
	return true;
}

/* --- on a thread ------------------------------------------------------- */

/* What fits. 0: the file ends. */
static ssize_t
apiread_piece(struct apiread *x)
{
	size_t room = 0;
	ssize_t k;
	int n = 0;

	for (; n < x->niov && room < x->left; n++) {
		if (x->iov[n].iov_len > x->left - room)
			x->iov[n].iov_len = (size_t)(x->left - room);
		room += x->iov[n].iov_len;
	}
	do
		k = preadv(x->fd, x->iov, n, (off_t)x->at);
	while (k < 0 && errno == EINTR);
	if (k < 0)
		return -errno;
	x->got = (size_t)k;
	x->at += (uint64_t)k;
	x->left -= (uint64_t)k;
	return k;
}

/* /proc and the like: the size is what reading gives. */
static int
apiread_unsized(struct apiread *x)
{
	char buf[4096];
	ssize_t n;

	strbuf_add(&x->whole, "", 0);
	while ((n = read(x->fd, buf, sizeof(buf))) > 0) {
		if (x->whole.len > APIREAD_UNSIZED_MAX)
			return -EFBIG;
		strbuf_add(&x->whole, buf, (size_t)n);
	}
	return n < 0 ? -errno : 0;
}

static int
apiread_first(struct apiread *x)
{
	ssize_t k;

	if (x->size == 0)
		return apiread_unsized(x);
	if (!apiread_part(x))
		return -ERANGE;
	if (x->n == 0)
		return 0;
	if ((k = apiread_piece(x)) < 0)
		return (int)k;
	/* Files in /sys say 4096 whatever they hold. */
	if (x->want.what == WANT_ALL && x->size <= BUF_SLAB_SIZE &&
	    x->left > 0) {
		x->size = x->n = x->got;
		x->left = 0;
	}
	return 0;
}

static void
apiread_open(struct fileop *op)
{
	struct apiread *x = (struct apiread *)op;

	op->result = files_open(op->sb, op->meant, &x->fd, &x->size);
	if (op->result == 0)
		op->result = apiread_first(x);
	if (op->result != 0 || x->left == 0)
		fd_close(&x->fd);
}

static void
apiread_more(struct fileop *op)
{
	struct apiread *x = (struct apiread *)op;
	ssize_t k = apiread_piece(x);

	if (k <= 0) /* it shrank: that must not look whole */
		op->result = k < 0 ? (int)k : -EIO;
	if (k <= 0 || x->left == 0)
		fd_close(&x->fd);
}

/* --- on the loop ------------------------------------------------------- */

static void apiread_next(struct fileop *op);

static void
apiread_run(struct apiread *x, int bufs, void (*work)(struct fileop *),
	    void (*next)(struct fileop *))
{
	for (x->niov = 0; x->niov < bufs; x->niov++)
		x->iov[x->niov].iov_base = bufq_reserve(
		    &x->q[x->niov], BUF_SLAB_SIZE, &x->iov[x->niov].iov_len);
	x->got = 0;
	fileop_run(&x->op, work, next);
}

static void
apiread_drained(struct call *c)
{
	struct apiread *x = c->state;

	if (!x->op.busy && x->left > 0) /* while busy it is the thread's */
		apiread_run(x, APIREAD_BUFS, apiread_more, apiread_next);
}

/* What came goes out; with room for more, more is read meanwhile. */
static void
apiread_next(struct fileop *op)
{
	struct apiread *x = (struct apiread *)op;
	struct httpd_req *rq = op->c->rq;

	if (op->result != 0) {
		fileop_fail(op, op->result);
		return;
	}
	for (int i = 0; i < x->niov; i++) {
		size_t n =
		    x->got < x->iov[i].iov_len ? x->got : x->iov[i].iov_len;

		bufq_commit(&x->q[i], n);
		httpd_move(rq, &x->q[i], n);
		x->got -= n;
	}
	x->niov = 0;
	if (x->left == 0) {
		httpd_end(rq);
		return;
	}
	httpd_flush(rq);
	if (!httpd_over_high(rq))
		apiread_run(x, APIREAD_BUFS, apiread_more, apiread_next);
}

static void
apiread_begin(struct fileop *op)
{
	struct apiread *x = (struct apiread *)op;
	bool partial = x->want.what == WANT_RANGE || x->want.what == WANT_LAST;
	struct http_writer *w;

	op->c->on_drained = apiread_drained;
	w = httpd_begin(op->c->rq, partial ? 206 : 200, STRV_NULL, BODY_LENGTH,
			x->n, 512);
	http1_put(w, STRV("Content-Type"), STRV("application/octet-stream"));
	http1_put(w, STRV("Accept-Ranges"), STRV("bytes"));
	if (partial)
		http1_put_f(w, STRV("Content-Range"),
			    "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, x->from,
			    x->from + x->n - 1, x->size);
	if (httpd_end_head(op->c->rq) != 0)
		httpd_abort(op->c->rq);
	else
		apiread_next(op);
}

static void
apiread_bad_range(struct apiread *x)
{
	char field[64], text[64];

	(void)snprintf(field, sizeof(field),
		       "Content-Range: bytes */%" PRIu64 "\r\n", x->size);
	(void)snprintf(text, sizeof(text),
		       "the file has only %" PRIu64 " bytes", x->size);
	api_error_with(x->op.c->rq, 416, strv_of(field), "bad_range", text);
}

static void
apiread_opened(struct fileop *op)
{
	struct apiread *x = (struct apiread *)op;

	if (op->result == -ERANGE)
		apiread_bad_range(x);
	else if (op->result != 0)
		fileop_fail(op, op->result);
	else if (x->whole.s == NULL)
		apiread_begin(op);
	else if (api_hold(op->c, x->whole.len))
		httpd_respond(op->c->rq, 200, "application/octet-stream",
			      STRV_NULL,
			      (struct strv){x->whole.s, x->whole.len});
}

static void
apiread_end(struct fileop *op)
{
	fd_close(&((struct apiread *)op)->fd);
}

static void
apiread_clear(struct fileop *op)
{
	struct apiread *x = (struct apiread *)op;

	for (int i = 0; i < APIREAD_BUFS; i++)
		bufq_clear(&x->q[i]);
	strbuf_clear(&x->whole);
}

void
api_files_read(struct call *c)
{
	struct apiread_want want = {0};
	struct apiread *x;

	if (apiread_query(c, &want) != 0 ||
	    (x = fileop_new(c, sizeof(*x))) == NULL)
		return;
	x->fd = -1;
	x->want = want;
	for (int i = 0; i < APIREAD_BUFS; i++)
		bufq_init(&x->q[i], loop_bufpool(c->api->o.loop));
	x->op.end = apiread_end;
	x->op.clear = apiread_clear;
	apiread_run(x, 1, apiread_open, apiread_opened);
}
