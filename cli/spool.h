/* SPDX-License-Identifier: Apache-2.0 */
/* Standard input as a file: how long it is must be known before it is sent. */
#ifndef SBX_CLI_SPOOL_H
#define SBX_CLI_SPOOL_H

#include <stdint.h>

/* Reads it to its end into a file without a name: a descriptor at its start,
 * the caller's, and its length. -1 with errno. */
int spool_stdin(uint64_t *length);

#endif
