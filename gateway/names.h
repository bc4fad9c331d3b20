/* SPDX-License-Identifier: Apache-2.0 */
/* What users and namespaces can be called: 1-64 of a-z A-Z 0-9 - _ . @, the
 * first a letter or a digit. Such a name can stand as a word in files, messages
 * and header fields. */
#ifndef SBX_GATEWAY_NAMES_H
#define SBX_GATEWAY_NAMES_H

#include <stdbool.h>

#include "base/str.h"

#define NAMES_MAX 64 /* bytes of one */

bool names_ok(struct strv v);
/* Names with commas between them, none twice, at most max bytes. */
bool names_list_ok(struct strv v, size_t max);

#endif
