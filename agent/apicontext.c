/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders to the contexts of persistent Python beside running code in them:
 * copies, their comparison and the choice of one, interruption, the list.
 */
#include "config.h"

#include "agent/api_int.h"

#include <stdlib.h>
#include <string.h>

#include "agent/repl.h"
#include "base/err.h"
#include "base/mem.h"

#define APICONTEXT_MS 60000 /* for a fork or a look at the names */

/* --- what is answered with one object ---------------------------------- */

struct apicontext {
	struct call *c;
	struct repl_call *rc;
	struct strbuf other; /* diff: the second context; then NULL */
	struct json_doc *first;
};

static void
apicontext_closed(struct call *c, int err)
{
	struct apicontext *x = c->state;

	(void)err;
	if (x->rc != NULL)
		repl_release(x->rc, true);
	strbuf_clear(&x->other);
	json_doc_free(x->first);
	free(x);
}

static void
apicontext_failed(struct repl_call *rc, int err, const char *why, void *arg)
{
	struct apicontext *x = arg;

	x->rc = NULL;
	repl_release(rc, false);
	if (err == E_NOTFOUND)
		api_error(x->c->rq, 503, "no_python", "%s", why);
	else
		api_repl_refuse(x->c, err, why);
}

static void
apicontext_began(struct repl_call *rc, pid_t pid, void *arg)
{
	(void)rc;
	(void)pid;
	(void)arg;
}

static void
apicontext_output(struct repl_call *rc, unsigned stream, const char *data,
		  size_t n, void *arg)
{
	(void)rc;
	(void)stream;
	(void)data;
	(void)n;
	(void)arg;
}

static void
apicontext_event(struct repl_call *rc, struct strv json, void *arg)
{
	(void)rc;
	(void)json;
	(void)arg;
}

static void
apicontext_lost(struct call *c, const struct repl_end *e)
{
	api_error(c->rq, 500, "interpreter_lost",
		  e->timed_out ? "the interpreter did not answer in time"
			       : "the interpreter ended: status %d, signal %d",
		  e->code, e->signal);
}

/* Starts a call that this request waits for; answers when it cannot be. */
static bool
apicontext_ask(struct apicontext *x, enum repl_kind kind, struct strv context,
	       unsigned n, const struct repl_cbs *cbs)
{
	const struct repl_ask ask = {.kind = kind,
				     .context = context,
				     .n = n,
				     .timeout_ms = APICONTEXT_MS};
	const char *why;
	int r;

	r = repl_call(api_repls(x->c), &ask, cbs, x, &x->rc, &why);
	if (r != 0)
		api_repl_refuse(x->c, r, why);
	return r == 0;
}

static struct apicontext *
apicontext_new(struct call *c)
{
	struct apicontext *x = xcalloc(1, sizeof(*x));

	x->c = c;
	c->state = x;
	c->on_closed = apicontext_closed;
	return x;
}

/* --- fork -------------------------------------------------------------- */

static void
apicontext_forked(struct repl_call *rc, const struct repl_end *e, void *arg)
{
	struct apicontext *x = arg;
	struct strbuf b = {0};

	x->rc = NULL;
	repl_release(rc, false);
	if (e->json.len == 0) {
		apicontext_lost(x->c, e);
		return;
	}
	strbuf_addv(&b, e->json);
	b.len--; /* its brace */
	strbuf_addf(&b, ",\"duration_ms\":%llu}",
		    (unsigned long long)e->duration_ms);
	api_answer(x->c, 200, &b);
}

static void
apicontext_fork(struct call *c)
{
	static const struct repl_cbs cbs = {
	    .began = apicontext_began,
	    .output = apicontext_output,
	    .event = apicontext_event,
	    .failed = apicontext_failed,
	    .ended = apicontext_forked,
	};
	struct json_doc *doc = api_json(c, true);
	const struct json *v;
	uint64_t n = 1;

	if (doc == NULL)
		return;
	v = json_get(json_root(doc), "n");
	if (v != NULL && (json_u64(v, REPL_FORK_MAX, &n) != 0 || n == 0))
		api_error(c->rq, 400, "bad_request", "n: 1 to %d is wanted",
			  REPL_FORK_MAX);
	else
		(void)apicontext_ask(
		    apicontext_new(c), REPL_FORK,
		    strv_of(json_string(json_get(json_root(doc), "context"))),
		    (unsigned)n, &cbs);
	json_doc_free(doc);
}

