/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One worker: its listeners, its replica of the master's tables, and the
 * channel to the master. The request path (exchange.c) hangs off it. A worker
 * only ever goes forward: RUNNING, then RETIRED (nothing new, what is open
 * stays), then GONE, when `exited` is called.
 */
#include "config.h"

#include "gateway/worker_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "gateway/door.h"
#include "gateway/exchange.h"
#include "gateway/statmsg.h"
#include "gateway/tlskeys.h"
#include "net/httpd.h"
#include "net/listener.h"
#include "net/loop.h"
#include "net/seqpkt.h"
#include "net/tlsctx.h"

#define POLL_MIN 20
#define POLL_MAX 500

struct worker_port {
	struct worker *w;
	struct worker_listener ls;
	struct listener *l;
};

/* --- end --------------------------------------------------------------- */
static void
stop_listening(struct worker *w)
{
	for (size_t i = 0; i < w->o.nlisteners; i++) {
		if (w->ports[i].l != NULL)
			listener_close(w->ports[i].l);
		w->ports[i].l = NULL;
	}
}

static void
say_stats(struct worker *w, struct strv n)
{
	struct strbuf b = {0};

	strbuf_addf(&b, "stats %.*s", STRV_ARG(n));
	statmsg_add(&w->stats, &b);
	if (w->channel != NULL &&
	    seqpkt_send(w->channel, (struct strv){b.s, b.len}, -1) != 0)
		log_warn("worker.channel", "worker=%u error=full", w->o.index);
	strbuf_clear(&b);
}

static void
go(struct worker *w)
{
	if (w->state == WORKER_GONE)
		return;
	w->state = WORKER_GONE;
	timer_stop(&w->drain_timer);
	say_stats(w, STRV("0"));
	log_debug("worker.exit", "worker=%u", w->o.index);
	w->o.exited(w, w->o.arg);
}

static void
drain_cb(void *arg)
{
	struct worker *w = arg;
	uint64_t now = loop_now_ms(w->o.loop);

	if (exchange_count(w) == 0) {
		go(w);
		return;
	}
	if (w->drain_due_ms != 0 && now >= w->drain_due_ms) {
		if (!w->ended_all) {
			log_info("worker.deadline", "worker=%u open=%zu",
				 w->o.index, exchange_count(w));
			exchange_close_all(w);
			w->ended_all = true;
			/* Farewells may take a moment to leave. */
			w->drain_due_ms = now + 500;
		} else {
			go(w);
			return;
		}
	}
	/* A tunnel may keep a retired worker for hours. */
	w->poll_ms = w->poll_ms * 2 < POLL_MAX ? w->poll_ms * 2 : POLL_MAX;
	timer_set(&w->drain_timer,
		  w->drain_due_ms != 0 ? POLL_MIN : w->poll_ms);
}

static void
retire(struct worker *w, uint64_t deadline_ms)
{
	uint64_t due = loop_now_ms(w->o.loop) + deadline_ms;

	if (w->state == WORKER_GONE)
		return;
	if (w->state == WORKER_RUNNING) {
		w->state = WORKER_RETIRED;
		stop_listening(w);
		exchange_retire(w);
		log_debug("worker.retire", "worker=%u open=%zu", w->o.index,
			  exchange_count(w));
	}
	if (deadline_ms != UINT64_MAX) {
		w->drain_due_ms = due > 0 ? due : 1;
		exchange_drain(w);
	}
	w->poll_ms = POLL_MIN;
	timer_set(&w->drain_timer, 0);
}

/* --- messages ---------------------------------------------------------- */
static void
table_message(struct worker *w, struct strv msg)
{
	struct strv rest = msg, verb, id = STRV_NULL, gen = STRV_NULL;
	uint64_t g;
	int r;

	if ((r = route_apply(w->routes, msg)) != 0) {
		log_error("worker.table", "worker=%u error=%s", w->o.index,
			  err_text(r));
		return;
	}
	(void)strv_cut(&rest, ' ', &verb);
	(void)(strv_cut(&rest, ' ', &id) && strv_cut(&rest, ' ', &gen));
	if (strv_eq(verb, STRV("unbearer")) && w->httpd != NULL)
		exchange_revoked(w, id);
	if (strv_eq(verb, STRV("job")) && w->httpd != NULL)
		exchange_job(w, id);
	if (strv_eq(verb, STRV("gone")) && w->httpd != NULL &&
	    strv_parse_u64(gen, UINT64_MAX, true, &g) == 0)
		exchange_gone(w, strv_eq(id, STRV("-")) ? STRV("") : id, g);
}

