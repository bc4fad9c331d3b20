/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands and background processes of one sandbox: the registry of what runs
 * and what ran. A foreground command pushes its output to the one who started
 * it; a background process keeps the last 4 MiB of its output, and any number
 * of readers follow that. A foreground command with an exec_id is of both
 * kinds: it keeps its output, waits for its viewers, and for a while for one
 * that was lost. Knows nothing of how they are reached.
 */
#ifndef SBX_AGENT_RUN_H
#define SBX_AGENT_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/proc.h"
#include "base/defs.h"
#include "base/str.h"

struct baseenv;
struct bufq;
struct loop;
struct pty_size;
struct ring;
struct run;

/* Where they run; filled by the sandbox. */
struct run_place {
	struct proc_env *procs;
	struct loop *loop;
	const struct spawn_confine *confine; /* NULL: none */
	int home_fd;                         /* -1: the agent's own cwd */
	char **env;                          /* "NAME=value", NULL ends */
	const struct baseenv *base;          /* NULL: none */
	uid_t reaper;                        /* see uidkill.h; 0: not used */
	uint64_t resume_ms; /* how long a lost viewer is waited for */
};

struct run_set {
	struct run_place place;
	struct run *first, *last; /* in order of their start */
	size_t nlive;             /* processes that run */
	size_t nbackground;       /* of them, those that keep output */
	uint64_t ended_ms;        /* loop time when the last of these ended */
	unsigned long serial;
	uint64_t pause_us;         /* until then nothing is started */
	struct spawn_error failed; /* where run_start() gave E_INVALID */
	size_t cmd_mem;            /* of their commands and tags */
	size_t log_mem;            /* of their logs */
	uint64_t *gone;            /* hashes of exec_ids that were forgotten */
	size_t ngone, gone_at;
	/* nlive has changed; may be NULL. */
	void (*changed)(struct run_set *s, void *arg);
	void *arg;
};

/* The agent waits for a start. Who makes it wait (by stopping or starving what
 * is started) is not served for so many times as long. */
#define RUN_PAUSE_TIMES 10
#define RUN_ENV_MAX     4096
#define RUN_LIVE_MAX    4096  /* of one sandbox, rlimits aside */
#define RUN_KEPT_MAX    512   /* finished ones; the oldest go */
#define RUN_EXEC_KEPT   256   /* of those with an exec_id */
#define RUN_EXEC_GONE   16384 /* remembered exec_ids of forgotten ones */
#define RUN_KEPT_TIMES  10    /* resume_ms: so long finished ones are kept */
#define RUN_KEPT_MEM    (64U << 20)
#define RUN_CMD_MEM     (16U << 20) /* of all commands, as they were asked for */
#define RUN_LOG_MEM     (256U << 20) /* then logs grow no further than... */
#define RUN_LOG_LEAST   (256U << 10)

/* Tells two requests apart. */
struct run_digest {
	uint64_t hash;
	size_t len;
};

struct run_spec {
	char **argv;
	char **env; /* NULL: nothing beside the place's */
	const char *cwd;
	const char *cmd; /* as JSON, as it was asked for */
	const char *tag; /* NULL: none */
	uint64_t timeout_ms;
	struct strv input; /* what stdin gets, and then its end */
	bool has_input;
	bool live;                  /* it is given later: run_proc() */
	const struct pty_size *tty; /* NULL: pipes */
	bool background;
	bool base64;         /* its output is not taken for text */
	bool detach;         /* with exec_id: it runs on when nobody views it */
	const char *exec_id; /* NULL: none; not with background */
	struct run_digest digest;
};

/* What is started there gets: the place's environment, the base's, and above
 * both extra's (may be NULL); free the array, not its strings. */
char **run_env(const struct run_place *pl, char *const *extra);
/* Why proc_start() failed with err and errno, in words; free it. */
char *run_why(int err, int eno, const struct spawn_error *se, const char *prog);

/* For a foreground command. */
struct run_cbs {
	void (*output)(struct run *r, unsigned stream, const char *data,
		       size_t n, void *arg);
	/* Last. Then run_release() is to be called. */
	void (*exited)(struct run *r, const struct proc_exit *x, void *arg);
	/* The standard input has room again; may be NULL. */
	void (*drained)(struct run *r, void *arg);
};

/* The place's fields are the caller's to fill, before or after. */
void run_set_init(struct run_set *s);
/* Kills and forgets all. Starters of foreground commands are told that these
 * were killed; readers, that theirs are gone. */
void run_set_clear(struct run_set *s);

/* cbs NULL for background ones, which stay in the set until they are removed,
 * and those with an exec_id, which stay for a time. That exec_id must be new.
 * E_INVALID: cannot be started, *why says so (malloc'ed). E_LIMIT: too many.
 * Other errors: *why as well. */
int run_start(struct run_set *s, const struct run_spec *spec,
	      const struct run_cbs *cbs, void *arg, struct run **out,
	      char **why) SBX_MUST_CHECK;
/* The starter of a foreground command is done with it. One that still runs is
 * stopped (TERM, KILL after a grace), unless keep is true. */
void run_release(struct run *r, bool keep);
/* Foreground back-pressure. */
void run_pause(struct run *r, bool pause);

/* By its id or its pid (the newest one with it). */
struct run *run_find(struct run_set *s, struct strv id);
struct run *run_next(struct run_set *s, struct run *after); /* NULL: first */
/* The one with that exec_id. */
struct run *run_exec_find(struct run_set *s, struct strv exec_id);
/* Whether there was one, which is forgotten. */
bool run_exec_gone(const struct run_set *s, struct strv exec_id);
bool run_exec_same(const struct run *r, struct run_digest d);
/* Kills the group and forgets it. Readers are woken, and find it gone. */
void run_remove(struct run *r);
/* To its process group. E_NOTFOUND when nothing of it is left. */
int run_signal(struct run *r, int sig) SBX_MUST_CHECK;

const char *run_id(const struct run *r); /* "p-1" */
pid_t run_pid(const struct run *r);      /* as the sandbox's processes see it */
const char *run_cmd(const struct run *r);
const char *run_tag(const struct run *r);     /* NULL: none */
uint64_t run_started_ms(const struct run *r); /* Unix time */
bool run_running(const struct run *r);
bool run_background(const struct run *r);
bool run_base64(const struct run *r);
/* How it ended; NULL while it runs. */
const struct proc_exit *run_exit(const struct run *r);
const struct ring *run_log(const struct run *r); /* NULL: foreground */
struct proc *run_proc(struct run *r);            /* for its stdin */

/* A reader of a log, or one that waits for an end; embedded in its owner. */
struct run_reader {
	struct run *run; /* NULL: gone (it was removed) */
	struct run_reader *next;
	struct run_reader **prevp;
	/* More in the log, or it ended, or it is gone; after the batch. */
	void (*wake)(struct run_reader *rd);
	/* The standard input has room again; may be NULL. */
	void (*drained)(struct run_reader *rd);
	/* A viewer: a command with an exec_id runs only so far ahead of the
	 * newest one, and is stopped some time after the last one left. */
	bool views;
	uint64_t pos; /* what a viewer has taken; tell run_reader_moved() */
};
void run_reader_start(struct run_reader *rd, struct run *r);
void run_reader_stop(struct run_reader *rd);
void run_reader_moved(struct run_reader *rd);

#endif
