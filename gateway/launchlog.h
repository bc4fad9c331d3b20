/* SPDX-License-Identifier: Apache-2.0 */
/* The log of a job whose output somebody else writes, as it comes, to a file.
 */
#ifndef SBX_GATEWAY_LAUNCHLOG_H
#define SBX_GATEWAY_LAUNCHLOG_H

#include <stdbool.h>
#include <stdint.h>

/* Appends what DIR/output has had added to DIR/log; how far it has got is kept
 * in DIR/output.at. end: a last line without its end counts, too. max: bytes
 * that log and log.1 may take. */
void launchlog_pump(const char *dir, uint64_t max, bool end);

#endif
