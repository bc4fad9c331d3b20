/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The master: owns configuration, listening sockets, tables and keys, and
 * keeps workers and the embedded agent going.
 */
#ifndef SBX_GATEWAY_MASTER_H
#define SBX_GATEWAY_MASTER_H

#include <stdbool.h>

#include "base/defs.h"
#include "gateway/gwconf.h"

struct master_options {
	/* The configuration, checked; called again at each reload. */
	int (*load)(struct gw_conf **out, char **msg, void *arg);
	void *arg;
	bool single; /* --single-process */
};

/* Serves until told to stop; returns the exit status. */
int master_run(const struct master_options *o);

#endif
