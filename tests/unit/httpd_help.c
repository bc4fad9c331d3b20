/* SPDX-License-Identifier: Apache-2.0 */
/* The server and the client of the httpd tests; see httpd_help.h. */
#include "config.h"

#include "tests/unit/httpd_help.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>

#include <cmocka.h>

#include "base/err.h"
#include "net/buf.h"
#include "net/chunk.h"
#include "net/stream.h"
#include "tests/unit/fault_io.h"

/* --- handlers ---------------------------------------------------------- */

static void
note_peak(struct web *w, struct httpd_req *rq)
{
	struct stream *st = httpd_conn_stream(httpd_req_conn(rq));

	if (st != NULL && stream_output(st)->len > w->peak)
		w->peak = stream_output(st)->len;
}

static void
web_take(struct web *w, struct bufq *in)
{
	struct strv v;
	size_t i;

	while ((v = bufq_front(in)).len > 0) {
		for (i = 0; i < v.len; i++) {
			size_t at = (size_t)w->got + i;

			if (v.p[i] != (char)(at * 31 + at / 253))
				w->bad = true;
		}
		w->got += v.len;
		bufq_drain(in, v.len);
	}
}

static void
closed_cb(struct httpd_req *rq, int err, void *arg)
{
	struct web *w = arg;

	w->closed++;
	w->err = err;
	w->status = httpd_status(rq);
	if (w->held == rq)
		w->held = NULL;
	w->in = NULL;
}

static void
count_body_cb(struct httpd_req *rq, struct bufq *in, bool end, void *arg)
{
	struct web *w = arg;
	char text[32];
	int n;

	web_take(w, in);
	if (!end)
		return;
	w->ends++;
	n = snprintf(text, sizeof(text), "%llu", (unsigned long long)w->got);
	httpd_respond(rq, 200, NULL, STRV_NULL, (struct strv){text, (size_t)n});
}

static void
echo_body_cb(struct httpd_req *rq, struct bufq *in, bool end, void *arg)
{
	struct web *w = arg;

	if (!httpd_over_high(rq) || end)
		httpd_move(rq, in, in->len);
	note_peak(w, rq);
	if (end)
		httpd_end(rq);
}

static void
echo_drained_cb(struct httpd_req *rq, void *arg)
{
	((struct web *)arg)->drained++;
	httpd_body_resume(rq);
}

static void
keep_body_cb(struct httpd_req *rq, struct bufq *in, bool end, void *arg)
{
	struct web *w = arg;

	w->in = in;
	w->ends += end;
	if (w->stop_at_once)
		httpd_body_pause(rq);
}

static void
peer_eof_cb(struct httpd_req *rq, void *arg)
{
	(void)rq;
	((struct web *)arg)->peer_eof++;
}

static void
big_more(struct httpd_req *rq, struct web *w)
{
	char piece[5000];
	size_t n;

	while (w->left > 0 && !httpd_over_high(rq)) {
		n = w->left < sizeof(piece) ? w->left : sizeof(piece);
		help_pattern(piece, n, 0);
		httpd_write(rq, piece, n);
		w->left -= n;
		httpd_flush(rq);
		note_peak(w, rq);
	}
	if (w->left == 0)
		httpd_end(rq);
}

static void
big_drained_cb(struct httpd_req *rq, void *arg)
{
	((struct web *)arg)->drained++;
	big_more(rq, arg);
}

static const struct httpd_req_cbs count_cbs = {.body = count_body_cb,
					       .closed = closed_cb};
static const struct httpd_req_cbs echo_cbs = {
    .body = echo_body_cb, .drained = echo_drained_cb, .closed = closed_cb};
static const struct httpd_req_cbs keep_cbs = {.body = keep_body_cb,
					      .closed = closed_cb};
static const struct httpd_req_cbs big_cbs = {.drained = big_drained_cb,
					     .closed = closed_cb};
static const struct httpd_req_cbs hold_cbs = {.closed = closed_cb,
					      .peer_eof = peer_eof_cb};

