/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry of commands and background processes: their start, their end,
 * and orders to them. What is kept of them is in runkeep.c.
 */
#include "config.h"

#include "agent/run_int.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/baseenv.h"
#include "agent/uidkill.h"
#include "base/err.h"
#include "base/mem.h"
#include "net/buf.h"
#include "net/loop.h"

void
run_set_init(struct run_set *s)
{
	memset(s, 0, sizeof(*s));
	s->place.home_fd = -1;
}

/* --- the set ----------------------------------------------------------- */

static size_t
run_cmd_mem(const struct run *r)
{
	return strlen(r->cmd) + (r->tag != NULL ? strlen(r->tag) : 0);
}

static void
run_link(struct run_set *s, struct run *r)
{
	r->set = s;
	r->prev = s->last;
	if (s->last != NULL)
		s->last->next = r;
	else
		s->first = r;
	s->last = r;
	s->cmd_mem += run_cmd_mem(r);
}

static void
run_unlink(struct run *r)
{
	struct run_set *s = r->set;

	if (r->prev != NULL)
		r->prev->next = r->next;
	else
		s->first = r->next;
	if (r->next != NULL)
		r->next->prev = r->prev;
	else
		s->last = r->prev;
	s->cmd_mem -= run_cmd_mem(r);
	if (r->ring != NULL)
		s->log_mem -= ring_memory(r->ring);
}

static void
run_count(struct run *r, int by)
{
	struct run_set *s = r->set;

	s->nlive += (size_t)by;
	if (r->ring != NULL) {
		s->nbackground += (size_t)by;
		s->ended_ms = loop_now_ms(s->place.loop);
	}
	if (s->changed != NULL)
		s->changed(s, s->arg);
}

static void
run_free(void *p)
{
	struct run *r = p;

	free(r->cmd);
	free(r->tag);
	free(r->exec_id);
	ring_free(r->ring);
	free(r);
}

void
run_forget(struct run *r)
{
	struct run_set *s = r->set;

	run_unlink(r);
	runkeep_drop(r);
	if (!r->ended) {
		r->ended = true;
		run_count(r, -1);
	}
	proc_free(r->proc);
	r->proc = NULL;
	task_cancel(&r->wake);
	loop_defer_free(s->place.loop, r, run_free);
}

void
run_set_clear(struct run_set *s)
{
	static const struct proc_exit killed = {.code = -1, .signal = SIGKILL};

	s->changed = NULL;
	while (s->first != NULL) {
		struct run *r = s->first;

		/* Its starter releases it, which forgets it. */
		if (r->ring == NULL && !r->released && !r->ended) {
			r->ended = true;
			s->nlive--;
			r->exit = killed;
			r->cbs->exited(r, &killed, r->arg);
			continue;
		}
		if (r->exec_id != NULL && !r->ended) {
			run_count(r, -1);
			r->ended = true;
			r->exit = killed;
		}
		run_forget(r);
	}
	runkeep_clear(s);
}

/* Keeps the finished ones of r's kind, and the memory of their logs, within
 * bounds. */
static void
run_trim(const struct run *of)
{
	bool exec = of->exec_id != NULL;
	size_t n = 0, mem = 0, max = exec ? RUN_EXEC_KEPT : RUN_KEPT_MAX;
	struct run *prev;

	for (struct run *r = of->set->last; r != NULL; r = prev) {
		prev = r->prev;
		if (!r->ended || r->ring == NULL ||
		    exec != (r->exec_id != NULL) || (exec && runkeep_viewed(r)))
			continue;
		mem += ring_memory(r->ring);
		if (++n > max || (n > 1 && mem > RUN_KEPT_MEM))
			run_forget(r);
	}
}

/* Whether another command of n bytes can be remembered: the oldest that have
 * ended make room. */
static bool
run_make_room(struct run_set *s, size_t n)
{
	struct run *next;

	for (struct run *r = s->first; r != NULL; r = next) {
		if (s->cmd_mem + n <= RUN_CMD_MEM)
			break;
		next = r->next;
		if (r->ended && r->ring != NULL && !runkeep_viewed(r))
			run_forget(r);
	}
	return s->cmd_mem + n <= RUN_CMD_MEM;
}

/* --- a process of ours ------------------------------------------------- */

static void
run_output_cb(struct proc *p, unsigned stream, const char *data, size_t n,
	      void *arg)
{
	struct run *r = arg;

	(void)p;
	if (r->ring != NULL) {
		runkeep_add(r, stream, data, n);
	} else if (!r->released) {
		r->cbs->output(r, stream, data, n, r->arg);
	}
}

