/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the control plane that make jobs, put together for the master:
 * launcher, service, HTTP face, and their rows in the route table. */
#ifndef SBX_GATEWAY_JOBHOST_H
#define SBX_GATEWAY_JOBHOST_H

#include <sys/types.h>

#include "base/defs.h"

struct api;
struct gw_conf;
struct jobhost;
struct loop;
struct owner;
struct strbuf;

struct jobhost_options {
	struct loop *loop;
	const struct gw_conf *conf; /* borrowed until jobhost_set_conf() */
	struct owner *owner;
	struct api *api;
	uid_t worker_uid;
};

/* Starts it and finds the jobs that still run. *out is NULL when jobs are off,
 * or (said in the log) cannot be had and nobody asked for them by name.
 * Otherwise *msg, malloc'ed, says why not. */
int jobhost_start(const struct jobhost_options *o, struct jobhost **out,
		  char **msg) SBX_MUST_CHECK;
void jobhost_set_conf(struct jobhost *h, const struct gw_conf *conf);
void jobhost_metrics(const struct jobhost *h, struct strbuf *out);
void jobhost_drain(struct jobhost *h); /* see jobapi_drain() */
/* After the api was freed. Jobs go on. NULL is fine. */
void jobhost_free(struct jobhost *h);

#endif
