/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/agentcall, gateway/agentattach: against a small server that stands
 * for an agent. */
#include "config.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/mem.h"
#include "gateway/agentattach.h"
#include "gateway/agentcall.h"
#include "net/buf.h"
#include "net/httpd.h"
#include "net/listener.h"
#include "net/stream.h"
#include "tests/unit/net_help.h"

#define BIG (8U << 20)

struct env {
	struct loop *l;
	struct httpd *s;
	struct listener *ls;
	char dir[32], path[48], address[64];
	struct agentcall_to to;

	/* the agent */
	struct httpd_req *held;
	unsigned closed;
	size_t left, taken, peak;
	bool take; /* reads the body */
	struct stream *up;
	struct strbuf heard;
	bool up_eof, deaf;
	char token[32];

	/* a call */
	struct agentcall *a;
	unsigned heads, ends, refused, failed, drained;
	unsigned status;
	int err;
	uint64_t got;
	bool hold, bad;
	struct strbuf body, why;

	/* a command */
	struct agentattach *x;
	unsigned accepted, exited;
	struct agentattach_exit exit;
	struct strbuf out[2];
	size_t pause_at; /* bytes of output; 0: never */
};

/* --- the agent --------------------------------------------------------- */

static void
more_cb(struct httpd_req *rq, void *arg)
{
	struct env *e = arg;
	char piece[4096];
	struct stream *st = httpd_conn_stream(httpd_req_conn(rq));

	memset(piece, 'b', sizeof(piece));
	while (e->left > 0 && !httpd_over_high(rq)) {
		httpd_write(rq, piece, sizeof(piece));
		e->left -= sizeof(piece);
		httpd_flush(rq);
		if (st != NULL && stream_output(st)->len > e->peak)
			e->peak = stream_output(st)->len;
	}
	if (e->left == 0)
		httpd_end(rq);
}

static void
body_cb(struct httpd_req *rq, struct bufq *in, bool end, void *arg)
{
	struct env *e = arg;
	char text[32];
	int n;

	if (!e->take)
		return;
	e->taken += in->len;
	bufq_drain(in, in->len);
	if (!end)
		return;
	n = snprintf(text, sizeof(text), "%zu", e->taken);
	httpd_respond(rq, 200, NULL, STRV_NULL, (struct strv){text, (size_t)n});
}

static void
closed_cb(struct httpd_req *rq, int err, void *arg)
{
	struct env *e = arg;

	(void)err;
	e->closed++;
	if (e->held == rq)
		e->held = NULL;
}

static void
gone_cb(struct httpd_req *rq, void *arg)
{
	(void)arg;
	httpd_abort(rq);
}

static void
up_readable_cb(struct stream *st, void *arg)
{
	struct env *e = arg;
	struct strv v;

	if (e->deaf)
		return;
	while ((v = bufq_front(stream_input(st))).len > 0) {
		strbuf_addv(&e->heard, v);
		bufq_drain(stream_input(st), v.len);
	}
}

static void
up_eof_cb(struct stream *st, void *arg)
{
	(void)st;
	((struct env *)arg)->up_eof = true;
}

static void
up_error_cb(struct stream *st, int err, void *arg)
{
	struct env *e = arg;

	(void)err;
	e->up_eof = true;
	stream_close(st);
	e->up = NULL;
}

static void
upgrade(struct env *e, struct httpd_req *rq)
{
	static const struct stream_cbs cbs = {
	    .readable = up_readable_cb, .eof = up_eof_cb, .error = up_error_cb};

	(void)httpd_begin(rq, 101, STRV_NULL, BODY_NONE, 0, 256);
	e->up = httpd_upgrade(rq, STRV("sbx-exec"));
	stream_set_cbs(e->up, &cbs, e);
}

