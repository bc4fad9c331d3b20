/* SPDX-License-Identifier: Apache-2.0 */
/* What the methods, and the transports below them, share. */
#ifndef SBX_GATEWAY_CWSVC_INT_H
#define SBX_GATEWAY_CWSVC_INT_H

#include "gateway/cwsvc.h"
#include "gateway/jobs.h"

struct cwexec;
struct cwfile;
struct gw_conf;

struct cwsvc {
	struct cwsvc_options o;
	struct cwcall *calls; /* open ones */
	size_t ncalls;
	size_t held; /* bytes of requests that are being received */
	/* cwexec.c, cwlogs.c, cwfile.c */
	struct cwexec *execs;              /* open ones */
	struct cwfile *files, **last_file; /* as they came */
	bool draining;
};

/* The sandbox of that id that the caller may use; else the call fails
 * (CWSANDBOX_SANDBOX_NOT_FOUND for those of others, too). *out is
 * job_clear()'s. */
int cwsvc_find(struct cwcall *c, const char *id,
	       struct job *out) SBX_MUST_CHECK;
/* The same as answer of a failed look-up. */
void cwsvc_not_found(struct cwcall *c, const char *id);
/* Neither of others nor made by another API. */
bool cwsvc_is_there(struct cwcall *c, const char *id);
/* UNIMPLEMENTED, with the name of the field that asks for too much. */
void cwsvc_unsupported(struct cwcall *c, const char *field, const char *why);
/* The answer of a method whose response is a Sandbox. */
void cwsvc_answer_sandbox(struct cwcall *c, const struct job *j);
/* page_size and page_token of a list: at most *size of them, only with a
 * smaller number than *before (0: from the newest). False: the call has
 * failed. */
bool cwsvc_page(struct cwcall *c, int64_t *size, uint64_t *before);
/* The answer's next_page_token: after the one numbered last, if there are more.
 */
void cwsvc_next_page(struct cwout *w, bool more, uint64_t last);
/* The call fails because the database could not do it. */
void cwsvc_store_failed(struct cwcall *c, int err);

/* cwbox.c: the name of its container, malloc'ed. */
char *cwbox_container(const struct job *j);
/* cwbox.c: the fields of message Sandbox. origin: as in struct api_who. */
void cwbox_add(struct cwout *w, const struct job *j, const struct gw_conf *conf,
	       struct strv origin);

/* cwcreate.c, cwlife.c */
void cwcreate_sandbox(struct cwcall *c);
void cwcreate_from_template(struct cwcall *c);
void cwlife_get(struct cwcall *c);
void cwlife_list(struct cwcall *c);
void cwlife_delete(struct cwcall *c);
void cwlife_purge(struct cwcall *c);

#endif
