/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command that a job's agent runs for the master (GET exec/attach, `Upgrade:
 * sbx-exec`; PROTOCOL.md, section 5): its input, its output and its end, as raw
 * bytes over one connection, with back-pressure in both directions. Whoever
 * frees it before the end ends the command.
 */
#ifndef SBX_GATEWAY_AGENTATTACH_H
#define SBX_GATEWAY_AGENTATTACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/defs.h"
#include "base/str.h"
#include "net/execwire.h"

struct agentattach;
struct agentcall_no;
struct agentcall_to;
struct loop;

#define AGENTATTACH_INIT_MAX EXECWIRE_INIT_MAX

struct agentattach_exit {
	int code;   /* -1: none */
	int signal; /* 0: none */
	bool timed_out;
};

/* One of exited, refused and failed comes last; agentattach_free() is then due,
 * and may be called in any of them. */
struct agentattach_cbs {
	/* It runs; before any output. May be NULL. */
	void (*accepted)(struct agentattach *x, void *arg);
	/* stream: 1 stdout, 2 stderr. At most 16 KiB at a time; none comes
	 * while it is paused. */
	void (*output)(struct agentattach *x, unsigned stream, struct strv data,
		       void *arg);
	/* After agentattach_over_high(): there is room again. May be NULL. */
	void (*drained)(struct agentattach *x, void *arg);
	/* All output has been told. */
	void (*exited)(struct agentattach *x, const struct agentattach_exit *e,
		       void *arg);
	/* It was not started. */
	void (*refused)(struct agentattach *x, const struct agentcall_no *no,
			void *arg);
	/* E_TIMEOUT: the deadline; else the agent is out of reach, or ended. */
	void (*failed)(struct agentattach *x, int err, const char *what,
		       void *arg);
};

/* init: the JSON object that the agent is to start. ms: deadline for all of it
 * (0: none). Never calls back before it returns. */
struct agentattach *agentattach_start(struct loop *l,
				      const struct agentcall_to *to,
				      struct strv init, uint64_t ms,
				      const struct agentattach_cbs *cbs,
				      void *arg);
/* None of these calls back; after the end they do nothing. */
void agentattach_input(struct agentattach *x, struct strv data);
void agentattach_close_input(struct agentattach *x);
void agentattach_resize(struct agentattach *x, uint16_t cols, uint16_t rows);
bool agentattach_over_high(const struct agentattach *x);
/* No output while it is on: the command stops at its pipe. */
void agentattach_pause(struct agentattach *x, bool on);
void agentattach_free(struct agentattach *x); /* NULL is fine */

#endif
