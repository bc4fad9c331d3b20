/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way of a call to the agent of the sandbox that it names: one that is
 * still being made is waited for, one that is no more is refused.
 */
#ifndef SBX_GATEWAY_CWAGENT_H
#define SBX_GATEWAY_CWAGENT_H

#include <stdbool.h>

#include "gateway/cwcall.h"
#include "gateway/jobs.h"
#include "net/loop.h"

struct agentcall_no;
struct agentcall_to;

struct cwagent {
	struct cwcall *c;
	struct jobs_watch watch;
	struct timer look, most;
	bool waits;
	char id[JOB_ID_LEN + 1];
	char *cwd; /* where its main command began; NULL: its home */
	void (*ready)(const struct agentcall_to *to, void *arg);
	void *arg;
};

/* m has sandbox_id and perhaps container. ready is called once, maybe before
 * this returns; or the call fails. */
void cwagent_find(struct cwagent *w, struct cwcall *c, const struct cwmsg *m,
		  void (*ready)(const struct agentcall_to *to, void *arg),
		  void *arg);
/* Nothing is called any more, and what is in it is gone; zeroed or found, as
 * often as one likes. */
void cwagent_clear(struct cwagent *w);

/* 0: name is empty, or that of the sandbox's container; else the call fails. */
int cwagent_container(struct cwcall *c, const struct job *j,
		      const char *name) SBX_MUST_CHECK;
/* The call fails, because the agent was not reached or went away. */
void cwagent_lost(struct cwcall *c, const char *what);
/* The call fails, because the agent did not do it at all (any refusal that
 * means nothing special to the method). */
void cwagent_refused(struct cwcall *c, const struct agentcall_no *no);

#endif
