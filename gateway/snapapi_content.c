/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Downloading an archive: a piece at a time while the worker takes it. One
 * range may be asked for (RFC 9110, 14), so that a download that broke off can
 * go on; what cannot be served so is served whole.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"
#include "gateway/gwconf.h"
#include "gateway/jobs.h"
#include "gateway/snapapi_int.h"
#include "gateway/snapshots.h"

#define PIECE 65536

struct sending {
	struct snapapi *sa;
	struct httpd_req *rq;
	int fd;
	uint64_t at, left;
};

static void
send_more(struct sending *s)
{
	char piece[PIECE];
	ssize_t n;

	while (s->left > 0 && !httpd_over_high(s->rq)) {
		n = pread(s->fd, piece, s->left < PIECE ? s->left : PIECE,
			  (off_t)s->at);
		if (n <= 0) {
			httpd_abort(s->rq);
			return;
		}
		httpd_write(s->rq, piece, (size_t)n);
		s->at += (uint64_t)n;
		s->left -= (uint64_t)n;
	}
	if (s->left == 0)
		httpd_end(s->rq);
	else
		httpd_flush(s->rq);
}

static void
drained_cb(struct httpd_req *rq, void *arg)
{
	struct sending *s = arg;

	(void)rq;
	if (s->left > 0)
		send_more(s);
}

static void
closed_cb(struct httpd_req *rq, int err, void *arg)
{
	struct sending *s = arg;

	(void)rq;
	(void)err;
	fd_close(&s->fd);
	s->sa->ndownloads--;
}

/* "bytes=A-", "bytes=A-B" or "bytes=-N" of size bytes. 0: *from and *to (the
 * last one) are set; E_NOTFOUND: no range; E_LIMIT: not within it. */
static int
parse_range(struct strv v, uint64_t size, uint64_t *from, uint64_t *to)
{
	struct strv a, b;

	if (!strv_starts(v, STRV("bytes=")) || strv_index(v, ',') >= 0)
		return E_NOTFOUND;
	b = strv_from(v, 6);
	if (!strv_cut(&b, '-', &a) || b.p == NULL || (a.len | b.len) == 0)
		return E_NOTFOUND;
	*to = size - 1;
	if (a.len == 0) {
		if (strv_parse_u64(b, INT64_MAX, false, from) != 0)
			return E_NOTFOUND;
		if (*from == 0 || size == 0)
			return E_LIMIT;
		*from = *from < size ? size - *from : 0;
		return 0;
	}
	if (strv_parse_u64(a, INT64_MAX, false, from) != 0 ||
	    (b.len != 0 && strv_parse_u64(b, INT64_MAX, false, to) != 0) ||
	    (b.len != 0 && *to < *from))
		return E_NOTFOUND;
	if (*from >= size)
		return E_LIMIT;
	if (*to >= size)
		*to = size - 1;
	return 0;
}

static bool
if_range_ok(struct api_req *r, const char *etag)
{
	struct strv v = http1_find(r->head, STRV("If-Range"));

	return v.p == NULL || strv_eq(v, strv_of(etag));
}

static void
put_fields(struct http_writer *w, const struct snapshot *sn, const char *etag)
{
	char name[96];

	(void)snprintf(name, sizeof(name), "attachment; filename=\"%s\"",
		       sn->file);
	http1_put(w, STRV("Content-Type"),
		  strv_ends(strv_of(sn->file), STRV(".zst"))
		      ? STRV("application/zstd")
		      : STRV("application/gzip"));
	http1_put(w, STRV("Content-Disposition"), strv_of(name));
	http1_put(w, STRV("Accept-Ranges"), STRV("bytes"));
	http1_put(w, STRV("Cache-Control"), STRV("private, no-cache"));
	http1_put(w, STRV("ETag"), strv_of(etag));
}

static void
send_file(struct api_req *r, const struct snapshot *sn, int fd)
{
	static const struct httpd_req_cbs cbs = {.drained = drained_cb,
						 .closed = closed_cb};
	struct sending *s = httpd_alloc(r->rq, sizeof(*s));
	uint64_t from = 0, to = 0;
	char etag[32], range[80];
	struct http_writer *w;
	bool part;
	int res;

	*s = (struct sending){r->arg, r->rq, fd, 0, sn->size};
	s->sa->ndownloads++;
	httpd_set_cbs(r->rq, &cbs, s);
	(void)snprintf(etag, sizeof(etag), "\"%s\"", sn->id);
	res = if_range_ok(r, etag)
		  ? parse_range(http1_find(r->head, STRV("Range")), sn->size,
				&from, &to)
		  : E_NOTFOUND;
	if (res == E_LIMIT) {
		(void)snprintf(range, sizeof(range),
			       "Content-Range: bytes */%llu\r\n",
			       (unsigned long long)sn->size);
		httpd_respond(r->rq, 416, NULL, strv_of(range), STRV_NULL);
		return;
	}
	if ((part = res == 0)) {
		s->at = from;
		s->left = to - from + 1;
	}
	w = httpd_begin(r->rq, part ? 206 : 200,
			part ? STRV("Partial Content") : STRV("OK"),
			BODY_LENGTH, s->left, 512);
	put_fields(w, sn, etag);
	(void)snprintf(range, sizeof(range), "bytes %llu-%llu/%llu",
		       (unsigned long long)from, (unsigned long long)to,
		       (unsigned long long)sn->size);
	if (part)
		http1_put(w, STRV("Content-Range"), strv_of(range));
	if (httpd_end_head(r->rq) != 0) {
		api_error(r, 500, "internal", "the head is too long");
		return;
	}
	if (r->head->method == M_HEAD)
		s->left = 0;
	send_more(s);
}

void
snapapi_content(struct api_req *r)
{
	const struct snapapi *sa = r->arg;
	struct snapshot sn;
	int fd = -1, res;

	if (snapapi_find(r, &sn) != 0)
		return;
	if (sn.state != SNAPSHOT_READY) {
		api_error(r, 409, "not_ready", "the snapshot is %s",
			  snapshot_state_name(sn.state));
	} else if (sa->ndownloads >= jobs_conf(sa->jobs)->jobs.max_streams) {
		/* Who reads slowly holds a descriptor for as long. */
		api_error(r, 429, "too_many_streams",
			  "too many snapshots are downloaded already");
	} else {
		struct strv ns = strv_of(sn.ns);
		struct snapshot again;

		res =
		    snapshots_open(sa->snapshots, ns, r->param[0], &again, &fd);
		if (res == 0 || res == E_BUSY)
			snapshot_clear(&again);
		if (res == 0)
			send_file(r, &sn, fd);
		else
			api_error(r, 503, "store",
				  "the snapshot's file cannot be read");
	}
	snapshot_clear(&sn);
}
