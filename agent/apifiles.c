/* SPDX-License-Identifier: Apache-2.0 */
/* The routes files/...: see files.h for what they may reach. */
#include "config.h"

#include "agent/api_int.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/files.h"
#include "agent/work.h"
#include "base/err.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "net/buf.h"
#include "net/loop.h"

#define APIFILES_REMOVALS 4 /* of one sandbox, under way */
#define APIFILES_PIECE    16384
/* A file that does not tell its size is read into memory up to this. */
#define APIFILES_UNSIZED_MAX (16U << 20)

/* --- failures ---------------------------------------------------------- */

static void
apifiles_fail(struct call *c, const char *path, int err)
{
	static const struct {
		int eno;
		unsigned status;
		const char *code;
	} known[] = {
	    {ENOENT, 404, "not_found"},      {ENOTDIR, 404, "not_found"},
	    {EISDIR, 409, "is_directory"},   {ENOTEMPTY, 409, "not_empty"},
	    {EEXIST, 409, "exists"},         {EACCES, 400, "denied"},
	    {EPERM, 400, "denied"},          {EXDEV, 400, "denied"},
	    {ELOOP, 400, "denied"},          {EINVAL, 400, "bad_path"},
	    {ENAMETOOLONG, 400, "bad_path"}, {EROFS, 400, "read_only"},
	    {ENOSPC, 507, "no_space"},       {EDQUOT, 507, "no_space"},
	    {EFBIG, 413, "too_large"},       {EOVERFLOW, 413, "too_many"},
	};

	if (err == FILES_NOT_FILE) {
		api_error(c->rq, 400, "not_a_file",
			  "%.300s: not a regular file", path);
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		if (known[i].eno == -err) {
			api_error(c->rq, known[i].status, known[i].code,
				  "%.300s: %s", path, strerror(-err));
			return;
		}
	}
	api_error(c->rq, 500, "internal", "%.300s: %s", path, strerror(-err));
}

/* The path parameter, decoded; answers and returns false when it is none. */
static bool
apifiles_path(struct call *c, struct strbuf *path)
{
	if (!api_query(c, "path", path) || path->len == 0)
		api_error(c->rq, 400, "bad_path", "path: missing");
	else if (path->len > FILES_PATH_MAX)
		api_error(c->rq, 400, "bad_path", "path: too long");
	else if (memchr(path->s, '\0', path->len) != NULL)
		api_error(c->rq, 400, "bad_path", "path: has a NUL in it");
	else
		return true;
	strbuf_clear(path);
	return false;
}

/* --- stat, list, mkdir, delete ----------------------------------------- */

static void
apifiles_entry(struct strbuf *b, struct strv name, struct strv path,
	       const struct files_stat *st)
{
	static const char *const types[] = {"file", "dir", "symlink"};

	strbuf_adds(b, "{\"name\":");
	strbuf_add_json(b, name);
	strbuf_adds(b, ",\"path\":");
	strbuf_add_json(b, path);
	strbuf_addf(b,
		    ",\"type\":\"%s\",\"size\":%" PRIu64
		    ",\"mtime_ms\":%" PRId64 ",\"mode\":%u}",
		    types[st->type], st->size, st->mtime_ms, st->mode);
}

static struct strv
apifiles_base(struct strv path)
{
	size_t i;

	while (path.len > 1 && path.p[path.len - 1] == '/')
		path.len--;
	for (i = path.len; i > 0 && path.p[i - 1] != '/';)
		i--;
	return i < path.len ? strv_from(path, i) : path;
}

void
api_files_stat(struct call *c)
{
	struct strbuf path = {0}, b = {0};
	struct files_stat st;
	int r;

	if (!apifiles_path(c, &path))
		return;
	if ((r = files_stat(c->sb, path.s, &st)) != 0) {
		apifiles_fail(c, path.s, r);
	} else {
		struct strv v = {path.s, path.len};

		apifiles_entry(&b, apifiles_base(v), v, &st);
		api_answer(c, 200, &b);
	}
	strbuf_clear(&path);
}

struct apilist {
	struct strbuf out;
	struct strbuf path; /* of the directory, with a slash at its end */
	size_t dir_len;
};

