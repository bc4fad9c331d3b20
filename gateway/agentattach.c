/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See the header. An output frame is told in the pieces in which it lies in
 * the input, so none is ever waited for; of the others the whole is, and they
 * are small.
 */
#include "config.h"

#include "gateway/agentattach.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "gateway/agentcall.h"
#include "net/buf.h"
#include "net/execwire.h"
#include "net/loop.h"
#include "net/stream.h"

#define MAGIC    0x41414343U
#define HIGH     131072U
#define TURN_MAX 262144U /* bytes told in one go: others wait, too */

struct agentattach {
	uint32_t magic;
	bool paused, freed, over;
	struct loop *loop;
	const struct agentattach_cbs *cbs;
	void *arg;
	struct agentcall *call; /* until it is upgraded */
	struct stream *st;      /* from then on */
	struct bufq held;       /* for it, before */
	struct execwire wire;
	struct strbuf whole; /* of a frame that is no output */
	int err;             /* the stream's */
	struct timer deadline;
	struct task pump;
};

static struct agentattach *
attach_of(void *arg)
{
	struct agentattach *x = arg;

	assert(x->magic == MAGIC);
	return x;
}

/* --- the end ----------------------------------------------------------- */

static void
disconnect(struct agentattach *x)
{
	agentcall_free(x->call);
	x->call = NULL;
	if (x->st != NULL)
		stream_close(x->st);
	x->st = NULL;
	timer_stop(&x->deadline);
	task_cancel(&x->pump);
	x->over = true;
}

static void
destroy(void *p)
{
	struct agentattach *x = p;

	x->magic = 0;
	bufq_clear(&x->held);
	strbuf_clear(&x->whole);
	free(x);
}

void
agentattach_free(struct agentattach *x)
{
	if (x == NULL || x->freed)
		return;
	x->freed = true;
	disconnect(x);
	timer_clear(&x->deadline);
	loop_defer_free(x->loop, x, destroy);
}

static void
fail(struct agentattach *x, int err, const char *what)
{
	if (x->over)
		return;
	disconnect(x);
	x->cbs->failed(x, err, what, x->arg);
}

static void
deadline_cb(void *arg)
{
	fail(attach_of(arg), E_TIMEOUT, "its time was up");
}

/* --- what the agent says ----------------------------------------------- */

static int
small_number(const struct json *v, int none)
{
	uint64_t n;

	return json_u64(v, 255, &n) == 0 ? (int)n : none;
}

static void
said_exit(struct agentattach *x, struct strv text)
{
	struct agentattach_exit e = {-1, 0, false};
	const struct json *root = NULL;
	struct json_doc *doc = NULL;

	if (json_parse(text, &doc, NULL) != 0) {
		fail(x, E_PROTO, "the agent's exit makes no sense");
		return;
	}
	root = json_root(doc);
	e.code = small_number(json_get(root, "exit_code"), -1);
	e.signal = small_number(json_get(root, "signal"), 0);
	(void)!json_bool(json_get(root, "timed_out"), &e.timed_out);
	json_doc_free(doc);
	disconnect(x);
	x->cbs->exited(x, &e, x->arg);
}

static void
said_error(struct agentattach *x, struct strv text)
{
	const struct json *root = NULL;
	struct json_doc *doc = NULL;
	struct agentcall_no no = {.status = 400};

	if (json_parse(text, &doc, NULL) == 0)
		root = json_root(doc);
	no.code = json_string(json_get(root, "code"));
	no.text = json_string(json_get(root, "message"));
	if (no.code == NULL)
		no.code = "";
	if (no.text == NULL)
		no.text = "the agent refused it";
	disconnect(x);
	x->cbs->refused(x, &no, x->arg);
	json_doc_free(doc);
}

static void
said(struct agentattach *x, struct strv body)
{
	if (x->wire.type == EXECWIRE_ACCEPTED && x->cbs->accepted == NULL)
		return;
	if (x->wire.type == EXECWIRE_ACCEPTED)
		x->cbs->accepted(x, x->arg);
	else if (x->wire.type == EXECWIRE_EXIT)
		said_exit(x, body);
	else
		said_error(x, body);
}

/* --- frames that come -------------------------------------------------- */

/* A piece of an output frame, where it lies. */
static size_t
tell_output(struct agentattach *x, struct bufq *in)
{
	struct strv v = bufq_front(in);
	size_t here = execwire_here(&x->wire, in);
	unsigned stream = x->wire.type == EXECWIRE_STDERR ? 2 : 1;

	if (v.len > here)
		v.len = here;
	execwire_took(&x->wire, v.len);
	if (v.len > 0)
		x->cbs->output(x, stream, v, x->arg);
	if (!x->over)
		bufq_drain(in, v.len);
	return v.len;
}

/* What is here of the next frame; false: more is needed, or it is over. */
static bool
take_frame(struct agentattach *x, struct bufq *in, size_t *told)
{
	int r = execwire_open(&x->wire, in);

	if (r == E_AGAIN)
		return false;
	if (r != 0) {
		fail(x, E_PROTO, "the agent makes no sense");
		return false;
	}
	if (x->wire.type == EXECWIRE_STDOUT ||
	    x->wire.type == EXECWIRE_STDERR) {
		if (x->wire.left > 0 && in->len == 0)
			return false;
		*told += tell_output(x, in);
		return !x->over;
	}
	if (execwire_whole(&x->wire, in, &x->whole) != 0)
		return false;
	said(x, (struct strv){x->whole.s, x->whole.len});
	strbuf_reset(&x->whole);
	return !x->over;
}

