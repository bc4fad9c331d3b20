/* SPDX-License-Identifier: Apache-2.0 */
/* All configured tunnels; see the header. */
#include "config.h"

#include "gateway/remotes.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "gateway/child.h"
#include "gateway/remote.h"
#include "net/loop.h"

#define SYNC_MS 1000 /* nobody waits longer for an agent far away */

struct one {
	struct remote *r;
	char *name;
	uint64_t mark; /* what the open question waits for; 0: nothing */
};

struct remotes {
	struct remotes_options o;
	char *program, *state_dir;
	struct one *v;
	size_t n;
	/* Questions are put in rounds: who comes during one waits for the
	 * next. */
	uint64_t round;
	bool open, again;
	struct timer timer;
	bool stopping;
};

/* --- questions --------------------------------------------------------- */

static uint64_t
begin(struct remotes *rs)
{
	for (size_t i = 0; i < rs->n; i++) {
		rs->v[i].mark = remote_refresh(rs->v[i].r);
		rs->open = rs->open || rs->v[i].mark != 0;
	}
	if (!rs->open)
		return 0;
	timer_set(&rs->timer, SYNC_MS);
	return ++rs->round;
}

static void
settle(struct remotes *rs)
{
	if (!rs->open)
		return;
	rs->open = false;
	timer_stop(&rs->timer);
	rs->o.synced(rs->round, rs->o.arg);
	if (!rs->again)
		return;
	rs->again = false;
	if (begin(rs) == 0)
		rs->o.synced(++rs->round, rs->o.arg);
}

/* All that were asked have answered. */
static void
settle_if_answered(struct remotes *rs)
{
	for (size_t i = 0; i < rs->n; i++)
		if (rs->v[i].mark != 0)
			return;
	settle(rs);
}

static void
timer_cb(void *arg)
{
	struct remotes *rs = arg;

	for (size_t i = 0; i < rs->n; i++)
		rs->v[i].mark = 0;
	settle(rs);
}

static void
refreshed_cb(struct remote *r, void *arg)
{
	struct remotes *rs = arg;

	for (size_t i = 0; i < rs->n; i++)
		if (rs->v[i].r == r && remote_asked(r) >= rs->v[i].mark)
			rs->v[i].mark = 0;
	settle_if_answered(rs);
}

uint64_t
remotes_sync(struct remotes *rs)
{
	if (!rs->open)
		return begin(rs);
	rs->again = true; /* the round under way may have missed it */
	return rs->round + 1;
}

/* --- which there are --------------------------------------------------- */

static struct one *
find(struct remotes *rs, struct strv name)
{
	for (size_t i = 0; i < rs->n; i++)
		if (strv_eq(strv_of(rs->v[i].name), name))
			return &rs->v[i];
	return NULL;
}

static void
ended_cb(struct remote *r, void *arg)
{
	struct remotes *rs = arg;
	size_t i = 0;

	while (rs->v[i].r != r)
		i++;
	remote_free(r);
	free(rs->v[i].name);
	memmove(&rs->v[i], &rs->v[i + 1], (rs->n - i - 1) * sizeof(*rs->v));
	rs->n--;
	settle_if_answered(rs);
	if (rs->stopping && rs->n == 0)
		rs->o.ended(rs->o.arg);
}

/* Kept in the order of their names. */
static void
add(struct remotes *rs, const struct gw_tunnel *t)
{
	const struct remote_options o = {.loop = rs->o.loop,
					 .owner = rs->o.owner,
					 .program = rs->program,
					 .state_dir = rs->state_dir,
					 .refreshed = refreshed_cb,
					 .ended = ended_cb,
					 .arg = rs};
	size_t i = rs->n;

	rs->v = xreallocarray(rs->v, rs->n + 1, sizeof(*rs->v));
	for (; i > 0 && strcmp(rs->v[i - 1].name, t->name) > 0; i--)
		rs->v[i] = rs->v[i - 1];
	rs->v[i] = (struct one){.name = xstrdup(t->name)};
	rs->n++;
	rs->v[i].r = remote_new(&o, t);
}

