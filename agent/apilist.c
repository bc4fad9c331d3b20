/* SPDX-License-Identifier: Apache-2.0 */
/*
 * files/list: the names are held in memory, sorted; the entries are made a
 * piece at a time, as fast as the client takes them.
 */
#include "config.h"

#include "agent/apifiles_int.h"

#include "net/httpd.h"

#define APILIST_PIECE 65536

struct apilist {
	struct fileop op;
	struct files_list list;
	struct strbuf out;
	struct strbuf path; /* of the directory, with a slash at its end */
	size_t dir_len;
	bool some, over;
};

static void
apilist_piece(struct apilist *x)
{
	struct files_stat st;
	const char *name;

	while (x->out.len < APILIST_PIECE) {
		if (!files_list_next(&x->list, &name, &st)) {
			strbuf_adds(&x->out, "]}");
			x->over = true;
			files_list_close(&x->list);
			return;
		}
		if (x->some)
			strbuf_addc(&x->out, ',');
		x->some = true;
		x->path.len = x->dir_len;
		strbuf_adds(&x->path, name);
		apifiles_entry(&x->out, strv_of(name),
			       (struct strv){x->path.s, x->path.len}, &st);
	}
}

static void
apilist_open(struct fileop *op)
{
	struct apilist *x = (struct apilist *)op;

	op->result = files_list_open(op->sb, op->meant, &x->list);
	if (op->result != 0)
		return;
	strbuf_add(&x->path, op->path.s, op->path.len);
	if (x->path.s[x->path.len - 1] != '/')
		strbuf_addc(&x->path, '/');
	x->dir_len = x->path.len;
	strbuf_adds(&x->out, "{\"entries\":[");
	apilist_piece(x);
}

static void
apilist_work(struct fileop *op)
{
	apilist_piece((struct apilist *)op);
}

static void
apilist_next(struct fileop *op)
{
	struct apilist *x = (struct apilist *)op;
	struct httpd_req *rq = op->c->rq;

	httpd_write(rq, x->out.s, x->out.len);
	strbuf_reset(&x->out);
	if (x->over) {
		httpd_end(rq);
		return;
	}
	httpd_flush(rq);
	if (!httpd_over_high(rq))
		fileop_run(op, apilist_work, apilist_next);
}

static void
apilist_drained(struct call *c)
{
	struct apilist *x = c->state;

	if (!x->op.busy && !x->over)
		fileop_run(&x->op, apilist_work, apilist_next);
}

static void
apilist_opened(struct fileop *op)
{
	struct apilist *x = (struct apilist *)op;
	struct httpd_req *rq = op->c->rq;
	struct http_writer *w;

	if (op->result != 0) {
		fileop_fail(op, op->result);
		return;
	}
	if (x->over) {
		api_answer(op->c, 200, &x->out);
		return;
	}
	if (!api_hold(op->c, x->list.held))
		return;
	op->c->on_drained = apilist_drained;
	w = httpd_begin(rq, 200, STRV_NULL, BODY_UNTIL_CLOSE, 0, 256);
	http1_put(w, STRV("Content-Type"), STRV(API_JSON_TYPE));
	if (httpd_end_head(rq) != 0)
		httpd_abort(rq);
	else
		apilist_next(op);
}

static void
apilist_end(struct fileop *op)
{
	files_list_close(&((struct apilist *)op)->list);
}

static void
apilist_clear(struct fileop *op)
{
	struct apilist *x = (struct apilist *)op;

	strbuf_clear(&x->out);
	strbuf_clear(&x->path);
}

void
api_files_list(struct call *c)
{
	struct apilist *x = fileop_new(c, sizeof(*x));

	if (x == NULL)
		return;
	x->op.end = apilist_end;
	x->op.clear = apilist_clear;
	fileop_run(&x->op, apilist_open, apilist_opened);
}
