/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inotify says that something happened in a directory; whether it concerns us
 * is seen by looking at the files. So what it says is never read, lost events
 * (an overflow) are events too, and without inotify only time is lost.
 */
#include "config.h"

#include "gateway/watch.h"

#include <event2/event.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fdio.h"
#include "base/mem.h"
#include "net/loop.h"

#define LOOK_MS   15000 /* without being told */
#define LINKS_MAX 16
#define EVENTS                                                                 \
	(IN_CREATE | IN_DELETE | IN_MOVED_TO | IN_MOVED_FROM |                 \
	 IN_CLOSE_WRITE | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF)

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
	struct event *ev; /* NULL: no inotify here */
	int fd;
	struct watched *v;
	size_t n;
	bool pending; /* changed at the last look */
	uint64_t settle_ms;
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

/* --- directories ------------------------------------------------------- */

/* Watches the directory that path[0..slash) is; "" is the root. */
static void
watch_dir(struct watch *w, char *path, char *slash)
{
	char c = *slash;

	*slash = '\0';
	/* Again is no harm; a directory that is not there yet appears in the
	 * one above. */
	(void)inotify_add_watch(w->fd, path[0] != '\0' ? path : "/", EVENTS);
	*slash = c;
}

/* If path[0..end) is a symbolic link: the whole path with the link's text in
 * its place, malloc'ed; else NULL. */
static char *
follow(char *path, char *slash, char *end)
{
	char target[PATH_MAX], c = *end, *next;
	ssize_t n;

	*end = '\0';
	n = readlink(path, target, sizeof(target) - 1);
	*end = c;
	if (n <= 0)
		return NULL;
	target[n] = '\0';
	if (target[0] == '/')
		next = xasprintf("%s%s", target, end);
	else
		next = xasprintf("%.*s/%s%s", (int)(slash - path), path, target,
				 end);
	return next;
}

/* The directory of the file and that of each link that leads to it. */
static void
watch_way(struct watch *w, const char *file)
{
	char *path = xstrdup(file), *slash = path, *end, *next;
	unsigned links = 0;

	while (slash != NULL && *slash == '/') {
		end = strchr(slash + 1, '/');
		if (end == NULL)
			end = slash + strlen(slash);
		next = end > slash + 1 ? follow(path, slash, end) : NULL;
		if (next != NULL || *end == '\0')
			watch_dir(w, path, slash);
		if (next != NULL) {
			free(path);
			path = slash = next;
			if (++links == LINKS_MAX)
				break;
		} else {
			slash = *end != '\0' ? end : NULL;
		}
	}
	free(path);
}

/* --- looking ----------------------------------------------------------- */

static void
look_cb(void *arg)
{
	struct watch *w = arg;
	bool changed = false;

	for (size_t i = 0; i < w->n; i++) {
		struct look now = look_at(w->v[i].path);

		if (memcmp(&now, &w->v[i].seen, sizeof(now)) == 0)
			continue;
		w->v[i].seen = now;
		changed = true;
		if (w->ev != NULL)
			watch_way(w, w->v[i].path); /* it may be another */
	}
	timer_set(&w->timer, changed ? w->settle_ms : LOOK_MS);
	if (changed) {
		w->pending = true;
	} else if (w->pending) {
		w->pending = false;
		w->fn(w->arg);
	}
}

static void
told_cb(evutil_socket_t fd, short what, void *arg)
{
	struct watch *w = arg;
	char buf[4096];

	(void)what;
	while (read(fd, buf, sizeof(buf)) > 0)
		;
	/* While it settles the clock runs from the last look that saw a
	 * change: a busy directory cannot put it off. */
	if (!w->pending)
		timer_set(&w->timer, 0);
}

/* --- life -------------------------------------------------------------- */

struct watch *
watch_new(struct loop *l, uint64_t settle_ms, void (*fn)(void *arg), void *arg)
{
	struct watch *w = xcalloc(1, sizeof(*w));

	w->settle_ms = settle_ms;
	w->fn = fn;
	w->arg = arg;
	timer_init(&w->timer, l, look_cb, w);
	timer_set(&w->timer, LOOK_MS);
	w->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (w->fd >= 0) {
		w->ev = event_new(loop_base(l), w->fd, EV_READ | EV_PERSIST,
				  told_cb, w);
		if (w->ev == NULL || event_add(w->ev, NULL) != 0)
			abort(); /* out of memory */
	}
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
	if (w->ev != NULL)
		event_free(w->ev);
	fd_close(&w->fd);
	free(w->v);
	free(w);
}

void
watch_add(struct watch *w, const char *path)
{
	w->v = xreallocarray(w->v, w->n + 1, sizeof(*w->v));
	w->v[w->n].path = xstrdup(path);
	w->v[w->n++].seen = look_at(path);
	if (w->ev != NULL)
		watch_way(w, path);
}
