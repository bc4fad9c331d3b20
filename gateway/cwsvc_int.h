/* SPDX-License-Identifier: Apache-2.0 */
/* What the methods, and the transports below them, share. */
#ifndef SBX_GATEWAY_CWSVC_INT_H
#define SBX_GATEWAY_CWSVC_INT_H

#include "gateway/cwsvc.h"
#include "gateway/jobs.h"

struct cwfile;

struct cwsvc {
	struct cwsvc_options o;
	struct cwcall *calls; /* open ones */
	size_t ncalls;
	size_t held; /* bytes of requests that are being received */
	/* cwexec.c, cwlogs.c, cwfile.c */
	size_t exec_held; /* bytes of output that wait for their command */
	unsigned logs;    /* streams of them */
	unsigned files;   /* under way; others wait */
	struct cwfile *waiting_files, **last_file;
	bool draining;
};

/* The sandbox of that id that the caller may use; else the call fails
 * (CWSANDBOX_SANDBOX_NOT_FOUND for those of others, too). *out is
 * job_clear()'s. */
int cwsvc_find(struct cwcall *c, const char *id,
	       struct job *out) SBX_MUST_CHECK;
/* The same as answer of a failed look-up. */
void cwsvc_not_found(struct cwcall *c, const char *id);
/* The call fails because the database could not do it. */
void cwsvc_store_failed(struct cwcall *c, int err);

/* cwbox.c: the name of its container. */
const char *cwsvc_container(const struct job *j);
/* cwbox.c: the fields of message Sandbox. origin: as in struct api_who. */
void cwbox_add(struct cwout *w, const struct job *j, const struct gw_conf *conf,
	       struct strv origin);

#endif
