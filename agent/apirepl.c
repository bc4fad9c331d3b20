/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_code and what belongs to it: code for a persistent Python context, its
 * interruption, copies of a context, and their comparison. bash is an ordinary
 * command each time.
 */
#include "config.h"

#include "agent/api_int.h"

#include <stdlib.h>
#include <string.h>

#include "agent/events.h"
#include "agent/evstream.h"
#include "agent/execreq.h"
#include "agent/repl.h"
#include "base/err.h"
#include "base/mem.h"
#include "net/loop.h"

/* One call on a context, streamed. */
struct apirepl {
	struct call *c;
	struct repl_call *rc;
	struct evstream es;
	struct events ev;
	bool detach;
};

struct repl_set *
api_repls(struct call *c)
{
	if (c->sb->repls == NULL)
		c->sb->repls = repl_set_new(&c->sb->runs.place, &c->sb->files);
	return c->sb->repls;
}

void
api_repl_refuse(struct call *c, int err, const char *why)
{
	unsigned status = 503;
	const char *code = "cannot_start";

	switch (err) {
	case E_INVALID:
		status = 400;
		code = "bad_request";
		break;
	case E_NOTFOUND:
		status = 404;
		code = "no_such_context";
		break;
	case E_BUSY:
		status = 409;
		code = "busy";
		break;
	case E_LIMIT:
		status = 429;
		code = "limit";
		break;
	default:
		break;
	}
	api_error(c->rq, status, code, "%s", why);
}

/* --- run_code ---------------------------------------------------------- */

static void
apirepl_push(struct apirepl *x)
{
	if (!evstream_begin(&x->es))
		return;
	evstream_send(&x->es);
	if (httpd_over_high(x->c->rq))
		repl_pause(x->rc, true);
}

static void
apirepl_queued_cb(struct repl_call *rc, size_t ahead, void *arg)
{
	struct apirepl *x = arg;

	(void)rc;
	strbuf_addf(&x->es.line, "{\"event\":\"queued\",\"position\":%zu}\n",
		    ahead);
	apirepl_push(x);
}

static void
apirepl_began_cb(struct repl_call *rc, pid_t pid, void *arg)
{
	struct apirepl *x = arg;

	(void)rc;
	events_start(&x->es.line, pid);
	apirepl_push(x);
}

static void
apirepl_output_cb(struct repl_call *rc, unsigned stream, const char *data,
		  size_t n, void *arg)
{
	struct apirepl *x = arg;

	(void)rc;
	events_output(&x->ev, &x->es.line, stream, (struct strv){data, n});
	apirepl_push(x);
}

static void
apirepl_event_cb(struct repl_call *rc, struct strv json, void *arg)
{
	struct apirepl *x = arg;

	(void)rc;
	events_flush(&x->ev, &x->es.line);
	strbuf_addv(&x->es.line, json);
	strbuf_addc(&x->es.line, '\n');
	apirepl_push(x);
}

static void
apirepl_failed_cb(struct repl_call *rc, int err, const char *why, void *arg)
{
	struct apirepl *x = arg;

	x->rc = NULL;
	repl_release(rc, false);
	if (!x->es.begun) {
		if (err == E_NOTFOUND)
			api_error(x->c->rq, 503, "no_python", "%s", why);
		else
			api_repl_refuse(x->c, err, why);
		return;
	}
	strbuf_adds(&x->es.line, "{\"event\":\"error\",\"name\":"
				 "\"CannotStart\",\"value\":");
	strbuf_add_json(&x->es.line, strv_of(why));
	strbuf_adds(&x->es.line, ",\"traceback\":\"\"}\n"
				 "{\"event\":\"exit\",\"exit_code\":126,"
				 "\"signal\":null,\"timed_out\":false,"
				 "\"duration_ms\":0,\"state_lost\":false}\n");
	evstream_end(&x->es);
}

static void
apirepl_ended_cb(struct repl_call *rc, const struct repl_end *e, void *arg)
{
	struct apirepl *x = arg;
	struct strbuf *b = &x->es.line;
	const struct events_exit ex = {e->code, e->signal, e->timed_out,
				       e->duration_ms};

	x->rc = NULL;
	repl_release(rc, false);
	events_flush(&x->ev, b);
	events_exit(b, &ex);
	b->len -= sizeof("}\n") - 1;
	strbuf_addf(b, ",\"interrupted\":%s,\"state_lost\":%s",
		    e->interrupted ? "true" : "false",
		    e->state_lost ? "true" : "false");
	if (e->why != NULL) {
		strbuf_adds(b, ",\"error\":");
		strbuf_add_json(b, strv_of(e->why));
	}
	strbuf_adds(b, "}\n");
	if (evstream_begin(&x->es))
		evstream_end(&x->es); /* x may be gone now */
}

