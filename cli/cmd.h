/* SPDX-License-Identifier: Apache-2.0 */
/* The commands: each gets its own arguments, argv[0] its name, and returns an
 * exit status. */
#ifndef SBX_CLI_CMD_H
#define SBX_CLI_CMD_H

#include <stdbool.h>

struct place;

typedef int cmd_fn(struct place *p, int argc, char **argv);

cmd_fn cmd_up;       /* up.c */
cmd_fn cmd_run;      /* up.c */
cmd_fn cmd_ls;       /* ls.c */
cmd_fn cmd_url;      /* ls.c */
cmd_fn cmd_token;    /* ls.c */
cmd_fn cmd_kill;     /* ls.c */
cmd_fn cmd_tunnels;  /* ls.c */
cmd_fn cmd_logs;     /* joblogs.c */
cmd_fn cmd_exec;     /* remote.c */
cmd_fn cmd_cp;       /* copy.c */
cmd_fn cmd_forward;  /* portforward.c */
cmd_fn cmd_snapshot; /* snapshot.c */

/* Says how the command is used, and returns EXIT_USAGE. */
int cmd_usage(const char *name);
/* The value of an option: "30", "5m" -> seconds. 0, or EXIT_USAGE. */
int cmd_seconds(const char *option, const char *text, double *out);

/* Streams a job's logs to standard output until they end. */
int joblogs_print(struct place *p, const char *id, bool follow, long tail);

#endif