static void
request_cb(struct httpd_req *rq, void *arg)
{
	static const struct httpd_req_cbs hold = {.closed = closed_cb,
						  .peer_eof = gone_cb};
	static const struct httpd_req_cbs big = {.drained = more_cb,
						 .closed = closed_cb};
	static const struct httpd_req_cbs put = {.body = body_cb,
						 .closed = closed_cb};
	struct env *e = arg;
	struct strv path = http1_path(httpd_head(rq));
	struct strv token = http1_get(httpd_head(rq), H_X_SANDBOX_TOKEN);

	(void)snprintf(e->token, sizeof(e->token), "%.*s", STRV_ARG(token));
	if (strv_eq(path, STRV("/ok"))) {
		httpd_respond(rq, 200, NULL, STRV_NULL, STRV("ok"));
	} else if (strv_eq(path, STRV("/no"))) {
		httpd_respond(rq, 409, "application/json", STRV_NULL,
			      STRV("{\"error\":\"it is a directory\","
				   "\"code\":\"is_directory\"}"));
	} else if (strv_eq(path, STRV("/dull"))) {
		httpd_respond(rq, 500, NULL, STRV_NULL, STRV("<html>"));
	} else if (strv_eq(path, STRV("/hold"))) {
		e->held = rq;
		httpd_set_cbs(rq, &hold, e);
	} else if (strv_eq(path, STRV("/big"))) {
		e->left = BIG;
		httpd_set_cbs(rq, &big, e);
		(void)httpd_begin(rq, 200, STRV_NULL, BODY_LENGTH, BIG, 256);
		assert_int_equal(httpd_end_head(rq), 0);
		more_cb(rq, e);
	} else if (strv_eq(path, STRV("/cut"))) {
		(void)httpd_begin(rq, 200, STRV_NULL, BODY_LENGTH, 10, 256);
		assert_int_equal(httpd_end_head(rq), 0);
		httpd_write(rq, "12345", 5);
		httpd_flush(rq);
		httpd_abort(rq);
	} else if (strv_eq(path, STRV("/put"))) {
		httpd_set_cbs(rq, &put, e);
		e->held = rq;
	} else if (strv_eq(path, STRV("/v1/exec/attach"))) {
		upgrade(e, rq);
	} else {
		httpd_respond(rq, 404, "application/json", STRV_NULL,
			      STRV("{\"error\":\"no such route\"}"));
	}
}

static void
accepted_fd_cb(int fd, const struct addr *peer, void *arg)
{
	struct env *e = arg;

	(void)httpd_serve(e->s, stream_take_fd(e->l, fd, NULL, NULL), peer,
			  NULL);
}

/* --- the caller -------------------------------------------------------- */

static void
head_cb(struct agentcall *a, const struct http_head *h, void *arg)
{
	struct env *e = arg;

	(void)a;
	e->heads++;
	e->status = h->status;
}

static void
call_body_cb(struct agentcall *a, struct bufq *in, bool end, void *arg)
{
	struct env *e = arg;
	struct strv v;

	(void)a;
	if (e->hold)
		return;
	while ((v = bufq_front(in)).len > 0) {
		e->got += v.len;
		if (e->body.len < 64)
			strbuf_addv(&e->body, v);
		bufq_drain(in, v.len);
	}
	e->ends += end;
}

static void
call_drained_cb(struct agentcall *a, void *arg)
{
	(void)a;
	((struct env *)arg)->drained++;
}

static void
no(struct env *e, const struct agentcall_no *n)
{
	e->refused++;
	e->status = n->status;
	strbuf_addf(&e->why, "%s|%s", n->code, n->text);
}

static void
refused_cb(struct agentcall *a, const struct agentcall_no *n, void *arg)
{
	(void)a;
	no(arg, n);
}

static void
failed_cb(struct agentcall *a, int err, const char *what, void *arg)
{
	struct env *e = arg;

	(void)a;
	e->failed++;
	e->err = err;
	assert_non_null(what);
}

static const struct agentcall_cbs call_cbs = {.head = head_cb,
					      .body = call_body_cb,
					      .drained = call_drained_cb,
					      .refused = refused_cb,
					      .failed = failed_cb};

static void
ask(struct env *e, const char *target, enum http_body body, uint64_t n,
    uint64_t ms)
{
	const struct agentcall_ask q = {.method =
					    body == BODY_NONE ? M_GET : M_PUT,
					.target = strv_of(target),
					.body = body,
					.length = n,
					.ms = ms};

	agentcall_free(e->a);
	e->a = agentcall_start(e->l, &e->to, &q, &call_cbs, e);
}

static bool
is_over(void *arg)
{
	struct env *e = arg;

	return e->ends + e->refused + e->failed + e->exited > 0;
}

static bool
is_held(void *arg)
{
	return ((struct env *)arg)->held != NULL;
}

