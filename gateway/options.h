/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line and the environment, and the configuration that comes of
 * them: file (or defaults), then environment, then flags.
 */
#ifndef SBX_GATEWAY_OPTIONS_H
#define SBX_GATEWAY_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/defs.h"
#include "gateway/gwconf.h"

#define OPTIONS_LISTENS 32

enum options_action { OPT_SERVE, OPT_CHECK, OPT_DUMP, OPT_HELP, OPT_VERSION };

struct options {
	enum options_action action;
	const char *conf_path; /* NULL: sidecar */
	const char *listens[OPTIONS_LISTENS];
	size_t nlistens;
	const char *cert, *key, *tcp_ports, *proxy_dir, *state_dir, *user,
	    *domain, *admin, *log_level, *access_log, *access_format, *workers;
	unsigned verbose;
	int agent; /* -1: as configured */
	bool single;

	/* from the environment; wiped there */
	char *token;
	char *token_file;
	char *env_proxy_dir;
};

/* Takes SBX_TOKEN, SBX_TOKEN_FILE and SBX_PROXY_DIR; the token's bytes in the
 * process's environment block (/proc/PID/environ) are overwritten. To be
 * called before anything else. */
void options_env(struct options *o);
/* *msg: malloc'ed reason. */
int options_parse(struct options *o, int argc, char **argv,
		  char **msg) SBX_MUST_CHECK;
void options_clear(struct options *o);
/* The whole configuration, checked; may be called any number of times. */
int options_conf(const struct options *o, struct gw_conf **out,
		 char **msg) SBX_MUST_CHECK;
/* --help's text. */
extern const char options_usage[];

#endif
