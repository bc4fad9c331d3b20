/* SPDX-License-Identifier: Apache-2.0 */
/* Forgetting jobs that ended long ago, or that are too many. */
#include "config.h"

#include "gateway/jobstore.h"

#include <stdio.h>

#include "gateway/jobstore_int.h"

#define PRUNE_MAX 256

struct dead {
	struct {
		char id[JOB_ID_LEN + 1];
		int64_t seq;
	} v[PRUNE_MAX];
	unsigned n, max;
};

static void
note_dead(struct dead *d, sqlite3_stmt *st)
{
	while (d->n < d->max && sqlite3_step(st) == SQLITE_ROW) {
		(void)snprintf(d->v[d->n].id, sizeof(d->v[d->n].id), "%s",
			       (const char *)sqlite3_column_text(st, 0));
		d->v[d->n++].seq = sqlite3_column_int64(st, 1);
	}
	(void)sqlite3_reset(st);
}

static void
note_excess(struct jobstore *s, struct dead *d, uint64_t keep)
{
	sqlite3_stmt *names = jobstore_use(s, ST_NAMESPACES), *st;

	while (d->n < d->max && sqlite3_step(names) == SQLITE_ROW) {
		st = jobstore_use(s, ST_EXCESS);
		jobstore_bind_text(st, 1,
				   (const char *)sqlite3_column_text(names, 0));
		jobstore_bind_int(st, 2, d->max);
		jobstore_bind_int(st, 3,
				  keep < INT64_MAX ? (int64_t)keep : INT64_MAX);
		note_dead(d, st);
	}
	(void)sqlite3_reset(names);
}

static int
delete_dead(struct jobstore *s, const struct dead *d,
	    void (*fn)(const char *id, void *arg), void *arg)
{
	int r = 0;

	for (unsigned i = 0; i < d->n; i++) {
		sqlite3_stmt *st;

		if ((r = jobstore_begin(s)) != 0)
			return r;
		st = jobstore_use(s, ST_DELETE);
		jobstore_bind_int(st, 1, d->v[i].seq);
		if ((r = jobstore_run(s, st, "delete")) != 0)
			return r;
		fn(d->v[i].id, arg);
	}
	return r;
}

int
jobstore_prune(struct jobstore *s, int64_t before_ms, uint64_t keep,
	       unsigned max, void (*fn)(const char *id, void *arg), void *arg,
	       unsigned *n)
{
	struct dead d = {.max = max < PRUNE_MAX ? max : PRUNE_MAX};
	sqlite3_stmt *st = jobstore_use(s, ST_OLD);
	int r;

	jobstore_bind_int(st, 1, before_ms);
	jobstore_bind_int(st, 2, d.max);
	note_dead(&d, st);
	/* One or the other: none is noted twice. */
	if (d.n == 0)
		note_excess(s, &d, keep);
	*n = 0;
	if ((r = delete_dead(s, &d, fn, arg)) == 0)
		*n = d.n;
	return r;
}
