/* SPDX-License-Identifier: Apache-2.0 */
/* What the configuration says about launchers: [local], [image NAME]. */
#ifndef SBX_GATEWAY_LAUNCHCONF_H
#define SBX_GATEWAY_LAUNCHCONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/conf.h"
#include "base/defs.h"
#include "base/str.h"
#include "net/addr.h"
#include "gateway/outside.h"

struct gw_conf;

#define LAUNCHCONF_UIDS 65536 /* ids of one job */

struct gw_image {
	char *name;
	char *rootfs;
};

/* Jobs by command; lines are templates (template.h). */
struct gw_launcher {
	char *name;
	char *start, *status, *stop;
	char *remove;               /* NULL: none, as below */
	char *agent;                /* its address */
	char *register_url;         /* our own origin, as jobs reach it */
	uint64_t timeout_ms;        /* of a command */
	uint64_t poll_ms;           /* longest pause between two looks */
	struct addr_net *addresses; /* that a job may register */
	size_t naddresses;
};

struct gw_launch {
	char *agent;       /* NULL: beside our own program, PATH */
	bool net_host;     /* jobs share this machine's network */
	char *cgroup;      /* directory for control groups; NULL: none */
	char *outbound;    /* "auto", "none" or a program */
	char **expose;     /* NULL-ended */
	uint64_t uid_base; /* first of LAUNCHCONF_UIDS ids for each job */
	uint64_t uid_jobs; /* for how many jobs */
	bool best_effort;  /* hosts make do with what isolation there is */
	uint64_t parallel; /* jobs being started at once */
	struct gw_image *images;
	size_t nimages;
	struct gw_launcher *launchers;
	size_t nlaunchers;
	struct outside outside; /* endpoints that jobs may call */
};

/* The sections as base/conf fills them. */
struct sec_local {
	char *agent, *outbound, *cgroup;
	int network, isolation;
	struct conf_list expose, outside;
	uint64_t uid_base, uid_jobs, parallel;
};

struct sec_image {
	char *rootfs;
};

struct sec_launcher {
	char *start, *status, *stop, *remove, *agent, *register_url;
	uint64_t timeout_ms, poll_ms;
	struct conf_list addresses;
};

/* Used by gwconf.c. E_INVALID: *msg (malloc'ed) names file and line. */
int launchconf_fill(struct gw_conf *c, char **msg) SBX_MUST_CHECK;
void launchconf_clear(struct gw_launch *l);
void launchconf_dump(const struct gw_conf *c, struct strbuf *b);

/* NULL: there is none of that name. */
const char *launchconf_rootfs(const struct gw_launch *l, const char *image);
const struct gw_launcher *launchconf_launcher(const struct gw_launch *l,
					      const char *name);

#endif
