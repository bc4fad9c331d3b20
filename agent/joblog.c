/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing a job's log. A file that cannot be written to (a full disk) loses
 * lines, never the job: how much was lost is said when there is room again.
 */
#include "config.h"

#include "agent/joblog.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "base/str.h"

struct joblog {
	int dirfd, fd;
	char name[16], old[18];
	uint64_t size, max;
	uint64_t lost; /* bytes */
	uint64_t told; /* bytes of output that the files had until now */
	uint64_t next; /* ... and with what is in out */
	struct strbuf begun[2];
	struct strbuf out;
};

static const char *const names[] = {"stdout", "stderr", "system"};

static int
open_file(struct joblog *l)
{
	struct stat sb;

	l->fd = openat(l->dirfd, l->name,
		       O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
		       0600);
	if (l->fd == -1)
		return err_from_errno(errno);
	l->size = fstat(l->fd, &sb) == 0 ? (uint64_t)sb.st_size : 0;
	return 0;
}

int
joblog_open(int dirfd, const char *name, uint64_t max, struct joblog **out)
{
	struct joblog *l = xcalloc(1, sizeof(*l));
	int r;

	l->dirfd = dirfd;
	(void)snprintf(l->name, sizeof(l->name), "%s", name);
	(void)snprintf(l->old, sizeof(l->old), "%s.1", l->name);
	l->max = max != 0 ? max : JOBLOG_MAX;
	if ((r = open_file(l)) != 0) {
		free(l);
		return r;
	}
	*out = l;
	return 0;
}

/* part: no end of a line follows. */
static void
put_record(struct joblog *l, enum joblog_stream s, struct strv text, bool part)
{
	struct timespec ts;
	size_t from;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	strbuf_addf(&l->out, "{\"t\":%lld,\"s\":\"%s\",%s\"d\":",
		    (long long)ts.tv_sec * 1000 + ts.tv_nsec / 1000000,
		    names[s], part ? "\"p\":1," : "");
	from = l->out.len;
	strbuf_add_json(&l->out, text);
	if (s != JOBLOG_SYSTEM)
		l->next += str_json_len((struct strv){l->out.s + from + 1,
						      l->out.len - from - 2}) +
			   !part;
	strbuf_adds(&l->out, "}\n");
}

static void
rotate(struct joblog *l)
{
	if (renameat(l->dirfd, l->name, l->dirfd, l->old) != 0)
		return;
	fd_close(&l->fd);
	if (open_file(l) != 0)
		return;
	(void)!dprintf(l->fd, "{\"at\":%llu}\n", (unsigned long long)l->told);
	l->size = (uint64_t)lseek(l->fd, 0, SEEK_END);
}

/* Writes what put_record() has gathered. A record that was written in part is
 * taken back, so that no line is ever half there. */
static void
flush(struct joblog *l)
{
	if (l->out.len == 0)
		return;
	if (l->size > 0 && l->size + l->out.len > l->max / 2)
		rotate(l);
	if (l->fd != -1 && fd_write_all(l->fd, l->out.s, l->out.len) == 0) {
		l->size += l->out.len;
		l->told = l->next;
	} else {
		l->next = l->told;
		l->lost += l->out.len;
		if (l->fd != -1)
			(void)!ftruncate(l->fd, (off_t)l->size);
	}
	strbuf_reset(&l->out);
}

static void
confess(struct joblog *l)
{
	uint64_t lost = l->lost;
	char text[96];

	if (lost == 0)
		return;
	(void)snprintf(text, sizeof(text),
		       "%llu bytes of the log could not be written",
		       (unsigned long long)lost);
	l->lost = 0;
	put_record(l, JOBLOG_SYSTEM, strv_of(text), false);
	flush(l);
	if (l->lost != 0)
		l->lost = lost;
}

/* Where to cut a line that is too long: not within a character. */
static size_t
cut_at(const char *p)
{
	size_t n = JOBLOG_LINE;

	while (n > JOBLOG_LINE - 4 && ((unsigned char)p[n] & 0xC0) == 0x80)
		n--;
	return n;
}

static void
put_line(struct joblog *l, enum joblog_stream s, struct strv line, bool part)
{
	while (line.len > JOBLOG_LINE) {
		size_t n = cut_at(line.p);

		put_record(l, s, (struct strv){line.p, n}, true);
		line = strv_from(line, n);
	}
	put_record(l, s, line, part);
}

void
joblog_add(struct joblog *l, enum joblog_stream s, const char *p, size_t n)
{
	struct strbuf *begun = &l->begun[s];
	struct strv rest = {p, n}, line;
	ptrdiff_t nl;

	confess(l);
	while ((nl = strv_index(rest, '\n')) >= 0) {
		line = (struct strv){rest.p, (size_t)nl};
		if (begun->len > 0) {
			strbuf_addv(begun, line);
			put_line(l, s, (struct strv){begun->s, begun->len},
				 false);
			strbuf_reset(begun);
		} else {
			put_line(l, s, line, false);
		}
		rest = strv_from(rest, (size_t)nl + 1);
	}
	strbuf_addv(begun, rest);
	while (begun->len > JOBLOG_LINE) {
		size_t cut = cut_at(begun->s);

		put_record(l, s, (struct strv){begun->s, cut}, true);
		memmove(begun->s, begun->s + cut, begun->len - cut + 1);
		begun->len -= cut;
	}
	flush(l);
}

void
joblog_say(struct joblog *l, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	put_record(l, JOBLOG_SYSTEM, strv_of(text), false);
	flush(l);
}

void
joblog_close(struct joblog *l)
{
	if (l == NULL)
		return;
	for (int s = 0; s < 2; s++) {
		if (l->begun[s].len > 0)
			put_line(l, (enum joblog_stream)s,
				 (struct strv){l->begun[s].s, l->begun[s].len},
				 true);
		strbuf_clear(&l->begun[s]);
	}
	flush(l);
	confess(l);
	strbuf_clear(&l->out);
	fd_close(&l->fd);
	free(l);
}