static void
run_exited_cb(struct proc *p, const struct proc_exit *x, void *arg)
{
	struct run *r = arg;

	(void)p;
	r->exit = *x;
	r->ended = true;
	run_count(r, -1);
	if (r->ring != NULL) {
		runkeep_end(r);
		run_trim(r);
	} else if (r->released) {
		run_forget(r);
	} else {
		r->cbs->exited(r, x, r->arg);
	}
}

static void
run_drained_cb(struct proc *p, void *arg)
{
	struct run *r = arg;
	struct run_reader *next;

	(void)p;
	if (r->cbs != NULL && r->cbs->drained != NULL)
		r->cbs->drained(r, r->arg);
	for (struct run_reader *rd = r->readers; rd != NULL; rd = next) {
		next = rd->next;
		if (rd->drained != NULL)
			rd->drained(rd);
	}
}

static const struct proc_cbs run_proc_cbs = {
    .output = run_output_cb,
    .exited = run_exited_cb,
    .stdin_drained = run_drained_cb,
};

/* --- start ------------------------------------------------------------- */

static size_t
run_env_find(char **v, size_t n, const char *pair)
{
	size_t len = strcspn(pair, "=") + 1, i;

	for (i = 0; i < n; i++) {
		if (strncmp(v[i], pair, len) == 0)
			break;
	}
	return i;
}

/* Adds extra's pairs to v's n, or puts them in their place. */
static size_t
run_env_add(char **v, size_t n, char *const *extra)
{
	for (; extra != NULL && *extra != NULL; extra++) {
		size_t i = run_env_find(v, n, *extra);

		if (i == RUN_ENV_MAX)
			break;
		v[i] = *extra;
		n += i == n;
	}
	return n;
}

char **
run_env(const struct run_place *pl, char *const *extra)
{
	char **v = xcalloc(RUN_ENV_MAX + 1, sizeof(*v));
	char *const *base = pl->base != NULL ? pl->base->v : NULL;
	bool above = base != NULL && pl->base->above;
	size_t n = 0;

	if (!above)
		n = run_env_add(v, n, base);
	n = run_env_add(v, n, pl->env);
	if (above)
		n = run_env_add(v, n, base);
	n = run_env_add(v, n, extra);
	v[n] = NULL;
	return v;
}

/* Who sits at a terminal is to know of which kind it is. */
static void
run_term(char **env)
{
	static char term[] = "TERM=xterm-256color";
	size_t n = 0;

	while (env[n] != NULL)
		n++;
	if (n < RUN_ENV_MAX && run_env_find(env, n, term) == n)
		env[n] = term;
}

char *
run_why(int err, int eno, const struct spawn_error *se, const char *prog)
{
	if (err == E_INVALID && strcmp(se->step, "execve") == 0)
		return xasprintf("cannot run %.200s: %s", prog,
				 strerror(se->eno));
	if (err == E_INVALID)
		return xasprintf("cannot start: %s: %s", se->step,
				 strerror(se->eno));
	if (err == E_TIMEOUT)
		return xstrdup("cannot start: something stopped the process "
			       "before it became the program");
	if (err == E_FULL)
		return xstrdup("cannot start: no descriptors left");
	return xasprintf("cannot start: %s", strerror(eno));
}