static void
apilist_cb(const char *name, const struct files_stat *st, void *arg)
{
	struct apilist *l = arg;

	if (l->out.s[l->out.len - 1] != '[')
		strbuf_addc(&l->out, ',');
	l->path.len = l->dir_len;
	strbuf_adds(&l->path, name);
	apifiles_entry(&l->out, strv_of(name),
		       (struct strv){l->path.s, l->path.len}, st);
}

void
api_files_list(struct call *c)
{
	struct apilist l = {0};
	char *dir;
	int r;

	if (!apifiles_path(c, &l.path))
		return;
	dir = xstrdup(l.path.s);
	if (l.path.s[l.path.len - 1] != '/')
		strbuf_addc(&l.path, '/');
	l.dir_len = l.path.len;
	strbuf_adds(&l.out, "{\"entries\":[");
	r = files_list(c->sb, dir, apilist_cb, &l);
	if (r == 0) {
		strbuf_adds(&l.out, "]}");
		api_answer(c, 200, &l.out);
	} else {
		apifiles_fail(c, dir, r);
	}
	strbuf_clear(&l.out);
	strbuf_clear(&l.path);
	free(dir);
}

static void
apifiles_done(struct call *c, struct strbuf *path, const char *word, int r)
{
	struct strbuf b = {0};

	if (r != 0) {
		apifiles_fail(c, path->s, r);
	} else {
		strbuf_addf(&b, "{\"%s\":", word);
		strbuf_add_json(&b, (struct strv){path->s, path->len});
		strbuf_addc(&b, '}');
		api_answer(c, 200, &b);
	}
	strbuf_clear(path);
}

void
api_files_mkdir(struct call *c)
{
	struct strbuf path = {0};

	if (apifiles_path(c, &path))
		apifiles_done(c, &path, "created", files_mkdir(c->sb, path.s));
}

/* Directories are removed beside the loop: one with a million files takes
 * seconds, which everybody else would wait. */
struct apidelete {
	struct call *c; /* NULL: the client went away */
	struct api *api;
	struct sandbox *sb;
	struct strbuf path;
	struct files_removal job;
};

static void
apidelete_job(void *arg)
{
	struct apidelete *x = arg;

	files_delete_run(&x->job);
}

static void
apidelete_done(void *arg)
{
	struct apidelete *x = arg;

	if (x->c != NULL) {
		x->c->on_closed = NULL;
		apifiles_done(x->c, &x->path, "deleted", x->job.result);
	}
	files_delete_end(&x->job);
	x->sb->removals--;
	sandbox_leave(x->sb);
	x->api->busy--;
	strbuf_clear(&x->path);
	free(x);
}

static void
apidelete_closed(struct call *c, int err)
{
	struct apidelete *x = c->state;

	(void)err;
	x->c = NULL;
}

static void
apidelete_start(struct call *c, struct strbuf *path, struct files_removal *job)
{
	struct apidelete *x;

	if (c->sb->removals >= APIFILES_REMOVALS) {
		files_delete_end(job);
		strbuf_clear(path);
		api_error(c->rq, 429, "limit", "too much is being removed");
		return;
	}
	x = xcalloc(1, sizeof(*x));
	x->c = c;
	x->api = c->api;
	x->sb = c->sb;
	x->path = *path;
	x->job = *job;
	x->sb->removals++;
	sandbox_enter(x->sb);
	x->api->busy++;
	c->state = x;
	c->on_closed = apidelete_closed;
	work_submit(c->api->o.work, apidelete_job, apidelete_done, x);
}

void
api_files_delete(struct call *c)
{
	bool recursive = api_query_flag(c, "recursive");
	struct files_removal job;
	struct strbuf path = {0};
	int r;

	if (!apifiles_path(c, &path))
		return;
	r = files_delete(c->sb, path.s, recursive ? &job : NULL);
	if (r == FILES_MORE)
		apidelete_start(c, &path, &job);
	else
		apifiles_done(c, &path, "deleted", r);
}

/* --- read -------------------------------------------------------------- */

struct apiread {
	struct call *c;
	int fd;
	uint64_t at, left;
	struct bufq q;
};

