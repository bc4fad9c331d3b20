/* SPDX-License-Identifier: Apache-2.0 */
/* A stream in pieces, cut into lines. */
#ifndef SBX_CLI_LINES_H
#define SBX_CLI_LINES_H

#include "base/str.h"

struct lines {
	struct strbuf part; /* the beginning of a line */
	/* Without its end of line. */
	void (*line)(struct strv line, void *arg);
	void *arg;
};

void lines_add(struct lines *l, struct strv piece);
void lines_end(struct lines *l); /* what has no end of line; and clears */

#endif
