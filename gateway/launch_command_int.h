/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the command launcher share. */
#ifndef SBX_GATEWAY_LAUNCH_COMMAND_INT_H
#define SBX_GATEWAY_LAUNCH_COMMAND_INT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/defs.h"
#include "base/str.h"
#include "gateway/gwconf.h"
#include "gateway/launch.h"
#include "net/loop.h"

enum cmd_state { STARTING, WATCHED, OVER };

struct command;
struct dial;

struct cmd_job {
	struct launch base;
	struct cmd_job *next, **prevp;
	enum cmd_state state;
	bool said_started, said_ready;
	bool ending; /* stop is to be run, or was */
	bool stop_due;
	bool stop_failed;       /* the last one: it may be asked for again */
	enum launch_reason why; /* when ending */
	uint64_t grace_ms, deadline_ms, stopped_ms;
	uint64_t poll_ms;
	unsigned failures;
	char *dir;
	char **start; /* expanded; NULL: was run */
	char *message;
	struct command *cmd;
	struct dial *dial;
	struct timer timer;
	struct task task;
	int code;
};

struct cmd_launcher {
	struct launcher base;
	struct loop *loop;
	char *name;
	const struct gw_conf *conf;
	uid_t worker_uid;
	struct cmd_job *jobs;
};

#define CMD(p) ((struct cmd_launcher *)(void *)(p))
#define JOB(p) ((struct cmd_job *)(void *)(p))

/* [launcher NAME]; NULL: it is gone since the last reload. */
const struct gw_launcher *launch_command_settings(const struct cmd_job *j);

struct cmd_job *launch_command_find(struct cmd_launcher *l, const char *id);
void launch_command_started(struct cmd_job *j); /* told once */

/* launch_command_agent.c: connects to it, again and again. */
void launch_command_agent(struct cmd_job *j);
int launch_command_register(struct launcher *base, const char *id,
			    struct strv token, struct strv address,
			    char **why) SBX_MUST_CHECK;

/* launch_command_dir.c */
void launch_command_remove(struct launcher *base, const char *id);
void launch_command_sweep(struct launcher *base, launch_known_cb known,
			  void *arg);

/* launch_command_files.c: a job's small files. Texts are malloc'ed, without
 * their end of line; NULL: there is none. */
int launch_command_put(const char *dir, const char *name,
		       const char *text) SBX_MUST_CHECK;
char *launch_command_get(const char *dir, const char *name);
void launch_command_unlink(const char *dir, const char *name);
/* exit.json */
void launch_command_put_end(const struct cmd_job *j,
			    const struct launch_end *e);
/* env, env.sh and token; *why (malloc'ed) on failure. */
int launch_command_put_env(struct cmd_job *j, const struct launch_spec *spec,
			   char **why) SBX_MUST_CHECK;

/* launch_command_line.c: configured lines. NULL with *why (malloc'ed). spec:
 * for a start. */
char **launch_command_expand(struct cmd_job *j, const struct launch_spec *spec,
			     const char *line, char **why);

#endif