static bool
is_closed(void *arg)
{
	return ((struct env *)arg)->closed > 0;
}

static int
setup(void **state)
{
	struct env *e = xcalloc(1, sizeof(*e));
	static const struct httpd_options o = {.linger_ms = 1000};
	static const struct httpd_handler h = {.request = request_cb};
	const struct listen_options lo = {
	    .mode = 0600, .uid = (uid_t)-1, .gid = (gid_t)-1};
	struct addr at;
	int fd;

	e->l = loop_new();
	e->s = httpd_new(e->l, &o, &h, e);
	(void)strcpy(e->dir, "/tmp/sbx-call-XXXXXX");
	assert_non_null(mkdtemp(e->dir));
	(void)snprintf(e->path, sizeof(e->path), "%s/agent.sock", e->dir);
	(void)snprintf(e->address, sizeof(e->address), "unix:%s", e->path);
	assert_int_equal(addr_unix(&at, e->path), 0);
	assert_int_equal(listener_bind(&at, &lo, &fd), 0);
	e->ls = listener_take_fd(e->l, fd, accepted_fd_cb, e);
	e->to.address = e->address;
	e->to.token = "s3cret";
	e->take = true;
	*state = e;
	return 0;
}

static int
teardown(void **state)
{
	struct env *e = *state;

	agentcall_free(e->a);
	agentattach_free(e->x);
	if (e->up != NULL)
		stream_close(e->up);
	listener_close(e->ls);
	httpd_close_all(e->s);
	loop_once(e->l, false);
	httpd_free(e->s);
	loop_free(e->l);
	strbuf_clear(&e->body);
	strbuf_clear(&e->why);
	strbuf_clear(&e->heard);
	strbuf_clear(&e->out[0]);
	strbuf_clear(&e->out[1]);
	(void)unlink(e->path);
	(void)rmdir(e->dir);
	free(e);
	return 0;
}

/* --- calls ------------------------------------------------------------- */

static void
test_answer(void **state)
{
	struct env *e = *state;

	ask(e, "/ok", BODY_NONE, 0, 10000);
	help_wait(e->l, is_over, e);
	assert_int_equal(e->ends, 1);
	assert_int_equal(e->heads, 1);
	assert_int_equal(e->status, 200);
	assert_string_equal(e->body.s, "ok");
	assert_string_equal(e->token, "s3cret");
	agentcall_resume(e->a); /* does no harm */
	help_settle(e->l);
	assert_int_equal(e->ends, 1);
	e->to.token = NULL;
	e->ends = 0;
	ask(e, "/ok", BODY_NONE, 0, 0);
	help_wait(e->l, is_over, e);
	assert_string_equal(e->token, "");
}

static void
test_refusals(void **state)
{
	struct env *e = *state;

	ask(e, "/no", BODY_NONE, 0, 0);
	help_wait(e->l, is_over, e);
	assert_int_equal(e->refused, 1);
	assert_int_equal(e->heads, 0);
	assert_int_equal(e->status, 409);
	assert_string_equal(e->why.s, "is_directory|it is a directory");
	strbuf_reset(&e->why);
	e->refused = 0;
	ask(e, "/dull", BODY_NONE, 0, 0);
	help_wait(e->l, is_over, e);
	assert_int_equal(e->status, 500);
	assert_string_equal(e->why.s, "|the agent refused it");
}

static void
test_unreachable(void **state)
{
	struct env *e = *state;

	e->to.address = "unix:/nonexistent/agent.sock";
	ask(e, "/ok", BODY_NONE, 0, 0);
	assert_int_equal(e->failed, 0); /* not from inside */
	help_wait(e->l, is_over, e);
	assert_int_equal(e->err, E_REFUSED);
	e->failed = 0;
	e->to.address = "nowhere";
	ask(e, "/ok", BODY_NONE, 0, 0);
	assert_int_equal(e->failed, 0);
	help_wait(e->l, is_over, e);
	assert_int_equal(e->err, E_INVALID);
}

static void
test_cut_short(void **state)
{
	struct env *e = *state;

	ask(e, "/cut", BODY_NONE, 0, 0);
	help_wait(e->l, is_over, e);
	assert_int_equal(e->failed, 1);
	assert_int_equal(e->ends, 0);
	assert_string_equal(e->body.s, "12345");
}

