/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET exec/attach: a command with its standard input, output and perhaps a
 * terminal on one upgraded connection. What either side does not take stays
 * where it is: a command waits at its pipe for the client, a client at its
 * connection for the command. The connection's loss ends the command.
 */
#include "config.h"

#include "agent/api_int.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "agent/events.h"
#include "agent/execreq.h"
#include "base/err.h"
#include "base/mem.h"
#include "net/buf.h"
#include "net/execwire.h"
#include "net/loop.h"
#include "net/stream.h"

#define APIATTACH_INIT_MS 30000
#define APIATTACH_TICK_MS 1000
#define APIATTACH_PING_MS 15000 /* of silence; then an empty frame */
#define APIATTACH_TAKE_MS (24ULL * 3600 * 1000) /* the last bytes */
#define APIATTACH_LINGER  2000
#define APIATTACH_IN_HIGH 65536 /* waits for the command to read */
/* Empty frames to a client that has ended its side: it may only have said all
 * that it had to say, but if it is gone, writing is how to find out. */
#define APIATTACH_PROBES 3

enum apiattach_state {
	APIATTACH_INIT, /* nothing runs yet */
	APIATTACH_RUNS,
	APIATTACH_ENDS, /* the last frame waits to be taken */
};

struct apiattach {
	struct apiattach *next, **prevp;
	struct api *api;
	struct sandbox *sb;
	struct stream *st;
	enum apiattach_state state;
	struct run *run; /* NULL: not yet, or over */
	bool tty;
	struct execwire wire;
	struct strbuf whole; /* of a frame that is not stdin's */
	size_t held;         /* accounted for */
	struct timer tick;
	uint64_t said_ms;
	unsigned probes;
};

/* --- life -------------------------------------------------------------- */

static void
apiattach_hold(struct apiattach *x, size_t n)
{
	x->api->held += n - x->held;
	x->sb->held += n - x->held;
	x->held = n;
}

static bool
apiattach_may_hold(struct apiattach *x, size_t n)
{
	if (x->sb->held + n > API_HELD_SANDBOX ||
	    x->api->held + n > API_HELD_ALL)
		return false;
	apiattach_hold(x, n);
	return true;
}

/* The stream has its end, or somebody who sees to it. */
static void
apiattach_free(struct apiattach *x)
{
	struct api *a = x->api;

	if (x->run != NULL)
		run_release(x->run, false);
	*x->prevp = x->next;
	if (x->next != NULL)
		x->next->prevp = x->prevp;
	timer_clear(&x->tick);
	apiattach_hold(x, 0);
	strbuf_clear(&x->whole);
	a->busy--;
	a->active_ms = loop_now_ms(a->o.loop);
	sandbox_leave(x->sb);
	loop_defer_free(a->o.loop, x, NULL);
}

static void
apiattach_drop(struct apiattach *x)
{
	stream_close(x->st);
	apiattach_free(x);
}

void
api_attached_close(struct api *a)
{
	while (a->attached != NULL)
		apiattach_drop(a->attached);
}

static void
apiattach_send(struct apiattach *x)
{
	x->said_ms = loop_now_ms(x->api->o.loop);
	stream_flush(x->st);
}

/* All is said; x may be gone now. */
static void
apiattach_end(struct apiattach *x)
{
	if (x->run != NULL)
		run_release(x->run, false);
	x->run = NULL;
	x->state = APIATTACH_ENDS;
	apiattach_send(x);
	bufq_drain(stream_input(x->st), stream_input(x->st)->len);
	if (!stream_flushed(x->st)) {
		stream_resume(x->st);
		timer_set(&x->tick, APIATTACH_TAKE_MS);
		return;
	}
	stream_finish(x->st, APIATTACH_LINGER);
	apiattach_free(x);
}

