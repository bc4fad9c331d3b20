/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts, their interpreters and the queues of their calls; see the header.
 */
#include "config.h"

#include "agent/repl.h"

#include <assert.h>
#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/interp.h"
#include "agent/run.h"
#include "base/err.h"
#include "base/mem.h"
#include "net/loop.h"

#define REPL_GRACE_MS 2000 /* from KeyboardInterrupt to KILL */

enum repl_state { REPL_IDLE, REPL_BUSY, REPL_ENDING };

struct repl_call {
	struct repl *repl; /* until it is over */
	struct loop *loop;
	struct repl_call *next;
	enum repl_kind kind;
	struct strbuf request;
	unsigned n;
	uint64_t timeout_ms;
	uint64_t began_us;
	const struct repl_cbs *cbs; /* NULL: released */
	void *arg;
	size_t told; /* how many were before it, when that was last told */
	bool timed_out, interrupted, over;
	bool again; /* the interpreter was dead already, and it got another */
	struct strbuf children; /* names, as JSON strings with commas */
};

struct repl {
	struct repl_set *set;
	struct repl *next, *prev;
	char name[REPL_NAME_MAX + 1];
	char *parent; /* NULL: not forked */
	unsigned forks;
	enum repl_state state;
	struct interp *in; /* NULL: none now */
	struct repl_call *first, *last;
	size_t ncalls;
	struct timer timer;
	struct task pump;
	bool begun; /* the first call's code runs */
	struct strbuf late[2];
	bool died; /* while nobody looked; so: */
	struct proc_exit death;
};

struct repl_set {
	struct interp_place place;
	struct repl *first, *last;
	size_t n, ncalls;
};

static const struct interp_cbs repl_interp_cbs;
static void repl_pump_cb(void *arg);
static void repl_timer_cb(void *arg);

/* --- contexts ---------------------------------------------------------- */

static struct loop *
repl_loop(const struct repl_set *s)
{
	return s->place.place->loop;
}

static bool
repl_name_ok(struct strv v)
{
	if (v.len == 0 || v.len > REPL_NAME_MAX)
		return false;
	for (size_t i = 0; i < v.len; i++) {
		if (!isalnum((unsigned char)v.p[i]) &&
		    strchr("_.-", v.p[i]) == NULL)
			return false;
	}
	return true;
}

static struct repl *
repl_find(struct repl_set *s, struct strv name)
{
	if (name.len == 0)
		name = STRV("main");
	for (struct repl *r = s->first; r != NULL; r = r->next) {
		if (strv_eq(strv_of(r->name), name))
			return r;
	}
	return NULL;
}

static struct repl *
repl_new(struct repl_set *s, struct strv name)
{
	struct repl *r = xcalloc(1, sizeof(*r));

	memcpy(r->name, name.p, name.len);
	r->set = s;
	timer_init(&r->timer, repl_loop(s), repl_timer_cb, r);
	task_init(&r->pump, repl_pump_cb, r);
	if ((r->prev = s->last) != NULL)
		r->prev->next = r;
	else
		s->first = r;
	s->last = r;
	s->n++;
	return r;
}

static void
repl_late_clear(struct repl *r)
{
	strbuf_clear(&r->late[0]);
	strbuf_clear(&r->late[1]);
}

/* Has no calls any more. */
static void
repl_free(struct repl *r)
{
	struct repl_set *s = r->set;

	assert(r->first == NULL);
	*(r->prev != NULL ? &r->prev->next : &s->first) = r->next;
	*(r->next != NULL ? &r->next->prev : &s->last) = r->prev;
	s->n--;
	interp_free(r->in);
	timer_clear(&r->timer);
	task_cancel(&r->pump);
	repl_late_clear(r);
	free(r->parent);
	loop_defer_free(repl_loop(s), r, NULL);
}

/* --- calls ------------------------------------------------------------- */

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

/* c is out of the queue after this, and freed when its caller lets go. */
static void
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

static void
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
	}
}

static void
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

static void
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

