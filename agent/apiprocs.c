/* SPDX-License-Identifier: Apache-2.0 */
/* The routes of processes: list, delete, kill, stdin. */
#include "config.h"

#include "agent/api_int.h"

#include <signal.h>
#include <stdlib.h>

#include "agent/execreq.h"
#include "base/err.h"
#include "base/mem.h"
#include "net/buf.h"

#define APIPROCS_STDIN_HIGH 65536

/* --- list -------------------------------------------------------------- */

static void
apiprocs_add(struct strbuf *b, struct run *r)
{
	const struct proc_exit *x = run_exit(r);

	strbuf_addf(b, "{\"id\":\"%s\",\"pid\":%ld,\"cmd\":", run_id(r),
		    (long)run_pid(r));
	strbuf_adds(b, run_cmd(r));
	strbuf_adds(b, ",\"tag\":");
	if (run_tag(r) != NULL)
		strbuf_add_json(b, strv_of(run_tag(r)));
	else
		strbuf_adds(b, "null");
	strbuf_addf(b, ",\"started_at_ms\":%llu,\"running\":%s,\"exit_code\":",
		    (unsigned long long)run_started_ms(r),
		    x == NULL ? "true" : "false");
	if (x != NULL && x->code >= 0)
		strbuf_addf(b, "%d}", x->code);
	else
		strbuf_adds(b, "null}");
}

void
api_procs_list(struct call *c)
{
	struct run_set *s = &c->sb->runs;
	struct strbuf b = {0};

	strbuf_addc(&b, '[');
	for (struct run *r = run_next(s, NULL); r != NULL; r = run_next(s, r)) {
		if (!run_background(r))
			continue;
		if (b.len > 1)
			strbuf_addc(&b, ',');
		apiprocs_add(&b, r);
	}
	strbuf_addc(&b, ']');
	api_answer(c, 200, &b);
}

/* --- delete ------------------------------------------------------------ */

void
api_procs_delete(struct call *c)
{
	struct run *r = run_find(&c->sb->runs, c->id);
	struct strbuf b = {0};

	strbuf_adds(&b, "{\"id\":");
	strbuf_add_json(&b, r != NULL ? strv_of(run_id(r)) : c->id);
	strbuf_adds(&b, ",\"ok\":true}");
	if (r != NULL)
		run_remove(r);
	api_answer(c, 200, &b);
}

static struct run *
apiprocs_find(struct call *c)
{
	struct run *r = run_find(&c->sb->runs, c->id);

	if (r == NULL)
		api_error(c->rq, 404, "no_such_process", "no such process");
	return r;
}

/* --- kill -------------------------------------------------------------- */

static void
apiprocs_kill(struct call *c)
{
	struct json_doc *doc = api_json(c, true);
	struct strbuf b = {0};
	int sig = SIGKILL, bad;
	struct run *r;

	if (doc == NULL)
		return;
	bad = execreq_signal(json_get(json_root(doc), "signal"), &sig);
	json_doc_free(doc);
	if (bad != 0) {
		api_error(c->rq, 400, "bad_signal",
			  "signal: no such name or number");
		return;
	}
	if ((r = apiprocs_find(c)) == NULL)
		return;
	bad = run_signal(r, sig);
	strbuf_addf(&b, "{\"id\":\"%s\",\"pid\":%ld,\"ok\":true,\"sent\":%s}",
		    run_id(r), (long)run_pid(r), bad == 0 ? "true" : "false");
	api_answer(c, 200, &b);
}

void
api_procs_kill(struct call *c)
{
	api_collect(c, API_SMALL_MAX, apiprocs_kill);
}

/* --- stdin ------------------------------------------------------------- */

struct apistdin {
	struct run_reader rd;
	struct call *c;
	uint64_t written;
	bool eof;
};

static void
apistdin_wake(struct run_reader *rd)
{
	struct apistdin *x = (struct apistdin *)(void *)rd;

	/* One that was removed takes no more; one that ended shows so at its
	 * pipe, or at the next byte. */
	if (rd->run == NULL)
		httpd_body_resume(x->c->rq);
}

static void
apistdin_drained(struct run_reader *rd)
{
	struct apistdin *x = (struct apistdin *)(void *)rd;

	httpd_body_resume(x->c->rq);
}

static void
apistdin_done(struct call *c, struct apistdin *x, struct proc *p)
{
	struct strbuf b = {0};

	c->on_body = NULL;
	if (x->eof)
		proc_stdin_end(p);
	strbuf_addf(&b, "{\"ok\":true,\"written\":%llu}",
		    (unsigned long long)x->written);
	api_answer(c, 200, &b);
}

static void
apistdin_body(struct call *c, struct bufq *in, bool end)
{
	struct apistdin *x = c->state;
	struct run *r = x->rd.run;
	struct proc *p = r != NULL ? run_proc(r) : NULL;
	struct bufq *q = p != NULL && proc_running(p) ? proc_stdin(p) : NULL;

	if (q == NULL) {
		c->on_body = NULL;
		bufq_drain(in, in->len);
		api_error(c->rq, 409, "stdin_closed",
			  "the process has ended or its stdin is closed");
		return;
	}
	if (!end && q->len >= APIPROCS_STDIN_HIGH)
		return; /* what waits stops the client in time */
	x->written += in->len;
	bufq_move(q, in, in->len);
	proc_stdin_flush(p);
	if (end)
		apistdin_done(c, x, p);
}

static void
apistdin_closed(struct call *c, int err)
{
	struct apistdin *x = c->state;

	(void)err;
	run_reader_stop(&x->rd);
	free(x);
}

void
api_procs_stdin(struct call *c)
{
	struct run *r = apiprocs_find(c);
	struct apistdin *x;

	if (r == NULL)
		return;
	x = xcalloc(1, sizeof(*x));
	x->c = c;
	x->eof = api_query_flag(c, "eof");
	x->rd.wake = apistdin_wake;
	x->rd.drained = apistdin_drained;
	run_reader_start(&x->rd, r);
	c->state = x;
	c->on_closed = apistdin_closed;
	c->on_body = apistdin_body;
	httpd_set_max_body(c->rq, 0);
	if (!httpd_has_body(c->rq)) {
		struct bufq none;

		bufq_init(&none, loop_bufpool(c->api->o.loop));
		apistdin_body(c, &none, true);
	}
}