static void
apiattach_fail(struct apiattach *x, const char *code, const char *why)
{
	struct strbuf b = {0};

	strbuf_addf(&b, "{\"code\":\"%s\",\"message\":", code);
	strbuf_add_json(&b, strv_of(why));
	strbuf_addc(&b, '}');
	execwire_put(stream_output(x->st), EXECWIRE_ERROR,
		     (struct strv){b.s, b.len});
	strbuf_clear(&b);
	apiattach_end(x);
}

/* Whether the other end is known to be gone, though nothing is read from it
 * because the command does not, or because it ended its side before. */
static bool
apiattach_lost(const struct apiattach *x)
{
	struct pollfd p = {.fd = stream_fd(x->st)};

	return poll(&p, 1, 0) > 0;
}

/* A client that disappears without a word is noticed when it is written to,
 * and those in between see that this is in use. */
static void
apiattach_tick_cb(void *arg)
{
	struct apiattach *x = arg;
	uint64_t quiet = loop_now_ms(x->api->o.loop) - x->said_ms;
	bool probe = stream_eof(x->st) && x->probes < APIATTACH_PROBES;

	if (x->state == APIATTACH_INIT) {
		apiattach_fail(x, "timeout", "no init frame in time");
		return;
	}
	if (x->state == APIATTACH_ENDS || apiattach_lost(x)) {
		apiattach_drop(x);
		return;
	}
	timer_set(&x->tick, APIATTACH_TICK_MS);
	if (stream_over_high(x->st) || (!probe && quiet < APIATTACH_PING_MS))
		return;
	x->probes += probe;
	execwire_put_head(stream_output(x->st), EXECWIRE_STDOUT, 0);
	apiattach_send(x);
}

/* --- the command ------------------------------------------------------- */

static void
apiattach_output_cb(struct run *r, unsigned stream, const char *data, size_t n,
		    void *arg)
{
	struct apiattach *x = arg;

	execwire_put(stream_output(x->st),
		     stream == 0 ? EXECWIRE_STDOUT : EXECWIRE_STDERR,
		     (struct strv){data, n});
	apiattach_send(x);
	if (stream_over_high(x->st))
		run_pause(r, true);
}

static void
apiattach_exit(struct apiattach *x, const struct events_exit *e)
{
	struct strbuf b = {0};

	events_exit(&b, e);
	execwire_put(stream_output(x->st), EXECWIRE_EXIT,
		     (struct strv){b.s, b.len - 1});
	strbuf_clear(&b);
	apiattach_end(x);
}

static void
apiattach_exited_cb(struct run *r, const struct proc_exit *px, void *arg)
{
	const struct events_exit e = {px->code, px->signal, px->timed_out,
				      px->duration_ms};

	(void)r;
	apiattach_exit(arg, &e);
}

static void apiattach_take(struct apiattach *x);

static void
apiattach_room_cb(struct run *r, void *arg)
{
	(void)r;
	apiattach_take(arg);
}

static const struct run_cbs apiattach_run_cbs = {
    .output = apiattach_output_cb,
    .exited = apiattach_exited_cb,
    .drained = apiattach_room_cb,
};

/* As a shell would say it: a program that is not there is no mistake of the
 * request's form. */
static void
apiattach_no_program(struct apiattach *x, const char *why, int eno)
{
	const struct events_exit e = {.code = eno == ENOENT ? 127 : 126};
	struct bufq *out = stream_output(x->st);
	char *line = xasprintf("%s%s", why, x->tty ? "\r\n" : "\n");

	execwire_put(out, EXECWIRE_ACCEPTED, STRV("{\"pid\":null}"));
	execwire_put(out, x->tty ? EXECWIRE_STDOUT : EXECWIRE_STDERR,
		     strv_of(line));
	free(line);
	apiattach_exit(x, &e);
}

