/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coreweave.sandbox.v1.SandboxService on our jobs: its methods, which are
 * called through cwcall.h. What it calls a sandbox is a job that was made
 * here, of the caller's default namespace: with a main command, an agent
 * beside it, and what the caller said about it.
 */
#ifndef SBX_GATEWAY_CWSVC_H
#define SBX_GATEWAY_CWSVC_H

#include "base/str.h"
#include "gateway/cwcall.h"
#include "gateway/cwname.h"

struct jobs;
struct loop;
struct snapshots;

struct cwsvc_options {
	struct loop *loop;
	struct jobs *jobs;           /* borrowed */
	struct snapshots *snapshots; /* borrowed; NULL: there are none */
};

struct cwsvc *cwsvc_new(const struct cwsvc_options *o);
/* The gateway is to end: open calls fail with UNAVAILABLE, new ones too. */
void cwsvc_drain(struct cwsvc *s);
/* After the last call was closed. NULL is fine. */
void cwsvc_free(struct cwsvc *s);

/* NULL: there is no such method. */
const struct cwcall_method *cwsvc_method(struct strv name);

#endif
