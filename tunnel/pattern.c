/* SPDX-License-Identifier: Apache-2.0 */
/* Host patterns. Matching takes no longer than pattern times text. */
#include "config.h"

#include "tunnel/pattern.h"

#include <ctype.h>
#include <stddef.h>
#include <stdint.h>

bool
pattern_match(struct strv pat, struct strv s)
{
	size_t p = 0, i = 0, star = SIZE_MAX, mark = 0;

	while (i < s.len) {
		if (p < pat.len && pat.p[p] == '*') {
			star = p++;
			mark = i;
		} else if (p < pat.len &&
			   (pat.p[p] == '?' ||
			    tolower((unsigned char)pat.p[p]) == s.p[i])) {
			p++;
			i++;
		} else if (star != SIZE_MAX) {
			p = star + 1;
			i = ++mark;
		} else {
			return false;
		}
	}
	while (p < pat.len && pat.p[p] == '*')
		p++;
	return p == pat.len;
}

bool
pattern_list(struct strv list, char sep, struct strv s)
{
	struct strv one;
	bool hit = false;

	while (strv_cut(&list, sep, &one)) {
		if (one.len > 0 && *one.p == '!') {
			if (pattern_match(strv_from(one, 1), s))
				return false;
		} else if (one.len > 0 && pattern_match(one, s)) {
			hit = true;
		}
	}
	return hit;
}
