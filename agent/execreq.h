/* SPDX-License-Identifier: Apache-2.0 */
/* A command as it is asked for in JSON. */
#ifndef SBX_AGENT_EXECREQ_H
#define SBX_AGENT_EXECREQ_H

#include <stdbool.h>

#include "agent/pty.h"
#include "agent/run.h"
#include "base/defs.h"

struct json;
struct json_doc;

struct execreq {
	struct run_spec spec; /* points into what follows */
	struct json_doc *doc; /* owned */
	char **argv;          /* its strings are borrowed from doc */
	char **env;
	struct strbuf cmd;
	struct pty_size size;
};

/* Takes doc. E_INVALID with *why (malloc'ed): which key is wrong, and how.
 * Call execreq_clear() in any case. */
int execreq_take(struct json_doc *doc, struct execreq *out,
		 char **why) SBX_MUST_CHECK;
/* For code that a shell runs, or (shell NULL) something else: the same keys
 * beside the command. shell and code (of doc) are borrowed. */
int execreq_take_code(struct json_doc *doc, char *shell, const char *code,
		      struct execreq *out, char **why) SBX_MUST_CHECK;
/* For exec/attach: the same keys but those that have no meaning there, and its
 * own: stdin (a boolean), tty, cols, rows. */
int execreq_take_live(struct json_doc *doc, struct execreq *out,
		      char **why) SBX_MUST_CHECK;
void execreq_clear(struct execreq *e);

/* An object of environment variables as "NAME=value" strings, NULL at the
 * end; *out is NULL when v is. Free with execreq_env_free(). */
int execreq_env(const struct json *v, char ***out, char **why) SBX_MUST_CHECK;
void execreq_env_free(char **env);

/* "KILL", "SIGKILL", "kill" or a number; E_INVALID. */
int execreq_signal(const struct json *v, int *sig) SBX_MUST_CHECK;

#endif
