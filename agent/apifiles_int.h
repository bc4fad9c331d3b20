/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request about a file: a `fileop` goes back and forth between the loop and
 * a thread of the pool, which does all that may block. It outlives its call
 * when that ends first. Private to apifiles.c, apilist.c, apiread.c and
 * apiwrite.c.
 */
#ifndef SBX_AGENT_APIFILES_INT_H
#define SBX_AGENT_APIFILES_INT_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/api_int.h"
#include "agent/files.h"
#include "agent/work.h"

struct fileop {
	struct work_job job; /* first: one is cast to the other */
	struct call *c; /* NULL: the client went away, or was told enough */
	struct api *api;
	struct sandbox *sb;
	struct strbuf path; /* as it was sent */
	char *meant;        /* what that means; a thread finds out */
	int result;
	bool busy;                      /* a job is under way */
	bool untimed;                   /* its next job may take any time */
	void (*work)(struct fileop *);  /* on a thread */
	void (*next)(struct fileop *);  /* on the loop, unless c is NULL */
	void (*end)(struct fileop *);   /* on a thread: closes what is open */
	void (*clear)(struct fileop *); /* on the loop; may be NULL */
};

/* An operation on the path that the query names, with room for size bytes of
 * which the struct is the first part. NULL: answered. It ends with the call;
 * then end runs on a thread (with the sandbox gone: as the agent) unless it is
 * NULL, then clear. */
void *fileop_new(struct call *c, size_t size);
/* work on a thread, then next. */
void fileop_run(struct fileop *op, void (*work)(struct fileop *),
		void (*next)(struct fileop *));
/* Answers with an error of files.h; a response that has begun is cut off. */
void fileop_fail(struct fileop *op, int err);
/* {"word":path}, or the error in op->result. */
void fileop_answer(struct fileop *op, const char *word);

/* Adds a FileEntry. */
void apifiles_entry(struct strbuf *b, struct strv name, struct strv path,
		    const struct files_stat *st);

#endif
