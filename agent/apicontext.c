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
#include "net/loop.h"

#define APICONTEXT_MS 60000  /* for a fork or a look at the names */
#define SETTLE_MS     600000 /* for files to be copied */

/* --- what is answered with one object ---------------------------------- */

struct apicontext {
	struct call *c;
	struct repl_call *rc;
	struct strbuf other; /* diff: the second context; merge: the winner */
	struct strbuf name;  /* merge: of the context */
	struct json_doc *first;
	struct task again;
};

static void apicontext_merge_again(void *arg);

static void
apicontext_closed(struct call *c, int err)
{
	struct apicontext *x = c->state;

	(void)err;
	if (x->rc != NULL)
		repl_release(x->rc, true);
	task_cancel(&x->again);
	strbuf_clear(&x->other);
	strbuf_clear(&x->name);
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
	const struct repl_ask ask = {
	    .kind = kind,
	    .context = context,
	    .n = n,
	    .timeout_ms = kind == REPL_SETTLE ? SETTLE_MS : APICONTEXT_MS};
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
	task_init(&x->again, apicontext_merge_again, x);
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

/* What happened to a path on the way from a to b, either of which may be NULL:
 * [kind, version] in its own view, beside the one that all share. NULL:
 * nothing. */
static const char *
apicontext_change(const struct json *a, const struct json *b)
{
	static const char *const kinds[] = {"added", "changed", "removed"};
	struct strv was = apicontext_part(a, 0), is = apicontext_part(b, 0);

	if (a != NULL && b != NULL) {
		if (strv_eq(was, is) &&
		    strv_eq(apicontext_part(a, 1), apicontext_part(b, 1)))
			return NULL;
		if (!strv_eq(is, STRV("removed")))
			return strv_eq(was, STRV("removed")) ? "added"
							     : "changed";
	}
	for (unsigned i = 0; i < 3; i++) {
		if (b == NULL && strv_eq(was, strv_of(kinds[i])))
			return kinds[2 - i];
		if (b != NULL && strv_eq(is, strv_of(kinds[i])))
			return kinds[i];
	}
	return NULL;
}

static void
apicontext_put_file(struct strbuf *out, const char *path, const char *kind)
{
	if (kind == NULL)
		return;
	if (out->s[out->len - 1] != '[')
		strbuf_addc(out, ',');
	strbuf_adds(out, "{\"path\":");
	strbuf_add_json(out, strv_of(path));
	strbuf_addf(out, ",\"kind\":\"%s\"}", kind);
}

static void
apicontext_put_files(struct strbuf *out, const struct json *a,
		     const struct json *b)
{
	const struct json *it = NULL;
	const char *path;

	while (json_each(b, &it, &path))
		apicontext_put_file(out, path,
				    apicontext_change(json_get(a, path), it));
	for (it = NULL; json_each(a, &it, &path);) {
		if (json_get(b, path) == NULL)
			apicontext_put_file(out, path,
					    apicontext_change(it, NULL));
	}
}

static void
apicontext_answer_diff(struct call *c, const struct json *from,
		       const struct json *to)
{
	const struct json *a = json_get(from, "names"),
			  *b = json_get(to, "names");
	struct strbuf out = {0};

	strbuf_adds(&out, "{\"added\":{");
	apicontext_put_missing(&out, b, a);
	strbuf_adds(&out, "},\"removed\":{");
	apicontext_put_missing(&out, a, b);
	strbuf_adds(&out, "},\"changed\":{");
	apicontext_put_changed(&out, a, b);
	strbuf_adds(&out, "},\"files\":[");
	apicontext_put_files(&out, json_get(from, "files"),
			     json_get(to, "files"));
	strbuf_adds(&out, "]}");
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

/* --- merge ------------------------------------------------------------- */

static void
apicontext_answer_merge(struct call *c, int err, struct strv name,
			struct strv winner)
{
	struct strbuf b = {0};

	if (err != 0) {
		api_repl_refuse(c, err,
				err == E_BUSY ? "one of the contexts has calls"
				: err == E_INVALID
				    ? "winner: a context cannot win over "
				      "itself"
				    : "no such context, or it has no state");
		return;
	}
	strbuf_adds(&b, "{\"context\":");
	strbuf_add_json(&b, name.len > 0 ? name : STRV("main"));
	strbuf_adds(&b, ",\"winner\":");
	strbuf_add_json(&b, winner);
	strbuf_addc(&b, '}');
	api_answer(c, 200, &b);
}

/* The winner's files are in their place. */
static void
apicontext_merge_again(void *arg)
{
	struct apicontext *x = arg;
	struct strv name = {x->name.s, x->name.len};
	struct strv winner = {x->other.s, x->other.len};

	apicontext_answer_merge(x->c, repl_merge(api_repls(x->c), name, winner),
				name, winner);
}

static void
apicontext_settled(struct repl_call *rc, const struct repl_end *e, void *arg)
{
	struct apicontext *x = arg;
	struct json_doc *doc = NULL;
	const char *why = NULL;

	x->rc = NULL;
	if (json_parse(e->json, &doc, NULL) == 0)
		why = json_string(json_get(json_root(doc), "error"));
	if (e->json.len == 0)
		apicontext_lost(x->c, e);
	else if (why != NULL)
		api_error(x->c->rq, 500, "files_not_merged", "%s", why);
	else
		task_post(x->c->sb->runs.place.loop, &x->again);
	json_doc_free(doc);
	repl_release(rc, false);
}

static void
apicontext_settle(struct call *c, struct strv name, struct strv winner)
{
	static const struct repl_cbs cbs = {
	    .began = apicontext_began,
	    .output = apicontext_output,
	    .event = apicontext_event,
	    .failed = apicontext_failed,
	    .ended = apicontext_settled,
	};
	struct apicontext *x = apicontext_new(c);

	strbuf_addv(&x->name, name);
	strbuf_addv(&x->other, winner);
	(void)apicontext_ask(x, REPL_SETTLE, winner, 0, &cbs);
}

static void
apicontext_merge(struct call *c)
{
	struct json_doc *doc;
	struct strv name, winner;
	int r;

	if (!apicontext_pair(c, "winner", &doc, &name, &winner))
		return;
	r = repl_merge(api_repls(c), name, winner);
	if (r == E_AGAIN)
		apicontext_settle(c, name, winner);
	else
		apicontext_answer_merge(c, r, name, winner);
	json_doc_free(doc);
}

void
api_run_code_merge(struct call *c)
{
	api_collect(c, API_SMALL_MAX, apicontext_merge);
}

/* --- the rest ---------------------------------------------------------- */

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
