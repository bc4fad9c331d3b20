/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders of the Podflare API to the agent. One is a request, or two: a new
 * sandbox is ready when its interpreter is. Who asked may be gone before the
 * answer is there; then what was made is taken back.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "gateway/ask.h"
#include "gateway/podflare_int.h"

#define ORDER_MS   90000
#define ANSWER_MAX (256U << 10)

enum podop_kind { POD_CREATE, POD_START, POD_FORK, POD_MERGE, POD_DELETE };

struct podop {
	struct podflare *p;
	struct podop *next, **prev;
	enum podop_kind kind;
	struct podbox *box; /* held; NULL until there is one */
	struct ask *ask;
	char *ns;
	char winner[POD_ID_LEN + 1];
	uint64_t epoch;
	unsigned n;
	bool persistent, forgotten;
	const char *why; /* there is no ask: what to say */
	struct task fail;
	podop_done *done; /* NULL: nobody wants to know */
	void *arg;
};

/* --- life -------------------------------------------------------------- */

static void fail_cb(void *arg);

static struct podop *
op_new(struct podflare *p, enum podop_kind kind, podop_done *done, void *arg)
{
	struct podop *op = xcalloc(1, sizeof(*op));

	op->p = p;
	op->kind = kind;
	op->done = done;
	op->arg = arg;
	task_init(&op->fail, fail_cb, op);
	op->next = p->ops;
	op->prev = &p->ops;
	if (op->next != NULL)
		op->next->prev = &op->next;
	p->ops = op;
	return op;
}

static void
op_free(struct podop *op)
{
	*op->prev = op->next;
	if (op->next != NULL)
		op->next->prev = op->prev;
	if (op->kind == POD_CREATE)
		op->p->making--;
	ask_cancel(op->ask);
	task_cancel(&op->fail);
	if (op->box != NULL)
		podbox_release(op->box);
	free(op->ns);
	free(op);
}

void
podop_forget(struct podop *op)
{
	op->forgotten = true;
	op->done = NULL;
}

void
podop_free_all(struct podflare *p)
{
	struct podop *op = p->ops, *next;

	for (; op != NULL; op = next) {
		next = op->next;
		op_free(op);
	}
}

static void
op_end(struct podop *op, const struct podop_result *res)
{
	podop_done *done = op->done;
	void *arg = op->arg;

	op_free(op);
	if (done != NULL)
		done(res, arg);
}

static void
op_fail(struct podop *op, unsigned status, const char *why)
{
	const struct podop_result res = {.status = status, .why = why};

	op_end(op, &res);
}

static void
fail_cb(void *arg)
{
	struct podop *op = arg;

	op_fail(op, 500, op->why);
}

/* --- asking ------------------------------------------------------------ */

static void answered_cb(int err, unsigned status, struct strv body, void *arg);

/* path is freed; body NULL: none. */
static void
op_ask(struct podop *op, enum http_method method, char *path,
       const struct strbuf *body)
{
	struct podflare_agent a;
	struct addr at;
	struct ask_spec s = {.to = &at,
			     .method = method == M_POST ? STRV("POST")
							: STRV("DELETE"),
			     .id = method,
			     .target = path,
			     .max = ANSWER_MAX,
			     .timeout_ms = ORDER_MS,
			     .done = answered_cb,
			     .arg = op};

	if (!podflare_agent(op->p, &a) ||
	    (op->box != NULL && op->box->epoch != a.epoch) ||
	    addr_parse(strv_of(a.http), &at) != 0) {
		op->why = "the agent is not up";
		task_post(op->p->o.loop, &op->fail);
	} else {
		op->epoch = a.epoch;
		s.token = a.token;
		if (body != NULL)
			s.body = (struct strv){body->s, body->len};
		op->ask = ask_start(op->p->o.loop, &s);
	}
	free(path);
}

/* Below the sandbox; body is cleared. */
static void
op_ask_box(struct podop *op, const char *what, struct strbuf *body)
{
	op_ask(op, M_POST, xasprintf("/v1/sandboxes/%s/%s", op->box->id, what),
	       body);
	strbuf_clear(body);
}

/* --- create ------------------------------------------------------------ */

