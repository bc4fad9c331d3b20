/* SPDX-License-Identifier: Apache-2.0 */
/* The routes but exec; see the header. */
#include "config.h"

#include "gateway/podapi.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "gateway/podapi_int.h"

#define BODY_MAX 65536

/* In the form that the API promises: with nothing else in it. */
static void
not_found(struct api_req *r, const char *why)
{
	struct strbuf b = {0};

	strbuf_adds(&b, "{\"error\":");
	strbuf_add_json(&b, strv_of(why));
	strbuf_adds(&b, "}\n");
	api_reply_json(r, 404, &b, NULL);
	strbuf_clear(&b);
}

void
podapi_not_found(struct api_req *r)
{
	not_found(r, "sandbox not found");
}

struct pod *
podapi_find(struct api_req *r, size_t i)
{
	struct podapi *pa = r->arg;
	struct pod *pod = podflare_find(pa->p, r->param[i]);

	if (pod != NULL && api_may_write(&r->who, strv_of(pod->box->ns)))
		return pod;
	podapi_not_found(r);
	return NULL;
}

/* --- waiting for an order ---------------------------------------------- */

struct waiting {
	struct api_req *r;
	struct podop *op; /* NULL: it has ended */
};

static void
closed_cb(struct httpd_req *rq, int err, void *arg)
{
	struct waiting *w = arg;

	(void)rq;
	(void)err;
	if (w->op != NULL)
		podop_forget(w->op);
	free(w);
}

static void
gone_cb(struct httpd_req *rq, void *arg)
{
	(void)arg;
	httpd_abort(rq);
}

/* Lives until both the order and the request have ended. */
static struct waiting *
waiting_new(struct api_req *r)
{
	static const struct httpd_req_cbs cbs = {.peer_eof = gone_cb,
						 .closed = closed_cb};
	struct waiting *w = xcalloc(1, sizeof(*w));

	w->r = r;
	httpd_set_cbs(r->rq, &cbs, w);
	return w;
}

/* True when it went well; answers otherwise. */
static bool
went_well(struct waiting *w, const struct podop_result *res)
{
	const char *code = "internal";

	w->op = NULL;
	if (res->status == 0)
		return true;
	if (res->status == 404) {
		not_found(w->r, res->why);
		return false;
	}
	if (res->status == 409)
		code = "busy";
	else if (res->status == 429)
		code = "limit";
	else if (res->status < 500)
		code = "bad_request";
	api_error(w->r, res->status, code, "%s", res->why);
	return false;
}

/* 204. */
static void
done_cb(const struct podop_result *res, void *arg)
{
	struct waiting *w = arg;

	if (went_well(w, res))
		httpd_respond(w->r->rq, 204, NULL, STRV_NULL, STRV_NULL);
}

/* --- create ------------------------------------------------------------ */

static void
created_cb(const struct podop_result *res, void *arg)
{
	struct waiting *w = arg;
	struct strbuf b = {0};

	if (!went_well(w, res))
		return;
	strbuf_addf(&b, "{\"id\":\"%s\",\"state\":\"ready\"}\n", res->ids[0]);
	api_reply_json(w->r, 200, &b, NULL);
	strbuf_clear(&b);
}

/* A boolean that may be missing; answers and returns false when it is
 * something else. */
static bool
take_flag(struct api_req *r, const struct json *root, const char *key,
	  bool *out)
{
	const struct json *v = json_get(root, key);

	if (v == NULL || json_type(v) == JSON_NULL || json_bool(v, out) == 0)
		return true;
	api_error(r, 400, "bad_request", "%s: true or false is wanted", key);
	return false;
}

static bool
check_template(struct api_req *r, const struct json *v)
{
	struct strv t = strv_of(json_string(v));

	if (v == NULL || json_type(v) == JSON_NULL ||
	    strv_eq(t, STRV("default")) || strv_eq(t, STRV("python-datasci")))
		return true;
	api_error(r, 400, "bad_request",
		  "template: \"default\" or \"python-datasci\" is wanted");
	return false;
}