/* Code can say what it likes: an answer to what was not asked is none. */
static bool
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
repl_child_cb(struct interp *child, void *arg)
{
	struct repl *r = arg, *made;
	struct repl_call *c = repl_active(r);
	char name[REPL_NAME_MAX + 16];

	if (!repl_asked(r, REPL_FORK) || c->n == 0 ||
	    r->set->n >= REPL_CONTEXTS_MAX) {
		interp_set_cbs(child, &repl_interp_cbs, r);
		interp_free(child);
		return;
	}
	c->n--;
	do
		(void)snprintf(name, sizeof(name), "%.50s-%u", r->name,
			       ++r->forks);
	while (repl_find(r->set, strv_of(name)) != NULL);
	made = repl_new(r->set, strv_of(name));
	made->in = child;
	made->parent = xstrdup(r->name);
	interp_set_cbs(child, &repl_interp_cbs, made);
	if (c->children.len > 0)
		strbuf_addc(&c->children, ',');
	strbuf_addf(&c->children, "\"%s\"", name);
}

static void
repl_forked_cb(struct strv json, void *arg)
{
	struct repl *r = arg;
	struct repl_end e = {.code = 0};
	struct strbuf b = {0};

	if (!repl_asked(r, REPL_FORK))
		return;
	strbuf_addf(&b, "{\"children\":[%.*s],\"fork\":%.*s}",
		    (int)r->first->children.len,
		    r->first->children.s != NULL ? r->first->children.s : "",
		    STRV_ARG(json));
	e.json = (struct strv){b.s, b.len};
	repl_end_first(r, &e);
	strbuf_clear(&b);
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

static const struct interp_cbs repl_interp_cbs = {
    .output = repl_output_cb,
    .event = repl_event_cb,
    .begun = repl_begun_cb,
    .done = repl_done_cb,
    .child = repl_child_cb,
    .forked = repl_forked_cb,
    .names = repl_names_cb,
    .ended = repl_ended_cb,
};

/* --- interface --------------------------------------------------------- */

struct repl_set *
repl_set_new(const struct run_place *place)
{
	struct repl_set *s = xcalloc(1, sizeof(*s));

	s->place.place = place;
	return s;
}

static void
repl_kill(struct repl *r, const char *why)
{
	while (r->first != NULL) {
		struct repl_end e = {.code = -1,
				     .signal = SIGKILL,
				     .state_lost = true,
				     .why = why};

		repl_finish(r, r->first, &e);
	}
	repl_free(r);
}

void
repl_set_free(struct repl_set *s)
{
	if (s == NULL)
		return;
	while (s->first != NULL)
		repl_kill(s->first, "the sandbox was deleted");
	loop_defer_free(repl_loop(s), s, NULL);
}

static int
repl_place(struct repl_set *s, const struct repl_ask *ask, struct repl **out,
	   const char **why)
{
	struct strv name = ask->context.len > 0 ? ask->context : STRV("main");

	if (!repl_name_ok(name)) {
		*why = "context: 1 to 64 letters, digits, '_', '.', '-'";
		return E_INVALID;
	}
	if (s->ncalls >= REPL_CALLS_MAX) {
		*why = "too many calls wait";
		return E_LIMIT;
	}
	if ((*out = repl_find(s, name)) != NULL)
		return 0;
	if (ask->kind != REPL_RUN) {
		*why = "no such context";
		return E_NOTFOUND;
	}
	if (s->n >= REPL_CONTEXTS_MAX) {
		*why = "too many contexts";
		return E_LIMIT;
	}
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

int
repl_merge(struct repl_set *s, struct strv context, struct strv winner)
{
	struct repl *r = repl_find(s, context), *w = repl_find(s, winner);

	if (r == NULL || w == NULL || w->in == NULL)
		return E_NOTFOUND;
	if (r == w)
		return E_INVALID;
	if (r->first != NULL || w->first != NULL)
		return E_BUSY;
	interp_free(r->in);
	repl_late_clear(r);
	r->in = w->in;
	interp_set_cbs(r->in, &repl_interp_cbs, r);
	w->in = NULL;
	repl_free(w);
	return 0;
}

int
repl_drop(struct repl_set *s, struct strv name)
{
	struct repl *r = repl_find(s, name);

	if (r == NULL)
		return E_NOTFOUND;
	repl_kill(r, "the context was deleted");
	return 0;
}

struct repl *
repl_next(struct repl_set *s, struct repl *after)
{
	return after == NULL ? s->first : after->next;
}

const char *
repl_name(const struct repl *r)
{
	return r->name;
}

pid_t
repl_pid(const struct repl *r)
{
	return r->in != NULL ? interp_pid(r->in) : 0;
}

size_t
repl_calls(const struct repl *r)
{
	return r->ncalls;
}

const char *
repl_parent(const struct repl *r)
{
	return r->parent;
}