static void
apiread_pump(struct call *c)
{
	struct apiread *x = c->state;
	size_t room;
	ssize_t n;
	char *p;

	while (x->left > 0 && !httpd_over_high(c->rq)) {
		p = bufq_reserve(&x->q, APIFILES_PIECE, &room);
		if (room > x->left)
			room = (size_t)x->left;
		n = pread(x->fd, p, room, (off_t)x->at);
		bufq_commit(&x->q, n > 0 ? (size_t)n : 0);
		if (n <= 0) { /* it shrank: must not look whole */
			httpd_abort(c->rq);
			x->left = 0;
			return;
		}
		x->at += (size_t)n;
		x->left -= (size_t)n;
		httpd_move(c->rq, &x->q, x->q.len);
	}
	if (x->left == 0)
		httpd_end(c->rq);
	else
		httpd_flush(c->rq);
}

static void
apiread_drained(struct call *c)
{
	struct apiread *x = c->state;

	if (x->left > 0)
		apiread_pump(c);
}

static void
apiread_closed(struct call *c, int err)
{
	struct apiread *x = c->state;

	(void)err;
	fd_close(&x->fd);
	bufq_clear(&x->q);
	free(x);
}

/* /proc and the like: the size is what reading gives. */
static void
apiread_unsized(struct call *c, int fd, const char *path)
{
	struct strbuf b = {0};
	char buf[4096];
	ssize_t n;

	strbuf_add(&b, "", 0);
	while ((n = read(fd, buf, sizeof(buf))) > 0 &&
	       b.len < APIFILES_UNSIZED_MAX)
		strbuf_add(&b, buf, (size_t)n);
	if (n < 0)
		apifiles_fail(c, path, -errno);
	else
		httpd_respond(c->rq, 200, "application/octet-stream", STRV_NULL,
			      (struct strv){b.s, b.len});
	strbuf_clear(&b);
}

/* "bytes=a-b", "bytes=a-", "bytes=-n". E_NOTFOUND: no (usable) Range, as RFC
 * 9110 has it; E_LIMIT: not within the file. */
static int
apiread_range(struct call *c, uint64_t size, uint64_t *from, uint64_t *n)
{
	struct strv v = http1_get(httpd_head(c->rq), H_RANGE), a;
	uint64_t first = 0, last = size - 1;

	if (v.p == NULL || !strv_starts(v, STRV("bytes=")) ||
	    strv_index(v, ',') >= 0)
		return E_NOTFOUND;
	v = strv_from(v, 6);
	if (!strv_cut(&v, '-', &a) || v.p == NULL || (a.len == 0 && !v.len))
		return E_NOTFOUND;
	if (a.len > 0 && strv_parse_u64(a, INT64_MAX, false, &first) != 0)
		return E_NOTFOUND;
	if (v.len > 0 && strv_parse_u64(v, INT64_MAX, false, &last) != 0)
		return E_NOTFOUND;
	if (a.len > 0 && v.len > 0 && last < first)
		return E_NOTFOUND;
	if (a.len == 0) { /* the last so many */
		if (last == 0)
			return E_LIMIT;
		first = last < size ? size - last : 0;
		last = size - 1;
	}
	if (first >= size)
		return E_LIMIT;
	if (last >= size)
		last = size - 1;
	*from = first;
	*n = last - first + 1;
	return 0;
}

static void
apiread_start(struct call *c, int fd, uint64_t size, uint64_t from, uint64_t n,
	      bool partial)
{
	struct apiread *x = xcalloc(1, sizeof(*x));
	struct http_writer *w;

	x->c = c;
	x->fd = fd;
	x->at = from;
	x->left = n;
	bufq_init(&x->q, loop_bufpool(c->api->o.loop));
	c->state = x;
	c->on_drained = apiread_drained;
	c->on_closed = apiread_closed;
	w = httpd_begin(c->rq, partial ? 206 : 200, STRV_NULL, BODY_LENGTH, n,
			512);
	http1_put(w, STRV("Content-Type"), STRV("application/octet-stream"));
	http1_put(w, STRV("Accept-Ranges"), STRV("bytes"));
	if (partial)
		http1_put_f(w, STRV("Content-Range"),
			    "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, from,
			    from + n - 1, size);
	if (httpd_end_head(c->rq) != 0)
		httpd_abort(c->rq);
	else
		apiread_pump(c);
}