static void
test_deadline_and_cancel(void **state)
{
	struct env *e = *state;

	ask(e, "/hold", BODY_NONE, 0, 50);
	help_wait(e->l, is_over, e);
	assert_int_equal(e->err, E_TIMEOUT);
	help_wait(e->l, is_closed, e);
	e->failed = e->closed = 0;
	ask(e, "/hold", BODY_NONE, 0, 0);
	help_wait(e->l, is_held, e);
	agentcall_free(e->a);
	e->a = NULL;
	help_wait(e->l, is_closed, e);
	assert_int_equal(e->failed, 0);
	/* Before it was even connected. */
	ask(e, "/hold", BODY_NONE, 0, 0);
	agentcall_free(e->a);
	e->a = NULL;
	help_settle(e->l);
	assert_null(e->held);
}

static bool
some_came(void *arg)
{
	struct env *e = arg;

	return e->heads == 1 && e->peak > 0;
}

static void
test_slow_reader(void **state)
{
	struct env *e = *state;

	e->hold = true;
	ask(e, "/big", BODY_NONE, 0, 0);
	help_wait(e->l, some_came, e);
	help_settle(e->l);
	assert_int_equal(e->ends, 0);
	assert_true(e->left > BIG / 2); /* it had to stop */
	e->hold = false;
	agentcall_resume(e->a);
	help_wait(e->l, is_over, e);
	assert_int_equal(e->got, BIG);
	assert_int_equal(e->ends, 1);
}

static size_t
feed(struct env *e, size_t n)
{
	struct bufq q;
	char piece[4096];
	size_t sent = 0;

	memset(piece, 'u', sizeof(piece));
	bufq_init(&q, loop_bufpool(e->l));
	while (sent < n && !agentcall_over_high(e->a)) {
		bufq_add(&q, piece, sizeof(piece));
		sent += sizeof(piece);
		agentcall_move(e->a, &q, q.len);
	}
	bufq_clear(&q);
	return sent;
}

static bool
was_drained(void *arg)
{
	struct env *e = arg;

	return e->drained > 0;
}

static void
put_all(struct env *e, enum http_body kind)
{
	size_t sent = 0;

	e->ends = e->drained = 0;
	e->taken = 0;
	strbuf_reset(&e->body);
	ask(e, "/put", kind, BIG, 0);
	sent += feed(e, BIG - sent);
	assert_true(sent < BIG); /* before the connection, too */
	while (sent < BIG) {
		help_wait(e->l, was_drained, e);
		e->drained = 0;
		sent += feed(e, BIG - sent);
	}
	agentcall_end(e->a);
	help_wait(e->l, is_over, e);
	assert_int_equal(e->taken, BIG);
	assert_string_equal(e->body.s, "8388608");
}

static void
test_upload(void **state)
{
	struct env *e = *state;

	put_all(e, BODY_LENGTH);
	put_all(e, BODY_CHUNKED);
}

/* The agent answers before all has been sent: the rest is dropped. */
static void
test_early_refusal(void **state)
{
	struct env *e = *state;

	ask(e, "/no", BODY_LENGTH, BIG, 0);
	(void)feed(e, BIG);
	help_wait(e->l, is_over, e);
	assert_int_equal(e->refused, 1);
	assert_string_equal(e->why.s, "is_directory|it is a directory");
	assert_false(agentcall_over_high(e->a));
	assert_int_equal(feed(e, 8192), 8192);
	agentcall_end(e->a);
	help_settle(e->l);
	assert_int_equal(e->refused, 1);
}

static void
test_escape(void **state)
{
	struct strbuf b = {0};

	(void)state;
	agentcall_escape(&b, STRV("/a b/\xc3\xa4?&=%+#~"));
	assert_string_equal(b.s, "/a%20b/%C3%A4%3F%26%3D%25%2B%23~");
	strbuf_clear(&b);
}

/* --- commands ---------------------------------------------------------- */

static void
accepted_cb(struct agentattach *x, void *arg)
{
	(void)x;
	((struct env *)arg)->accepted++;
}

static void
output_cb(struct agentattach *x, unsigned stream, struct strv data, void *arg)
{
	struct env *e = arg;

	assert_true(stream == 1 || stream == 2);
	assert_int_equal(e->exited, 0);
	strbuf_addv(&e->out[stream - 1], data);
	if (e->pause_at != 0 && e->out[0].len >= e->pause_at)
		agentattach_pause(x, true);
}

