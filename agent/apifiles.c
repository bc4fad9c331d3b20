/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The routes files/...: what they have in common, and the simple ones. See
 * files.h for what they may reach.
 */
#include "config.h"

#include "agent/apifiles_int.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/filename.h"
#include "base/log.h"
#include "base/mem.h"

#define APIFILES_REMOVALS 4 /* of one sandbox, under way */

/* --- failures ---------------------------------------------------------- */

struct apifiles_error {
	int eno;
	unsigned status;
	const char *code;
};

static const struct apifiles_error apifiles_errors[] = {
    {ENOENT, 404, "not_found"},
    {ENOTDIR, 404, "not_found"},
    {EISDIR, 409, "is_directory"},
    {ENOTEMPTY, 409, "not_empty"},
    {EEXIST, 409, "exists"},
    {EAGAIN, 409, "busy"},
    {EBUSY, 409, "busy"},
    {ETXTBSY, 409, "busy"},
    {EACCES, 400, "denied"},
    {EPERM, 400, "denied"},
    {EXDEV, 400, "denied"},
    {ELOOP, 400, "denied"},
    {EINVAL, 400, "bad_path"},
    {ENAMETOOLONG, 400, "bad_path"},
    {EROFS, 400, "read_only"},
    {ENOSPC, 507, "no_space"},
    {EDQUOT, 507, "quota"},
    {EFBIG, 413, "too_large"},
    {EOVERFLOW, 413, "too_many"},
    {EMFILE, 503, "busy"},
    {ENFILE, 503, "busy"},
    {ENOMEM, 503, "busy"},
    {ETIMEDOUT, 503, "disk_stalls"},
};

static void
apifiles_error(struct httpd_req *rq, const char *path, int err)
{
	const struct apifiles_error *e = apifiles_errors;
	size_t i = 0;

	if (err == FILES_NOT_FILE) {
		api_error(rq, 400, "not_a_file", "%.300s: not a regular file",
			  path);
		return;
	}
	while (i < ARRAY_LEN(apifiles_errors) && e[i].eno != -err)
		i++;
	if (i < ARRAY_LEN(apifiles_errors))
		api_error(rq, e[i].status, e[i].code, "%.300s: %s", path,
			  strerror(-err));
	else
		api_error(rq, 500, "internal", "%.300s: %s", path,
			  strerror(-err));
}

void
fileop_fail(struct fileop *op, int err)
{
	if (httpd_begun(op->c->rq))
		httpd_abort(op->c->rq);
	else
		apifiles_error(op->c->rq, op->path.s, err);
}

/* --- operations -------------------------------------------------------- */

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

static void
fileop_free(struct fileop *op)
{
	if (op->clear != NULL)
		op->clear(op);
	sandbox_leave(op->sb);
	strbuf_clear(&op->path);
	free(op->meant);
	free(op);
}

static void
fileop_end_job(struct work_job *j)
{
	struct fileop *op = (struct fileop *)j;

	op->end(op);
}

static void
fileop_end_done(struct work_job *j)
{
	struct fileop *op = (struct fileop *)j;

	if (j->ran) {
		fileop_free(op);
		return;
	}
	/* The sandbox ends, or its lane stands still. */
	j->uid = WORK_SELF;
	work_submit(&op->api->closing, j);
}

/* Nobody waits for it any more, and no job is under way. */
static void
fileop_end(struct fileop *op)
{
	if (op->end == NULL) {
		fileop_free(op);
		return;
	}
	op->busy = true;
	op->job.fn = fileop_end_job;
	op->job.done = fileop_end_done;
	op->job.late = NULL;
	op->job.slow = false;
	work_submit(&op->sb->files, &op->job);
}

static void
fileop_leave_call(struct fileop *op)
{
	op->c->on_closed = NULL;
	op->c->on_body = NULL;
	op->c->on_drained = NULL;
	op->c = NULL;
}

static void
fileop_closed(struct call *c, int err)
{
	struct fileop *op = c->state;

	(void)err;
	op->c = NULL;
	if (!op->busy)
		fileop_end(op);
}

static void
fileop_job(struct work_job *j)
{
	struct fileop *op = (struct fileop *)j;

	if (op->meant == NULL)
		op->meant = filepath_meant(op->sb, op->path.s);
	op->work(op);
}

static void
fileop_job_done(struct work_job *j)
{
	struct fileop *op = (struct fileop *)j;

	op->busy = false;
	if (op->c == NULL) {
		fileop_end(op);
		return;
	}
	if (j->ran)
		op->next(op);
	else if (op->sb->state == SANDBOX_LIVE)
		fileop_fail(op, -ETIMEDOUT);
	else if (httpd_begun(op->c->rq))
		httpd_abort(op->c->rq);
	else
		api_error(op->c->rq, 404, "no_such_sandbox", "no such sandbox");
}

/* The disk does not answer. The client gets its answer now. */
static void
fileop_late(struct work_job *j)
{
	struct fileop *op = (struct fileop *)j;
	struct call *c = op->c;

	if (c == NULL)
		return;
	log_warn("files.stall", "sandbox=%s path=%s", op->sb->id,
		 log_esc((struct strv){op->path.s, op->path.len}));
	fileop_fail(op, -ETIMEDOUT);
	fileop_leave_call(op);
}

