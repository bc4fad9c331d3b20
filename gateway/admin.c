/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The admin listener. It says how the gateway is, and nothing that is secret:
 * no token, no name of a sandbox.
 */
#include "config.h"

#include "gateway/admin.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "gateway/crew.h"
#include "gateway/statmsg.h"
#include "net/httpd.h"
#include "net/listener.h"
#include "net/loop.h"
#include "net/stream.h"

#define ADMIN_LISTENERS 8

struct admin {
	struct admin_options o;
	struct httpd *httpd;
	struct listener *ls[ADMIN_LISTENERS];
	size_t n;
};

struct question {
	struct admin *admin;
	struct httpd_req *rq;
	bool json;
};

static void
answer(struct httpd_req *rq, unsigned status, const char *type,
       const struct strbuf *b)
{
	httpd_respond(rq, status, type, STRV("Cache-Control: no-store\r\n"),
		      (struct strv){b->s, b->len});
}

static void
answer_text(struct httpd_req *rq, unsigned status, const char *text)
{
	httpd_respond(rq, status, "text/plain; charset=utf-8",
		      STRV("Cache-Control: no-store\r\n"), strv_of(text));
}

static void
add_metrics(struct admin *a, struct strbuf *b)
{
	struct admin_info i = {0};
	struct crew_counts n;

	crew_count(a->o.crew, &n);
	a->o.info(&i, a->o.arg);
	const struct {
		const char *name, *type, *help;
		unsigned long long v;
	} rows[] = {{"up", "gauge", "1 while the gateway is ready", i.ready},
		    {"workers", "gauge", "Workers that should run", n.wanted},
		    {"workers_ready", "gauge",
		     "Workers that accept connections", n.ready},
		    {"workers_retiring", "gauge",
		     "Workers of older configurations that still serve",
		     n.retiring},
		    {"worker_deaths_total", "counter",
		     "Workers that were replaced", n.deaths},
		    {"generation", "gauge",
		     "Number of the configuration in use", n.generation},
		    {"reload_errors_total", "counter",
		     "Configurations and certificates that were refused",
		     i.reload_errors},
		    {"sandboxes", "gauge", "Sandboxes that can be reached",
		     i.sandboxes},
		    {"agent_up", "gauge", "1 while the embedded agent serves",
		     i.agent_up},
		    {"agent_starts_total", "counter",
		     "Starts of the embedded agent", i.agent_starts}};

	for (size_t k = 0; k < ARRAY_LEN(rows); k++)
		strbuf_addf(b,
			    "# HELP sbx_gateway_%s %s\n"
			    "# TYPE sbx_gateway_%s %s\n"
			    "sbx_gateway_%s %llu\n",
			    rows[k].name, rows[k].help, rows[k].name,
			    rows[k].type, rows[k].name, rows[k].v);
	strbuf_clear(&i.urls);
}

static void
add_urls(struct strv rest, struct strbuf *b)
{
	const char *sep = "";
	struct strv url;

	strbuf_adds(b, ",\"listen\":[");
	while (strv_cut(&rest, ' ', &url)) {
		if (url.len == 0)
			continue;
		strbuf_adds(b, sep);
		strbuf_add_json(b, url);
		sep = ",";
	}
	strbuf_addc(b, ']');
}

void
admin_status(struct admin *a, const struct stats *s, struct strbuf *b)
{
	struct admin_info i = {0};
	struct crew_counts n;

	crew_count(a->o.crew, &n);
	a->o.info(&i, a->o.arg);
	strbuf_addf(b,
		    "{\"version\":\"%s\",\"pid\":%ld,\"state\":\"%s\","
		    "\"ready\":%s,\"generation\":%u,\"workers_wanted\":%u,"
		    "\"workers_ready\":%u,\"workers_retiring\":%u,"
		    "\"worker_deaths\":%u,\"reload_errors\":%u,"
		    "\"sandboxes\":%zu,\"agent\":\"%s\",\"config\":",
		    PACKAGE_VERSION, (long)getpid(), i.state,
		    i.ready ? "true" : "false", n.generation, n.wanted, n.ready,
		    n.retiring, n.deaths, i.reload_errors, i.sandboxes,
		    !i.has_agent ? "off" : (i.agent_up ? "up" : "down"));
	if (i.config != NULL)
		strbuf_add_json(b, strv_of(i.config));
	else
		strbuf_adds(b, "null");
	add_urls((struct strv){i.urls.s, i.urls.len}, b);
	strbuf_adds(b, ",\"workers\":");
	crew_json(a->o.crew, b);
	strbuf_adds(b, ",\"totals\":");
	statmsg_json(s, b);
	strbuf_addc(b, '}');
	strbuf_clear(&i.urls);
}

