/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queues of calls: what runs, what waits, and what the interpreter says of
 * it.
 */
#include "config.h"

#include "agent/repl_int.h"

#include <signal.h>
#include <stdlib.h>

#include "agent/run.h"
#include "base/err.h"
#include "base/mem.h"

#define REPL_GRACE_MS 2000 /* from KeyboardInterrupt to KILL */

static void
repl_call_free(void *p)
{
	struct repl_call *c = p;

	strbuf_clear(&c->request);
	strbuf_clear(&c->children);
	free(c);
}

static void
repl_unlink(struct repl *r, struct repl_call *c)
{
	struct repl_call **p = &r->first, *prev = NULL;

	while (*p != c) {
		prev = *p;
		p = &(*p)->next;
	}
	*p = c->next;
	if (r->last == c)
		r->last = prev;
	r->ncalls--;
	r->set->ncalls--;
}

/* At first, then each time that half of them are gone, then every step. */
static void
repl_tell_queue(struct repl *r)
{
	size_t ahead = 0;
	struct repl_call *next;

	for (struct repl_call *c = r->first; c != NULL; c = next, ahead++) {
		next = c->next;
		if (ahead == 0 || c->cbs == NULL || c->cbs->queued == NULL ||
		    c->told == ahead)
			continue;
		if (c->told != 0 && ahead > 5 && ahead * 2 > c->told)
			continue;
		c->told = ahead;
		c->cbs->queued(c, ahead, c->arg);
	}
}

void
repl_finish(struct repl *r, struct repl_call *c, struct repl_end *e)
{
	repl_unlink(r, c);
	c->over = true;
	c->repl = NULL;
	e->timed_out = c->timed_out;
	e->interrupted = c->interrupted;
	if (c->began_us != 0)
		e->duration_ms = (loop_clock_us() - c->began_us) / 1000;
	if (c->cbs != NULL)
		c->cbs->ended(c, e, c->arg);
	else
		loop_defer_free(c->loop, c, repl_call_free);
}

static void
repl_fail(struct repl *r, struct repl_call *c, int err, const char *why)
{
	repl_unlink(r, c);
	c->over = true;
	c->repl = NULL;
	if (c->cbs != NULL)
		c->cbs->failed(c, err, why, c->arg);
	else
		loop_defer_free(c->loop, c, repl_call_free);
}

/* The first call is over: the interpreter is free for the next. */
static void
repl_next_call(struct repl *r)
{
	r->state = REPL_IDLE;
	timer_stop(&r->timer);
	if (r->in != NULL)
		interp_pause(r->in, false);
	if (r->first != NULL)
		task_post(repl_loop(r->set), &r->pump);
}

void
repl_end_first(struct repl *r, struct repl_end *e)
{
	repl_finish(r, r->first, e);
	repl_next_call(r);
}

static void
repl_tell_death(struct repl *r, struct repl_call *c)
{
	struct strbuf b = {0};

	if (!r->died || c->cbs == NULL)
		return;
	r->died = false;
	strbuf_addf(&b,
		    "{\"event\":\"restarted\",\"exit_code\":%d,"
		    "\"signal\":%d,\"state_lost\":true}",
		    r->death.code, r->death.signal);
	c->cbs->event(c, (struct strv){b.s, b.len}, c->arg);
	strbuf_clear(&b);
}

/* What came between two calls belongs to nobody else. */
static void
repl_tell_late(struct repl *r, struct repl_call *c)
{
	for (unsigned i = 0; i < 2; i++) {
		if (r->late[i].len > 0 && c->cbs != NULL)
			c->cbs->output(c, i, r->late[i].s, r->late[i].len,
				       c->arg);
	}
	repl_late_clear(r);
}

static void
repl_ask_interp(struct repl *r, struct repl_call *c)
{
	switch (c->kind) {
	case REPL_RUN:
		interp_run(r->in, (struct strv){c->request.s, c->request.len});
		break;
	case REPL_FORK:
		interp_fork(r->in, c->n);
		break;
	case REPL_NAMES:
		interp_names(r->in);
		break;
	case REPL_SETTLE:
		interp_settle(r->in);
		break;
	}
}

