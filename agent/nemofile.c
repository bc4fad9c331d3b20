/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /upload and GET /download: whole files, as open(path, "wb") and "rb"
 * have them: what exists is written anew in its place. The disk is a thread's,
 * and so is the text of an upload, from parsing it to letting go of it: a
 * hundred megabytes take too long for the loop. A download is read while it is
 * sent.
 */
#include "config.h"

#include "agent/nemo_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/err.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "base/query.h"
#include "net/loop.h"

#define NEMOFILE_PIECE 262144
/* A file that does not tell its size (/proc) is read into memory. */
#define NEMOFILE_UNSIZED_MAX (16U << 20)

struct nemofile {
	struct work_job job;
	struct nemo_call *c; /* NULL: the client has gone */
	struct nemo *n;
	char *path;
	int fd;
	uint64_t size, at;
	struct strbuf data;
	bool begun;
	bool missing; /* upload: path or content */
	int eno;      /* why it failed, or */
	char *error;  /* in words; NULL: as eno says */
};

static void
nemofile_free(struct nemofile *x)
{
	fd_close(&x->fd);
	strbuf_clear(&x->data);
	free(x->path);
	free(x->error);
	free(x);
}

static void
nemofile_closed(struct nemo_call *c)
{
	struct nemofile *x = c->state;

	if (x->job.state == WORK_IDLE)
		nemofile_free(x);
	else
		x->c = NULL; /* its job frees it */
}

static struct nemofile *
nemofile_new(struct nemo_call *c)
{
	struct nemofile *x = xcalloc(1, sizeof(*x));

	x->c = c;
	x->n = c->n;
	x->fd = -1;
	c->state = x;
	c->on_closed = nemofile_closed;
	return x;
}

static void
nemofile_submit(struct nemofile *x, void (*fn)(struct work_job *),
		void (*done)(struct work_job *))
{
	memset(&x->job, 0, sizeof(x->job));
	x->job.fn = fn;
	x->job.done = done;
	x->job.uid = WORK_SELF;
	work_submit(&x->n->lane, &x->job);
}

/* After a job: false when there is nobody to answer, and x is gone. */
static bool
nemofile_wanted(struct nemofile *x)
{
	if (x->c != NULL)
		return true;
	nemofile_free(x);
	return false;
}

static void
nemofile_fail(struct nemofile *x)
{
	if (x->error != NULL)
		nemo_error(x->c, 500, "%s", x->error);
	else
		nemo_error(x->c, 500, "[Errno %d] %s: '%s'", x->eno,
			   strerror(x->eno), x->path);
}

/* --- upload ------------------------------------------------------------ */

bool
nemo_base64(struct strv text, struct strbuf *out, const char **why)
{
	unsigned at = 0, pads = 0, bits = 0;

	for (size_t i = 0; i < text.len; i++) {
		int v = base64_value(text.p[i]);

		if (text.p[i] == '=' && at >= 2 && at + ++pads >= 4)
			return true; /* what follows is not looked at */
		if (v < 0)
			continue;
		pads = 0;
		bits = bits << 6 | (unsigned)v;
		if (++at > 1)
			strbuf_addc(out, (char)(bits >> (8 - 2 * at)));
		at %= 4;
	}
	if (at == 0)
		return true;
	*why = at == 1 ? "Invalid base64-encoded string: number of data "
			 "characters cannot be 1 more than a multiple of 4"
		       : "Incorrect padding";
	return false;
}

/* What int(mode, 8) makes of it. */
static bool
nemofile_mode(const char *s, mode_t *out)
{
	unsigned long m;
	char *end;

	if (s[0] == '0' && (s[1] == 'o' || s[1] == 'O'))
		s += 2;
	if (*s < '0' || *s > '7')
		return false;
	m = strtoul(s, &end, 8);
	*out = (mode_t)m;
	return *end == '\0' && m <= 07777;
}

static int
nemofile_open_new(const char *path)
{
	const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY |
			  O_NONBLOCK; /* a FIFO without a reader: ENXIO */
	const char *slash = strrchr(path, '/');
	char *dir;
	int r = 0;

	if (slash != NULL && slash != path) {
		dir = xstrndup(path, (size_t)(slash - path));
		r = dir_make(dir, 0777);
		free(dir);
	}
	if (r == E_EXISTS)
		errno = ENOTDIR;
	return r == 0 ? open(path, flags, 0666) : -1;
}

static void
nemofile_put(struct nemofile *x, const char *mode, struct strv data)
{
	mode_t bits;

	errno = 0;
	x->fd = nemofile_open_new(x->path);
	if (x->fd == -1 || fd_write_all(x->fd, data.p, data.len) != 0) {
		x->eno = errno != 0 ? errno : EIO;
		return;
	}
	if (mode == NULL || *mode == '\0')
		return;
	if (!nemofile_mode(mode, &bits))
		x->error = xasprintf("mode: '%.100s' is not octal", mode);
	else if (fchmod(x->fd, bits) != 0)
		x->eno = errno;
}

static void
nemofile_upload(struct nemofile *x, const struct json *root)
{
	const struct json *content = json_get(root, "content");
	const struct json *mode = json_get(root, "mode");
	const char *path = json_string(json_get(root, "path"));
	const char *text = json_string(content), *why = NULL;
	struct strbuf data = {0};

	if (path == NULL || *path == '\0' || content == NULL ||
	    json_type(content) == JSON_NULL) {
		x->missing = true;
	} else if (text == NULL ||
		   (mode != NULL && json_type(mode) != JSON_NULL &&
		    json_string(mode) == NULL)) {
		x->error = xstrdup("content, mode: not a string");
	} else if (!nemo_base64(strv_of(text), &data, &why)) {
		x->error = xstrdup(why);
	} else {
		x->path = xstrdup(path);
		nemofile_put(x, json_string(mode),
			     (struct strv){data.s, data.len});
	}
	strbuf_clear(&data);
}

