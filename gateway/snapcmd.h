/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sbx-gateway snapshot-create` and `snapshot-restore`: what the gateway starts
 * for itself (snaprun.h), or has a job's supervisor start, to write and to read
 * archives of a job's `fs/` (doc/PROTOCOL.md, section 7). Not for people.
 */
#ifndef SBX_GATEWAY_SNAPCMD_H
#define SBX_GATEWAY_SNAPCMD_H

#include <stdbool.h>

#define SNAPCMD_CREATE  "snapshot-create"
#define SNAPCMD_RESTORE "snapshot-restore"

/* Open for snapshot-create: the archive, the tree's directory, a pipe for what
 * is said: lines "p BYTES ENTRIES" now and then, and at last "ok BYTES ENTRIES
 * CHANGED SKIPPED SHA256" or "error NUMBER TEXT". */
enum { SNAPCMD_ARCHIVE = 3, SNAPCMD_TREE = 4, SNAPCMD_REPORT = 5 };

bool snapcmd_is(const char *word);
/*
 * snapshot-create UID UIDS MAX_BYTES MAX_FILES [SCRATCH VOLUME], or
 * snapshot-restore ARCHIVE MAX_BYTES MAX_FILES [VOLUME AS] [SHA256], which
 * works in its current directory, takes the ids from SBX_FS_UID and
 * SBX_FS_UIDS, and says a line when it fails. Returns the exit status.
 */
int snapcmd_run(int argc, char **argv);

#endif
