/* SPDX-License-Identifier: Apache-2.0 */
/* One configuration value: text into a struct's field, and back. */
#ifndef SBX_BASE_CONFVAL_H
#define SBX_BASE_CONFVAL_H

#include <stdint.h>

#include "base/conf.h"

/* Undoes the quotes of a value as it stands after the "=", into a malloc'ed
 * string without NULs; *empty says that nothing stood there, not even "".
 * E_INVALID with the reason in *why (static). */
int confval_unquote(struct strv raw, char **out, bool *empty,
		    const char **why) SBX_MUST_CHECK;
/* Sets the field from text (a list gets one element more). On E_INVALID the
 * reason was added to why and the field is as it was. */
int confval_set(const struct conf_key *k, const char *text, void *field,
		struct strbuf *why) SBX_MUST_CHECK;
void confval_clear(const struct conf_key *k, void *field);
/* Adds "key = value" lines that read back to the same; "# key =" for what
 * has no value. */
void confval_print(const struct conf_key *k, const void *field,
		   struct strbuf *out);

#endif
