/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sbx port-forward: an HTTP server in the sandbox as one on loopback. Requests
 * and WebSockets go to the gateway with our credentials and the prefix of the
 * port; to who connects here it looks like the server itself.
 */
#include "config.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "cli/cmd.h"
#include "cli/place.h"
#include "net/addr.h"
#include "net/buf.h"
#include "net/dialer.h"
#include "net/httpc.h"
#include "net/httpd.h"
#include "net/listener.h"
#include "net/loop.h"
#include "net/relay.h"
#include "net/stream.h"

#define FORWARD_MAX 16 /* ports */

struct forwarding;

struct forwarded {
	struct forwarding *f;
	struct httpd *httpd;
	struct listener *listener;
	char *prefix; /* "/<base>/v1/proxy/8000" */
};

/* A WebSocket. */
struct joined {
	struct joined *next, **prevp;
	struct relay *relay;
};

struct forwarding {
	struct place *p;
	struct job job;
	struct forwarded ports[FORWARD_MAX];
	unsigned nports;
	struct joined *joined;
};

/* One request on its way. */
struct passing {
	struct forwarded *port;
	struct httpd_req *rq;
	struct dial *dial; /* while connecting */
	struct httpc *up;  /* NULL: not yet, or over */
	bool begun;
};

/* --- the answer -------------------------------------------------------- */

static enum http_body
passing_kind(const struct http_head *h)
{
	if (h->status == 101 || h->body == BODY_NONE || h->body == BODY_LENGTH)
		return h->status == 101 ? BODY_NONE : h->body;
	return BODY_UNTIL_CLOSE;
}

static void
joined_done_cb(const struct relay_result *res, void *arg)
{
	struct joined *w = arg;

	(void)res;
	*w->prevp = w->next;
	if (w->next != NULL)
		w->next->prevp = w->prevp;
	free(w);
}

/* From here on it is bytes. Takes both. */
static void
joined_start(struct forwarding *f, struct stream *a, struct stream *b)
{
	struct joined *w = xcalloc(1, sizeof(*w));
	const struct relay_options o = {.done = joined_done_cb, .arg = w};

	w->prevp = &f->joined;
	if ((w->next = f->joined) != NULL)
		w->next->prevp = &w->next;
	f->joined = w;
	w->relay = relay_start(f->p->loop, a, b, &o);
}

static void
passing_head_cb(struct httpc *c, const struct http_head *h, bool interim,
		void *arg)
{
	struct passing *x = arg;
	struct forwarding *f = x->port->f;
	struct http_writer *w;
	struct stream *a, *b;

	if (interim)
		return;
	w = httpd_begin(x->rq, h->status, http1_reason(h), passing_kind(h),
			h->content_length, h->len + 512);
	for (size_t i = 0; i < h->nfields; i++) {
		unsigned id = h->fields[i].id;

		if (!http1_is_hop(id) && id != H_CONTENT_LENGTH)
			http1_put_field(w, h, i);
	}
	x->begun = true;
	if (h->status != 101) {
		if (httpd_end_head(x->rq) != 0)
			httpd_abort(x->rq);
		return;
	}
	/* The request ends, and x with it. */
	x->up = NULL;
	a = httpd_upgrade(x->rq, http1_get(h, H_UPGRADE));
	b = httpc_upgrade(c);
	if (a != NULL)
		joined_start(f, a, b);
	else
		stream_close(b);
}

static void
passing_body_cb(struct httpc *c, struct bufq *in, bool end, void *arg)
{
	struct passing *x = arg;

	httpd_move(x->rq, in, in->len);
	if (!end) {
		httpd_flush(x->rq);
		return;
	}
	x->up = NULL;
	httpc_release(c);
	httpd_end(x->rq);
}

static void
passing_drained_cb(struct httpc *c, void *arg)
{
	struct passing *x = arg;

	(void)c;
	httpd_body_resume(x->rq);
}

