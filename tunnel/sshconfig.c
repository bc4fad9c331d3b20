/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host blocks, first value wins. What could make a block apply that is not
 * known here (Match, Include) is an error rather than a surprise.
 */
#include "config.h"

#include "tunnel/sshconfig.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "tunnel/pattern.h"

static bool
blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '=';
}

/* The word at the start of *rest. */
static struct strv
word(struct strv *rest)
{
	struct strv w;
	size_t n = 0;

	while (rest->len > 0 && blank(*rest->p))
		*rest = strv_from(*rest, 1);
	while (n < rest->len && !blank(rest->p[n]))
		n++;
	w = (struct strv){rest->p, n};
	*rest = strv_from(*rest, n);
	return w;
}

static bool
host_matches(struct strv patterns, const char *host)
{
	struct strv w;
	bool hit = false;

	while ((w = word(&patterns)).len > 0) {
		if (*w.p == '!') {
			if (pattern_match(strv_from(w, 1), strv_of(host)))
				return false;
		} else if (pattern_match(w, strv_of(host))) {
			hit = true;
		}
	}
	return hit;
}

static int
line_apply(struct strv line, struct options *o, bool *applies, char **why)
{
	struct strv rest = line, key = word(&rest);
	char *text;
	int r;

	if (key.len == 0 || *key.p == '#')
		return 0;
	if (strv_eq_nocase(key, STRV("Host"))) {
		*applies = host_matches(rest, o->host);
		return 0;
	}
	if (strv_eq_nocase(key, STRV("Match")) ||
	    strv_eq_nocase(key, STRV("Include"))) {
		*why = xasprintf("%.*s is not done here", STRV_ARG(key));
		return E_INVALID;
	}
	if (!*applies)
		return 0;
	text = xstrndup(key.p, (size_t)(line.p + line.len - key.p));
	r = options_set_text(o, text, why);
	free(text);
	if (r == E_UNSUPPORTED) {
		free(*why);
		*why = NULL;
		r = 0;
	}
	return r;
}

int
sshconfig_apply(const char *file, struct strv text, struct options *o,
		char **why)
{
	struct strv line;
	unsigned n = 0;
	bool applies = true;
	char *reason;
	int r;

	while (strv_cut(&text, '\n', &line)) {
		n++;
		reason = NULL;
		if ((r = line_apply(line, o, &applies, &reason)) == 0)
			continue;
		*why = xasprintf("%s line %u: %s", file, n, reason);
		free(reason);
		return r == E_NOTFOUND ? E_INVALID : r;
	}
	return 0;
}

void
sshconfig_hosts(struct strv text, struct options_list *out)
{
	struct strv line, w;
	char *name;

	while (strv_cut(&text, '\n', &line)) {
		if (!strv_eq_nocase(word(&line), STRV("Host")))
			continue;
		while ((w = word(&line)).len > 0) {
			if (memchr(w.p, '*', w.len) != NULL ||
			    memchr(w.p, '?', w.len) != NULL || *w.p == '!')
				continue;
			name = xstrndup(w.p, w.len);
			options_add(out, name);
			free(name);
		}
	}
}
