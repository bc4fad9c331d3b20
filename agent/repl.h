/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Persistent Python: the contexts of one sandbox. A context is a name and an
 * interpreter that lives on from call to call; calls on it run one after
 * another, in the order they came. Knows nothing of how it is reached.
 *
 * A context is IDLE (no call), BUSY (its first call runs), or ENDING (the call
 * was interrupted, and the interpreter will be killed if that is in vain). An
 * interpreter that died is replaced at the next call.
 */
#ifndef SBX_AGENT_REPL_H
#define SBX_AGENT_REPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/defs.h"
#include "base/str.h"

struct repl;
struct repl_call;
struct repl_set;
struct run_place;
struct work_lane;

#define REPL_NAME_MAX     64
#define REPL_CONTEXTS_MAX 128  /* of a sandbox */
#define REPL_CALLS_MAX    4096 /* of a sandbox, waiting ones included */
#define REPL_FORK_MAX     32
#define REPL_LATE_MAX     65536 /* output between calls, of each stream */

/* How a call ended. */
struct repl_end {
	int code;   /* -1: none (the interpreter ended by a signal) */
	int signal; /* 0: none */
	bool timed_out;
	bool interrupted;
	bool state_lost;  /* the interpreter is gone with all that it held */
	const char *why;  /* of that, when more is known; else NULL */
	struct strv json; /* not of REPL_RUN: what the answer is made of */
	uint64_t duration_ms;
};

struct repl_cbs {
	/* So many calls are before it, from time to time. May be NULL. */
	void (*queued)(struct repl_call *c, size_t ahead, void *arg);
	void (*began)(struct repl_call *c, pid_t pid, void *arg);
	void (*output)(struct repl_call *c, unsigned stream, const char *data,
		       size_t n, void *arg);
	void (*event)(struct repl_call *c, struct strv json, void *arg);
	/* Instead of began: there is no interpreter. err as interp_start(). */
	void (*failed)(struct repl_call *c, int err, const char *why,
		       void *arg);
	/* Last; then repl_release(). */
	void (*ended)(struct repl_call *c, const struct repl_end *e, void *arg);
};

enum repl_kind { REPL_RUN, REPL_FORK, REPL_NAMES, REPL_SETTLE };

struct repl_ask {
	enum repl_kind kind;
	struct strv context; /* "main" when empty; made when it is not there,
			      * for REPL_RUN; else E_NOTFOUND */
	struct strv request; /* RUN: {"code":…,"env":{…}}; kept as a copy */
	unsigned n;          /* FORK */
	uint64_t timeout_ms; /* from its turn on; 0: never */
};

/* Both are borrowed; lane is for work on the disk. */
struct repl_set *repl_set_new(const struct run_place *place,
			      struct work_lane *lane);
/* Ends all calls and kills all interpreters. NULL is fine. */
void repl_set_free(struct repl_set *s);

/* No callback before this has returned. E_INVALID: the name; E_NOTFOUND: no
 * such context; E_LIMIT: too many; *why is static. */
int repl_call(struct repl_set *s, const struct repl_ask *ask,
	      const struct repl_cbs *cbs, void *arg, struct repl_call **out,
	      const char **why) SBX_MUST_CHECK;
/* The caller is done with it. One that runs is interrupted (unless keep), one
 * that waits is forgotten. No callback after this. */
void repl_release(struct repl_call *c, bool keep);
void repl_pause(struct repl_call *c, bool pause); /* back-pressure */

/* KeyboardInterrupt for the call that runs; *hit: there was one. E_NOTFOUND: no
 * such context. */
int repl_interrupt(struct repl_set *s, struct strv name,
		   bool *hit) SBX_MUST_CHECK;
/* winner's interpreter becomes the one of context, whose own is killed; the
 * name of the winner is gone. E_BUSY: one of them has calls. E_AGAIN: the
 * winner has a view of its own and context has none: after a REPL_SETTLE of
 * the winner. */
int repl_merge(struct repl_set *s, struct strv context,
	       struct strv winner) SBX_MUST_CHECK;
/* Kills it; its calls end. */
int repl_drop(struct repl_set *s, struct strv name) SBX_MUST_CHECK;

/* In order of their making; NULL begins and ends. */
struct repl *repl_next(struct repl_set *s, struct repl *after);
const char *repl_name(const struct repl *r);
pid_t repl_pid(const struct repl *r); /* 0: no interpreter now */
size_t repl_calls(const struct repl *r);
const char *repl_parent(const struct repl *r); /* forked from; NULL: nobody */

#endif
