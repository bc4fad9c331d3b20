/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the crew counts: a question goes to every worker, and is answered by
 * the sum once each has said its numbers, has died, or was too slow (then what
 * it said last is taken). Who says nothing at all for long is replaced.
 */
#include "config.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "gateway/crew_int.h"
#include "gateway/statmsg.h"

#define STATS_MS 1000
#define LOOK_MS  10000
#define STUCK_MS 40000

static const char *const state_names[] = {"wanted", "starting", "ready",
					  "retiring"};

void
crew_count(const struct crew *c, struct crew_counts *out)
{
	memset(out, 0, sizeof(*out));
	out->deaths = c->deaths;
	out->generation = c->newest->number;
	out->wanted = c->newest->n;
	for (const struct crew_member *m = c->members; m != NULL; m = m->next) {
		if (m->gen == c->newest && m->state == MEMBER_READY)
			out->ready++;
		else if (m->gen != c->newest || m->state == MEMBER_RETIRING)
			out->retiring++;
	}
}

static void
ask_settle(struct crew *c, struct stats_ask *a)
{
	struct stats_ask **pp = &c->asks;
	struct stats sum = c->past;

	while (*pp != a)
		pp = &(*pp)->next;
	*pp = a->next;
	for (struct crew_member *m = c->members; m != NULL; m = m->next)
		statmsg_sum(&sum, &m->last, true);
	a->done(&sum, a->arg);
	timer_stop(&a->timer);
	timer_clear(&a->timer);
	free(a);
}

/* A question is answered when nobody owes an answer to it or an older one. */
void
crewstats_check(struct crew *c)
{
	struct stats_ask *a, *next;

	for (a = c->asks; a != NULL; a = next) {
		bool owed = false;

		next = a->next;
		for (struct crew_member *m = c->members; m != NULL; m = m->next)
			owed = owed || (m->asked != 0 && m->asked <= a->number);
		if (!owed)
			ask_settle(c, a);
	}
}

static void
ask_timeout_cb(void *arg)
{
	struct stats_ask *a = arg;

	ask_settle(a->crew, a);
}

void
crew_stats(struct crew *c, void (*done)(const struct stats *s, void *arg),
	   void *arg)
{
	struct stats_ask *a = xcalloc(1, sizeof(*a));
	char buf[40];

	a->crew = c;
	a->done = done;
	a->arg = arg;
	a->number = ++c->last_ask;
	timer_init(&a->timer, c->o.loop, ask_timeout_cb, a);
	timer_set(&a->timer, STATS_MS);
	a->next = c->asks;
	c->asks = a;
	snprintf(buf, sizeof(buf), "stats %llu", (unsigned long long)a->number);
	for (struct crew_member *m = c->members; m != NULL; m = m->next)
		if (crew_send(m, strv_of(buf), -1) == 0)
			m->asked = a->number;
}

void
crew_stats_cancel(struct crew *c, void *arg)
{
	struct stats_ask **pp = &c->asks, *a;

	while ((a = *pp) != NULL) {
		if (a->arg != arg) {
			pp = &a->next;
			continue;
		}
		*pp = a->next;
		timer_clear(&a->timer);
		free(a);
	}
}

void
crew_json(const struct crew *c, struct strbuf *out)
{
	const char *sep = "";

	strbuf_addc(out, '[');
	for (const struct crew_member *m = c->members; m != NULL; m = m->next) {
		strbuf_addf(out,
			    "%s{\"index\":%u,\"pid\":%ld,\"generation\":%u,"
			    "\"state\":\"%s\",\"stats\":",
			    sep, m->index,
			    (long)(m->inside != NULL ? getpid() : m->pid),
			    m->gen->number, state_names[m->state]);
		statmsg_json(&m->last, out);
		strbuf_addc(out, '}');
		sep = ",";
	}
	strbuf_addc(out, ']');
}

void
crewstats_forget(struct crew *c)
{
	struct stats_ask *a;

	while ((a = c->asks) != NULL) {
		c->asks = a->next;
		timer_clear(&a->timer);
		free(a);
	}
}

static void
looked_cb(const struct stats *s, void *arg)
{
	(void)s;
	(void)arg;
}

/* A worker that hangs would still get its share of the connections from the
 * kernel, and answer none of them. */
static void
look_cb(void *arg)
{
	struct crew *c = arg;
	uint64_t now = loop_now_ms(c->o.loop);
	/* Not if it was us who slept (a stopped process group). */
	bool asleep = now - c->looked_ms > 2 * LOOK_MS;

	c->looked_ms = now;
	for (struct crew_member *m = c->members; m != NULL; m = m->next) {
		if (asleep || m->pid == 0 || now - m->heard_ms < STUCK_MS)
			continue;
		log_error("worker.stuck", "worker=%u pid=%ld silent_ms=%llu",
			  m->index, (long)m->pid,
			  (unsigned long long)(now - m->heard_ms));
		(void)kill(m->pid, SIGKILL);
	}
	crew_stats(c, looked_cb, NULL);
	timer_set(&c->look, LOOK_MS);
}

void
crewstats_watch(struct crew *c)
{
	timer_init(&c->look, c->o.loop, look_cb, c);
	if (!c->o.single)
		timer_set(&c->look, LOOK_MS);
}
