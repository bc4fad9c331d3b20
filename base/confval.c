/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The types of configuration values, each with its way in and its way out
 * next to one another. Whatever goes out comes in again as the same value:
 * the fuzz target and the unit test hold conf_dump() to that.
 */
#include "config.h"

#include "base/confval.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"

static const struct {
	const char *text;
	bool value;
} bool_words[] = {{"yes", true},    {"no", false}, {"true", true},
		  {"false", false}, {"on", true},  {"off", false},
		  {"1", true},      {"0", false}};

struct unit {
	const char *name;
	uint64_t factor;
};

/* Largest first: the first that divides a value is the one to write. */
static const struct unit durations[] = {
    {"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
static const struct unit sizes[] = {{"G", UINT64_C(1) << 30},
				    {"M", UINT64_C(1) << 20},
				    {"K", UINT64_C(1) << 10},
				    {"", 1}};

/* --- text in ------------------------------------------------------------ */

static int
unquote(struct strv s, char *to, const char **why)
{
	size_t i;

	for (i = 1; i < s.len && s.p[i] != '"'; i++) {
		char c = s.p[i];

		if (c == '\\') {
			c = i + 1 < s.len ? s.p[++i] : '\0';
			if (c != '"' && c != '\\') {
				*why = "only \\\" and \\\\ may follow a "
				       "backslash in quotes";
				return E_INVALID;
			}
		}
		*to++ = c;
	}
	*to = '\0';
	if (i + 1 == s.len)
		return 0;
	*why = i >= s.len ? "the closing quote is missing"
			  : "text after the closing quote";
	return E_INVALID;
}

/* A comment stands on a line of its own. Elsewhere # and ; are bytes like any
 * other, unless a blank makes them look like a comment: then we ask. */
static bool
looks_commented(struct strv s)
{
	for (size_t i = 0; i < s.len; i++) {
		if ((s.p[i] == '#' || s.p[i] == ';') &&
		    (i == 0 || s.p[i - 1] == ' ' || s.p[i - 1] == '\t'))
			return true;
	}
	return false;
}

int
confval_unquote(struct strv raw, char **out, bool *empty, const char **why)
{
	struct strv s = strv_trim(raw);
	char *text;

	if (s.len == 0 || s.p[0] != '"') {
		if (looks_commented(s)) {
			*why = "comments stand on lines of their own (put the "
			       "value in double quotes if this is none)";
			return E_INVALID;
		}
		*out = xstrndup(s.p, s.len);
		*empty = s.len == 0;
		return 0;
	}
	text = xmalloc(s.len);
	if (unquote(s, text, why) != 0) {
		free(text);
		return E_INVALID;
	}
	*out = text;
	*empty = false;
	return 0;
}

static void
add_number(const struct conf_key *k, uint64_t v, struct strbuf *out)
{
	const struct unit *u = k->type == CONF_SIZE ? sizes : durations;

	if (k->type == CONF_U64) {
		strbuf_addf(out, "%" PRIu64, v);
		return;
	}
	if (v == 0) { /* which every unit divides */
		strbuf_adds(out, k->type == CONF_SIZE ? "0" : "0s");
		return;
	}
	while (v % u->factor != 0)
		u++;
	strbuf_addf(out, "%" PRIu64 "%s", v / u->factor, u->name);
}

static void
add_range(const struct conf_key *k, struct strbuf *out)
{
	if (k->max != 0) {
		add_number(k, k->min, out);
		strbuf_adds(out, " to ");
		add_number(k, k->max, out);
	} else {
		strbuf_adds(out, "at least ");
		add_number(k, k->min, out);
	}
}

static int
set_number(const struct conf_key *k, const char *text, uint64_t *field,
	   struct strbuf *why)
{
	struct strv s = strv_of(text);
	uint64_t v;
	int r;

	if (k->type == CONF_U64)
		r = strv_parse_u64(s, UINT64_MAX, false, &v);
	else if (k->type == CONF_SIZE)
		r = strv_parse_size(s, &v);
	else
		r = strv_parse_duration(s, &v);
	if (r == E_INVALID) {
		if (k->type == CONF_U64)
			strbuf_adds(why, "must be a whole number");
		else if (k->type == CONF_SIZE)
			strbuf_adds(why, "must be a size such as 512, 64K, "
					 "10M or 1G");
		else
			strbuf_adds(why, "must be a time such as 500ms, 10s, "
					 "5m, 1h or 1d");
		return r;
	}
	if (r != 0 || v < k->min || (k->max != 0 && v > k->max)) {
		strbuf_adds(why, "must be ");
		if (k->max == 0 && k->min == 0)
			strbuf_adds(why, "smaller");
		else
			add_range(k, why);
		return E_INVALID;
	}
	*field = v;
	return 0;
}

static int
set_bool(const char *text, bool *field, struct strbuf *why)
{
	for (size_t i = 0; i < ARRAY_LEN(bool_words); i++) {
		if (strcmp(bool_words[i].text, text) == 0) {
			*field = bool_words[i].value;
			return 0;
		}
	}
	strbuf_adds(why, "must be yes or no");
	return E_INVALID;
}

static void
add_choices(const struct conf_key *k, struct strbuf *out)
{
	for (size_t i = 0; k->choices[i] != NULL; i++) {
		if (i > 0)
			strbuf_adds(out,
				    k->choices[i + 1] != NULL ? ", " : " or ");
		strbuf_adds(out, k->choices[i]);
	}
}

static int
set_enum(const struct conf_key *k, const char *text, int *field,
	 struct strbuf *why)
{
	for (int i = 0; k->choices[i] != NULL; i++) {
		if (strcmp(k->choices[i], text) == 0) {
			*field = i;
			return 0;
		}
	}
	strbuf_adds(why, "must be ");
	add_choices(k, why);
	return E_INVALID;
}

static void
add_to_list(const char *text, struct conf_list *l)
{
	/* Room is doubled whenever the count is a power of two. */
	if ((l->n & (l->n - 1)) == 0)
		l->v = xreallocarray(l->v, l->n != 0 ? 2 * l->n : 1,
				     sizeof(*l->v));
	l->v[l->n++] = xstrdup(text);
}

int
confval_set(const struct conf_key *k, const char *text, void *field,
	    struct strbuf *why)
{
	switch (k->type) {
	case CONF_STRING:
		free(*(char **)field);
		*(char **)field = xstrdup(text);
		return 0;
	case CONF_BOOL:
		return set_bool(text, field, why);
	case CONF_U64:
	case CONF_DURATION:
	case CONF_SIZE:
		return set_number(k, text, field, why);
	case CONF_ENUM:
		return set_enum(k, text, field, why);
	case CONF_LIST:
		add_to_list(text, field);
		return 0;
	}
	return E_INVALID;
}

void
confval_clear(const struct conf_key *k, void *field)
{
	if (k->type == CONF_STRING) {
		free(*(char **)field);
		*(char **)field = NULL;
	}
	if (k->type == CONF_LIST) {
		struct conf_list *l = field;

		for (size_t i = 0; i < l->n; i++)
			free(l->v[i]);
		free(l->v);
		*l = (struct conf_list){0};
	}
}

/* --- text out ----------------------------------------------------------- */

static void
add_text(const char *s, struct strbuf *out)
{
	struct strv v = strv_of(s);

	if (v.len > 0 && v.p[0] != '"' && strv_trim(v).len == v.len &&
	    !looks_commented(v)) {
		strbuf_addv(out, v);
		return;
	}
	strbuf_addc(out, '"');
	for (size_t i = 0; i < v.len; i++) {
		if (v.p[i] == '"' || v.p[i] == '\\')
			strbuf_addc(out, '\\');
		strbuf_addc(out, v.p[i]);
	}
	strbuf_addc(out, '"');
}

static void
print_list(const struct conf_key *k, const struct conf_list *l,
	   struct strbuf *out)
{
	/* An empty list is written only where leaving it out would bring the
	 * default back. */
	if (l->n == 0)
		strbuf_addf(out, "%s%s =\n", k->deflt != NULL ? "" : "# ",
			    k->key);
	for (size_t i = 0; i < l->n; i++) {
		strbuf_addf(out, "%s = ", k->key);
		add_text(l->v[i], out);
		strbuf_addc(out, '\n');
	}
}

void
confval_print(const struct conf_key *k, const void *field, struct strbuf *out)
{
	const char *s;

	if (k->type == CONF_LIST) {
		print_list(k, field, out);
		return;
	}
	if (k->type == CONF_STRING && *(char *const *)field == NULL) {
		strbuf_addf(out, "# %s =\n", k->key);
		return;
	}
	strbuf_addf(out, "%s = ", k->key);
	switch (k->type) {
	case CONF_STRING:
		s = *(char *const *)field;
		add_text(s, out);
		break;
	case CONF_BOOL:
		strbuf_adds(out, *(const bool *)field ? "yes" : "no");
		break;
	case CONF_U64:
	case CONF_DURATION:
	case CONF_SIZE:
		add_number(k, *(const uint64_t *)field, out);
		break;
	case CONF_ENUM:
		strbuf_adds(out, k->choices[*(const int *)field]);
		break;
	case CONF_LIST:
		break;
	}
	strbuf_addc(out, '\n');
}
