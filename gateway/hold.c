/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to a job that is still starting wait here, authorised and with
 * nothing of their body read, until the table says where it is or that it has
 * ended. They are decided anew then: a credential may have been taken back
 * meanwhile. What waits for a connection has no more to wait for when its
 * sandbox is gone.
 */
#include "config.h"

#include "gateway/exchange_int.h"
#include "gateway/gwconf.h"
#include "net/httpd.h"

static void
too_late_cb(void *arg)
{
	exchange_fail(arg, GE_STARTING, NULL);
}

void
hold_start(struct exchange *ex)
{
	struct path *p = ex->path;
	uint64_t most = worker_conf(p->w)->t.job_start;
	uint64_t gone = exchange_elapsed_us(ex) / 1000;

	timer_init(&ex->hold, worker_loop(p->w), too_late_cb, ex);
	timer_set(&ex->hold, gone < most ? most - gone : 0);
	ex->next_held = p->held;
	ex->prev_held = &p->held;
	if (p->held != NULL)
		p->held->prev_held = &ex->next_held;
	p->held = ex;
}

void
hold_stop(struct exchange *ex)
{
	if (ex->prev_held == NULL)
		return;
	*ex->prev_held = ex->next_held;
	if (ex->next_held != NULL)
		ex->next_held->prev_held = ex->prev_held;
	ex->prev_held = NULL;
	timer_clear(&ex->hold);
}

struct gone {
	struct strv id;
	uint64_t generation;
};

static void
give_up(struct httpd_conn *c, void *arg)
{
	struct conn_state *cs = httpd_conn_scratch(c);
	struct exchange *ex = cs->ex;
	const struct gone *g = arg;

	if (ex != NULL && ex->state == EX_CONNECT && ex->sb != NULL &&
	    ex->sb->generation == g->generation &&
	    strv_eq(strv_of(ex->sb->id), g->id))
		exchange_fail(ex, GE_SANDBOX_STOPPED, ex->sb->gone_reason);
}

void
hold_gone(struct path *p, struct strv id, uint64_t generation)
{
	struct gone g = {id, generation};

	hold_wake(p, id);
	httpd_each(p->s, give_up, &g);
}

void
hold_wake(struct path *p, struct strv id)
{
	struct exchange *ex, *next, *woken = NULL;

	/* Deciding may hold some again: they are taken out first. */
	for (ex = p->held; ex != NULL; ex = next) {
		next = ex->next_held;
		if (!strv_eq_nocase(strv_of(ex->sb->id), id))
			continue;
		hold_stop(ex);
		ex->next_held = woken;
		woken = ex;
	}
	while ((ex = woken) != NULL) {
		woken = ex->next_held;
		exchange_again(ex);
	}
}
