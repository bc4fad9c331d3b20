/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST exec: a command whose output streams to the client as it comes, or a
 * background process. A client that does not read stops the command at its
 * pipe; one that goes away ends it.
 */
#include "config.h"

#include "agent/api_int.h"

#include <stdlib.h>
#include <string.h>

#include "agent/events.h"
#include "agent/evstream.h"
#include "agent/execreq.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"

struct apiexec {
	struct call *c;
	struct run *run; /* NULL: over */
	struct events ev;
	struct evstream es;
	bool detach;
};

static void
apiexec_output_cb(struct run *r, unsigned stream, const char *data, size_t n,
		  void *arg)
{
	struct apiexec *x = arg;

	events_output(&x->ev, &x->es.line, stream, (struct strv){data, n});
	evstream_send(&x->es);
	if (httpd_over_high(x->c->rq))
		run_pause(r, true);
}

static void
apiexec_exited_cb(struct run *r, const struct proc_exit *px, void *arg)
{
	struct apiexec *x = arg;
	const struct events_exit ex = {px->code, px->signal, px->timed_out,
				       px->duration_ms};

	x->run = NULL;
	run_release(r, false);
	events_flush(&x->ev, &x->es.line);
	events_exit(&x->es.line, &ex);
	evstream_end(&x->es); /* x may be gone now */
}

static const struct run_cbs apiexec_run_cbs = {
    .output = apiexec_output_cb,
    .exited = apiexec_exited_cb,
};

static void
apiexec_drained(struct call *c)
{
	struct apiexec *x = c->state;

	if (x->run != NULL)
		run_pause(x->run, false);
}

static void
apiexec_closed(struct call *c, int err)
{
	struct apiexec *x = c->state;

	(void)err;
	if (x->run != NULL)
		run_release(x->run, x->detach);
	evstream_clear(&x->es);
	free(x);
}

unsigned
api_exec_status(int err, const char **code)
{
	*code = "cannot_start";
	if (err == E_INVALID)
		return 400;
	if (err == E_FULL || err == E_TIMEOUT)
		return 503;
	*code = err == E_LIMIT ? "limit" : "internal";
	return err == E_LIMIT ? 429 : 500;
}

static void
apiexec_fail(struct call *c, int err, char *why)
{
	const char *code;
	unsigned status = api_exec_status(err, &code);

	api_error(c->rq, status, code, "%s", why);
	free(why);
}

static void
apiexec_foreground(struct call *c, struct execreq *e)
{
	struct apiexec *x = xcalloc(1, sizeof(*x));
	char *why = NULL;
	int r;

	x->c = c;
	x->ev.base64 = e->spec.base64;
	x->detach = e->spec.detach;
	r = run_start(&c->sb->runs, &e->spec, &apiexec_run_cbs, x, &x->run,
		      &why);
	if (r != 0) {
		free(x);
		apiexec_fail(c, r, why);
		return;
	}
	evstream_init(&x->es, c);
	c->state = x;
	c->on_drained = apiexec_drained;
	c->on_closed = apiexec_closed;
	if (!evstream_begin(&x->es))
		return;
	events_start(&x->es.line, run_pid(x->run));
	evstream_send(&x->es);
}

void
api_exec_start(struct call *c, struct execreq *e)
{
	apiexec_foreground(c, e);
}

/* full: the answer of POST processes, which says more. */
static void
apiexec_background(struct call *c, struct execreq *e, bool full)
{
	struct strbuf b = {0};
	char *why = NULL;
	struct run *run;
	int r;

	r = run_start(&c->sb->runs, &e->spec, NULL, NULL, &run, &why);
	if (r != 0) {
		apiexec_fail(c, r, why);
		return;
	}
	strbuf_addf(&b, "{\"id\":\"%s\",\"pid\":%ld", run_id(run),
		    (long)run_pid(run));
	if (full) {
		strbuf_adds(&b, ",\"cmd\":");
		strbuf_adds(&b, run_cmd(run));
	}
	strbuf_adds(&b, ",\"tag\":");
	if (run_tag(run) != NULL)
		strbuf_add_json(&b, strv_of(run_tag(run)));
	else
		strbuf_adds(&b, "null");
	strbuf_adds(&b, "}");
	api_answer(c, 200, &b);
}

/* A command that can be asked for again: it starts once, however often the
 * same request comes. */
static void
apiexec_resumable(struct call *c, struct execreq *e)
{
	struct strv id = strv_of(e->spec.exec_id);
	struct run *run = run_exec_find(&c->sb->runs, id);
	char *why = NULL;
	int r;

	if (run != NULL && !run_exec_same(run, e->spec.digest)) {
		api_error(c->rq, 409, "exec_id_in_use",
			  "exec_id: another command has it");
		return;
	}
	if (run == NULL && api_exec_is_gone(c, id))
		return;
	if (run == NULL) {
		r = run_start(&c->sb->runs, &e->spec, NULL, NULL, &run, &why);
		if (r != 0) {
			apiexec_fail(c, r, why);
			return;
		}
	}
	api_exec_view(c, run, 0);
}

/* Of the request's bytes, if they have an exec_id; else its len is 0. */
static struct run_digest
apiexec_digest(const struct strbuf *b)
{
	struct run_digest d = {0, 0};

	if (b->len > 0 && memmem(b->s, b->len, "\"exec_id\"", 9) != NULL) {
		d.hash = hash_bytes(b->s, b->len);
		d.len = b->len;
	}
	return d;
}

static void
apiexec_run(struct call *c, bool process)
{
	/* Now: api_json() lets go of the text. */
	const struct run_digest digest = apiexec_digest(&c->body);
	struct json_doc *doc = api_json(c, false);
	struct execreq e;
	char *why = NULL;

	if (doc == NULL)
		return;
	if (execreq_take(doc, &e, &why) == 0 && e.spec.exec_id != NULL) {
		if (process)
			why = xstrdup("exec_id: not for background processes");
		else if (digest.len == 0)
			why = xstrdup("exec_id: the name has escapes in it");
	}
	e.spec.digest = digest;
	if (why != NULL) {
		api_error(c->rq, 400, "bad_request", "%s", why);
		free(why);
	} else if (c->sb->state != SANDBOX_LIVE) {
		/* It was deleted while the body came. */
		api_error(c->rq, 404, "no_such_sandbox", "no such sandbox");
	} else if (process || e.spec.background) {
		e.spec.background = true;
		apiexec_background(c, &e, process);
	} else if (e.spec.exec_id != NULL) {
		apiexec_resumable(c, &e);
	} else {
		apiexec_foreground(c, &e);
	}
	execreq_clear(&e);
}

static void
apiexec_exec(struct call *c)
{
	apiexec_run(c, false);
}

static void
apiexec_process(struct call *c)
{
	apiexec_run(c, true);
}

void
api_exec(struct call *c)
{
	api_collect(c, API_BODY_MAX, apiexec_exec);
}

void
api_processes(struct call *c)
{
	api_collect(c, API_BODY_MAX, apiexec_process);
}