static void
on_big(struct httpd_req *rq, struct web *w)
{
	httpd_set_cbs(rq, &big_cbs, w);
	(void)httpd_begin(rq, 200, STRV("OK"), w->kind, w->big, 0);
	assert_int_equal(httpd_end_head(rq), 0);
	w->left = w->big;
	big_more(rq, w);
}

static void
on_up(struct httpd_req *rq, struct web *w)
{
	httpd_set_cbs(rq, &hold_cbs, w);
	(void)httpd_begin(rq, 101, STRV("Switching Protocols"), BODY_NONE, 0,
			  0);
	w->up = httpd_upgrade(rq, STRV("websocket"));
}

static void
request_cb(struct httpd_req *rq, void *arg)
{
	struct web *w = arg;
	struct strv path = http1_path(httpd_head(rq));

	w->requests++;
	if (strv_eq(path, STRV("/count"))) {
		w->got = 0;
		if (w->patient)
			httpd_patient(rq);
		httpd_set_cbs(rq, &count_cbs, w);
	} else if (strv_eq(path, STRV("/echo"))) {
		(void)httpd_begin(rq, 200, STRV("OK"), BODY_UNTIL_CLOSE, 0, 0);
		assert_int_equal(httpd_end_head(rq), 0);
		httpd_set_cbs(rq, &echo_cbs, w);
	} else if (strv_eq(path, STRV("/keep"))) {
		w->held = rq;
		httpd_set_cbs(rq, &keep_cbs, w);
	} else if (strv_eq(path, STRV("/hold")) ||
		   strv_eq(path, STRV("/wait"))) {
		w->held = rq;
		httpd_set_cbs(rq, &hold_cbs, w);
	} else if (strv_eq(path, STRV("/big"))) {
		on_big(rq, w);
	} else if (strv_eq(path, STRV("/up"))) {
		on_up(rq, w);
	} else if (strv_eq(path, STRV("/early"))) {
		httpd_set_cbs(rq, &hold_cbs, w);
		httpd_respond(rq, 200, NULL, STRV_NULL, STRV("early"));
	} else {
		httpd_set_cbs(rq, &hold_cbs, w);
		httpd_respond(rq, 200, "text/plain", STRV("X-Extra: 1\r\n"),
			      STRV("ok"));
	}
}

static bool
refused_cb(struct httpd_conn *c, unsigned status, const char *what, void *arg)
{
	struct web *w = arg;

	(void)c;
	(void)status;
	assert_non_null(what);
	w->refused++;
	return false;
}

static void
conn_closed_cb(struct httpd_conn *c, void *arg)
{
	struct web *w = arg;

	w->conn_closed++;
	if (w->c == c)
		w->c = NULL;
}

/* --- life -------------------------------------------------------------- */

static const struct stream_cbs no_cbs;

int
web_connect(struct web *w)
{
	struct stream *st;
	int fds[2];

	if (w->tcp)
		help_tcp_pair(fds);
	else
		help_pair(fds);
	st = stream_take_fd(w->l, fds[1], &no_cbs, NULL);
	if (help_fault_seed != 0)
		fault_put_mix(st, help_fault_seed++);
	w->c = httpd_serve(w->s, st, NULL, w);
	assert_ptr_equal(httpd_conn_tag(w->c), w);
	return fds[0];
}

void
web_open(struct web *w)
{
	static const struct httpd_handler h = {.request = request_cb,
					       .refused = refused_cb,
					       .conn_closed = conn_closed_cb};

	if (w->s != NULL) {
		httpd_free(w->s);
		(void)close(w->fd);
		w->conn_closed = 0;
	}
	w->s = httpd_new(w->l, &w->o, &h, w);
	w->fd = web_connect(w);
}

static int
web_make(void **state, bool tcp)
{
	struct web *w = calloc(1, sizeof(*w));

	w->l = loop_new();
	w->tcp = tcp;
	w->kind = BODY_UNTIL_CLOSE;
	web_open(w);
	*state = w;
	return 0;
}

int
web_setup(void **state)
{
	return web_make(state, false);
}

int
web_setup_tcp(void **state)
{
	return web_make(state, true);
}