void
repl_pump_cb(void *arg)
{
	struct repl *r = arg;
	struct repl_call *c = r->first;
	char *why = NULL;
	int err;

	if (c == NULL || r->state != REPL_IDLE) {
		repl_tell_queue(r);
		return;
	}
	if (r->in == NULL) {
		err = interp_start(&r->set->place, &repl_interp_cbs, r, &r->in,
				   &why);
		if (err != 0) {
			repl_fail(r, c, err, why);
			free(why);
			repl_next_call(r);
			return;
		}
	}
	r->state = REPL_BUSY;
	r->begun = c->kind != REPL_RUN;
	c->began_us = loop_clock_us();
	if (c->timeout_ms != 0)
		timer_set(&r->timer, c->timeout_ms);
	repl_ask_interp(r, c);
	repl_tell_queue(r);
	if (c->cbs != NULL && !c->again)
		c->cbs->began(c, interp_pid(r->in), c->arg);
	repl_tell_death(r, c);
	repl_tell_late(r, c);
}

/* KeyboardInterrupt as soon as there is something to interrupt, the end of the
 * interpreter a little later. */
static void
repl_stop_first(struct repl *r)
{
	if (r->state != REPL_BUSY)
		return;
	r->state = REPL_ENDING;
	interp_pause(r->in, false);
	if (r->begun)
		interp_signal(r->in, SIGINT);
	timer_set(&r->timer, REPL_GRACE_MS);
}

void
repl_timer_cb(void *arg)
{
	struct repl *r = arg;

	if (r->state == REPL_BUSY) {
		r->first->timed_out = true;
		repl_stop_first(r);
	} else if (r->state == REPL_ENDING) {
		interp_signal(r->in, SIGKILL); /* its end is told */
	}
}

/* --- what the interpreter says ----------------------------------------- */

static struct repl_call *
repl_active(struct repl *r)
{
	return r->state == REPL_IDLE ? NULL : r->first;
}

static void
repl_output_cb(unsigned stream, const char *data, size_t n, void *arg)
{
	struct repl *r = arg;
	struct repl_call *c = repl_active(r);
	struct strbuf *late = &r->late[stream];

	if (c != NULL && c->cbs != NULL)
		c->cbs->output(c, stream, data, n, c->arg);
	else if (c == NULL && late->len + n <= REPL_LATE_MAX)
		strbuf_add(late, data, n);
}

static void
repl_event_cb(struct strv json, void *arg)
{
	struct repl *r = arg;
	struct repl_call *c = repl_active(r);

	if (c != NULL && c->cbs != NULL)
		c->cbs->event(c, json, c->arg);
}

bool
repl_asked(const struct repl *r, enum repl_kind kind)
{
	return r->state != REPL_IDLE && r->first->kind == kind;
}

static void
repl_begun_cb(void *arg)
{
	struct repl *r = arg;

	if (r->state == REPL_ENDING && !r->begun)
		interp_signal(r->in, SIGINT);
	r->begun = true;
	if (r->state != REPL_IDLE)
		strbuf_clear(&r->first->request);
}

static void
repl_done_cb(int status, void *arg)
{
	struct repl *r = arg;
	struct repl_end e = {.code = status};

	if (repl_asked(r, REPL_RUN))
		repl_end_first(r, &e);
}

static void
repl_names_cb(struct strv json, void *arg)
{
	struct repl *r = arg;
	struct repl_end e = {.code = 0, .json = json};

	if (repl_asked(r, REPL_NAMES))
		repl_end_first(r, &e);
}

static void
repl_settled_cb(struct strv json, void *arg)
{
	struct repl *r = arg;
	struct repl_end e = {.code = 0, .json = json};

	if (repl_asked(r, REPL_SETTLE))
		repl_end_first(r, &e);
}