static size_t
count_of(const struct podflare *p, struct strv ns)
{
	size_t n = 0;

	for (const struct podbox *b = p->boxes; b != NULL; b = b->next)
		n += strv_eq(strv_of(b->ns), ns);
	for (const struct podop *op = p->ops; op != NULL; op = op->next)
		n += op->kind == POD_CREATE && op->ns != NULL &&
		     strv_eq(strv_of(op->ns), ns);
	return n;
}

struct podop *
podflare_create(struct podflare *p, const struct podop_create *c,
		podop_done *done, void *arg)
{
	const struct gw_podflare *conf = podflare_conf(p);
	size_t mine = count_of(p, c->ns), all = p->nboxes + p->making;
	struct podop *op = op_new(p, POD_CREATE, done, arg);
	struct strbuf b = {0};

	p->making++;
	op->ns = xstrndup(c->ns.p, c->ns.len);
	op->persistent = c->persistent;
	if (all >= conf->max_sandboxes ||
	    (conf->max_per_namespace != 0 && mine >= conf->max_per_namespace)) {
		op->why = "pool exhausted";
		task_post(p->o.loop, &op->fail);
		return op;
	}
	strbuf_adds(&b, c->network ? "{\"count\":1}"
				   : "{\"count\":1,\"network\":\"none\"}");
	op_ask(op, M_POST, xstrdup("/v1/sandboxes"), &b);
	strbuf_clear(&b);
	return op;
}

/* The first of the sandboxes in an answer to their making. */
static const char *
first_id(const struct json *root)
{
	const struct json *it = NULL;

	if (!json_each(json_get(root, "sandboxes"), &it, NULL))
		return NULL;
	return json_string(json_get(it, "id"));
}

static void
created(struct podop *op, const struct json *root)
{
	const char *id = first_id(root);
	struct strbuf b = {0};

	if (id == NULL || strlen(id) > 64) {
		op_fail(op, 500, "pool exhausted");
		return;
	}
	op->box = podbox_new(op->p, id, op->ns, op->epoch);
	op->box->calls++; /* as if by podbox_hold() */
	op->box->persistent = op->persistent;
	op->p->making--; /* it counts as one that is there */
	op->kind = POD_START;
	strbuf_adds(&b, "{\"code\":\"\"}");
	op_ask_box(op, "run_code", &b);
}

static void
started(struct podop *op)
{
	struct podbox *b = op->box;
	const char *ids[1];
	const struct podop_result res = {.ids = ids, .nids = 1};

	if (b->gone) {
		op_fail(op, 500, "the agent ended");
		return;
	}
	ids[0] = pod_new(b, "main")->id;
	if (op->forgotten)
		podop_end_box(b);
	op_end(op, &res);
}

/* --- fork -------------------------------------------------------------- */

static void
add_context(struct strbuf *b, const struct pod *pod)
{
	strbuf_adds(b, "{\"context\":");
	strbuf_add_json(b, strv_of(pod->context));
}

struct podop *
podflare_fork(struct pod *parent, unsigned n, podop_done *done, void *arg)
{
	struct podop *op = op_new(parent->box->p, POD_FORK, done, arg);
	struct strbuf b = {0};

	op->box = podbox_hold(parent->box);
	op->n = n;
	add_context(&b, parent);
	strbuf_addf(&b, ",\"n\":%u}", n);
	op_ask_box(op, "run_code/fork", &b);
	return op;
}

static void
forked(struct podop *op, const struct json *root)
{
	struct podbox *b = op->box;
	struct pod *pods[POD_FORK_MAX];
	const char *ids[POD_FORK_MAX], *name;
	const struct json *it = NULL;
	struct podop_result res = {.ids = ids};
	bool unwanted;

	while (!b->gone && res.nids < op->n &&
	       json_each(json_get(root, "children"), &it, NULL)) {
		if ((name = json_string(it)) == NULL)
			continue;
		pods[res.nids] = pod_new(b, name);
		ids[res.nids] = pods[res.nids]->id;
		res.nids++;
	}
	unwanted = op->forgotten || res.nids < op->n;
	if (res.nids < op->n) {
		res.status = b->gone ? 404 : 500;
		res.why = b->gone ? "sandbox not found"
				  : "not all of the children could be made";
	}
	for (size_t i = 0; unwanted && i < res.nids; i++)
		(void)podflare_delete(pods[i], NULL, NULL);
	op_end(op, &res);
}

/* --- merge ------------------------------------------------------------- */