int
web_teardown(void **state)
{
	struct web *w = *state;

	stream_close(w->up);
	httpd_free(w->s);
	(void)close(w->fd);
	/* Slabs and blocks that were not given back are asserted on here. */
	loop_free(w->l);
	free(w);
	return 0;
}

bool
web_is_closed(void *w)
{
	return ((struct web *)w)->closed > 0;
}

bool
web_conn_gone(void *w)
{
	return ((struct web *)w)->conn_closed > 0;
}

bool
web_has_held(void *w)
{
	return ((struct web *)w)->held != NULL;
}

/* --- client ------------------------------------------------------------ */

void
web_send(struct web *w, const char *text)
{
	raw_write(w->l, w->fd, text, strlen(text));
}

/* Reads byte by byte up to the end of a head. */
static void
read_head(struct web *w, struct http_head *h, struct answer *a)
{
	struct http_reject rej;
	size_t scanned = 0;
	char ch;
	int r;

	do {
		raw_read(w->l, w->fd, &ch, 1);
		strbuf_add(&a->head, &ch, 1);
		r = http1_parse_response(a->head.s, a->head.len, &scanned, h,
					 &rej);
	} while (r == E_AGAIN);
	assert_int_equal(r, 0);
}

static void
read_chunked(struct web *w, struct answer *a)
{
	struct bufq in, out;
	struct chunk_dec d;
	struct strv v;
	size_t n = 1;
	char buf[4096];
	int r;

	bufq_init(&in, loop_bufpool(w->l));
	bufq_init(&out, loop_bufpool(w->l));
	chunk_dec_init(&d);
	do {
		/* Never beyond the end: what follows is not ours. */
		n = d.left > 2 ? (size_t)d.left : 1;
		n = n < sizeof(buf) ? n : sizeof(buf);
		raw_read(w->l, w->fd, buf, n);
		bufq_add(&in, buf, n);
		r = chunk_decode(&d, &in, &out, SIZE_MAX);
	} while (r == E_AGAIN);
	assert_int_equal(r, 0);
	while ((v = bufq_front(&out)).len > 0) {
		strbuf_addv(&a->body, v);
		bufq_drain(&out, v.len);
	}
}

void
web_read(struct web *w, enum http_method m, struct answer *a)
{
	struct http_head h;
	char *p;

	memset(a, 0, sizeof(*a));
	read_head(w, &h, a);
	assert_int_equal(http1_response_body(&h, m), 0);
	a->status = h.status;
	a->chunked = h.body == BODY_CHUNKED;
	a->close = http1_list_has(http1_get(&h, H_CONNECTION), STRV("close"));
	a->keep =
	    http1_list_has(http1_get(&h, H_CONNECTION), STRV("keep-alive"));
	a->has_length = h.has_content_length;
	if (h.body == BODY_CHUNKED) {
		read_chunked(w, a);
	} else if (h.body == BODY_LENGTH && h.content_length > 0) {
		p = malloc(h.content_length);
		raw_read(w->l, w->fd, p, h.content_length);
		strbuf_add(&a->body, p, h.content_length);
		free(p);
	} else if (h.body == BODY_UNTIL_CLOSE) {
		assert_int_equal(raw_read_end(w->l, w->fd, &a->body), 0);
	}
}

void
answer_clear(struct answer *a)
{
	strbuf_clear(&a->body);
	strbuf_clear(&a->head);
}

void
web_expect(struct web *w, unsigned status, const char *body)
{
	struct answer a;

	web_read(w, M_GET, &a);
	assert_int_equal(a.status, status);
	assert_int_equal(a.body.len, strlen(body));
	if (a.body.len > 0)
		assert_memory_equal(a.body.s, body, a.body.len);
	answer_clear(&a);
}

void
web_expect_end(struct web *w)
{
	struct strbuf b = {0};

	assert_int_equal(raw_read_end(w->l, w->fd, &b), 0);
	assert_int_equal(b.len, 0);
	strbuf_clear(&b);
}

void
web_expect_cut(struct web *w, struct strbuf *got)
{
	int e = raw_read_end(w->l, w->fd, got);

	assert_true(e == 0 || e == ECONNRESET);
}