static void
apiattach_run(struct apiattach *x, const struct execreq *e)
{
	struct run_set *s = &x->sb->runs;
	struct strbuf b = {0};
	const char *code;
	char *why = NULL;
	int r;

	x->tty = e->spec.tty != NULL;
	r = run_start(s, &e->spec, &apiattach_run_cbs, x, &x->run, &why);
	if (r == 0) {
		strbuf_addf(&b, "{\"pid\":%ld}", (long)run_pid(x->run));
		execwire_put(stream_output(x->st), EXECWIRE_ACCEPTED,
			     (struct strv){b.s, b.len});
		strbuf_clear(&b);
		x->state = APIATTACH_RUNS;
		apiattach_send(x);
		timer_set(&x->tick, APIATTACH_TICK_MS);
	} else if (r == E_INVALID && strcmp(s->failed.step, "execve") == 0) {
		apiattach_no_program(x, why, s->failed.eno);
	} else {
		(void)api_exec_status(r, &code);
		apiattach_fail(x, code, why);
	}
	free(why);
}

static void
apiattach_init(struct apiattach *x)
{
	struct strv text = {x->whole.s, x->whole.len};
	struct json_doc *doc = NULL;
	struct execreq e = {0};
	const char *bad = NULL;
	char *why = NULL;

	if (x->sb->state != SANDBOX_LIVE)
		apiattach_fail(x, "no_such_sandbox", "no such sandbox");
	else if (json_parse(text, &doc, &bad) != 0)
		apiattach_fail(x, "bad_json", bad);
	else if (execreq_take_live(doc, &e, &why) != 0)
		apiattach_fail(x, "bad_request", why);
	else
		apiattach_run(x, &e);
	free(why);
	execreq_clear(&e);
}

/* --- frames ------------------------------------------------------------ */

static unsigned
apiattach_u16(const struct strbuf *b, size_t at)
{
	return (unsigned)(unsigned char)b->s[at] << 8 |
	       (unsigned char)b->s[at + 1];
}

/* False when it cannot be. */
static bool
apiattach_order(struct apiattach *x, const struct strbuf *b)
{
	struct pty_size size;
	int sig;

	if (x->wire.type == EXECWIRE_CLOSE) {
		if (!x->tty)
			proc_stdin_end(run_proc(x->run));
		return true;
	}
	if (x->wire.type == EXECWIRE_RESIZE && b->len == 4) {
		size.cols = (uint16_t)apiattach_u16(b, 0);
		size.rows = (uint16_t)apiattach_u16(b, 2);
		proc_resize(run_proc(x->run), &size);
		return true;
	}
	if (x->wire.type != EXECWIRE_SIGNAL || b->len != 1)
		return false;
	sig = (unsigned char)b->s[0];
	if (sig == 0 || sig >= NSIG)
		return false;
	if (run_signal(x->run, sig) != 0) {
		/* it has just ended, and that is on its way */
	}
	return true;
}

/* What is here of it; false: it waits, for bytes or for the command. */
static bool
apiattach_stdin(struct apiattach *x, struct bufq *in)
{
	struct bufq *to = proc_stdin(run_proc(x->run));
	size_t n = execwire_here(&x->wire, in);

	if (to == NULL) {
		bufq_drain(in, n); /* nobody wants it */
	} else if (to->len >= APIATTACH_IN_HIGH) {
		return false;
	} else {
		bufq_move(to, in, n);
		proc_stdin_flush(run_proc(x->run));
	}
	execwire_took(&x->wire, n);
	return !x->wire.open;
}

/* One frame; false: no more for now. */
static bool
apiattach_frame(struct apiattach *x, struct bufq *in)
{
	bool first = x->state == APIATTACH_INIT;
	int r = execwire_open(&x->wire, in);

	if (r == E_AGAIN)
		return false;
	if (r != 0 || (x->wire.type == EXECWIRE_INIT) != first) {
		apiattach_fail(x, "bad_frame",
			       r == E_LIMIT ? "a frame is too long"
			       : first      ? "the first frame is to be init"
					    : "no such frame here");
		return false;
	}
	if (x->wire.type == EXECWIRE_STDIN)
		return apiattach_stdin(x, in);
	if (first && x->held == 0 && !apiattach_may_hold(x, x->wire.left)) {
		apiattach_fail(x, "limit", "too many large requests");
		return false;
	}
	if (execwire_whole(&x->wire, in, &x->whole) != 0)
		return false;
	if (first)
		apiattach_init(x);
	else if (!apiattach_order(x, &x->whole))
		apiattach_fail(x, "bad_frame", "resize or signal: not valid");
	strbuf_clear(&x->whole);
	apiattach_hold(x, 0);
	return true;
}

