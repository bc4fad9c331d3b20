/* SPDX-License-Identifier: Apache-2.0 */
/* A command with our standard input and output as its own, as they come. */
#ifndef SBX_CLI_LIVE_H
#define SBX_CLI_LIVE_H

#include <stdbool.h>

#include "base/str.h"
#include "cli/place.h"

/* init: what is to be run, as exec/attach takes it. tty: our terminal passes
 * its keys on meanwhile. Returns the exit status. */
int live_run(struct place *p, struct job *j, struct strv init, bool tty);

#endif