static void
apiread_sized(struct call *c, int fd, uint64_t size)
{
	uint64_t from = 0, length = size, n;
	int a = api_query_u64(c, "offset", &from), b, r = E_NOTFOUND;
	bool partial;

	if (a == E_INVALID) {
		(void)close(fd);
		return;
	}
	if ((b = api_query_u64(c, "length", &length)) == E_INVALID) {
		(void)close(fd);
		return;
	}
	n = from <= size ? size - from : 0;
	if (length < n)
		n = length;
	if (a == E_NOTFOUND && b == E_NOTFOUND)
		r = apiread_range(c, size, &from, &n);
	partial = r == 0;
	if (r == E_LIMIT || from > size) {
		(void)close(fd);
		api_error(c->rq, 416, "bad_range",
			  "the file has only %" PRIu64 " bytes", size);
		return;
	}
	apiread_start(c, fd, size, from, n, partial);
}

void
api_files_read(struct call *c)
{
	struct strbuf path = {0};
	uint64_t size;
	int fd, r;

	if (!apifiles_path(c, &path))
		return;
	if ((r = files_open(c->sb, path.s, &fd, &size)) != 0) {
		apifiles_fail(c, path.s, r);
	} else if (size == 0) {
		apiread_unsized(c, fd, path.s);
		(void)close(fd);
	} else {
		apiread_sized(c, fd, size);
	}
	strbuf_clear(&path);
}

/* --- write ------------------------------------------------------------- */

struct apiwrite {
	struct files_upload up;
	struct strbuf path;
};

static void
apiwrite_answer(struct call *c, struct apiwrite *x)
{
	uint64_t n = x->up.written;
	struct strbuf b = {0};
	int r;

	c->on_body = NULL;
	if (c->sb->state != SANDBOX_LIVE) {
		api_error(c->rq, 404, "no_such_sandbox", "no such sandbox");
	} else if ((r = files_upload_end(c->sb, &x->up)) != 0) {
		apifiles_fail(c, x->path.s, r);
	} else {
		strbuf_adds(&b, "{\"path\":");
		strbuf_add_json(&b, (struct strv){x->path.s, x->path.len});
		strbuf_addf(&b, ",\"size\":%" PRIu64 "}", n);
		api_answer(c, 200, &b);
	}
}

static void
apiwrite_body(struct call *c, struct bufq *in, bool end)
{
	struct apiwrite *x = c->state;
	struct strv v;
	int r = 0;

	while (r == 0 && (v = bufq_front(in)).len > 0) {
		r = files_upload_write(c->sb, &x->up, v.p, v.len);
		bufq_drain(in, v.len);
	}
	if (r != 0) {
		c->on_body = NULL;
		files_upload_abort(c->sb, &x->up);
		apifiles_fail(c, x->path.s, r);
	} else if (end) {
		apiwrite_answer(c, x);
	}
}

static void
apiwrite_closed(struct call *c, int err)
{
	struct apiwrite *x = c->state;

	(void)err;
	files_upload_abort(c->sb, &x->up);
	strbuf_clear(&x->path);
	free(x);
}

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

static void
apiwrite_start(struct call *c, struct apiwrite *x)
{
	c->state = x;
	c->on_closed = apiwrite_closed;
	httpd_set_max_body(c->rq, 0);
	if (httpd_has_body(c->rq))
		c->on_body = apiwrite_body;
	else
		apiwrite_answer(c, x);
}

void
api_files_write(struct call *c)
{
	struct strbuf mkdir_flag = {0};
	uint64_t offset = 0;
	struct apiwrite *x;
	bool parents = true;
	int mode, given, r;

	if (apiwrite_mode(c, &mode) != 0 ||
	    (given = api_query_u64(c, "offset", &offset)) == E_INVALID)
		return;
	if (api_query(c, "mkdir", &mkdir_flag) && mkdir_flag.len > 0)
		parents = api_query_flag(c, "mkdir");
	strbuf_clear(&mkdir_flag);
	x = xcalloc(1, sizeof(*x));
	if (!apifiles_path(c, &x->path)) {
		free(x);
		return;
	}
	r = files_upload_begin(c->sb, x->path.s, mode,
			       given == 0 ? (int64_t)offset : -1, parents,
			       &x->up);
	if (r == 0) {
		apiwrite_start(c, x);
		return;
	}
	apifiles_fail(c, x->path.s, r);
	strbuf_clear(&x->path);
	free(x);
}