struct podop *
podflare_merge(struct pod *parent, struct pod *winner, podop_done *done,
	       void *arg)
{
	struct podop *op = op_new(parent->box->p, POD_MERGE, done, arg);
	struct strbuf b = {0};

	op->box = podbox_hold(parent->box);
	memcpy(op->winner, winner->id, sizeof(op->winner));
	add_context(&b, parent);
	strbuf_adds(&b, ",\"winner\":");
	strbuf_add_json(&b, strv_of(winner->context));
	strbuf_addc(&b, '}');
	op_ask_box(op, "run_code/merge_into", &b);
	return op;
}

static void
merged(struct podop *op)
{
	const struct podop_result res = {0};
	struct pod *winner = hash_get(op->p->ids, strv_of(op->winner));

	if (winner != NULL)
		pod_free(winner);
	op_end(op, &res);
}

/* --- delete ------------------------------------------------------------ */

static struct podop *
end_box(struct podbox *b, podop_done *done, void *arg)
{
	struct podop *op = op_new(b->p, POD_DELETE, done, arg);

	op->box = podbox_hold(b);
	podbox_take_out(b);
	op_ask(op, M_DELETE, xasprintf("/v1/sandboxes/%s", b->id), NULL);
	return op;
}

void
podop_end_box(struct podbox *b)
{
	(void)end_box(b, NULL, NULL);
}

struct podop *
podflare_delete(struct pod *pod, podop_done *done, void *arg)
{
	struct podbox *b = pod->box;
	struct podop *op;

	if (b->pods == pod && pod->next == NULL)
		return end_box(b, done, arg);
	op = op_new(b->p, POD_DELETE, done, arg);
	op->box = podbox_hold(b);
	op_ask(op, M_DELETE,
	       xasprintf("/v1/sandboxes/%s/run_code/contexts/%s", b->id,
			 pod->context),
	       NULL);
	pod_free(pod);
	return op;
}

/* --- answers ----------------------------------------------------------- */

/* A sandbox whose interpreter did not start is nobody's. */
static void
drop_unready(struct podop *op)
{
	if (op->kind == POD_START && op->box != NULL && !op->box->gone)
		podop_end_box(op->box);
}

static bool
is_code(const struct json *root, const char *code)
{
	return strv_eq(strv_of(json_string(json_get(root, "code"))),
		       strv_of(code));
}

static void
refused(struct podop *op, unsigned status, const struct json *root)
{
	const char *why = json_string(json_get(root, "error"));
	bool lost = status == 404 && is_code(root, "no_such_sandbox");

	if (op->kind == POD_DELETE) { /* it is gone, that is all */
		op_fail(op, status == 404 ? 0 : 500,
			"the agent could not end it");
		return;
	}
	if (lost && op->box != NULL)
		podbox_lost(op->box);
	drop_unready(op);
	if (status == 404)
		op_fail(op, 404,
			op->kind == POD_MERGE && !lost
			    ? "sandbox not found, or its state is lost"
			    : "sandbox not found");
	else if (op->kind == POD_START || status >= 500)
		op_fail(op, 500, why != NULL ? why : "the agent failed");
	else
		op_fail(op, status, why != NULL ? why : "the agent refused");
}

static void
succeeded(struct podop *op, const struct json *root)
{
	switch (op->kind) {
	case POD_CREATE:
		created(op, root);
		break;
	case POD_START:
		started(op);
		break;
	case POD_FORK:
		forked(op, root);
		break;
	case POD_MERGE:
		merged(op);
		break;
	case POD_DELETE:
		op_fail(op, 0, NULL);
		break;
	}
}

static void
answered_cb(int err, unsigned status, struct strv body, void *arg)
{
	struct podop *op = arg;
	struct json_doc *doc = NULL;

	op->ask = NULL;
	if (err != 0) {
		log_warn("podflare.agent", "error=\"%s\"", err_text(err));
		drop_unready(op);
		op_fail(op, 500, "the agent did not answer");
		return;
	}
	/* Events, when an interpreter was started, are not one object. */
	if (json_parse(body, &doc, NULL) != 0)
		doc = NULL;
	if (status != 200)
		refused(op, status, doc != NULL ? json_root(doc) : NULL);
	else if (doc == NULL && op->kind != POD_START && op->kind != POD_DELETE)
		op_fail(op, 500, "the agent's answer makes no sense");
	else
		succeeded(op, doc != NULL ? json_root(doc) : NULL);
	json_doc_free(doc);
}
