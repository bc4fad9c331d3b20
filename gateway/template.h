/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command lines with placeholders. A line is split into words at blanks
 * (double quotes keep a word together), then {name} within a word is replaced:
 * no value ever becomes another word, and there is no shell. A word that is
 * {name} of a list becomes as many words as the list has. Other braces stay as
 * they are ("{{.State}}").
 */
#ifndef SBX_GATEWAY_TEMPLATE_H
#define SBX_GATEWAY_TEMPLATE_H

#include <stddef.h>

#include "base/defs.h"

struct template_var {
	const char *name;
	const char *value; /* NULL: a list */
	const char *const *list;
	size_t nlist;
};

/* *argv: NULL-ended, for template_free(). E_INVALID with *why (malloc'ed):
 * no word, a quote without its end, a name that is not among vars. */
int template_expand(const char *line, const struct template_var *vars, size_t n,
		    char ***argv, char **why) SBX_MUST_CHECK;
void template_free(char **argv); /* NULL is fine */

#endif
