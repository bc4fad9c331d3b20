/* SPDX-License-Identifier: Apache-2.0 */
/* The command line, in ssh(1)'s words, and our own long options. */
#ifndef SBX_TUNNEL_CLI_H
#define SBX_TUNNEL_CLI_H

#include <stdbool.h>

#include "base/defs.h"
#include "tunnel/options.h"

enum cli_action {
	CLI_RUN,
	CLI_CHECK,   /* -t */
	CLI_VERSION, /* -V, --version */
	CLI_HELP,
	CLI_HANDOFF, /* something for the real ssh */
	CLI_ERROR    /* *why says it */
};

struct cli {
	struct options o;
	const char *status_path;
	const char *config_path; /* --config: many tunnels */
	const char *ssh_config;  /* -F */
	int status_fd;
	bool as_ssh; /* called by the name ssh */
	int verbose;
	char *why;
};

/* argv is borrowed for good. */
enum cli_action cli_parse(int argc, char **argv, struct cli *c);
void cli_clear(struct cli *c);
const char *cli_usage(void);

#endif