void
api_run_code_fork(struct call *c)
{
	api_collect(c, API_SMALL_MAX, apicontext_fork);
}

/* --- diff -------------------------------------------------------------- */

/* names: name -> [type, digest, text]. */
static struct strv
apicontext_part(const struct json *v, size_t i)
{
	const struct json *it = NULL;

	while (json_each(v, &it, NULL)) {
		if (i-- == 0)
			return strv_of(json_string(it));
	}
	return STRV("");
}

static void
apicontext_put_value(struct strbuf *b, const struct json *v)
{
	strbuf_adds(b, "{\"type\":");
	strbuf_add_json(b, apicontext_part(v, 0));
	strbuf_adds(b, ",\"text\":");
	strbuf_add_json(b, apicontext_part(v, 2));
	strbuf_addc(b, '}');
}

/* The names of a that b lacks. */
static void
apicontext_put_missing(struct strbuf *out, const struct json *a,
		       const struct json *b)
{
	const struct json *it = NULL;
	const char *name;
	bool more = false;

	while (json_each(a, &it, &name)) {
		if (json_get(b, name) != NULL)
			continue;
		strbuf_adds(out, more ? "," : "");
		more = true;
		strbuf_add_json(out, strv_of(name));
		strbuf_addc(out, ':');
		apicontext_put_value(out, it);
	}
}

static void
apicontext_put_changed(struct strbuf *out, const struct json *a,
		       const struct json *b)
{
	const struct json *it = NULL, *other;
	const char *name;
	bool more = false;

	while (json_each(a, &it, &name)) {
		other = json_get(b, name);
		if (other == NULL || (strv_eq(apicontext_part(it, 0),
					      apicontext_part(other, 0)) &&
				      strv_eq(apicontext_part(it, 1),
					      apicontext_part(other, 1))))
			continue;
		strbuf_adds(out, more ? "," : "");
		more = true;
		strbuf_add_json(out, strv_of(name));
		strbuf_adds(out, ":{\"from\":");
		apicontext_put_value(out, it);
		strbuf_adds(out, ",\"to\":");
		apicontext_put_value(out, other);
		strbuf_addc(out, '}');
	}
}

static void
apicontext_answer_diff(struct call *c, const struct json *a,
		       const struct json *b)
{
	struct strbuf out = {0};

	strbuf_adds(&out, "{\"added\":{");
	apicontext_put_missing(&out, b, a);
	strbuf_adds(&out, "},\"removed\":{");
	apicontext_put_missing(&out, a, b);
	strbuf_adds(&out, "},\"changed\":{");
	apicontext_put_changed(&out, a, b);
	strbuf_adds(&out, "}}");
	api_answer(c, 200, &out);
}

static void apicontext_named(struct repl_call *rc, const struct repl_end *e,
			     void *arg);

static const struct repl_cbs apicontext_diff_cbs = {
    .began = apicontext_began,
    .output = apicontext_output,
    .event = apicontext_event,
    .failed = apicontext_failed,
    .ended = apicontext_named,
};

static void
apicontext_named(struct repl_call *rc, const struct repl_end *e, void *arg)
{
	struct apicontext *x = arg;
	struct json_doc *doc = NULL;

	x->rc = NULL;
	repl_release(rc, false);
	if (e->json.len == 0 || json_parse(e->json, &doc, NULL) != 0) {
		apicontext_lost(x->c, e);
	} else if (x->first == NULL) {
		x->first = doc;
		doc = NULL;
		(void)apicontext_ask(x, REPL_NAMES,
				     (struct strv){x->other.s, x->other.len}, 0,
				     &apicontext_diff_cbs);
	} else {
		apicontext_answer_diff(x->c, json_root(x->first),
				       json_root(doc));
	}
	json_doc_free(doc);
}