/* Nothing more can be told of what is there. */
static void
want_more(struct agentattach *x)
{
	if (x->err != 0 && stream_salvage(x->st))
		task_post(x->loop, &x->pump);
	else if (x->err != 0)
		fail(x, x->err, "the agent went away");
	else if (stream_eof(x->st))
		fail(x, E_EOF, "the agent ended");
	else
		stream_resume(x->st);
}

static void
pump(struct agentattach *x)
{
	size_t told = 0;

	while (!x->over && !x->paused) {
		struct bufq *in = stream_input(x->st);

		if (told >= TURN_MAX) {
			task_post(x->loop, &x->pump);
			return;
		}
		if (!take_frame(x, in, &told))
			break;
	}
	if (!x->over && !x->paused)
		want_more(x);
}

static void
pump_cb(void *arg)
{
	struct agentattach *x = attach_of(arg);

	if (x->st != NULL)
		pump(x);
}

static void
readable_cb(struct stream *st, void *arg)
{
	(void)st;
	pump(attach_of(arg));
}

static void
st_drained_cb(struct stream *st, void *arg)
{
	struct agentattach *x = attach_of(arg);

	(void)st;
	if (x->cbs->drained != NULL)
		x->cbs->drained(x, x->arg);
}

/* What it said before it went is told first, as fast as that is taken. */
static void
error_cb(struct stream *st, int err, void *arg)
{
	struct agentattach *x = attach_of(arg);

	(void)st;
	x->err = err;
	pump(x);
}

/* --- the connection ---------------------------------------------------- */

static void
upgraded_cb(struct agentcall *a, struct stream *st, void *arg)
{
	static const struct stream_cbs cbs = {.readable = readable_cb,
					      .drained = st_drained_cb,
					      .eof = readable_cb,
					      .error = error_cb};
	struct agentattach *x = attach_of(arg);

	agentcall_free(a);
	x->call = NULL;
	x->st = st;
	stream_set_high(st, HIGH);
	stream_set_cbs(st, &cbs, x);
	bufq_move(stream_output(st), &x->held, x->held.len);
	stream_flush(st);
	if (x->cbs->drained != NULL && !stream_over_high(st))
		x->cbs->drained(x, x->arg);
}

static void
refused_cb(struct agentcall *a, const struct agentcall_no *no, void *arg)
{
	struct agentattach *x = attach_of(arg);

	(void)a;
	x->over = true;
	timer_stop(&x->deadline);
	x->cbs->refused(x, no, x->arg);
}

static void
failed_cb(struct agentcall *a, int err, const char *what, void *arg)
{
	(void)a;
	fail(attach_of(arg), err, what);
}

/* --- what is said to it ------------------------------------------------ */

static void
put_frame(struct agentattach *x, char type, struct strv body)
{
	if (x->over)
		return;
	execwire_put(x->st != NULL ? stream_output(x->st) : &x->held, type,
		     body);
	if (x->st != NULL)
		stream_flush(x->st);
}

void
agentattach_input(struct agentattach *x, struct strv data)
{
	if (data.len > 0)
		put_frame(x, EXECWIRE_STDIN, data);
}

void
agentattach_close_input(struct agentattach *x)
{
	put_frame(x, EXECWIRE_CLOSE, STRV(""));
}

void
agentattach_resize(struct agentattach *x, uint16_t cols, uint16_t rows)
{
	const char b[4] = {(char)(cols >> 8), (char)cols, (char)(rows >> 8),
			   (char)rows};

	put_frame(x, EXECWIRE_RESIZE, (struct strv){b, sizeof(b)});
}

bool
agentattach_over_high(const struct agentattach *x)
{
	if (x->over)
		return false;
	return x->st != NULL ? stream_over_high(x->st) : x->held.len >= HIGH;
}

void
agentattach_pause(struct agentattach *x, bool on)
{
	if (x->over || x->paused == on)
		return;
	x->paused = on;
	if (x->st == NULL)
		return;
	if (on)
		stream_pause(x->st);
	else
		task_post(x->loop, &x->pump);
}

struct agentattach *
agentattach_start(struct loop *l, const struct agentcall_to *to,
		  struct strv init, uint64_t ms,
		  const struct agentattach_cbs *cbs, void *arg)
{
	static const struct agentcall_cbs calls = {.upgraded = upgraded_cb,
						   .refused = refused_cb,
						   .failed = failed_cb};
	const struct agentcall_ask ask = {.method = M_GET,
					  .target = STRV("/v1/exec/attach"),
					  .body = BODY_NONE,
					  .upgrade = "sbx-exec"};
	struct agentattach *x = xcalloc(1, sizeof(*x));

	assert(init.len <= AGENTATTACH_INIT_MAX);
	x->magic = MAGIC;
	x->loop = l;
	x->cbs = cbs;
	x->arg = arg;
	x->wire.from_agent = true;
	bufq_init(&x->held, loop_bufpool(l));
	timer_init(&x->deadline, l, deadline_cb, x);
	task_init(&x->pump, pump_cb, x);
	if (ms != 0)
		timer_set(&x->deadline, ms);
	put_frame(x, EXECWIRE_INIT, init);
	x->call = agentcall_start(l, to, &ask, &calls, x);
	return x;
}