void
remotes_set_conf(struct remotes *rs, const struct gw_conf *conf)
{
	struct one *w;

	if (rs->stopping)
		return;
	if (rs->state_dir == NULL)
		rs->state_dir = xstrdup(conf->state_dir); /* never changes */
	for (size_t i = 0; i < rs->n; i++)
		if (gwconf_tunnel(conf, rs->v[i].name) == NULL)
			remote_stop(rs->v[i].r);
	for (size_t i = 0; i < conf->ntunnels; i++) {
		w = find(rs, strv_of(conf->tunnels[i].name));
		if (w != NULL)
			remote_set_conf(w->r, &conf->tunnels[i]);
		else
			add(rs, &conf->tunnels[i]);
	}
}

void
remotes_reap(struct remotes *rs)
{
	for (size_t i = 0; i < rs->n; i++)
		remote_reap(rs->v[i].r);
}

void
remotes_stop(struct remotes *rs)
{
	rs->stopping = true;
	for (size_t i = 0; i < rs->n; i++)
		remote_stop(rs->v[i].r);
}

size_t
remotes_count(const struct remotes *rs)
{
	return rs->n;
}

struct remote *
remotes_each(struct remotes *rs, size_t *pos)
{
	while (*pos < rs->n) {
		struct remote *r = rs->v[(*pos)++].r;

		if (!remote_stopping(r))
			return r;
	}
	return NULL;
}

struct remote *
remotes_find(struct remotes *rs, struct strv name)
{
	struct one *w = find(rs, name);

	return w != NULL && !remote_stopping(w->r) ? w->r : NULL;
}

/* --- metrics ----------------------------------------------------------- */

static double
metric_value(const struct remote_info *i, int which)
{
	switch (which) {
	case 0:
		return i->state == REMOTE_UP || i->state == REMOTE_DEGRADED;
	case 1:
		return i->reconnects;
	case 2:
		return i->starts;
	case 3:
		return (double)i->down_ms / 1000;
	default:
		return (double)i->sandboxes;
	}
}

void
remotes_metrics(struct remotes *rs, struct strbuf *out)
{
	static const char *const rows[][3] = {
	    {"up", "gauge", "1 while it and its agent can be used"},
	    {"reconnects_total", "counter",
	     "Connections that were lost and came back"},
	    {"starts_total", "counter", "Starts of its process"},
	    {"down_seconds_total", "counter", "Time in which it was no use"},
	    {"sandboxes", "gauge", "Sandboxes behind it"}};
	struct remote_info info;
	struct remote *r;
	size_t pos;

	for (size_t k = 0; rs->n > 0 && k < ARRAY_LEN(rows); k++) {
		strbuf_addf(out,
			    "# HELP sbx_tunnel_%s %s\n"
			    "# TYPE sbx_tunnel_%s %s\n",
			    rows[k][0], rows[k][2], rows[k][0], rows[k][1]);
		for (pos = 0; (r = remotes_each(rs, &pos)) != NULL;) {
			remote_info(r, &info);
			strbuf_addf(out, "sbx_tunnel_%s{name=\"%s\"} %.15g\n",
				    rows[k][0], info.name,
				    metric_value(&info, (int)k));
		}
	}
}

/* --- life -------------------------------------------------------------- */

struct remotes *
remotes_new(const struct remotes_options *o)
{
	struct remotes *rs = xcalloc(1, sizeof(*rs));

	rs->o = *o;
	rs->program = child_find("sbx-tunnel");
	timer_init(&rs->timer, o->loop, timer_cb, rs);
	return rs;
}

void
remotes_free(struct remotes *rs)
{
	if (rs == NULL)
		return;
	for (size_t i = 0; i < rs->n; i++) {
		remote_free(rs->v[i].r);
		free(rs->v[i].name);
	}
	timer_clear(&rs->timer);
	free(rs->v);
	free(rs->program);
	free(rs->state_dir);
	free(rs);
}
