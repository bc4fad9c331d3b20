/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Downloading an archive. One range may be asked for (RFC 9110, 14), so that a
 * download that broke off can go on; what cannot be served so is served whole.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "gateway/apifile.h"
#include "gateway/gwconf.h"
#include "gateway/jobs.h"
#include "gateway/snapapi_int.h"
#include "gateway/snapshots.h"

static void
closed_cb(void *arg)
{
	struct snapapi *sa = arg;

	sa->ndownloads--;
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
	struct snapapi *sa = r->arg;
	struct apifile *f = apifile_new(r, fd, closed_cb, sa);
	uint64_t from = 0, to = 0, len;
	char etag[SNAPSHOT_SHA_LEN + 3], range[80];
	struct http_writer *w;
	bool part;
	int res;

	sa->ndownloads++;
	(void)snprintf(etag, sizeof(etag), "\"%s\"",
		       sn->sha256[0] != '\0' ? sn->sha256 : sn->id);
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
	part = res == 0;
	len = part ? to - from + 1 : sn->size;
	w = httpd_begin(r->rq, part ? 206 : 200,
			part ? STRV("Partial Content") : STRV("OK"),
			BODY_LENGTH, len, 512);
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
	apifile_send(f, from, len);
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
