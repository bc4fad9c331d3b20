/* SPDX-License-Identifier: Apache-2.0 */
/* The exec server: requests, bodies, answers. See the header. */
#include "config.h"

#include "agent/nemo_int.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "net/buf.h"
#include "net/loop.h"

#define NEMO_WRITE_MS (3600ULL * 1000)
#define NEMO_FILES    8 /* operations on files at a time */

/* --- answers ----------------------------------------------------------- */

void
nemo_answer(struct nemo_call *c, unsigned status, struct strbuf *json)
{
	httpd_respond(c->rq, status, NEMO_JSON_TYPE, STRV_NULL,
		      (struct strv){json->s, json->len});
	strbuf_clear(json);
}

static void
nemo_error_json(struct strbuf *b, const char *text)
{
	strbuf_adds(b, "{\"error\": ");
	strbuf_add_json(b, strv_of(text));
	strbuf_addc(b, '}');
}

void
nemo_error(struct nemo_call *c, unsigned status, const char *fmt, ...)
{
	struct strbuf b = {0};
	char line[8192];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	nemo_error_json(&b, line);
	nemo_answer(c, status, &b);
}

/* --- bodies ------------------------------------------------------------ */

bool
nemo_hold(struct nemo *n, size_t bytes)
{
	if (n->held + bytes > NEMO_HELD_MAX)
		return false;
	n->held += bytes;
	return true;
}

struct json_doc *
nemo_json(struct strv text)
{
	struct json_doc *d = NULL;

	if (json_parse(text, &d, NULL) != 0 ||
	    json_type(json_root(d)) != JSON_OBJECT) {
		json_doc_free(d);
		if (json_parse(STRV("{}"), &d, NULL) != 0)
			d = NULL; /* cannot be */
	}
	return d;
}

static void
nemo_body_cb(struct httpd_req *rq, struct bufq *in, bool end, void *arg)
{
	struct nemo_call *c = arg;
	struct strv v;

	(void)rq;
	if (c->run == NULL || !nemo_hold(c->n, in->len)) {
		if (c->run != NULL)
			nemo_error(c, 503, "too many large requests");
		c->run = NULL;
		bufq_drain(in, in->len);
		return;
	}
	c->held += in->len;
	while ((v = bufq_front(in)).len > 0) {
		strbuf_addv(&c->body, v);
		bufq_drain(in, v.len);
	}
	if (end) {
		void (*run)(struct nemo_call *) = c->run;

		c->run = NULL;
		run(c);
	}
}

static void
nemo_drained_cb(struct httpd_req *rq, void *arg)
{
	struct nemo_call *c = arg;

	(void)rq;
	if (c->on_drained != NULL)
		c->on_drained(c);
}

static void
nemo_closed_cb(struct httpd_req *rq, int err, void *arg)
{
	struct nemo_call *c = arg;

	(void)rq;
	(void)err;
	if (c->on_closed != NULL)
		c->on_closed(c);
	c->n->held -= c->held;
	c->n->busy--;
	c->n->active_ms = loop_now_ms(c->n->o.loop);
	strbuf_clear(&c->body);
}

static const struct httpd_req_cbs nemo_cbs = {
    .body = nemo_body_cb,
    .drained = nemo_drained_cb,
    .closed = nemo_closed_cb,
};

/* --- requests ---------------------------------------------------------- */

static void
nemo_health(struct nemo_call *c)
{
	struct strbuf b = {0};

	strbuf_adds(&b, "{\"ok\": true}");
	nemo_answer(c, 200, &b);
}

static const struct nemo_route {
	enum http_method method;
	const char *path;
	void (*fn)(struct nemo_call *c);
	uint64_t body; /* at most; 0: none is looked at */
} nemo_routes[] = {
    {M_GET, "/health", nemo_health, 0},
    {M_POST, "/exec", nemo_exec, NEMO_EXEC_MAX},
    {M_POST, "/upload", nemo_upload, NEMO_BODY_MAX},
    {M_GET, "/download", nemo_download, 0},
};

static void
nemo_request_cb(struct httpd_req *rq, void *arg)
{
	const struct http_head *h = httpd_head(rq);
	struct nemo_call *c = httpd_alloc(rq, sizeof(*c));
	struct strv path;

	memset(c, 0, sizeof(*c));
	c->n = arg;
	c->rq = rq;
	c->query = http1_path(h);
	(void)strv_cut(&c->query, '?', &path);
	c->n->busy++;
	httpd_set_cbs(rq, &nemo_cbs, c);
	for (size_t i = 0; i < ARRAY_LEN(nemo_routes); i++) {
		const struct nemo_route *r = &nemo_routes[i];

		if (r->method != h->method || !strv_eq(path, strv_of(r->path)))
			continue;
		if (r->body != 0 && httpd_has_body(rq)) {
			c->run = r->fn;
			httpd_set_max_body(rq, r->body);
			httpd_body_resume(rq);
		} else {
			r->fn(c);
		}
		return;
	}
	if (h->method == M_GET || h->method == M_POST)
		nemo_error(c, 404, "not found: %.*s", STRV_ARG(path));
	else
		nemo_error(c, 501, "Unsupported method ('%.*s')",
			   STRV_ARG(http1_method(h)));
}

/* Malformed requests get JSON as well. */
static bool
nemo_refused_cb(struct httpd_conn *conn, unsigned status, const char *what,
		void *arg)
{
	struct strbuf b = {0};

	(void)arg;
	nemo_error_json(&b, what);
	httpd_conn_respond(conn, status, NEMO_JSON_TYPE, STRV_NULL,
			   (struct strv){b.s, b.len});
	strbuf_clear(&b);
	return true;
}

/* --- start and end ----------------------------------------------------- */

/* bash if there is one: what its clients write is bash. */
static char *
nemo_shell(void)
{
	const char *path = getenv("PATH");
	struct strv rest, dir;
	char *file;

	rest = strv_of(path != NULL ? path : "/usr/local/bin:/usr/bin:/bin");
	while (strv_cut(&rest, ':', &dir)) {
		if (dir.len == 0 || *dir.p != '/')
			continue;
		file = xasprintf("%.*s/bash", STRV_ARG(dir));
		if (access(file, X_OK) == 0)
			return file;
		free(file);
	}
	return xstrdup("/bin/sh");
}

struct nemo *
nemo_new(const struct nemo_options *o)
{
	static const struct httpd_handler handler = {
	    .request = nemo_request_cb,
	    .refused = nemo_refused_cb,
	};
	static const struct httpd_options options = {
	    .head_ms = 30000,
	    .idle_ms = 120000,
	    .handshake_ms = 120000,
	    .body_ms = 120000,
	    .write_ms = NEMO_WRITE_MS,
	    .linger_ms = 2000,
	    .max_body = NEMO_BODY_MAX,
	};
	struct nemo *n = xcalloc(1, sizeof(*n));

	n->o = *o;
	n->shell = nemo_shell();
	n->active_ms = loop_now_ms(o->loop);
	work_lane_init(&n->lane, o->work, NEMO_FILES);
	n->httpd = httpd_new(o->loop, &options, &handler, n);
	return n;
}

void
nemo_free(struct nemo *n)
{
	if (n == NULL)
		return;
	httpd_free(n->httpd);
	free(n->shell);
	free(n);
}

struct httpd *
nemo_httpd(struct nemo *n)
{
	return n->httpd;
}

bool
nemo_idle(const struct nemo *n)
{
	return n->busy == 0;
}

uint64_t
nemo_active_ms(const struct nemo *n)
{
	return n->active_ms;
}
