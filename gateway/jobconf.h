/* SPDX-License-Identifier: Apache-2.0 */
/* What the configuration says about jobs: [jobs] and [flavor NAME]. */
#ifndef SBX_GATEWAY_JOBCONF_H
#define SBX_GATEWAY_JOBCONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/defs.h"
#include "base/str.h"

struct gw_conf;

/* A size of machine that a job may ask for. 0: no bound. */
struct gw_flavor {
	char *name;
	uint64_t cpu_milli; /* thousandths of a core */
	uint64_t memory;    /* bytes */
	uint64_t pids;
};

struct gw_jobs {
	bool enabled;
	char *launcher;
	uint64_t max_jobs, max_per_namespace; /* that have not ended */
	uint64_t max_streams;                 /* logs, events, waits at once */
	uint64_t retention_ms, retention_max; /* of those that have */
	uint64_t default_timeout_ms, max_timeout_ms; /* 0: none */
	uint64_t grace_ms;                           /* between TERM and KILL */
	uint64_t log_max;                            /* bytes on disk */
	struct gw_flavor *flavors; /* the first is the default */
	size_t nflavors;
};

/* The sections as base/conf fills them. */
struct sec_jobs {
	bool enabled;
	char *launcher;
	uint64_t max_jobs, max_per_namespace, max_streams, retention_ms,
	    retention_max, default_timeout_ms, max_timeout_ms, grace_ms,
	    log_max;
};

struct sec_flavor {
	char *cpus;
	uint64_t memory, pids;
};

/* Used by gwconf.c. E_INVALID: *msg (malloc'ed) names file and line. */
int jobconf_fill(struct gw_conf *c, char **msg) SBX_MUST_CHECK;
void jobconf_clear(struct gw_jobs *j);
void jobconf_dump(const struct gw_jobs *j, struct strbuf *b);

const struct gw_flavor *jobconf_flavor(const struct gw_jobs *j,
				       struct strv name); /* NULL: unknown */
/* "2", "0.5" -> thousandths; E_INVALID. */
int jobconf_parse_cpus(struct strv s, uint64_t *out) SBX_MUST_CHECK;
/* The other way round. */
void jobconf_add_cpus(struct strbuf *b, uint64_t milli);

#endif