static void
stats_cb(const struct stats *s, void *arg)
{
	struct question *q = arg;
	struct strbuf b = {0};

	if (q->json) {
		admin_status(q->admin, s, &b);
		strbuf_addc(&b, '\n');
		answer(q->rq, 200, "application/json", &b);
	} else {
		statmsg_prometheus(s, &b);
		add_metrics(q->admin, &b);
		q->admin->o.metrics(&b, q->admin->o.arg);
		answer(q->rq, 200, "text/plain; version=0.0.4; charset=utf-8",
		       &b);
	}
	strbuf_clear(&b);
}

static bool
is_ready(struct admin *a)
{
	struct admin_info i = {0};

	a->o.info(&i, a->o.arg);
	strbuf_clear(&i.urls);
	return i.ready;
}

static void
closed_cb(struct httpd_req *rq, int err, void *arg)
{
	struct question *q = arg;

	(void)rq;
	(void)err;
	crew_stats_cancel(q->admin->o.crew, q);
}

static void
ask(struct admin *a, struct httpd_req *rq, bool json)
{
	static const struct httpd_req_cbs cbs = {.closed = closed_cb};
	struct question *q = httpd_alloc(rq, sizeof(*q));

	*q = (struct question){a, rq, json};
	httpd_set_cbs(rq, &cbs, q);
	crew_stats(a->o.crew, stats_cb, q);
}

static void
request_cb(struct httpd_req *rq, void *arg)
{
	struct admin *a = arg;
	const struct http_head *h = httpd_head(rq);
	struct strv path = http1_path(h), query = path;

	(void)strv_cut(&query, '?', &path);
	if (h->method != M_GET && h->method != M_HEAD) {
		answer_text(rq, 405, "only GET here\n");
	} else if (strv_eq(path, STRV("/-/health")) ||
		   strv_eq(path, STRV("/health"))) {
		answer_text(rq, 200, "ok\n");
	} else if (strv_eq(path, STRV("/-/ready"))) {
		if (is_ready(a))
			answer_text(rq, 200, "ready\n");
		else
			answer_text(rq, 503, "not ready\n");
	} else if (strv_eq(path, STRV("/-/metrics")) ||
		   strv_eq(path, STRV("/metrics"))) {
		ask(a, rq, false);
	} else if (strv_eq(path, STRV("/-/status"))) {
		ask(a, rq, true);
	} else {
		answer_text(rq, 404,
			    "/-/health /-/ready /-/metrics /-/status\n");
	}
}

static void
accepted_cb(int fd, const struct addr *peer, void *arg)
{
	struct admin *a = arg;
	struct stream *st = stream_take_fd(a->o.loop, fd, NULL, NULL);

	stream_tune_tcp(st);
	(void)httpd_serve(a->httpd, st, peer, NULL);
}

struct admin *
admin_new(const struct admin_options *o)
{
	static const struct httpd_options ho = {.head_ms = 10000,
						.idle_ms = 30000,
						.handshake_ms = 10000,
						.body_ms = 10000,
						.write_ms = 10000,
						.linger_ms = 1000,
						.max_body = 65536};
	static const struct httpd_handler handler = {.request = request_cb};
	struct admin *a = xcalloc(1, sizeof(*a));

	a->o = *o;
	a->httpd = httpd_new(o->loop, &ho, &handler, a);
	return a;
}

void
admin_unlisten(struct admin *a)
{
	while (a->n > 0)
		listener_close(a->ls[--a->n]);
}

void
admin_listen(struct admin *a, int fd)
{
	if (a->n == ADMIN_LISTENERS) /* gwconf allows one */
		return;
	a->ls[a->n++] = listener_take_fd(a->o.loop, fd, accepted_cb, a);
}

void
admin_free(struct admin *a)
{
	if (a == NULL)
		return;
	admin_unlisten(a);
	httpd_close_all(a->httpd);
	httpd_free(a->httpd);
	free(a);
}
