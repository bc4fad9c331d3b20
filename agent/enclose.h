/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What confines the processes of a sandbox of host mode: limits, a Landlock
 * ruleset, a control group, namespaces. It is made when the first of them is
 * started (spawn_confine's `make`), without which none is: a sandbox that has
 * only files yet needs none of it, and it costs more than all the rest.
 */
#ifndef SBX_AGENT_ENCLOSE_H
#define SBX_AGENT_ENCLOSE_H

#include "base/defs.h"

struct sandbox;
struct sandbox_means;
struct sandbox_spec;

/* Can this machine do what is asked for? E_UNSUPPORTED with *why. */
int enclose_possible(const struct sandbox_means *m,
		     const struct sandbox_spec *spec,
		     char **why) SBX_MUST_CHECK;
/* Fills sb->confine, from sb->spec and sb->means. */
void enclose_ask(struct sandbox *sb);
/* When its home is there: makes what must not wait, because the endpoints that
 * it may call are those of the time of its creation. 0, or an error. */
int enclose_early(struct sandbox *sb) SBX_MUST_CHECK;

#endif
