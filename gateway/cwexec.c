/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exec and StreamExec: a command of exec/attach in a sandbox. Exec collects
 * what it says, up to a bound, and counts the rest; StreamExec passes it on,
 * and what the client does not take stops the command. A call that ends
 * before its command ends the command.
 */
#include "config.h"

#include "gateway/cwexec.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "gateway/agentattach.h"
#include "gateway/agentcall.h"
#include "gateway/cwagent.h"
#include "gateway/cwschema.h"
#include "gateway/cwsvc_int.h"

#define OUT_MAX  (4U << 20)   /* of each stream, in the answer of Exec */
#define HELD_MAX (256U << 20) /* of all Execs together... */
#define HELD_NS  (64U << 20)  /* ...and of those of a namespace */
#define PIECE    49152        /* of an answer at a time */
#define CWD_MAX  32768        /* of a path, as JSON */
#define COLS     80
#define ROWS     24

struct cwexec {
	struct cwcall *c;
	struct cwexec *next, **prevp; /* of all of them */
	struct cwagent find;
	struct agentattach *run;
	struct strbuf init;
	/* Exec */
	struct strbuf out[2];
	uint64_t produced[2];
	size_t most;
	bool ended;       /* the command */
	unsigned pouring; /* this one of out... */
	size_t poured;    /* so much of it */
	/* StreamExec */
	bool asked; /* init has come */
	bool tty;
	bool input_ended;
	bool no_input; /* the agent has no room for more */
};

/* --- what is to be run ------------------------------------------------- */

/* False: the call has failed. */
static bool
add_command(struct cwexec *x, const struct cwmsg *m, const char *field)
{
	size_t n = cwmsg_count(m, "command");

	if (n == 0) {
		cwcall_bad_field(x->c, field, "is missing");
		return false;
	}
	strbuf_adds(&x->init, "{\"cmd\":[");
	for (size_t i = 0; i < n; i++) {
		if (i > 0)
			strbuf_addc(&x->init, ',');
		strbuf_add_json(&x->init,
				strv_of(cwmsg_text_at(m, "command", i)));
	}
	strbuf_addc(&x->init, ']');
	return true;
}

static void
add_env(struct cwexec *x, const struct cwmsg *m)
{
	const char *key, *value;

	strbuf_adds(&x->init, ",\"env\":{");
	for (size_t i = 0; i < cwmsg_count(m, "env"); i++) {
		cwmsg_pair_at(m, "env", i, &key, &value);
		if (i > 0)
			strbuf_addc(&x->init, ',');
		strbuf_add_json(&x->init, strv_of(key));
		strbuf_addc(&x->init, ':');
		strbuf_add_json(&x->init, strv_of(value));
	}
	strbuf_addc(&x->init, '}');
}

/* False: the call has failed. */
static bool
init_fits(struct cwexec *x, const char *field)
{
	if (x->init.len + CWD_MAX <= AGENTATTACH_INIT_MAX)
		return true;
	cwcall_bad_field(x->c, field, "with env is too long");
	return false;
}

/* --- the end ----------------------------------------------------------- */

static int
exit_code(const struct agentattach_exit *e)
{
	if (e->signal > 0)
		return 128 + e->signal;
	return e->code >= 0 ? e->code : 255;
}

static void
closed_cb(struct cwcall *c, enum cwerr_code code, void *arg)
{
	struct cwexec *x = arg;

	(void)c;
	(void)code;
	for (int i = 0; i < 2; i++)
		strbuf_clear(&x->out[i]);
	*x->prevp = x->next;
	if (x->next != NULL)
		x->next->prevp = x->prevp;
	cwagent_clear(&x->find);
	agentattach_free(x->run);
	strbuf_clear(&x->init);
	free(x);
}

static void
refused_cb(struct agentattach *run, const struct agentcall_no *no, void *arg)
{
	(void)run;
	cwagent_refused(((struct cwexec *)arg)->c, no);
}

static void
failed_cb(struct agentattach *run, int err, const char *what, void *arg)
{
	(void)run;
	(void)err;
	cwagent_lost(((struct cwexec *)arg)->c, what);
}

static struct cwexec *
new_exec(struct cwcall *c, const struct cwcall_cbs *cbs)
{
	struct cwexec *x = xcalloc(1, sizeof(*x));

	x->c = c;
	x->prevp = &c->svc->execs;
	x->next = *x->prevp;
	if (x->next != NULL)
		x->next->prevp = &x->next;
	*x->prevp = x;
	cwcall_set_cbs(c, cbs, x);
	return x;
}

static void
start(struct cwexec *x, const struct agentcall_to *to,
      const struct agentattach_cbs *cbs)
{
	if (x->find.cwd != NULL) {
		strbuf_adds(&x->init, ",\"cwd\":");
		strbuf_add_json(&x->init, strv_of(x->find.cwd));
	}
	strbuf_addc(&x->init, '}');
	x->c->late = CWERR_COMMAND_TIMEOUT;
	x->run = agentattach_start(
	    x->c->loop, to, (struct strv){x->init.s, x->init.len}, 0, cbs, x);
	strbuf_clear(&x->init);
}