static void
passing_failed_cb(struct httpc *c, int err, bool begun, const char *what,
		  void *arg)
{
	struct passing *x = arg;

	(void)c;
	(void)begun;
	x->up = NULL;
	if (x->begun)
		httpd_abort(x->rq);
	else
		httpd_respond(x->rq, 502, "text/plain", STRV_NULL,
			      strv_of(what != NULL ? what : err_text(err)));
}

static const struct httpc_cbs passing_cbs = {
    .head = passing_head_cb,
    .body = passing_body_cb,
    .drained = passing_drained_cb,
    .failed = passing_failed_cb,
};

/* --- the request ------------------------------------------------------- */

static void
passing_request_body(struct httpd_req *rq, struct bufq *in, bool end, void *arg)
{
	struct passing *x = arg;

	(void)rq;
	if (x->up == NULL) {
		bufq_drain(in, in->len);
		return;
	}
	if (!httpc_over_high(x->up))
		httpc_move(x->up, in, in->len);
	if (end && in->len == 0)
		httpc_end(x->up);
	else
		httpc_flush(x->up);
}

static void
passing_closed(struct httpd_req *rq, int err, void *arg)
{
	struct passing *x = arg;

	(void)rq;
	(void)err;
	if (x->dial != NULL)
		dial_cancel(x->dial);
	if (x->up != NULL)
		httpc_close(x->up);
}

static const struct httpd_req_cbs passing_req_cbs = {
    .body = passing_request_body,
    .closed = passing_closed,
};

static void
passing_put_head(struct passing *x, const struct http_head *h,
		 struct http_writer *w)
{
	const struct job *j = &x->port->f->job;

	http1_put(w, STRV("Host"), strv_of(web_authority(j->web)));
	http1_put_f(w, STRV("Authorization"), "Bearer %s",
		    x->port->f->p->token);
	if (j->token[0] != '\0')
		http1_put(w, STRV("X-Sandbox-Token"), strv_of(j->token));
	for (size_t i = 0; i < h->nfields; i++) {
		unsigned id = h->fields[i].id;

		if (!http1_is_hop(id) && id != H_HOST &&
		    id != H_CONTENT_LENGTH && id != H_AUTHORIZATION &&
		    id != H_X_SANDBOX_TOKEN && id != H_EXPECT)
			http1_put_field(w, h, i);
	}
}

static void
passing_send(struct passing *x, struct stream *st)
{
	const struct http_head *h = httpd_head(x->rq);
	struct strv upgrade =
	    h->wants_upgrade ? http1_get(h, H_UPGRADE) : STRV_NULL;
	struct strbuf target = {0};
	struct http_writer *w;

	strbuf_adds(&target, x->port->prefix);
	strbuf_addv(&target, http1_path(h));
	x->up = httpc_take_stream(x->port->f->p->loop, NULL, STRV_NULL, st);
	w = httpc_begin(x->up, &passing_cbs, x, http1_method(h), h->method,
			(struct strv){target.s, target.len}, h->body,
			h->content_length, h->len + target.len + 1024);
	passing_put_head(x, h, w);
	strbuf_clear(&target);
	if (httpc_end_head(x->up, upgrade) != 0) {
		httpc_close(x->up);
		x->up = NULL;
		httpd_respond(x->rq, 431, "text/plain", STRV_NULL,
			      STRV("the request's head is too large"));
		return;
	}
	/* A 101 is for a request that is complete: at once, where it can be. */
	if (httpd_has_body(x->rq))
		httpc_flush(x->up);
	else
		httpc_end(x->up);
	httpd_body_resume(x->rq);
}

static void
passing_dialed(int err, int fd, const struct addr *used, void *arg)
{
	struct passing *x = arg;

	(void)used;
	x->dial = NULL;
	if (err != 0)
		httpd_respond(x->rq, 502, "text/plain", STRV_NULL,
			      strv_of(err_text(err)));
	else
		passing_send(x, web_stream(x->port->f->job.web, fd));
}

