/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way from an accepted channel to its local target: a look-up if the
 * target has a name, then a dial. The channel may go away meanwhile.
 */
#include "config.h"

#include "tunnel/reach.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/dialer.h"
#include "net/loop.h"
#include "tunnel/chan.h"
#include "tunnel/resolve.h"
#include "tunnel/spec.h"

#define REACH_TIMEOUT_MS 15000

struct reach {
	TAILQ_ENTRY(reach) link;
	struct reach_list *all;
	struct chan *c;
	struct resolve *resolve;
	struct dial *dial;
};

TAILQ_HEAD(reach_head, reach);

struct reach_list {
	struct loop *loop;
	struct reach_head v;
};

struct reach_list *
reach_list_new(struct loop *l)
{
	struct reach_list *rl = xcalloc(1, sizeof(*rl));

	rl->loop = l;
	TAILQ_INIT(&rl->v);
	return rl;
}

static void
reach_free(struct reach *r)
{
	TAILQ_REMOVE(&r->all->v, r, link);
	resolve_cancel(r->resolve);
	if (r->dial != NULL)
		dial_cancel(r->dial);
	free(r);
}

void
reach_list_free(struct reach_list *rl)
{
	struct reach *r, *next;

	if (rl == NULL)
		return;
	for (r = TAILQ_FIRST(&rl->v); r != NULL; r = next) {
		next = TAILQ_NEXT(r, link);
		chan_on_gone(r->c, NULL, NULL);
		reach_free(r);
	}
	free(rl);
}

static void
reach_gone_cb(void *arg)
{
	reach_free(arg);
}

static void
reach_failed(struct reach *r, const char *why)
{
	struct chan *c = r->c;

	log_debug("forward.unreachable", "why=%s", log_esc(strv_of(why)));
	reach_free(r);
	chan_refuse(c);
}

static void
reach_dialed(int err, int fd, const struct addr *used, void *arg)
{
	struct reach *r = arg;
	struct chan *c = r->c;

	(void)used;
	r->dial = NULL;
	if (err != 0) {
		reach_failed(r, err_text(err));
		return;
	}
	reach_free(r);
	chan_attach(c, fd);
}

static void
reach_dial(struct reach *r, const struct addr *addrs, size_t n)
{
	struct dial_options o = {.naddrs = n,
				 .timeout_ms = REACH_TIMEOUT_MS,
				 .done = reach_dialed,
				 .arg = r};

	memcpy(o.addrs, addrs, n * sizeof(*addrs));
	r->dial = dial_start(r->all->loop, &o);
}

static void
reach_resolved(int err, const struct addr *addrs, size_t n, void *arg)
{
	struct reach *r = arg;

	r->resolve = NULL;
	if (err != 0)
		reach_failed(r, "name not resolved");
	else
		reach_dial(r, addrs, n);
}

void
reach_start(struct reach_list *rl, const struct spec_end *target,
	    struct chan *c)
{
	struct reach *r = xcalloc(1, sizeof(*r));
	struct addr a;

	r->all = rl;
	r->c = c;
	TAILQ_INSERT_TAIL(&rl->v, r, link);
	chan_on_gone(c, reach_gone_cb, r);
	if (target->path == NULL)
		r->resolve = resolve_start(rl->loop, target->host, target->port,
					   AF_UNSPEC, reach_resolved, r);
	else if (addr_unix(&a, target->path) == 0)
		reach_dial(r, &a, 1);
	else
		reach_failed(r, "bad path");
}
