/* SPDX-License-Identifier: Apache-2.0 */
/* NAME=value arguments, as members of a JSON object. */
#ifndef SBX_CLI_PAIR_H
#define SBX_CLI_PAIR_H

#include <stdbool.h>

#include "base/str.h"

/* Adds "name":"value", after a comma when b has members already. */
void pair_add(struct strbuf *b, const char *name, const char *value);
/* Adds what the option was given: NAME=value or, with own, the NAME of a
 * variable of our own environment. 0, or EXIT_USAGE (it was said why). */
int pair_parse(struct strbuf *b, const char *option, const char *pair,
	       bool own);

#endif
