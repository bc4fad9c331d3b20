/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a tunnel as JSON lines, for programs: one object a line with
 * "event" and "time", described in sbx-tunnel(1).
 */
#ifndef SBX_TUNNEL_STATUS_H
#define SBX_TUNNEL_STATUS_H

#include "base/defs.h"
#include "base/str.h"

struct status;

/* name (may be NULL) is in every line. fd -1 and path NULL: says nothing.
 * E_SYS when path cannot be opened. */
int status_open(const char *name, int fd, const char *path,
		struct status **out) SBX_MUST_CHECK;
void status_free(struct status *st);
/* Writes {"event": event, ..., fields}; fields is the inside of an object,
 * empty for none. A reader that is behind loses lines, never stops us. */
void status_emit(struct status *st, const char *event, const char *fields);

#endif
