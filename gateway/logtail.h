/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a job's log from its files (launch.h says what they look like), from
 * the beginning or the last n lines, across their rotation, while they grow.
 * Plain files, no loop.
 */
#ifndef SBX_GATEWAY_LOGTAIL_H
#define SBX_GATEWAY_LOGTAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/defs.h"
#include "base/str.h"

struct logtail;

#define LOGTAIL_ALL UINT64_MAX

/* dir: the job's directory (copied); it need not exist yet. tail: so many of
 * the last lines, or LOGTAIL_ALL. */
struct logtail *logtail_new(const char *dir, uint64_t tail);
void logtail_free(struct logtail *l); /* NULL is fine */
/* Calls fn for whole lines (without their end), until some `most` bytes were
 * read, and returns how many; 0: there is no more now. A line may be told as a
 * lost one: gap true, line empty. */
size_t logtail_read(struct logtail *l, size_t most,
		    void (*fn)(struct strv line, bool gap, void *arg),
		    void *arg);

/* One line of a log file, as it was written. */
struct logtail_record {
	int64_t ms;       /* since 1970 */
	bool about;       /* not said by the job, but about it */
	bool err;         /* on stderr */
	bool part;        /* the rest of its line follows in the next record of
			   * that stream, or there was no end of a line */
	struct strv text; /* as JSON has it, without the quotes */
};
/* False: it is none. */
bool logtail_parse(struct strv line, struct logtail_record *out);
/* The first line of a file that is not the job's first one says how many bytes
 * of output were before it. False: it is another line. */
bool logtail_base(struct strv line, uint64_t *at);

/* One line of a log file as an SSE record of the Hub's log stream; false (and
 * nothing added) when it is not one. */
struct logtail_time { /* the second that was formatted last; zeroed is ready */
	int64_t second;
	char text[24];
};
bool logtail_add_sse(struct strbuf *b, struct strv line,
		     struct logtail_time *t);

#endif