static void
repl_ended_cb(const struct proc_exit *x, const char *why, void *arg)
{
	struct repl *r = arg;
	struct repl_end e = {.code = x->code,
			     .signal = x->signal,
			     .state_lost = true,
			     .why = why};

	interp_free(r->in);
	r->in = NULL;
	r->death = *x;
	/* Nothing of the code was run: it goes to the next interpreter. */
	if (r->state == REPL_BUSY && !r->begun && !r->first->again) {
		r->first->again = true;
		repl_next_call(r);
	}
	r->died = r->state == REPL_IDLE;
	if (!r->died)
		repl_end_first(r, &e);
}

const struct interp_cbs repl_interp_cbs = {
    .output = repl_output_cb,
    .event = repl_event_cb,
    .begun = repl_begun_cb,
    .done = repl_done_cb,
    .child = repl_child_cb,
    .forked = repl_forked_cb,
    .names = repl_names_cb,
    .settled = repl_settled_cb,
    .ended = repl_ended_cb,
};

/* --- interface --------------------------------------------------------- */

static int
repl_place(struct repl_set *s, const struct repl_ask *ask, struct repl **out,
	   const char **why)
{
	struct strv name = ask->context.len > 0 ? ask->context : STRV("main");
	size_t more;

	if (!repl_name_ok(name)) {
		*why = "context: 1 to 64 letters, digits, '_', '.', '-'";
		return E_INVALID;
	}
	if (s->ncalls >= REPL_CALLS_MAX) {
		*why = "too many calls wait";
		return E_LIMIT;
	}
	*out = repl_find(s, name);
	if (*out == NULL && ask->kind != REPL_RUN) {
		*why = "no such context";
		return E_NOTFOUND;
	}
	more = ask->kind == REPL_FORK ? ask->n : *out == NULL;
	if (more > 0 && s->n + more > REPL_CONTEXTS_MAX) {
		*why = "too many contexts";
		return E_LIMIT;
	}
	if (*out == NULL)
		*out = repl_new(s, name);
	return 0;
}

int
repl_call(struct repl_set *s, const struct repl_ask *ask,
	  const struct repl_cbs *cbs, void *arg, struct repl_call **out,
	  const char **why)
{
	struct repl_call *c;
	struct repl *r;
	int err;

	if ((err = repl_place(s, ask, &r, why)) != 0)
		return err;
	c = xcalloc(1, sizeof(*c));
	c->repl = r;
	c->loop = repl_loop(s);
	c->kind = ask->kind;
	strbuf_addv(&c->request, ask->request);
	c->n = ask->n;
	c->timeout_ms = ask->timeout_ms;
	c->cbs = cbs;
	c->arg = arg;
	if (r->last != NULL)
		r->last->next = c;
	else
		r->first = c;
	r->last = c;
	r->ncalls++;
	s->ncalls++;
	task_post(repl_loop(s), &r->pump);
	*out = c;
	return 0;
}

void
repl_release(struct repl_call *c, bool keep)
{
	struct repl *r = c->repl;

	c->cbs = NULL;
	if (c->over) {
		loop_defer_free(c->loop, c, repl_call_free);
	} else if (c == r->first && r->state != REPL_IDLE) {
		interp_pause(r->in, false); /* what it prints is lost */
		if (!keep) {
			c->interrupted = true;
			repl_stop_first(r);
		}
	} else if (!keep) {
		repl_unlink(r, c);
		loop_defer_free(c->loop, c, repl_call_free);
		repl_tell_queue(r);
	}
}

void
repl_pause(struct repl_call *c, bool pause)
{
	struct repl *r = c->repl;

	if (!c->over && c == r->first && r->state == REPL_BUSY)
		interp_pause(r->in, pause);
}

int
repl_interrupt(struct repl_set *s, struct strv name, bool *hit)
{
	struct repl *r = repl_find(s, name);

	if (r == NULL)
		return E_NOTFOUND;
	*hit = r->state == REPL_BUSY;
	if (*hit) {
		r->first->interrupted = true;
		repl_stop_first(r);
	}
	return 0;
}