static void
nemofile_upload_job(struct work_job *j)
{
	struct nemofile *x = CONTAINER_OF(j, struct nemofile, job);
	struct json_doc *doc = nemo_json((struct strv){x->data.s, x->data.len});

	strbuf_clear(&x->data);
	nemofile_upload(x, json_root(doc));
	json_doc_free(doc);
}

static void
nemofile_uploaded(struct work_job *j)
{
	struct nemofile *x = CONTAINER_OF(j, struct nemofile, job);
	struct strbuf b = {0};

	if (!nemofile_wanted(x))
		return;
	if (!j->ran)
		nemo_error(x->c, 503, "too busy");
	else if (x->missing)
		nemo_error(x->c, 400, "missing path/content");
	else if (x->eno != 0 || x->error != NULL)
		nemofile_fail(x);
	else {
		strbuf_adds(&b, "{\"ok\": true}");
		nemo_answer(x->c, 200, &b);
	}
}

void
nemo_upload(struct nemo_call *c)
{
	struct nemofile *x = nemofile_new(c);

	x->data = c->body;
	c->body = (struct strbuf){0};
	nemofile_submit(x, nemofile_upload_job, nemofile_uploaded);
}

/* --- download ---------------------------------------------------------- */

static void nemofile_next(struct nemofile *x);

/* Up to n bytes from where it is, onto data. */
static void
nemofile_read(struct nemofile *x, size_t n)
{
	char *buf = xmalloc(NEMOFILE_PIECE);
	size_t some;
	ssize_t got;

	while (n > 0) {
		some = n < NEMOFILE_PIECE ? n : NEMOFILE_PIECE;
		got = read(x->fd, buf, some);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			x->eno = errno;
		if (got <= 0)
			break;
		strbuf_add(&x->data, buf, (size_t)got);
		n -= (size_t)got;
	}
	free(buf);
}

static void
nemofile_open_job(struct work_job *j)
{
	struct nemofile *x = CONTAINER_OF(j, struct nemofile, job);
	struct stat st;

	x->fd = open(x->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (x->fd == -1 || fstat(x->fd, &st) != 0) {
		x->eno = errno;
		return;
	}
	if (!S_ISREG(st.st_mode)) {
		x->eno = ENOENT;
		return;
	}
	x->size = (uint64_t)st.st_size;
	if (x->size > 0) {
		nemofile_read(x, x->size < NEMOFILE_PIECE ? (size_t)x->size
							  : NEMOFILE_PIECE);
		return;
	}
	nemofile_read(x, NEMOFILE_UNSIZED_MAX);
	x->size = x->data.len;
}

static void
nemofile_piece_job(struct work_job *j)
{
	struct nemofile *x = CONTAINER_OF(j, struct nemofile, job);
	uint64_t left = x->size - x->at;

	nemofile_read(x, left < NEMOFILE_PIECE ? (size_t)left : NEMOFILE_PIECE);
}

static bool
nemofile_begin(struct nemofile *x)
{
	struct httpd_req *rq = x->c->rq;

	http1_put(httpd_begin(rq, 200, STRV_NULL, BODY_LENGTH, x->size, 256),
		  STRV("Content-Type"), STRV("application/octet-stream"));
	x->begun = true;
	return httpd_end_head(rq) == 0;
}

static void
nemofile_done(struct work_job *j)
{
	struct nemofile *x = CONTAINER_OF(j, struct nemofile, job);
	struct httpd_req *rq;

	if (!nemofile_wanted(x))
		return;
	rq = x->c->rq;
	if (!x->begun && !j->ran) {
		nemo_error(x->c, 503, "too busy");
	} else if (!x->begun && (x->eno == ENOENT || x->eno == ENOTDIR ||
				 x->eno == EACCES || x->eno == ENXIO)) {
		nemo_error(x->c, 404, "not found: %s", x->path);
	} else if (!x->begun && x->eno != 0) {
		nemofile_fail(x);
	} else if (!x->begun && !nemofile_begin(x)) {
		httpd_abort(rq);
	} else if (!j->ran || x->eno != 0 ||
		   (x->data.len == 0 && x->at < x->size)) {
		httpd_abort(rq); /* it must not look whole */
	} else {
		httpd_write(rq, x->data.s, x->data.len);
		x->at += x->data.len;
		strbuf_reset(&x->data);
		nemofile_next(x);
	}
}

static void
nemofile_next(struct nemofile *x)
{
	struct httpd_req *rq = x->c->rq;

	if (x->at >= x->size) {
		httpd_end(rq);
		return;
	}
	httpd_flush(rq);
	if (!httpd_over_high(rq))
		nemofile_submit(x, nemofile_piece_job, nemofile_done);
}

static void
nemofile_drained(struct nemo_call *c)
{
	struct nemofile *x = c->state;

	if (x->begun && x->at < x->size && x->job.state == WORK_IDLE)
		nemofile_next(x);
}

void
nemo_download(struct nemo_call *c)
{
	struct strbuf path = {0};
	struct nemofile *x;

	if (!query_get(c->query, "path", &path) || path.len == 0) {
		nemo_error(c, 400, "missing ?path=");
	} else if (memchr(path.s, '\0', path.len) != NULL) {
		nemo_error(c, 404, "not found: %s", path.s);
	} else {
		x = nemofile_new(c);
		x->path = strbuf_take(&path);
		c->on_drained = nemofile_drained;
		nemofile_submit(x, nemofile_open_job, nemofile_done);
	}
	strbuf_clear(&path);
}
