/* SPDX-License-Identifier: Apache-2.0 */
/* Ids, and the sandboxes behind them; see the header. */
#include "config.h"

#include "gateway/podflare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/token.h"
#include "gateway/podflare_int.h"

#define SWEEP_MIN_MS 100
#define SWEEP_MAX_MS 15000

const struct gw_podflare *
podflare_conf(struct podflare *p)
{
	return &p->o.conf(p->o.arg)->podflare;
}

struct loop *
podflare_loop(struct podflare *p)
{
	return p->o.loop;
}

bool
podflare_agent(struct podflare *p, struct podflare_agent *out)
{
	return p->o.agent(out, p->o.arg);
}

/* --- ids --------------------------------------------------------------- */

struct pod *
pod_new(struct podbox *b, const char *context)
{
	struct pod *pod = xcalloc(1, sizeof(*pod));

	memcpy(pod->id, "sbx_", 4);
	token_hex(pod->id + 4, (POD_ID_LEN - 4) / 2);
	pod->context = xstrdup(context);
	pod->box = b;
	pod->next = b->pods;
	b->pods = pod;
	(void)hash_set(b->p->ids, strv_of(pod->id), pod);
	return pod;
}

static void
pod_drop(struct pod *pod)
{
	(void)hash_del(pod->box->p->ids, strv_of(pod->id));
	free(pod->context);
	free(pod);
}

void
pod_free(struct pod *pod)
{
	struct pod **at = &pod->box->pods;

	while (*at != pod)
		at = &(*at)->next;
	*at = pod->next;
	pod_drop(pod);
}

/* --- their sandboxes --------------------------------------------------- */

struct podbox *
podbox_new(struct podflare *p, const char *id, const char *ns, uint64_t epoch)
{
	struct podbox *b = xcalloc(1, sizeof(*b));

	b->p = p;
	b->id = xstrdup(id);
	b->ns = xstrdup(ns);
	b->epoch = epoch;
	b->used_ms = loop_now_ms(p->o.loop);
	b->refs = 2; /* the list's and the caller's */
	b->next = p->boxes;
	b->prev = &p->boxes;
	if (b->next != NULL)
		b->next->prev = &b->next;
	p->boxes = b;
	p->nboxes++;
	if (!timer_running(&p->sweep))
		timer_set(&p->sweep, SWEEP_MIN_MS);
	return b;
}

void
podbox_unref(struct podbox *b)
{
	if (--b->refs > 0)
		return;
	free(b->id);
	free(b->ns);
	free(b);
}

void
podbox_take_out(struct podbox *b)
{
	struct pod *pod = b->pods, *next;

	if (b->gone)
		return;
	b->gone = true;
	b->pods = NULL;
	for (; pod != NULL; pod = next) {
		next = pod->next;
		pod_drop(pod);
	}
	*b->prev = b->next;
	if (b->next != NULL)
		b->next->prev = b->prev;
	b->p->nboxes--;
	podbox_unref(b);
}

void
podbox_lost(struct podbox *b)
{
	if (!b->gone)
		log_info("podflare.lost", "sandbox=%s", b->id);
	podbox_take_out(b);
}

struct podbox *
podbox_hold(struct podbox *b)
{
	b->refs++;
	b->calls++;
	return b;
}

void
podbox_release(struct podbox *b)
{
	b->calls--;
	b->used_ms = loop_now_ms(b->p->o.loop);
	podbox_unref(b);
}

/* Its agent is the one that there is. */
static bool
is_there(struct podflare *p, const struct podbox *b)
{
	struct podflare_agent a;

	return podflare_agent(p, &a) && a.epoch == b->epoch;
}

struct pod *
podflare_find(struct podflare *p, struct strv id)
{
	struct pod *pod = hash_get(p->ids, id);

	if (pod == NULL || is_there(p, pod->box))
		return pod;
	podbox_lost(pod->box);
	return NULL;
}

/* --- those that nobody uses -------------------------------------------- */

static void
sweep_cb(void *arg)
{
	struct podflare *p = arg;
	uint64_t now = loop_now_ms(p->o.loop);
	uint64_t idle = podflare_conf(p)->idle_ms, again = idle / 4;
	struct podbox *b = p->boxes, *next;

	for (; b != NULL; b = next) {
		next = b->next;
		if (!is_there(p, b)) {
			podbox_lost(b);
		} else if (idle != 0 && !b->persistent && b->calls == 0 &&
			   now - b->used_ms >= idle) {
			log_info("podflare.idle", "sandbox=%s", b->id);
			podop_end_box(b);
		}
	}
	if (again < SWEEP_MIN_MS)
		again = idle != 0 ? SWEEP_MIN_MS : SWEEP_MAX_MS;
	if (p->boxes != NULL)
		timer_set(&p->sweep,
			  again < SWEEP_MAX_MS ? again : SWEEP_MAX_MS);
}

/* --- life -------------------------------------------------------------- */

struct podflare *
podflare_new(const struct podflare_options *o)
{
	struct podflare *p = xcalloc(1, sizeof(*p));

	p->o = *o;
	p->ids = hash_new();
	timer_init(&p->sweep, o->loop, sweep_cb, p);
	return p;
}

void
podflare_free(struct podflare *p)
{
	struct podbox *b, *next;

	if (p == NULL)
		return;
	podop_free_all(p);
	for (b = p->boxes; b != NULL; b = next) {
		next = b->next;
		podbox_take_out(b);
	}
	timer_clear(&p->sweep);
	hash_free(p->ids);
	free(p);
}
