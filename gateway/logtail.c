/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Following two files that take each other's place. The one that is open is
 * read to its end; only then, and after one more look for what came in
 * between, is it asked whether another has been begun. Lines that were written
 * and dropped again faster than we read are a gap, which is told.
 */
#include "config.h"

#include "gateway/logtail.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/mem.h"

/* A line holds at most 16 KiB of text, six times that when all of it is
 * escaped. */
#define BUFFER  (256U * 1024)
#define AT_HEAD "{\"at\":"

struct logtail {
	char *dir;
	uint64_t tail;
	int fd; /* -1: none is open yet */
	uint64_t offset;
	bool began;
	char buffer[BUFFER];
};

static int
open_one(const struct logtail *l, const char *name)
{
	char *path = xasprintf("%s/%s", l->dir, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;

	free(path);
	if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)))
		fd_close(&fd);
	return fd;
}

static bool
stat_one(const struct logtail *l, const char *name, struct stat *st)
{
	char *path = xasprintf("%s/%s", l->dir, name);
	bool ok = lstat(path, st) == 0;

	free(path);
	return ok;
}

static bool
same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

struct logtail *
logtail_new(const char *dir, uint64_t tail)
{
	struct logtail *l = xcalloc(1, sizeof(*l));

	l->dir = xstrdup(dir);
	l->tail = tail;
	l->fd = -1;
	return l;
}

void
logtail_free(struct logtail *l)
{
	if (l == NULL)
		return;
	fd_close(&l->fd);
	free(l->dir);
	free(l);
}

/* --- where to begin ---------------------------------------------------- */
/* The offset of the last *lines whole lines of fd; *lines becomes what it
 * lacks of them. */
static uint64_t
find_tail(struct logtail *l, int fd, uint64_t *lines)
{
	bool whole = false; /* the end of the last whole line was passed */
	struct stat st;
	size_t last = 0;
	uint64_t at;

	if (fstat(fd, &st) != 0)
		return 0;
	at = (uint64_t)st.st_size;
	while (at > 0) {
		size_t n = at < BUFFER ? (size_t)at : BUFFER;

		at -= n;
		last = n;
		if (pread(fd, l->buffer, n, (off_t)at) != (ssize_t)n)
			return 0;
		for (size_t i = n; i > 0; i--) {
			if (l->buffer[i - 1] != '\n')
				continue;
			if (whole && *lines > 0)
				--*lines;
			whole = true;
			if (*lines == 0)
				return at + i;
		}
	}
	/* The first line of the file, unless it says what was before. */
	if (whole &&
	    !strv_starts((struct strv){l->buffer, last}, STRV(AT_HEAD)))
		--*lines;
	return 0;
}

static void
begin(struct logtail *l)
{
	int newer = open_one(l, "log"), older = open_one(l, "log.1");
	uint64_t lines = l->tail, at = 0, at_older = 0;
	struct stat a, b;

	if (newer < 0 && older < 0)
		return;
	/* Renamed between our two looks: it is one and the same. */
	if (newer >= 0 && older >= 0 && fstat(newer, &a) == 0 &&
	    fstat(older, &b) == 0 && same(&a, &b))
		fd_close(&newer);
	if (l->tail != LOGTAIL_ALL) {
		if (newer >= 0)
			at = find_tail(l, newer, &lines);
		if (older >= 0 && lines > 0)
			at_older = find_tail(l, older, &lines);
		else
			fd_close(&older);
	}
	l->began = true;
	l->fd = older >= 0 ? older : newer;
	l->offset = older >= 0 ? at_older : at;
	if (older >= 0)
		fd_close(&newer); /* its turn comes */
}

/* --- reading ----------------------------------------------------------- */
/* After the end of the open file: the next one, if there is. */
static bool
turn(struct logtail *l, bool *gap)
{
	struct stat mine, st;
	int fd;

	*gap = false;
	if (fstat(l->fd, &mine) != 0 || !stat_one(l, "log", &st) ||
	    same(&mine, &st) || (uint64_t)mine.st_size > l->offset)
		return false;
	if (stat_one(l, "log.1", &st) && !same(&mine, &st)) {
		*gap = true; /* there was another in between */
		fd = open_one(l, "log.1");
	} else {
		fd = open_one(l, "log");
	}
	if (fd < 0)
		return false;
	fd_close(&l->fd);
	l->fd = fd;
	l->offset = 0;
	return true;
}