static void
forward_request_cb(struct httpd_req *rq, void *arg)
{
	struct passing *x = httpd_alloc(rq, sizeof(*x));

	*x = (struct passing){.port = arg, .rq = rq};
	httpd_set_cbs(rq, &passing_req_cbs, x);
	httpd_body_pause(rq);
	x->dial = web_dial(x->port->f->job.web, passing_dialed, x);
	if (x->dial == NULL)
		httpd_respond(rq, 502, "text/plain", STRV_NULL,
			      STRV("the gateway's name does not resolve"));
}

/* --- the command ------------------------------------------------------- */

static void
forward_accepted(int fd, const struct addr *peer, void *arg)
{
	struct forwarded *port = arg;
	struct stream *st = stream_take_fd(port->f->p->loop, fd, NULL, NULL);

	(void)httpd_serve(port->httpd, st, peer, NULL);
}

/* "8000" or "9000:8000": ours, and the one in the sandbox. */
static int
forward_ports(const char *text, unsigned *here, unsigned *there)
{
	unsigned long a, b;
	char *end;

	a = b = strtoul(text, &end, 10);
	if (*end == ':')
		b = strtoul(end + 1, &end, 10);
	if (*end != '\0' || a > 65535 || b == 0 || b > 65535) {
		say_error("%s: PORT or LOCAL:PORT is wanted", text);
		return EXIT_USAGE;
	}
	*here = (unsigned)a;
	*there = (unsigned)b;
	return 0;
}

static int
forward_listen(struct forwarding *f, const char *text)
{
	static const struct httpd_options options = {.idle_ms = 75000};
	static const struct httpd_handler handler = {.request =
							 forward_request_cb};
	struct forwarded *port = &f->ports[f->nports];
	const struct listen_options lo = {.backlog = 128};
	struct sockaddr_in bound = {0};
	socklen_t n = sizeof(bound);
	unsigned here, there;
	struct addr a;
	int fd = -1, r;

	if ((r = forward_ports(text, &here, &there)) != 0)
		return r;
	addr_loopback(&a, false, (uint16_t)here);
	if ((r = listener_bind(&a, &lo, &fd)) != 0) {
		say_error("127.0.0.1:%u: %s", here, err_text(r));
		return EXIT_FAILED;
	}
	port->f = f;
	port->prefix = xasprintf("%s/proxy/%u", f->job.scope, there);
	port->httpd = httpd_new(f->p->loop, &options, &handler, port);
	port->listener =
	    listener_take_fd(f->p->loop, fd, forward_accepted, port);
	f->nports++;
	if (getsockname(fd, (struct sockaddr *)&bound, &n) == 0)
		here = ntohs(bound.sin_port);
	printf("http://127.0.0.1:%u -> port %u of %s\n", here, there,
	       f->job.id);
	(void)fflush(stdout);
	return 0;
}

static void
forward_stop_cb(int signo, void *arg)
{
	(void)signo;
	loop_stop(arg);
}

int
cmd_forward(struct place *p, int argc, char **argv)
{
	struct forwarding f = {.p = p};
	int r;

	if (argc < 3 || argc > 2 + FORWARD_MAX || argv[1][0] == '-')
		return cmd_usage("port-forward");
	if ((r = place_open(p)) != 0)
		return r;
	if ((r = job_find(p, argv[1], &f.job)) == 0)
		r = job_reach(p, &f.job);
	for (int i = 2; r == 0 && i < argc; i++)
		r = forward_listen(&f, argv[i]);
	if (r == 0) {
		loop_on_signal(p->loop, SIGINT, forward_stop_cb, p->loop);
		loop_on_signal(p->loop, SIGTERM, forward_stop_cb, p->loop);
		loop_run(p->loop);
	}
	while (f.joined != NULL)
		relay_abort(f.joined->relay);
	for (unsigned i = 0; i < f.nports; i++) {
		listener_close(f.ports[i].listener);
		httpd_free(f.ports[i].httpd);
		free(f.ports[i].prefix);
	}
	job_clear(&f.job);
	return r;
}