static const struct repl_cbs apirepl_cbs = {
    .queued = apirepl_queued_cb,
    .began = apirepl_began_cb,
    .output = apirepl_output_cb,
    .event = apirepl_event_cb,
    .failed = apirepl_failed_cb,
    .ended = apirepl_ended_cb,
};

static void
apirepl_drained(struct call *c)
{
	struct apirepl *x = c->state;

	if (x->rc != NULL)
		repl_pause(x->rc, false);
}

static void
apirepl_closed(struct call *c, int err)
{
	struct apirepl *x = c->state;

	(void)err;
	if (x->rc != NULL)
		repl_release(x->rc, x->detach);
	evstream_clear(&x->es);
	free(x);
}

/* --- the request ------------------------------------------------------- */

/* The language: true for Python, false with *shell for a shell; or neither. */
static bool
apirepl_is_python(const char *lang, char **shell)
{
	static const char *const names[] = {"python", "python3", "py"};
	static char bash[] = "bash", sh[] = "sh";

	*shell = NULL;
	if (lang == NULL)
		return true;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (strcmp(lang, names[i]) == 0)
			return true;
	}
	if (strcmp(lang, "bash") == 0 || strcmp(lang, "shell") == 0)
		*shell = bash;
	else if (strcmp(lang, "sh") == 0)
		*shell = sh;
	return false;
}

/* What the runner gets; the code as it came, the rest checked. */
static void
apirepl_request(const char *code, char *const *env, struct strbuf *b)
{
	strbuf_adds(b, "{\"code\":");
	strbuf_add_json(b, strv_of(code));
	strbuf_adds(b, ",\"env\":{");
	for (size_t i = 0; env != NULL && env[i] != NULL; i++) {
		size_t n = strcspn(env[i], "=");

		if (i > 0)
			strbuf_addc(b, ',');
		strbuf_add_json(b, (struct strv){env[i], n});
		strbuf_addc(b, ':');
		strbuf_add_json(b, strv_of(env[i] + n + 1));
	}
	strbuf_adds(b, "}}");
}

static void
apirepl_python(struct call *c, struct execreq *e, const struct json *root)
{
	struct apirepl *x = xcalloc(1, sizeof(*x));
	struct repl_ask ask = {.kind = REPL_RUN,
			       .timeout_ms = e->spec.timeout_ms};
	struct strbuf b = {0};
	const char *why;
	int r;

	x->c = c;
	x->ev.base64 = e->spec.base64;
	x->detach = e->spec.detach;
	ask.context = strv_of(json_string(json_get(root, "context")));
	apirepl_request(json_string(json_get(root, "code")), e->env, &b);
	ask.request = (struct strv){b.s, b.len};
	r = repl_call(api_repls(c), &ask, &apirepl_cbs, x, &x->rc, &why);
	strbuf_clear(&b);
	if (r != 0) {
		free(x);
		api_repl_refuse(c, r, why);
		return;
	}
	evstream_init(&x->es, c);
	c->state = x;
	c->on_drained = apirepl_drained;
	c->on_closed = apirepl_closed;
}

static const char *
apirepl_string(const struct json *root, const char *key, bool *bad)
{
	const struct json *v = json_get(root, key);

	if (v == NULL || json_type(v) == JSON_NULL)
		return NULL;
	if (json_type(v) != JSON_STRING)
		*bad = true;
	return json_string(v);
}

static void
apirepl_run(struct call *c)
{
	struct json_doc *doc = api_json(c, false);
	const struct json *root;
	const char *code, *lang;
	struct execreq e;
	char *why = NULL, *shell;
	bool python, bad = false;

	if (doc == NULL)
		return;
	root = json_root(doc);
	code = apirepl_string(root, "code", &bad);
	lang = apirepl_string(root, "language", &bad);
	if (lang == NULL)
		lang = apirepl_string(root, "lang", &bad);
	(void)apirepl_string(root, "context", &bad);
	python = apirepl_is_python(lang, &shell);
	if (execreq_take_code(doc, shell, code, &e, &why) != 0) {
		api_error(c->rq, 400, "bad_request", "%s", why);
		free(why);
	} else if (code == NULL || bad) {
		api_error(c->rq, 400, "bad_request",
			  "code, language, context: strings are wanted");
	} else if (!python && shell == NULL) {
		api_error(c->rq, 400, "bad_language",
			  "language: python or bash is wanted");
	} else if (c->sb->state != SANDBOX_LIVE) {
		/* It was deleted while the body came. */
		api_error(c->rq, 404, "no_such_sandbox", "no such sandbox");
	} else if (python) {
		apirepl_python(c, &e, root);
	} else {
		api_exec_start(c, &e);
	}
	execreq_clear(&e);
}

void
api_run_code(struct call *c)
{
	api_collect(c, API_BODY_MAX, apirepl_run);
}