/* {"context": a, "other": b} of a body; what is not given is empty. */
static bool
apicontext_pair(struct call *c, const char *key, struct json_doc **doc,
		struct strv *a, struct strv *b)
{
	if ((*doc = api_json(c, true)) == NULL)
		return false;
	*a = strv_of(json_string(json_get(json_root(*doc), "context")));
	*b = strv_of(json_string(json_get(json_root(*doc), key)));
	if (b->len > 0)
		return true;
	api_error(c->rq, 400, "bad_request",
		  "%s: the name of a context is "
		  "wanted",
		  key);
	json_doc_free(*doc);
	return false;
}

static void
apicontext_diff(struct call *c)
{
	struct apicontext *x;
	struct json_doc *doc;
	struct strv a, b;

	if (!apicontext_pair(c, "other", &doc, &a, &b))
		return;
	x = apicontext_new(c);
	strbuf_addv(&x->other, b);
	(void)apicontext_ask(x, REPL_NAMES, a, 0, &apicontext_diff_cbs);
	json_doc_free(doc);
}

void
api_run_code_diff(struct call *c)
{
	api_collect(c, API_SMALL_MAX, apicontext_diff);
}

/* --- the rest ---------------------------------------------------------- */

static void
apicontext_merge(struct call *c)
{
	struct json_doc *doc;
	struct strv a, w;
	struct strbuf b = {0};
	int r;

	if (!apicontext_pair(c, "winner", &doc, &a, &w))
		return;
	r = repl_merge(api_repls(c), a, w);
	if (r == 0) {
		strbuf_adds(&b, "{\"context\":");
		strbuf_add_json(&b, a.len > 0 ? a : STRV("main"));
		strbuf_adds(&b, ",\"winner\":");
		strbuf_add_json(&b, w);
		strbuf_addc(&b, '}');
		api_answer(c, 200, &b);
	} else {
		api_repl_refuse(c, r,
				r == E_BUSY ? "one of the contexts has calls"
				: r == E_INVALID
				    ? "winner: a context cannot win over itself"
				    : "no such context, or it has no state");
	}
	json_doc_free(doc);
}

void
api_run_code_merge(struct call *c)
{
	api_collect(c, API_SMALL_MAX, apicontext_merge);
}

static void
apicontext_interrupt(struct call *c)
{
	struct json_doc *doc = api_json(c, true);
	struct strbuf b = {0};
	bool hit = false;
	struct strv name;

	if (doc == NULL)
		return;
	name = strv_of(json_string(json_get(json_root(doc), "context")));
	if (repl_interrupt(api_repls(c), name, &hit) != 0) {
		api_repl_refuse(c, E_NOTFOUND, "no such context");
	} else {
		strbuf_addf(&b, "{\"interrupted\":%s}", hit ? "true" : "false");
		api_answer(c, 200, &b);
	}
	json_doc_free(doc);
}

void
api_run_code_interrupt(struct call *c)
{
	api_collect(c, API_SMALL_MAX, apicontext_interrupt);
}

void
api_run_code_list(struct call *c)
{
	struct strbuf b = {0};

	strbuf_addc(&b, '[');
	for (struct repl *r = repl_next(api_repls(c), NULL); r != NULL;
	     r = repl_next(api_repls(c), r)) {
		strbuf_adds(&b, b.len > 1 ? ",{\"context\":" : "{\"context\":");
		strbuf_add_json(&b, strv_of(repl_name(r)));
		if (repl_pid(r) != 0)
			strbuf_addf(&b, ",\"pid\":%ld", (long)repl_pid(r));
		else
			strbuf_adds(&b, ",\"pid\":null");
		strbuf_addf(&b, ",\"calls\":%zu,\"parent\":", repl_calls(r));
		if (repl_parent(r) != NULL)
			strbuf_add_json(&b, strv_of(repl_parent(r)));
		else
			strbuf_adds(&b, "null");
		strbuf_addc(&b, '}');
	}
	strbuf_addc(&b, ']');
	api_answer(c, 200, &b);
}

void
api_run_code_delete(struct call *c)
{
	struct strbuf b = {0};

	if (repl_drop(api_repls(c), c->id) != 0) {
		api_repl_refuse(c, E_NOTFOUND, "no such context");
		return;
	}
	strbuf_adds(&b, "{\"deleted\":");
	strbuf_add_json(&b, c->id);
	strbuf_addc(&b, '}');
	api_answer(c, 200, &b);
}
