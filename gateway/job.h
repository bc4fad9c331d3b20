/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job: what was asked for, and where it stands. Its life is one table of
 * states and events in job.c; nothing else changes a state. Values only: no
 * I/O, no loop.
 *
 *                  +----------------------------------+
 *                  |                                  v
 *    PENDING -> CREATING -> RUNNING <-> PAUSED   TERMINATING
 *       |          |           |           |          |
 *       +----------+-----------+-----------+----------+
 *                              v
 *            COMPLETED, FAILED or TERMINATED: for good
 */
#ifndef SBX_GATEWAY_JOB_H
#define SBX_GATEWAY_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/defs.h"
#include "base/str.h"
#include "gateway/jobspec.h"

#define JOB_ID_LEN 24 /* lower-case hex */

/* The numbers are those of coreweave.sandbox.v1, and stored. */
enum job_state {
	JOB_UNSPECIFIED = 0, /* not tracked (yet) */
	JOB_CREATING = 1,
	JOB_RUNNING = 2,
	JOB_COMPLETED = 3,
	JOB_FAILED = 4,
	JOB_TERMINATING = 5,
	JOB_TERMINATED = 6,
	JOB_PENDING = 7,
	JOB_PAUSED = 8
};
#define JOB_STATES 9

/* What happens to a job; the last one is the reason of its state. Stored by
 * name. */
enum job_event {
	JOB_EV_CREATE,       /* accepted */
	JOB_EV_START,        /* handed to the launcher */
	JOB_EV_READY,        /* it runs; an agent answers */
	JOB_EV_PAUSE,        /* frozen */
	JOB_EV_RESUME,       /* and going on */
	JOB_EV_STOP,         /* somebody wants it to end */
	JOB_EV_EXIT,         /* its first process ended by itself */
	JOB_EV_SIGNAL,       /* a signal that nobody here sent ended it */
	JOB_EV_OOM,          /* out of its memory */
	JOB_EV_STOPPED,      /* it ended because of a stop */
	JOB_EV_TIMEOUT,      /* its time was up */
	JOB_EV_START_FAILED, /* it never ran */
	JOB_EV_LOST          /* nobody knows what became of it */
};
#define JOB_EVENTS 13

/* What the Hub calls it. */
enum job_stage {
	STAGE_SCHEDULING,
	STAGE_RUNNING,
	STAGE_COMPLETED,
	STAGE_CANCELED,
	STAGE_ERROR,
	STAGE_DELETED
};
#define JOB_STAGES 6

struct job {
	char id[JOB_ID_LEN + 1];
	uint64_t seq; /* order of creation, by the store */
	char *ns;     /* namespace */
	char *user;   /* who asked for it */
	enum job_state state;
	enum job_event reason;
	char *message; /* for people; NULL: none */
	bool has_exit; /* exit_code is set: only together with a last state */
	int exit_code; /* 128 + signal for one that was killed */
	/* Wall clock; 0: not yet. changed: since when it is in its state. */
	int64_t created_ms, started_ms, finished_ms, changed_ms;
	struct job_spec spec; /* secrets: names only, once it has started */
};

/* One step of its history. */
struct job_step {
	uint64_t seq; /* over all jobs, growing */
	enum job_state state;
	enum job_event reason;
	const char *message; /* NULL: none */
	int64_t at_ms;
	bool has_exit;
	int exit_code;
};

void job_clear(struct job *j); /* frees what it holds, wipes secrets */

/* The state that ev leads to from `from`; false: ev means nothing there. */
bool job_next(enum job_state from, enum job_event ev, enum job_state *to);
/* Does it, with the time; text NULL: no message. exit_code NULL: none. False
 * and nothing changed when the table has no such step. */
bool job_apply(struct job *j, enum job_event ev, int64_t at_ms,
	       const int *exit_code, const char *text);
/* No step leads on from it. */
bool job_final(enum job_state s);
/* What the Hub calls a job in that state, which it got to by that event;
 * exit_code counts if has_exit. */
enum job_stage job_stage(enum job_state s, enum job_event reason, bool has_exit,
			 int exit_code);
enum job_stage job_stage_of(const struct job *j);

const char *job_state_name(enum job_state s);  /* "RUNNING" */
const char *job_event_name(enum job_event ev); /* "start_failed" */
const char *job_stage_name(enum job_stage s);  /* "SCHEDULING" */
/* The names above back to values; E_INVALID. */
int job_state_parse(struct strv name, enum job_state *out) SBX_MUST_CHECK;
int job_event_parse(struct strv name, enum job_event *out) SBX_MUST_CHECK;
int job_stage_parse(struct strv name, enum job_stage *out) SBX_MUST_CHECK;
bool job_id_ok(struct strv id);

/* "2026-11-21T03:51:53.123Z" */
void job_add_time(struct strbuf *b, int64_t ms);
int64_t job_now_ms(void); /* wall clock */

#endif