static void
set_tickets(struct worker *w, const struct tls_ticket_keys *k)
{
	for (size_t i = 0; i < w->o.nlisteners; i++)
		if (w->ports[i].ls.tls != NULL)
			tlsctx_set_ticket_keys(w->ports[i].ls.tls, k);
}

static void
tickets_message(struct worker *w, struct strv rest)
{
	struct tls_ticket_keys k;

	if (tlskeys_parse(rest, &k) != 0)
		log_error("worker.tickets", "worker=%u error=malformed",
			  w->o.index);
	else
		set_tickets(w, &k);
	mem_secure_zero(&k, sizeof(k));
}

static void
message_cb(struct seqpkt *sp, struct strv msg, int fd, void *arg)
{
	struct worker *w = arg;
	struct strv rest = msg, verb;
	uint64_t n;

	(void)sp;
	if (!strv_cut(&rest, ' ', &verb))
		return;
	if (strv_eq(verb, STRV("ok")) || strv_eq(verb, STRV("fail"))) {
		exchange_connected(w, msg, fd);
		return;
	}
	fd_close(&fd); /* nothing else comes with one */
	if (strv_eq(verb, STRV("synced"))) {
		worker_synced(w, rest);
	} else if (strv_eq(verb, STRV("stats"))) {
		say_stats(w, rest);
	} else if (strv_eq(verb, STRV("tickets"))) {
		tickets_message(w, rest);
	} else if (strv_eq(verb, STRV("retire"))) {
		retire(w, UINT64_MAX);
	} else if (strv_eq(verb, STRV("drain"))) {
		if (strv_parse_u64(rest, UINT32_MAX, true, &n) != 0)
			n = 0;
		retire(w, n);
	} else if (strv_eq(verb, STRV("reopen"))) {
		log_reopen();
		exchange_reopen_logs(w);
	} else {
		table_message(w, msg);
	}
}

static void
closed_cb(struct seqpkt *sp, void *arg)
{
	struct worker *w = arg;

	/* The master is gone, and with it everything that could tell us what
	 * may still be served. */
	seqpkt_close(sp);
	w->channel = NULL;
	if (w->state != WORKER_GONE)
		log_error("worker.orphan", "worker=%u", w->o.index);
	task_post(w->o.loop, &w->sync_task);
	go(w);
}

/* --- start ------------------------------------------------------------- */
static void
accepted_cb(int fd, const struct addr *peer, void *arg)
{
	struct worker_port *p = arg;

	door_accept(p->w, &p->ls, fd, peer);
}

static void
copy_row(struct strv msg, void *arg)
{
	table_message(arg, msg);
}

static void
start_listening(struct worker *w, const struct worker_options *o)
{
	for (size_t i = 0; i < o->nlisteners; i++) {
		struct worker_port *p = &w->ports[i];

		p->w = w;
		p->ls = o->listeners[i];
		if (p->ls.tls != NULL)
			p->ls.tls = tlsctx_ref(p->ls.tls);
		p->l = listener_take_fd(o->loop, p->ls.fd, accepted_cb, p);
	}
}

struct worker *
worker_start(const struct worker_options *o)
{
	static const struct seqpkt_cbs cbs = {message_cb, closed_cb};
	struct worker *w = xcalloc(1, sizeof(*w));

	w->o = *o;
	w->ports = xcalloc(o->nlisteners + 1, sizeof(*w->ports));
	timer_init(&w->drain_timer, o->loop, drain_cb, w);
	worker_sync_init(w);
	w->routes = route_new();
	route_set_conf(w->routes, o->conf);
	if (o->routes != NULL)
		route_dump(o->routes, copy_row, w);
	w->channel = seqpkt_take_fd(o->loop, o->channel, &cbs, w);
	w->httpd = exchange_httpd_new(w);
	start_listening(w, o);
	if (o->tickets != NULL)
		set_tickets(w, o->tickets);
	if (seqpkt_send(w->channel, STRV("ready"), -1) != 0)
		log_error("worker.channel", "worker=%u error=full", o->index);
	return w;
}

void
worker_free(struct worker *w)
{
	if (w == NULL)
		return;
	stop_listening(w);
	if (w->channel != NULL)
		seqpkt_close(w->channel);
	w->channel = NULL;
	worker_sync_clear(w);
	exchange_httpd_free(w, w->httpd);
	task_cancel(&w->sync_task);
	timer_clear(&w->sync_timer);
	timer_clear(&w->drain_timer);
	for (size_t i = 0; i < w->o.nlisteners; i++)
		tlsctx_unref(w->ports[i].ls.tls);
	route_free(w->routes);
	free(w->ports);
	/* Whoever called us may be one of our callbacks. */
	loop_defer_free(w->o.loop, w, NULL);
}