void *
fileop_new(struct call *c, size_t size)
{
	struct strbuf path = {0};
	struct fileop *op;

	if (!apifiles_path(c, &path))
		return NULL;
	op = xcalloc(1, size);
	op->c = c;
	op->api = c->api;
	op->sb = c->sb;
	op->path = path;
	op->job.uid = c->sb->uid;
	sandbox_enter(op->sb);
	c->state = op;
	c->on_closed = fileop_closed;
	return op;
}

void
fileop_run(struct fileop *op, void (*work)(struct fileop *),
	   void (*next)(struct fileop *))
{
	assert(!op->busy);
	op->busy = true;
	op->work = work;
	op->next = next;
	op->job.fn = fileop_job;
	op->job.done = fileop_job_done;
	op->job.late = op->untimed ? NULL : fileop_late;
	op->job.slow = op->untimed;
	work_submit(&op->sb->files, &op->job);
}

void
fileop_answer(struct fileop *op, const char *word)
{
	struct strbuf b = {0};

	if (op->result != 0) {
		fileop_fail(op, op->result);
		return;
	}
	strbuf_addf(&b, "{\"%s\":", word);
	filename_add_json(&b, (struct strv){op->path.s, op->path.len});
	strbuf_addc(&b, '}');
	api_answer(op->c, 200, &b);
}

/* --- stat -------------------------------------------------------------- */

void
apifiles_entry(struct strbuf *b, struct strv name, struct strv path,
	       const struct files_stat *st)
{
	static const char *const types[] = {"file", "dir", "symlink"};

	strbuf_adds(b, "{\"name\":");
	filename_add_json(b, name);
	strbuf_adds(b, ",\"path\":");
	filename_add_json(b, path);
	strbuf_addf(b,
		    ",\"type\":\"%s\",\"size\":%" PRIu64
		    ",\"mtime_ms\":%" PRId64 ",\"mode\":\"%o\"}",
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

struct apistat {
	struct fileop op;
	struct files_stat st;
};

static void
apistat_work(struct fileop *op)
{
	struct apistat *x = (struct apistat *)op;

	op->result = files_stat(op->sb, op->meant, &x->st);
}

static void
apistat_next(struct fileop *op)
{
	struct strv path = {op->path.s, op->path.len};
	struct apistat *x = (struct apistat *)op;
	struct strbuf b = {0};

	if (op->result != 0) {
		fileop_fail(op, op->result);
		return;
	}
	apifiles_entry(&b, apifiles_base(path), path, &x->st);
	api_answer(op->c, 200, &b);
}

void
api_files_stat(struct call *c)
{
	struct fileop *op = fileop_new(c, sizeof(struct apistat));

	if (op != NULL)
		fileop_run(op, apistat_work, apistat_next);
}

/* --- mkdir, delete ----------------------------------------------------- */

static void
apimkdir_work(struct fileop *op)
{
	op->result = files_mkdir(op->sb, op->meant);
}

static void
apimkdir_next(struct fileop *op)
{
	fileop_answer(op, "created");
}

void
api_files_mkdir(struct call *c)
{
	struct fileop *op = fileop_new(c, sizeof(*op));

	if (op != NULL)
		fileop_run(op, apimkdir_work, apimkdir_next);
}

struct apidelete {
	struct fileop op;
	bool recursive;
	bool counted; /* in sb->removals */
	struct files_removal rest;
};

static void
apidelete_work(struct fileop *op)
{
	struct apidelete *x = (struct apidelete *)op;

	op->result =
	    files_delete(op->sb, op->meant, x->recursive ? &x->rest : NULL);
}

static void
apidelete_rest(struct fileop *op)
{
	struct apidelete *x = (struct apidelete *)op;

	op->result = files_delete_rest(&x->rest);
}

static void
apidelete_end(struct fileop *op)
{
	files_delete_end(&((struct apidelete *)op)->rest);
}

static void
apidelete_clear(struct fileop *op)
{
	if (!((struct apidelete *)op)->counted)
		return;
	op->sb->removals--;
	op->api->busy--;
}

/* A directory with a million files takes a while. */
static void
apidelete_next(struct fileop *op)
{
	struct apidelete *x = (struct apidelete *)op;

	if (op->result != FILES_MORE) {
		fileop_answer(op, "deleted");
	} else if (op->sb->removals >= APIFILES_REMOVALS) {
		api_error(op->c->rq, 429, "limit", "too much is being removed");
	} else {
		op->sb->removals++;
		op->api->busy++; /* also when the client has gone */
		x->counted = true;
		op->untimed = true;
		fileop_run(op, apidelete_rest, apidelete_next);
	}
}

void
api_files_delete(struct call *c)
{
	struct apidelete *x = fileop_new(c, sizeof(*x));

	if (x == NULL)
		return;
	x->recursive = api_query_flag(c, "recursive");
	x->op.end = apidelete_end;
	x->op.clear = apidelete_clear;
	fileop_run(&x->op, apidelete_work, apidelete_next);
}
