/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sbx-gateway snapshot-create` and `snapshot-restore`: what the gateway starts
 * for itself (snaprun.h) to write and read archives. Not for people.
 */
#ifndef SBX_GATEWAY_SNAPCMD_H
#define SBX_GATEWAY_SNAPCMD_H

#include <stdbool.h>

#define SNAPCMD_CREATE  "snapshot-create"
#define SNAPCMD_RESTORE "snapshot-restore"

/* What is open: the archive, the tree's directory, a pipe for what is said:
 * lines "p BYTES ENTRIES" now and then, and at last "ok BYTES ENTRIES CHANGED
 * SKIPPED" or "error NUMBER TEXT". */
enum { SNAPCMD_ARCHIVE = 3, SNAPCMD_TREE = 4, SNAPCMD_REPORT = 5 };

bool snapcmd_is(const char *word);
/* argv: the word, base, ids, max_bytes, max_entries (see snaptar.h), then the
 * parts. Returns the exit status. */
int snapcmd_run(int argc, char **argv);

#endif
