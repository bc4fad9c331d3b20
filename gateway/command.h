/* SPDX-License-Identifier: Apache-2.0 */
/* Running a short program beside the loop, with a deadline, for its output. */
#ifndef SBX_GATEWAY_COMMAND_H
#define SBX_GATEWAY_COMMAND_H

#include <stdint.h>

#include "base/defs.h"
#include "base/str.h"

#define COMMAND_OUTPUT_MAX 4096 /* what comes after is read and forgotten */

struct command;
struct loop;

/* status: the exit code; 128 + N: killed by signal N; -1: it did not start or
 * was killed at its deadline. out, err: what it wrote (err says why when it did
 * not start), NUL-terminated, without blanks at the end. The command is gone
 * then. */
typedef void (*command_done_cb)(int status, const char *out, const char *err,
				void *arg);

/* Starts argv[0] (looked for in PATH when it has no slash) with nothing of our
 * environment but PATH, HOME, LANG and TZ. Never calls back from inside. */
struct command *command_start(struct loop *l, char *const *argv,
			      uint64_t timeout_ms, command_done_cb done,
			      void *arg);
/* Kills it; no callback. */
void command_cancel(struct command *c);

#endif