static size_t
read_some(struct logtail *l, size_t most,
	  void (*fn)(struct strv line, bool gap, void *arg), void *arg)
{
	size_t want = most < BUFFER ? most : BUFFER, used = 0;
	ssize_t n = pread(l->fd, l->buffer, want, (off_t)l->offset);
	struct strv rest, line;
	char *nl;

	/* One that is longer than what was wanted. */
	if (n > 0 && memchr(l->buffer, '\n', (size_t)n) == NULL &&
	    want < BUFFER)
		n = pread(l->fd, l->buffer, BUFFER, (off_t)l->offset);
	if (n <= 0)
		return 0;
	rest = (struct strv){l->buffer, (size_t)n};
	while ((nl = memchr(rest.p, '\n', rest.len)) != NULL) {
		line = (struct strv){rest.p, (size_t)(nl - rest.p)};
		rest = strv_from(rest, line.len + 1);
		used += line.len + 1;
		fn(line, false, arg);
	}
	/* No line of ours: skip what nobody can use. */
	if (used == 0 && n == BUFFER) {
		used = BUFFER;
		fn(STRV(""), true, arg);
	}
	l->offset += used;
	return used;
}

size_t
logtail_read(struct logtail *l, size_t most,
	     void (*fn)(struct strv line, bool gap, void *arg), void *arg)
{
	size_t total = 0, n;
	bool gap;

	if (!l->began)
		begin(l);
	if (!l->began)
		return 0;
	while (total < most) {
		if ((n = read_some(l, most - total, fn, arg)) == 0) {
			if (!turn(l, &gap))
				break;
			if (gap)
				fn(STRV(""), true, arg);
			n = 1;
		}
		total += n;
	}
	return total;
}

/* --- records ----------------------------------------------------------- */
/* {"t":123,"s":"stdout","d":"…"}, before "d" maybe "p":1 (no end of a line
 * follows): the text is a JSON string already, and what wrote it is a program
 * of ours; it is copied as it is. */
bool
logtail_parse(struct strv line, struct logtail_record *out)
{
	static const struct strv part = STRV("\"p\":1,");
	uint64_t t;
	struct strv number;

	if (!strv_starts(line, STRV("{\"t\":")) ||
	    !strv_ends(line, STRV("\"}")))
		return false;
	line = strv_from(line, 5);
	line.len -= 2;
	if (!strv_cut(&line, ',', &number) || line.p == NULL ||
	    strv_parse_u64(number, INT64_MAX / 2, true, &t) != 0 ||
	    !strv_starts(line, STRV("\"s\":\"")))
		return false;
	line = strv_from(line, 5);
	out->about = strv_starts(line, STRV("system\""));
	out->err = strv_starts(line, STRV("stderr\""));
	while (line.len > 0 && line.p[0] >= 'a' && line.p[0] <= 'z')
		line = strv_from(line, 1);
	if (!strv_starts(line, STRV("\",")))
		return false;
	line = strv_from(line, 2);
	out->part = strv_starts(line, part);
	if (out->part)
		line = strv_from(line, part.len);
	if (!strv_starts(line, STRV("\"d\":\"")))
		return false;
	out->text = strv_from(line, 5);
	out->ms = (int64_t)t;
	return true;
}

bool
logtail_base(struct strv line, uint64_t *at)
{
	const struct strv head = STRV(AT_HEAD);

	if (!strv_starts(line, head) || !strv_ends(line, STRV("}")))
		return false;
	line = strv_from(line, head.len);
	line.len--;
	return strv_parse_u64(line, INT64_MAX, true, at) == 0;
}

bool
logtail_add_sse(struct strbuf *b, struct strv line, struct logtail_time *t)
{
	struct logtail_record r;
	int64_t ms;
	struct tm tm;
	char tail[16];

	if (!logtail_parse(line, &r))
		return false;
	ms = r.ms;
	if (t->text[0] == '\0' || t->second != ms / 1000) {
		time_t s = (time_t)(ms / 1000);

		t->second = ms / 1000;
		if (gmtime_r(&s, &tm) == NULL ||
		    strftime(t->text, sizeof(t->text), "%Y-%m-%dT%H:%M:%S",
			     &tm) == 0)
			return false;
	}
	strbuf_add(b, "data: {\"timestamp\":\"", 20);
	strbuf_adds(b, t->text);
	(void)snprintf(tail, sizeof(tail), ".%03dZ\"", (int)(ms % 1000));
	strbuf_adds(b, tail);
	strbuf_add(b, ",\"data\":\"", 9);
	if (r.about) /* not said by the job, as the Hub marks such lines */
		strbuf_add(b, "===== ", 6);
	strbuf_addv(b, r.text);
	strbuf_add(b, "\"}\n\n", 4);
	return true;
}
