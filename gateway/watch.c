/* SPDX-License-Identifier: Apache-2.0 */
/* Tells when one of a set of files has changed, by looking once a second. */
#include "config.h"

#include "gateway/watch.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "net/loop.h"

#define WATCH_MS 1000

struct look {
	uint64_t dev, ino, size;
	int64_t sec, nsec, csec, cnsec;
};

struct watched {
	char *path;
	struct look seen;
};

struct watch {
	struct timer timer;
	struct watched *v;
	size_t n;
	bool pending; /* changed at the last look */
	void (*fn)(void *arg);
	void *arg;
};

/* All zero when it is not there. */
static struct look
look_at(const char *path)
{
	struct look k = {0};
	struct stat st;

	if (stat(path, &st) != 0)
		return k;
	k.dev = st.st_dev;
	k.ino = st.st_ino;
	k.size = (uint64_t)st.st_size;
	k.sec = st.st_mtim.tv_sec;
	k.nsec = st.st_mtim.tv_nsec;
	k.csec = st.st_ctim.tv_sec;
	k.cnsec = st.st_ctim.tv_nsec;
	return k;
}

static void
watch_cb(void *arg)
{
	struct watch *w = arg;
	bool changed = false;

	for (size_t i = 0; i < w->n; i++) {
		struct look now = look_at(w->v[i].path);

		if (memcmp(&now, &w->v[i].seen, sizeof(now)) != 0) {
			w->v[i].seen = now;
			changed = true;
		}
	}
	timer_set(&w->timer, WATCH_MS);
	if (changed) {
		w->pending = true;
	} else if (w->pending) {
		w->pending = false;
		w->fn(w->arg);
	}
}

struct watch *
watch_new(struct loop *l, void (*fn)(void *arg), void *arg)
{
	struct watch *w = xcalloc(1, sizeof(*w));

	w->fn = fn;
	w->arg = arg;
	timer_init(&w->timer, l, watch_cb, w);
	timer_set(&w->timer, WATCH_MS);
	return w;
}

void
watch_clear(struct watch *w)
{
	for (size_t i = 0; i < w->n; i++)
		free(w->v[i].path);
	w->n = 0;
	w->pending = false;
}

void
watch_free(struct watch *w)
{
	if (w == NULL)
		return;
	watch_clear(w);
	timer_clear(&w->timer);
	free(w->v);
	free(w);
}

void
watch_add(struct watch *w, const char *path)
{
	w->v = xreallocarray(w->v, w->n + 1, sizeof(*w->v));
	w->v[w->n].path = xstrdup(path);
	w->v[w->n++].seen = look_at(path);
}
