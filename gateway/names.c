/* SPDX-License-Identifier: Apache-2.0 */
/* What users and namespaces can be called. */
#include "config.h"

#include "gateway/names.h"

#include <string.h>

bool
names_ok(struct strv v)
{
	if (v.len == 0 || v.len > NAMES_MAX)
		return false;
	for (size_t i = 0; i < v.len; i++) {
		char c = v.p[i];

		if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') &&
		    !(c >= '0' && c <= '9') &&
		    (i == 0 || memchr("-_.@", c, 4) == NULL))
			return false;
	}
	return true;
}

bool
names_list_ok(struct strv v, size_t max)
{
	struct strv rest = v, before, one, other;

	if (v.len == 0 || v.len > max)
		return false;
	while (strv_cut(&rest, ',', &one)) {
		if (!names_ok(one))
			return false;
		before = (struct strv){v.p, (size_t)(one.p - v.p)};
		while (strv_cut(&before, ',', &other))
			if (strv_eq(one, other))
				return false;
	}
	return true;
}