static void
x_drained_cb(struct agentattach *x, void *arg)
{
	(void)x;
	((struct env *)arg)->drained++;
}

static void
exited_cb(struct agentattach *x, const struct agentattach_exit *ex, void *arg)
{
	struct env *e = arg;

	(void)x;
	e->exited++;
	e->exit = *ex;
}

static void
x_refused_cb(struct agentattach *x, const struct agentcall_no *n, void *arg)
{
	(void)x;
	no(arg, n);
}

static void
x_failed_cb(struct agentattach *x, int err, const char *what, void *arg)
{
	(void)x;
	failed_cb(NULL, err, what, arg);
}

static const struct agentattach_cbs attach_cbs = {.accepted = accepted_cb,
						  .output = output_cb,
						  .drained = x_drained_cb,
						  .exited = exited_cb,
						  .refused = x_refused_cb,
						  .failed = x_failed_cb};

static bool
is_up(void *arg)
{
	return ((struct env *)arg)->up != NULL;
}

static void
attach(struct env *e, uint64_t ms)
{
	agentattach_free(e->x);
	e->x = agentattach_start(e->l, &e->to, STRV("{\"cmd\":[\"x\"]}"), ms,
				 &attach_cbs, e);
}

/* A frame as the agent says it. */
static void
say(struct env *e, char type, const char *p, size_t n)
{
	const char head[8] = {
	    type,           0,      0, 0, (char)(n >> 24), (char)(n >> 16),
	    (char)(n >> 8), (char)n};

	bufq_add(stream_output(e->up), head, sizeof(head));
	bufq_add(stream_output(e->up), p, n);
	stream_flush(e->up);
}

static void
say_text(struct env *e, char type, const char *text)
{
	say(e, type, text, strlen(text));
}

#define EXIT_3                                                                 \
	"{\"event\":\"exit\",\"exit_code\":3,\"signal\":null,"                 \
	"\"timed_out\":false,\"duration_ms\":1}"

static bool
heard_all(void *arg)
{
	struct env *e = arg;

	return e->heard.len == 8 + 13 + 8 + 2 + 8 + 4 + 8;
}

static void
test_command(void **state)
{
	static const char want[] = "I\0\0\0\0\0\0\r{\"cmd\":[\"x\"]}"
				   "0\0\0\0\0\0\0\2hi"
				   "R\0\0\0\0\0\0\4\0\x50\1\2"
				   "C\0\0\0\0\0\0\0";
	struct env *e = *state;

	attach(e, 10000);
	agentattach_input(e->x, STRV("hi")); /* before it is connected */
	agentattach_resize(e->x, 80, 258);
	help_wait(e->l, is_up, e);
	agentattach_close_input(e->x);
	help_wait(e->l, heard_all, e);
	assert_memory_equal(e->heard.s, want, sizeof(want) - 1);
	say_text(e, 'A', "{\"pid\":7}");
	say_text(e, '1', "out");
	say_text(e, '2', "err");
	say_text(e, '1', "");
	say_text(e, '1', "put");
	say_text(e, 'X', EXIT_3);
	help_wait(e->l, is_over, e);
	assert_int_equal(e->accepted, 1);
	assert_string_equal(e->out[0].s, "output");
	assert_string_equal(e->out[1].s, "err");
	assert_int_equal(e->exit.code, 3);
	assert_int_equal(e->exit.signal, 0);
	assert_false(e->exit.timed_out);
	agentattach_input(e->x, STRV("too late"));
	help_settle(e->l);
	assert_int_equal(e->exited, 1);
}

static void
test_command_refused(void **state)
{
	struct env *e = *state;

	attach(e, 0);
	help_wait(e->l, is_up, e);
	say_text(e, 'E',
		 "{\"code\":\"cannot_start\",\"message\":\"no such x\"}");
	help_wait(e->l, is_over, e);
	assert_int_equal(e->refused, 1);
	assert_string_equal(e->why.s, "cannot_start|no such x");
}

static bool
agent_saw_end(void *arg)
{
	struct env *e = arg;

	return e->up_eof;
}

