/* SPDX-License-Identifier: Apache-2.0 */
/* How far a transfer is: one line on a terminal, nothing anywhere else. */
#ifndef SBX_CLI_PROGRESS_H
#define SBX_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
	const char *name;
	uint64_t total; /* 0: not known */
	uint64_t done;
	uint64_t started_us, shown_us;
	bool on;
};

void progress_start(struct progress *g, const char *name, uint64_t total);
void progress_add(struct progress *g, uint64_t bytes);
void progress_end(struct progress *g);

#endif
