/* SPDX-License-Identifier: Apache-2.0 */
/* Our own terminal, while a program elsewhere uses it. */
#ifndef SBX_CLI_TERMINAL_H
#define SBX_CLI_TERMINAL_H

#include <stdint.h>

#include "base/defs.h"

/* Standard input's terminal passes every key on; until terminal_restore(),
 * exit() or a crash. E_SYS: it is none (errno). */
int terminal_raw(void) SBX_MUST_CHECK;
void terminal_restore(void); /* when it is raw */
/* Columns and rows; 0 when it has none. */
void terminal_size(uint16_t *cols, uint16_t *rows);

#endif