static void
test_command_ends(void **state)
{
	struct env *e = *state;

	/* the deadline */
	attach(e, 50);
	help_wait(e->l, is_over, e);
	assert_int_equal(e->err, E_TIMEOUT);
	help_wait(e->l, agent_saw_end, e);
	/* the caller */
	if (e->up != NULL)
		stream_close(e->up);
	e->up = NULL;
	e->up_eof = false;
	e->failed = 0;
	attach(e, 0);
	help_wait(e->l, is_up, e);
	agentattach_free(e->x);
	e->x = NULL;
	help_wait(e->l, agent_saw_end, e);
	assert_int_equal(e->failed, 0);
	/* the agent */
	if (e->up != NULL)
		stream_close(e->up);
	e->up = NULL;
	attach(e, 0);
	help_wait(e->l, is_up, e);
	say_text(e, '1', "last words");
	stream_finish(e->up, 0);
	e->up = NULL;
	help_wait(e->l, is_over, e);
	assert_int_equal(e->err, E_EOF);
	assert_string_equal(e->out[0].s, "last words");
}

static void
test_command_nonsense(void **state)
{
	static const char long_frame[8] = {'1', 0, 0, 0, 0x7f, 0, 0, 0};
	struct env *e = *state;

	attach(e, 0);
	help_wait(e->l, is_up, e);
	bufq_add(stream_output(e->up), long_frame, sizeof(long_frame));
	stream_flush(e->up);
	help_wait(e->l, is_over, e);
	assert_int_equal(e->err, E_PROTO);
	if (e->up != NULL)
		stream_close(e->up);
	e->up = NULL;
	e->failed = 0;
	attach(e, 0);
	help_wait(e->l, is_up, e);
	say_text(e, 'X', "nonsense");
	help_wait(e->l, is_over, e);
	assert_int_equal(e->err, E_PROTO);
}

static bool
is_paused(void *arg)
{
	struct env *e = arg;

	return e->out[0].len >= e->pause_at;
}

/* A reader that stops gets nothing more, and all of it when it goes on; also
 * when the agent has gone meanwhile. */
static void
test_command_slow_reader(void **state)
{
	struct env *e = *state;
	char *piece = xcalloc(1, 65536);
	size_t said = 0;

	memset(piece, 'o', 65536);
	e->pause_at = 100000;
	attach(e, 0);
	help_wait(e->l, is_up, e);
	for (int i = 0; i < 64 && !stream_over_high(e->up); i++) {
		say(e, '1', piece, 65536);
		said += 65536;
		loop_once(e->l, false);
	}
	help_wait(e->l, is_paused, e);
	help_settle(e->l);
	assert_true(e->out[0].len < 100000 + 32768);
	assert_true(said < 64 * 65536U);
	say_text(e, 'X', EXIT_3);
	stream_finish(e->up, 10000);
	e->up = NULL;
	help_settle(e->l);
	assert_int_equal(e->exited, 0);
	/* Writing into what has ended breaks it. */
	agentattach_input(e->x, STRV("hello"));
	e->pause_at = 0;
	agentattach_pause(e->x, false);
	help_wait(e->l, is_over, e);
	assert_int_equal(e->exited, 1);
	assert_int_equal(e->out[0].len, said);
	free(piece);
}

static void
test_command_slow_agent(void **state)
{
	struct env *e = *state;
	char *piece = xcalloc(1, 65536);
	size_t sent = 0;

	e->deaf = true;
	attach(e, 0);
	help_wait(e->l, is_up, e);
	for (int i = 0; i < 256 && !agentattach_over_high(e->x); i++) {
		agentattach_input(e->x, (struct strv){piece, 65536});
		sent += 65536;
		loop_once(e->l, false);
	}
	assert_true(sent < 256 * 65536U);
	e->drained = 0;
	e->deaf = false;
	up_readable_cb(e->up, e);
	stream_resume(e->up);
	help_wait(e->l, was_drained, e);
	free(piece);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_answer, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_refusals, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_unreachable, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_cut_short, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_deadline_and_cancel, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(test_slow_reader, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_upload, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_early_refusal, setup,
					    teardown),
	    cmocka_unit_test(test_escape),
	    cmocka_unit_test_setup_teardown(test_command, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_command_refused, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(test_command_ends, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_command_nonsense, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(test_command_slow_reader, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(test_command_slow_agent, setup,
					    teardown),
	};

	(void)signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