/* --- Exec -------------------------------------------------------------- */

/* Whether so much more may wait. A namespace does not use up what is there for
 * all. */
static bool
may_hold(const struct cwexec *x, size_t more)
{
	size_t all = more, own = more;

	for (const struct cwexec *e = x->c->svc->execs; e != NULL;
	     e = e->next) {
		size_t n = e->out[0].len + e->out[1].len;

		all += n;
		own += strv_eq(e->c->ns, x->c->ns) ? n : 0;
	}
	return own <= HELD_NS && all <= HELD_MAX;
}

static void
collect_cb(struct agentattach *run, unsigned stream, struct strv data,
	   void *arg)
{
	struct cwexec *x = arg;
	struct strbuf *b = &x->out[stream - 1];
	size_t room = x->most - b->len;

	(void)run;
	x->produced[stream - 1] += data.len;
	if (data.len > room)
		data.len = room;
	if (data.len == 0)
		return; /* counted is all that it is */
	if (!may_hold(x, data.len)) {
		cwcall_fail(x->c, CW_RESOURCE_EXHAUSTED, NULL,
			    "too much output of commands is held at once");
		return;
	}
	strbuf_addv(b, data);
}

/* What was collected, as fast as the client takes it. */
static void
pour(struct cwexec *x)
{
	static const char *const names[] = {"stdout", "stderr"};

	while (x->pouring < 2 && !cwcall_over_high(x->c)) {
		const struct strbuf *b = &x->out[x->pouring];
		size_t n = b->len - x->poured;

		if (x->poured == 0)
			cwcall_raw_begin(x->c, names[x->pouring], b->len);
		if (n > PIECE)
			n = PIECE;
		if (n > 0)
			cwcall_raw(x->c, (struct strv){b->s + x->poured, n});
		x->poured += n;
		if (x->poured == b->len) {
			x->pouring++;
			x->poured = 0;
		}
	}
	if (x->pouring == 2)
		cwcall_end(x->c);
}

static void
collected_cb(struct agentattach *run, const struct agentattach_exit *e,
	     void *arg)
{
	static const char *const cut[] = {"stdout_truncated",
					  "stderr_truncated"};
	static const char *const all[] = {"stdout_bytes_produced",
					  "stderr_bytes_produced"};
	struct cwexec *x = arg;
	struct cwout *w = cwcall_reply(x->c);

	(void)run;
	cwout_int(w, "exit_code", exit_code(e));
	for (int i = 0; i < 2; i++)
		cwout_bool(w, cut[i], x->produced[i] > x->out[i].len);
	for (int i = 0; i < 2; i++)
		cwout_int(w, all[i], (int64_t)x->produced[i]);
	x->ended = true;
	pour(x);
}

static void
unary_writable_cb(struct cwcall *c, void *arg)
{
	struct cwexec *x = arg;

	(void)c;
	if (x->ended)
		pour(x);
}

static void
unary_ready(const struct agentcall_to *to, void *arg)
{
	static const struct agentattach_cbs cbs = {.output = collect_cb,
						   .exited = collected_cb,
						   .refused = refused_cb,
						   .failed = failed_cb};

	start(arg, to, &cbs);
}

void
cwexec_unary(struct cwcall *c)
{
	static const struct cwcall_cbs cbs = {.writable = unary_writable_cb,
					      .closed = closed_cb};
	int64_t most = cwmsg_int(c->req, "max_output_bytes");
	struct cwexec *x;

	if (most < 0) {
		cwcall_bad_field(c, "max_output_bytes", "is negative");
		return;
	}
	x = new_exec(c, &cbs);
	x->most = most == 0 || most > OUT_MAX ? OUT_MAX : (size_t)most;
	if (!add_command(x, c->req, "command"))
		return;
	add_env(x, c->req);
	strbuf_adds(&x->init, ",\"stdin\":false");
	if (init_fits(x, "command"))
		cwagent_find(&x->find, c, c->req, unary_ready, x);
}

/* --- StreamExec: to the client ----------------------------------------- */

static void
accepted_cb(struct agentattach *run, void *arg)
{
	struct cwexec *x = arg;
	struct cwout *w = cwcall_reply(x->c);

	(void)run;
	cwout_open(w, "ready");
	cwout_time(w, "ready_time", job_now_ms());
	cwout_close(w);
	cwcall_send(x->c);
}

static void
output_cb(struct agentattach *run, unsigned stream, struct strv data, void *arg)
{
	struct cwexec *x = arg;
	struct cwout *w;

	if (data.len == 0)
		return;
	w = cwcall_reply(x->c);
	cwout_open(w, "output");
	cwout_int(w, "stream",
		  stream == 2 ? CW_STREAM_STDERR : CW_STREAM_STDOUT);
	cwout_bytes(w, "data", data);
	cwout_close(w);
	cwcall_send(x->c);
	if (cwcall_over_high(x->c))
		agentattach_pause(run, true);
}