static void
create_body(struct api_req *r, const struct json *root)
{
	struct podapi *pa = r->arg;
	struct podop_create c = {.ns = r->who.ns[0], .network = true};
	struct waiting *w;

	if (!check_template(r, json_get(root, "template")) ||
	    !take_flag(r, root, "egress", &c.network) ||
	    !take_flag(r, root, "persistent", &c.persistent))
		return;
	w = waiting_new(r);
	w->op = podflare_create(pa->p, &c, created_cb, w);
}

static void
create(struct api_req *r)
{
	if (api_may_write(&r->who, r->who.ns[0]))
		api_body_json(r, BODY_MAX, create_body);
	else
		api_error(r, 403, "forbidden", "this token may only read");
}

/* --- fork, merge, delete ----------------------------------------------- */

static void
forked_cb(const struct podop_result *res, void *arg)
{
	struct waiting *w = arg;
	struct strbuf b = {0};

	if (!went_well(w, res))
		return;
	strbuf_adds(&b, "{\"children\":[");
	for (size_t i = 0; i < res->nids; i++)
		strbuf_addf(&b, "%s\"%s\"", i > 0 ? "," : "", res->ids[i]);
	strbuf_adds(&b, "]}\n");
	api_reply_json(w->r, 200, &b, NULL);
	strbuf_clear(&b);
}

static void
fork_body(struct api_req *r, const struct json *root)
{
	const struct json *v = json_get(root, "n");
	struct pod *pod = podapi_find(r, 0);
	struct waiting *w;
	uint64_t n = 1;

	if (pod == NULL)
		return;
	if (v != NULL && json_type(v) != JSON_NULL &&
	    (json_u64(v, POD_FORK_MAX, &n) != 0 || n == 0)) {
		api_error(r, 400, "bad_request", "n: 1 to %d is wanted",
			  POD_FORK_MAX);
		return;
	}
	w = waiting_new(r);
	w->op = podflare_fork(pod, (unsigned)n, forked_cb, w);
}

static void
fork_post(struct api_req *r)
{
	if (podapi_find(r, 0) != NULL)
		api_body_json(r, BODY_MAX, fork_body);
}

static void
merge_body(struct api_req *r, const struct json *root)
{
	struct pod *parent = podapi_find(r, 0), *winner;
	struct waiting *w;

	(void)root;
	if (parent == NULL)
		return;
	if (strv_eq(r->param[0], r->param[1])) {
		api_error(r, 400, "bad_request",
			  "a sandbox cannot be merged into itself");
		return;
	}
	if ((winner = podapi_find(r, 1)) == NULL)
		return;
	if (winner->box != parent->box) {
		api_error(r, 400, "bad_request",
			  "the winner is no fork of this sandbox");
		return;
	}
	w = waiting_new(r);
	w->op = podflare_merge(parent, winner, done_cb, w);
}

static void
merge_post(struct api_req *r)
{
	if (podapi_find(r, 0) != NULL)
		api_body_json(r, BODY_MAX, merge_body);
}

static void
delete_one(struct api_req *r)
{
	struct pod *pod = podapi_find(r, 0);
	struct waiting *w;

	if (pod == NULL)
		return;
	w = waiting_new(r);
	w->op = podflare_delete(pod, done_cb, w);
}

static void
healthz(struct api_req *r)
{
	httpd_respond(r->rq, 200, "text/plain",
		      STRV("Cache-Control: no-store\r\n"), STRV("ok"));
}

/* --- life -------------------------------------------------------------- */

struct podapi *
podapi_new(struct api *a, struct podflare *p)
{
	struct podapi *pa = xcalloc(1, sizeof(*pa));

	pa->p = p;
	(void)api_route_public(a, "GET", "/podflare/v1/healthz", healthz, pa);
	(void)api_route(a, "POST", "/podflare/v1/sandboxes", create, pa);
	(void)api_route(a, "POST", "/podflare/v1/sandboxes/:id/exec",
			podexec_post, pa);
	(void)api_route(a, "POST", "/podflare/v1/sandboxes/:id/fork", fork_post,
			pa);
	(void)api_route(a, "POST",
			"/podflare/v1/sandboxes/:id/merge_into/:winner",
			merge_post, pa);
	(void)api_route(a, "DELETE", "/podflare/v1/sandboxes/:id", delete_one,
			pa);
	return pa;
}

void
podapi_free(struct podapi *pa)
{
	free(pa);
}
