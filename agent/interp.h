/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One Python interpreter that lives on between pieces of code: the process and
 * the frames that it speaks with its runner (runner.py). What it says comes in
 * order: an event after all that was printed before it.
 */
#ifndef SBX_AGENT_INTERP_H
#define SBX_AGENT_INTERP_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "agent/proc.h"
#include "base/defs.h"
#include "base/str.h"

struct interp;
struct run_place;
struct work_lane;

#define INTERP_HELD_MAX (64U << 20) /* of frames in memory, of one place */

/* Where it runs; of all interpreters of a sandbox. */
struct interp_place {
	const struct run_place *place;
	struct work_lane *lane; /* for the disk */
	size_t held;
	unsigned layers; /* names of layers that were given (layer.h) */
};

struct interp_cbs {
	void (*output)(unsigned stream, const char *data, size_t n, void *arg);
	/* A line for the client: a JSON object with "event". */
	void (*event)(struct strv json, void *arg);
	/* The code begins: from here on SIGINT interrupts it. */
	void (*begun)(void *arg);
	/* The code has ended; it may run the next one. */
	void (*done)(int status, void *arg);
	/* A fork: one of these for each child, then forked, with what the
	 * runner says of it (JSON). */
	void (*child)(struct interp *child, void *arg); /* the callee's */
	void (*forked)(struct strv json, void *arg);
	void (*names)(struct strv json, void *arg);
	void (*settled)(struct strv json, void *arg);
	/* The process is gone; only interp_free() is left. why: what was
	 * wrong with it, NULL: nothing that we know. */
	void (*ended)(const struct proc_exit *x, const char *why, void *arg);
};

/* Starts one. E_NOTFOUND: there is no python3 in PATH; others as proc_start;
 * *why (malloc'ed) says it in words. */
int interp_start(struct interp_place *pl, const struct interp_cbs *cbs,
		 void *arg, struct interp **out, char **why) SBX_MUST_CHECK;
void interp_set_cbs(struct interp *in, const struct interp_cbs *cbs, void *arg);
/* Kills it with its process group. NULL is fine. */
void interp_free(struct interp *in);
pid_t interp_pid(const struct interp *in); /* as the sandbox sees it */

/* One at a time, until its answer has come. request: {"code":…,"env":{…}}. */
void interp_run(struct interp *in, struct strv request);
void interp_fork(struct interp *in, unsigned n);
void interp_names(struct interp *in);
/* It has a view of the file system of its own. */
bool interp_has_view(const struct interp *in);
/* Writes what that has to where all see it, and goes on there. */
void interp_settle(struct interp *in);
/* To its process group. */
void interp_signal(struct interp *in, int sig);
void interp_pause(struct interp *in, bool pause);

#endif