static struct run *
run_new(struct run_set *s, const struct run_spec *spec)
{
	struct run *r = xcalloc(1, sizeof(*r));
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	r->started_ms =
	    (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
	(void)snprintf(r->id, sizeof(r->id), "p-%lu", ++s->serial);
	r->cmd = xstrdup(spec->cmd);
	if (spec->tag != NULL)
		r->tag = xstrdup(spec->tag);
	r->background = spec->background;
	r->base64 = spec->base64;
	r->set = s;
	runkeep_init(r, spec);
	return r;
}

static int
run_spawn(struct run_set *s, const struct run_spec *spec, struct run *r,
	  char **why)
{
	struct spawn_spec ss = {
	    .argv = spec->argv,
	    .home_fd = s->place.home_fd,
	    .cwd = spec->cwd,
	    .confine = s->place.confine,
	};
	struct proc_options o = {
	    .timeout_ms = spec->timeout_ms,
	    .want_stdin = spec->has_input || spec->background || spec->live,
	    .tty = spec->tty,
	};
	struct spawn_error se = {0, ""};
	char **env = run_env(&s->place, spec->env);
	uint64_t before = loop_clock_us(), now;
	int err, eno;

	if (spec->tty != NULL)
		run_term(env);
	ss.envp = env;
	err = proc_start(s->place.procs, &ss, &o, &run_proc_cbs, r, &r->proc,
			 &se);
	eno = errno;
	free(env);
	if (err == E_TIMEOUT) {
		now = loop_clock_us();
		s->pause_us = now + RUN_PAUSE_TIMES * (now - before);
	}
	s->failed = se;
	if (err != 0)
		*why = run_why(err, eno, &se, spec->argv[0]);
	/* RLIMIT_NPROC makes itself felt at execve, a group's pids.max and what
	 * the machine has in all when a process is made. */
	if ((err == E_INVALID && se.eno == EAGAIN) ||
	    (err == E_SYS && eno == EAGAIN))
		return E_LIMIT;
	return err;
}

int
run_start(struct run_set *s, const struct run_spec *spec,
	  const struct run_cbs *cbs, void *arg, struct run **out, char **why)
{
	struct run *r;
	int err;

	assert((spec->background || spec->exec_id != NULL) == (cbs == NULL));
	if (s->nlive >= RUN_LIVE_MAX) {
		*why = xstrdup("too many processes");
		return E_LIMIT;
	}
	if (loop_clock_us() < s->pause_us) {
		*why = xstrdup("cannot start: something stopped the last one; "
			       "try again in a moment");
		return E_TIMEOUT;
	}
	if (!run_make_room(s, strlen(spec->cmd))) {
		*why = xstrdup("too many processes with long commands");
		return E_LIMIT;
	}
	r = run_new(s, spec);
	if ((err = run_spawn(s, spec, r, why)) != 0) {
		run_free(r);
		return err;
	}
	r->pid = proc_pid(r->proc);
	r->inside = proc_inside(r->proc);
	r->cbs = cbs;
	r->arg = arg;
	run_link(s, r);
	run_count(r, 1);
	if (spec->has_input) {
		bufq_addv(proc_stdin(r->proc), spec->input);
		proc_stdin_end(r->proc);
	}
	*out = r;
	return 0;
}

void
run_release(struct run *r, bool keep)
{
	assert(r->ring == NULL && !r->released);
	r->released = true;
	r->cbs = NULL;
	if (r->ended) {
		run_forget(r);
		return;
	}
	proc_resume(r->proc); /* what it writes is thrown away */
	if (!keep)
		proc_stop(r->proc, RUN_GRACE_MS);
}

void
run_pause(struct run *r, bool pause)
{
	if (pause)
		proc_pause(r->proc);
	else
		proc_resume(r->proc);
}

/* --- facts and orders -------------------------------------------------- */

struct run *
run_find(struct run_set *s, struct strv id)
{
	uint64_t pid = 0;

	if (strv_parse_u64(id, INT32_MAX, true, &pid) != 0)
		pid = 0;
	for (struct run *r = s->last; r != NULL; r = r->prev) {
		if ((pid != 0 && r->inside == (pid_t)pid) ||
		    strv_eq(strv_of(r->id), id))
			return r;
	}
	return NULL;
}

struct run *
run_next(struct run_set *s, struct run *after)
{
	return after == NULL ? s->first : after->next;
}

/* What is left of the group of a leader that was reaped. Its number could
 * belong to a stranger by now; in a sandbox only its own uid is reached. */
static int
run_signal_rest(struct run *r, int sig)
{
	const struct run_place *pl = &r->set->place;

	if (pl->confine == NULL || pl->confine->uid == (uid_t)-1 ||
	    pl->reaper == 0)
		return E_NOTFOUND;
	return uidkill(pl->reaper, pl->confine->uid, -r->pid, sig);
}

int
run_signal(struct run *r, int sig)
{
	if (r->proc != NULL && proc_running(r->proc))
		return proc_signal(r->proc, sig);
	return run_signal_rest(r, sig);
}

void
run_remove(struct run *r)
{
	if (run_signal(r, SIGKILL) != 0) {
		/* nothing of it is left, which is what was asked for */
	}
	if (r->ring != NULL || r->released)
		run_forget(r);
}

const char *
run_id(const struct run *r)
{
	return r->id;
}

pid_t
run_pid(const struct run *r)
{
	return r->inside;
}

const char *
run_cmd(const struct run *r)
{
	return r->cmd;
}

const char *
run_tag(const struct run *r)
{
	return r->tag;
}

uint64_t
run_started_ms(const struct run *r)
{
	return r->started_ms;
}

bool
run_running(const struct run *r)
{
	return !r->ended;
}

bool
run_background(const struct run *r)
{
	return r->background;
}

const struct proc_exit *
run_exit(const struct run *r)
{
	return r->ended ? &r->exit : NULL;
}

bool
run_base64(const struct run *r)
{
	return r->base64;
}

const struct ring *
run_log(const struct run *r)
{
	return r->ring;
}

struct proc *
run_proc(struct run *r)
{
	return r->proc;
}