static void
writable_cb(struct cwcall *c, void *arg)
{
	struct cwexec *x = arg;

	(void)c;
	if (x->run != NULL)
		agentattach_pause(x->run, false);
}

static void
exited_cb(struct agentattach *run, const struct agentattach_exit *e, void *arg)
{
	struct cwexec *x = arg;
	struct cwout *w = cwcall_reply(x->c);

	(void)run;
	cwout_open(w, "exit");
	cwout_int(w, "exit_code", exit_code(e));
	cwout_time(w, "completed_time", job_now_ms());
	cwout_close(w);
	cwcall_send(x->c);
	cwcall_end(x->c);
}

/* --- StreamExec: from the client --------------------------------------- */

static void
room_cb(struct agentattach *run, void *arg)
{
	struct cwexec *x = arg;

	(void)run;
	if (!x->no_input)
		return;
	x->no_input = false;
	cwcall_pause(x->c, false);
}

static void
stream_ready(const struct agentcall_to *to, void *arg)
{
	static const struct agentattach_cbs cbs = {.accepted = accepted_cb,
						   .output = output_cb,
						   .drained = room_cb,
						   .exited = exited_cb,
						   .refused = refused_cb,
						   .failed = failed_cb};
	struct cwexec *x = arg;

	start(x, to, &cbs);
	if (x->input_ended && !x->tty)
		agentattach_close_input(x->run);
	cwcall_pause(x->c, false);
}

/* Columns or rows; 0: the call has failed. */
static unsigned
size_of(struct cwexec *x, const struct cwmsg *m, const char *name,
	const char *field, unsigned otherwise)
{
	int64_t v = cwmsg_int(m, name);

	if (v <= UINT16_MAX)
		return v > 0 ? (unsigned)v : otherwise;
	cwcall_bad_field(x->c, field, "is more than 65535");
	return 0;
}

static void
said_init(struct cwexec *x, const struct cwmsg *m)
{
	unsigned cols, rows;

	x->asked = true;
	if (!add_command(x, m, "init.command"))
		return;
	add_env(x, m);
	x->tty = cwmsg_int(m, "tty") != 0;
	if (x->tty) {
		cols = size_of(x, m, "tty_width", "init.tty_width", COLS);
		rows = size_of(x, m, "tty_height", "init.tty_height", ROWS);
		if (cols == 0 || rows == 0)
			return;
		strbuf_addf(&x->init, ",\"tty\":true,\"cols\":%u,\"rows\":%u",
			    cols, rows);
	}
	if (!init_fits(x, "init.command"))
		return;
	cwcall_pause(x->c, true); /* the rest is for the command */
	cwagent_find(&x->find, x->c, m, stream_ready, x);
}

static void
said_stdin(struct cwexec *x, struct strv data)
{
	if (x->input_ended) {
		cwcall_bad_field(x->c, "stdin", "comes after close");
		return;
	}
	agentattach_input(x->run, data);
	if (agentattach_over_high(x->run)) {
		x->no_input = true;
		cwcall_pause(x->c, true);
	}
}

static void
end_input(struct cwexec *x)
{
	if (x->input_ended)
		return;
	x->input_ended = true;
	/* Who sits at a terminal types what ends its input. */
	if (!x->tty && x->run != NULL)
		agentattach_close_input(x->run);
}

static void
said_resize(struct cwexec *x, const struct cwmsg *m)
{
	unsigned cols = size_of(x, m, "width", "resize.width", COLS);
	unsigned rows = size_of(x, m, "height", "resize.height", ROWS);

	if (x->tty && cols != 0 && rows != 0)
		agentattach_resize(x->run, (uint16_t)cols, (uint16_t)rows);
}

static void
message_cb(struct cwcall *c, const struct cwmsg *m, void *arg)
{
	struct cwexec *x = arg;

	if (cwmsg_has(m, "init") == x->asked)
		cwcall_bad_field(c, "init",
				 x->asked ? "is there a second time"
					  : "must be in the first message");
	else if (!x->asked)
		said_init(x, cwmsg_msg(m, "init"));
	else if (cwmsg_has(m, "stdin"))
		said_stdin(x, cwmsg_view(m, "stdin"));
	else if (cwmsg_has(m, "resize"))
		said_resize(x, cwmsg_msg(m, "resize"));
	else if (cwmsg_has(m, "close"))
		end_input(x);
}

static void
half_closed_cb(struct cwcall *c, void *arg)
{
	struct cwexec *x = arg;

	if (x->asked)
		end_input(x);
	else
		cwcall_bad_field(c, "init", "is missing");
}

void
cwexec_stream(struct cwcall *c)
{
	static const struct cwcall_cbs cbs = {.message = message_cb,
					      .half_closed = half_closed_cb,
					      .writable = writable_cb,
					      .closed = closed_cb};

	(void)new_exec(c, &cbs);
}
