/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts; see the header. */
#include "config.h"

#include "agent/repl_int.h"

#include <assert.h>
#include <ctype.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "agent/run.h"
#include "base/err.h"
#include "base/mem.h"

struct loop *
repl_loop(const struct repl_set *s)
{
	return s->place.place->loop;
}

bool
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

struct repl *
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

struct repl *
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

void
repl_late_clear(struct repl *r)
{
	strbuf_clear(&r->late[0]);
	strbuf_clear(&r->late[1]);
}

void
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

struct repl_set *
repl_set_new(const struct run_place *place, struct work_lane *lane)
{
	struct repl_set *s = xcalloc(1, sizeof(*s));

	s->place.place = place;
	s->place.lane = lane;
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
