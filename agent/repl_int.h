/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What repl.c (contexts), replcall.c (the queues of their calls) and replfork.c
 * (copies of contexts) share; private to them.
 */
#ifndef SBX_AGENT_REPL_INT_H
#define SBX_AGENT_REPL_INT_H

#include "agent/interp.h"
#include "agent/repl.h"
#include "net/loop.h"

enum repl_state { REPL_IDLE, REPL_BUSY, REPL_ENDING };

struct repl_call {
	struct repl *repl; /* until it is over */
	struct loop *loop;
	struct repl_call *next;
	enum repl_kind kind;
	struct strbuf request;
	unsigned n;
	uint64_t timeout_ms;
	uint64_t began_us;
	const struct repl_cbs *cbs; /* NULL: released */
	void *arg;
	size_t told; /* how many were before it, when that was last told */
	bool timed_out, interrupted, over;
	bool again; /* the interpreter was dead already, and it got another */
	struct strbuf children; /* names, as JSON strings with commas */
};

struct repl {
	struct repl_set *set;
	struct repl *next, *prev;
	char name[REPL_NAME_MAX + 1];
	char *parent; /* NULL: not forked */
	unsigned forks;
	enum repl_state state;
	struct interp *in; /* NULL: none now */
	struct repl_call *first, *last;
	size_t ncalls;
	struct timer timer;
	struct task pump;
	bool begun; /* the first call's code runs */
	struct strbuf late[2];
	bool died; /* while nobody looked; so: */
	struct proc_exit death;
};

struct repl_set {
	struct interp_place place;
	struct repl *first, *last;
	size_t n, ncalls;
};

/* repl.c */
struct loop *repl_loop(const struct repl_set *s);
bool repl_name_ok(struct strv v);
struct repl *repl_find(struct repl_set *s, struct strv name);
struct repl *repl_new(struct repl_set *s, struct strv name);
void repl_late_clear(struct repl *r);
void repl_free(struct repl *r); /* has no calls any more */

/* replcall.c */
extern const struct interp_cbs repl_interp_cbs;
void repl_pump_cb(void *arg);
void repl_timer_cb(void *arg);
/* c is out of the queue after this, and freed when its caller lets go. */
void repl_finish(struct repl *r, struct repl_call *c, struct repl_end *e);
/* The same for the one that runs: the interpreter is free for the next. */
void repl_end_first(struct repl *r, struct repl_end *e);
/* A call of that kind runs. Code can say what it likes: an answer to what was
 * not asked is none. */
bool repl_asked(const struct repl *r, enum repl_kind kind);

/* replfork.c */
void repl_child_cb(struct interp *child, void *arg);
void repl_forked_cb(struct strv json, void *arg);

#endif