/* The client has said all that it will. */
static void
apiattach_said_all(struct apiattach *x)
{
	struct bufq *to;

	if (x->state == APIATTACH_INIT || apiattach_lost(x)) {
		apiattach_drop(x);
	} else if (x->state == APIATTACH_RUNS && !x->tty) {
		to = proc_stdin(run_proc(x->run));
		if (to != NULL && to->len < APIATTACH_IN_HIGH)
			proc_stdin_end(run_proc(x->run));
	}
}

static void
apiattach_take(struct apiattach *x)
{
	struct bufq *in = stream_input(x->st);

	while (x->state != APIATTACH_ENDS && apiattach_frame(x, in))
		;
	if (x->state == APIATTACH_ENDS)
		return;
	stream_resume(x->st);
	if (stream_eof(x->st))
		apiattach_said_all(x);
}

static void
apiattach_readable_cb(struct stream *st, void *arg)
{
	struct apiattach *x = arg;

	if (x->state != APIATTACH_ENDS)
		apiattach_take(x);
	else
		bufq_drain(stream_input(st), stream_input(st)->len);
}

static void
apiattach_drained_cb(struct stream *st, void *arg)
{
	struct apiattach *x = arg;

	(void)st;
	if (x->run != NULL)
		run_pause(x->run, false);
	else if (x->state == APIATTACH_ENDS)
		apiattach_end(x);
}

static void
apiattach_eof_cb(struct stream *st, void *arg)
{
	(void)st;
	apiattach_said_all(arg);
}

static void
apiattach_error_cb(struct stream *st, int err, void *arg)
{
	(void)st;
	(void)err;
	apiattach_drop(arg);
}

static const struct stream_cbs apiattach_stream_cbs = {
    .readable = apiattach_readable_cb,
    .drained = apiattach_drained_cb,
    .eof = apiattach_eof_cb,
    .error = apiattach_error_cb,
};

/* --- start ------------------------------------------------------------- */

static struct apiattach *
apiattach_new(struct api *a, struct sandbox *sb)
{
	struct apiattach *x = xcalloc(1, sizeof(*x));

	x->api = a;
	x->sb = sb;
	x->prevp = &a->attached;
	if ((x->next = a->attached) != NULL)
		x->next->prevp = &x->next;
	a->attached = x;
	a->busy++;
	sandbox_enter(sb);
	timer_init(&x->tick, a->o.loop, apiattach_tick_cb, x);
	return x;
}

void
api_exec_attach(struct call *c)
{
	const struct http_head *h = httpd_head(c->rq);
	struct apiattach *x;

	if (!h->wants_upgrade || h->body != BODY_NONE ||
	    !http1_list_has(http1_get(h, H_UPGRADE), EXECWIRE_PROTOCOL)) {
		api_error_with(c->rq, 426, STRV("Upgrade: sbx-exec\r\n"),
			       "upgrade_required",
			       "Upgrade: sbx-exec is wanted here");
		return;
	}
	if (c->sb->state != SANDBOX_LIVE) {
		api_error(c->rq, 404, "no_such_sandbox", "no such sandbox");
		return;
	}
	x = apiattach_new(c->api, c->sb);
	(void)httpd_begin(c->rq, 101, STRV_NULL, BODY_NONE, 0, 256);
	x->st = httpd_upgrade(c->rq, EXECWIRE_PROTOCOL); /* c is gone */
	if (x->st == NULL) {
		apiattach_free(x);
		return;
	}
	timer_set(&x->tick, APIATTACH_INIT_MS);
	stream_set_cbs(x->st, &apiattach_stream_cbs, x);
}
