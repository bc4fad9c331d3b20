/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The INI reader. One instance ("group") holds one section's struct; unnamed
 * sections all exist from the start, filled with their defaults, named ones
 * appear as the file names them. The first error ends the parse: with one
 * table behind it, a second message is mostly a consequence of the first.
 */
#include "config.h"

#include "base/conf.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/confval.h"
#include "base/err.h"
#include "base/fdio.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/utf8.h"

#define CONF_FILE_MAX (1024 * 1024)
#define CONF_NAME_MAX 255

struct group {
	const struct conf_section *section;
	char *name; /* NULL: unnamed */
	unsigned line;
	void *data;
	unsigned *lines; /* by index into the spec's keys; 0: default */
};

struct conf {
	const struct conf_spec *spec;
	char *file_name;
	size_t n_keys;
	struct group *groups;
	size_t n, cap;
};

/* One parse; errors are "file:line: subject: reason". */
struct reader {
	struct conf *c;
	struct hash *index; /* "section NAME" -> number of its group + 1 */
	size_t current;     /* group that keys go to; SIZE_MAX: none yet */
	unsigned line;
	struct strbuf msg;
};

/* --- groups ------------------------------------------------------------- */

static void *
field_of(const struct group *g, const struct conf_key *k)
{
	return (char *)g->data + k->offset;
}

static bool
key_belongs(const struct conf_key *k, const struct conf_section *s)
{
	return strcmp(k->section, s->name) == 0;
}

static void
set_default(struct group *g, const struct conf_key *k)
{
	struct strbuf why = {0};

	if (k->deflt != NULL && key_belongs(k, g->section) &&
	    confval_set(k, k->deflt, field_of(g, k), &why) != 0)
		assert(!"a default in the key table is not valid");
	strbuf_clear(&why);
}

static struct group *
group_add(struct conf *c, const struct conf_section *s, struct strv name,
	  unsigned line)
{
	struct group *g;

	if (c->n == c->cap) {
		c->cap = c->cap != 0 ? 2 * c->cap : 8;
		c->groups = xreallocarray(c->groups, c->cap, sizeof(*g));
	}
	g = &c->groups[c->n++];
	*g = (struct group){.section = s, .line = line};
	if (name.p != NULL)
		g->name = xstrndup(name.p, name.len);
	g->data = xcalloc(1, s->size);
	g->lines = xcalloc(c->n_keys, sizeof(*g->lines));
	/* A list's default is set at the end, if nothing else was. */
	for (const struct conf_key *k = c->spec->keys; k->key != NULL; k++) {
		if (k->type != CONF_LIST)
			set_default(g, k);
	}
	return g;
}

static void
group_clear(const struct conf *c, struct group *g)
{
	for (const struct conf_key *k = c->spec->keys; k->key != NULL; k++) {
		if (key_belongs(k, g->section))
			confval_clear(k, field_of(g, k));
	}
	free(g->data);
	free(g->lines);
	free(g->name);
}

void
conf_free(struct conf *c)
{
	if (c == NULL)
		return;
	for (size_t i = 0; i < c->n; i++)
		group_clear(c, &c->groups[i]);
	free(c->groups);
	free(c->file_name);
	free(c);
}

static struct conf *
conf_new(const struct conf_spec *spec, const char *file_name)
{
	struct conf *c = xcalloc(1, sizeof(*c));

	c->spec = spec;
	c->file_name = xstrdup(file_name);
	while (spec->keys[c->n_keys].key != NULL)
		c->n_keys++;
	for (const struct conf_section *s = spec->sections; s->name; s++) {
		if (!s->named)
			(void)group_add(c, s, STRV_NULL, 0);
	}
	return c;
}

/* --- errors ------------------------------------------------------------- */

/* A piece of the file in a message: short, and only what can be shown. */
static void
add_shown(struct strbuf *b, struct strv v)
{
	size_t n = v.len < 64 ? v.len : 64;

	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)v.p[i];

		strbuf_addc(b, c >= 0x20 && c < 0x7f ? (char)c : '?');
	}
	if (n < v.len)
		strbuf_adds(b, "...");
}

static int
fail(struct reader *rd, struct strv subject, const char *reason)
{
	strbuf_addf(&rd->msg, "%s:%u: ", rd->c->file_name, rd->line);
	add_shown(&rd->msg, subject);
	strbuf_addf(&rd->msg, ": %s", reason);
	return E_INVALID;
}

static int
fail_repeated(struct reader *rd, struct strv subject, unsigned first)
{
	char *reason = xasprintf("given twice (first on line %u)", first);

	(void)fail(rd, subject, reason);
	free(reason);
	return E_INVALID;
}

/* --- lines -------------------------------------------------------------- */

static const struct conf_section *
find_section(const struct conf_spec *spec, struct strv name)
{
	const struct conf_section *s = spec->sections;

	while (s->name != NULL && !strv_eq(strv_of(s->name), name))
		s++;
	return s->name != NULL && *s->name != '\0' ? s : NULL;
}

static bool
name_valid(struct strv v)
{
	if (v.len == 0 || v.len > CONF_NAME_MAX)
		return false;
	for (size_t i = 0; i < v.len; i++) {
		if (v.p[i] <= ' ' || v.p[i] > '~' ||
		    strchr("\"#;[]\\", v.p[i]) != NULL)
			return false;
	}
	return true;
}

static size_t
find_unnamed(const struct conf *c, const char *section)
{
	size_t i = 0;

	while (i < c->n && (c->groups[i].name != NULL ||
			    strcmp(c->groups[i].section->name, section) != 0))
		i++;
	return i < c->n ? i : SIZE_MAX;
}

static int
enter_named(struct reader *rd, const struct conf_section *s, struct strv line,
	    struct strv name)
{
	struct strbuf key = {0};
	void *old;

	strbuf_addf(&key, "%s %.*s", s->name, STRV_ARG(name));
	old = hash_set(rd->index, strv_of(key.s),
		       (void *)(uintptr_t)(rd->c->n + 1));
	strbuf_clear(&key);
	if (old != NULL) {
		size_t first = (size_t)(uintptr_t)old - 1;

		return fail_repeated(rd, line, rd->c->groups[first].line);
	}
	rd->current = rd->c->n;
	(void)group_add(rd->c, s, name, rd->line);
	return 0;
}

static int
read_section(struct reader *rd, struct strv line)
{
	struct strv name = STRV_NULL, kind, inner;
	const struct conf_section *s;
	struct group *g;

	if (line.p[line.len - 1] != ']')
		return fail(rd, line, "the closing ] is missing");
	inner = strv_trim((struct strv){line.p + 1, line.len - 2});
	name = inner;
	(void)strv_cut(&name, ' ', &kind);
	s = find_section(rd->c->spec, kind);
	if (s == NULL)
		return fail(rd, line, "unknown section");
	name = strv_trim(name);
	if (s->named) {
		if (name.len == 0)
			return fail(rd, line, "this section needs a name");
		if (!name_valid(name))
			return fail(rd, line,
				    "a name is at most 255 visible characters "
				    "without blanks, quotes or any of #;[]\\");
		return enter_named(rd, s, line, name);
	}
	if (name.len != 0)
		return fail(rd, line, "this section takes no name");
	rd->current = find_unnamed(rd->c, s->name);
	g = &rd->c->groups[rd->current];
	if (g->line != 0)
		return fail_repeated(rd, line, g->line);
	g->line = rd->line;
	return 0;
}

static const struct conf_key *
find_key(const struct conf *c, const struct group *g, struct strv name)
{
	const struct conf_key *k = c->spec->keys;

	while (k->key != NULL &&
	       !(key_belongs(k, g->section) && strv_eq(strv_of(k->key), name)))
		k++;
	return k->key != NULL ? k : NULL;
}

/* How many letters differ, come or go between two words; large for long ones,
 * which nobody mistypes into one another. */
static size_t
edit_distance(struct strv a, struct strv b)
{
	size_t row[33];

	if (a.len >= ARRAY_LEN(row) || b.len >= ARRAY_LEN(row))
		return SIZE_MAX;
	for (size_t j = 0; j <= b.len; j++)
		row[j] = j;
	for (size_t i = 1; i <= a.len; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= b.len; j++) {
			size_t best = diagonal + (a.p[i - 1] != b.p[j - 1]);

			diagonal = row[j];
			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			row[j] = best;
		}
	}
	return row[b.len];
}

/* Most unknown keys are misspelt or stand in the wrong section: say so. */
static int
fail_unknown(struct reader *rd, const struct group *g, struct strv name)
{
	const struct conf_key *near = NULL, *other = NULL;
	size_t least = 3;

	for (const struct conf_key *k = rd->c->spec->keys; k->key; k++) {
		size_t d = edit_distance(strv_of(k->key), name);

		if (d == 0)
			other = k;
		if (key_belongs(k, g->section) && d < least && d < name.len) {
			near = k;
			least = d;
		}
	}
	(void)fail(rd, name, "unknown key in this section");
	if (near != NULL)
		strbuf_addf(&rd->msg, "; did you mean %s?", near->key);
	else if (other != NULL && *other->section != '\0')
		strbuf_addf(&rd->msg, "; it belongs in [%s]", other->section);
	else if (other != NULL)
		strbuf_adds(&rd->msg, "; it belongs above the first section");
	return E_INVALID;
}

/* empty is `key =` with nothing behind it: an empty text, or no element. */
static int
set_value(const struct conf_key *k, const char *text, bool empty, void *field,
	  struct strbuf *why)
{
	if (empty && k->type == CONF_LIST)
		return 0;
	if (empty && k->type != CONF_STRING) {
		strbuf_adds(why, "needs a value");
		return E_INVALID;
	}
	return confval_set(k, text, field, why);
}

static int
set_key(struct reader *rd, struct strv name, struct strv raw)
{
	struct group *g = &rd->c->groups[rd->current];
	const struct conf_key *k = find_key(rd->c, g, name);
	struct strbuf why = {0};
	const char *reason;
	unsigned *line;
	bool empty;
	char *text;
	int r;

	if (k == NULL)
		return fail_unknown(rd, g, name);
	line = &g->lines[k - rd->c->spec->keys];
	if (*line != 0 && k->type != CONF_LIST)
		return fail_repeated(rd, name, *line);
	if (confval_unquote(raw, &text, &empty, &reason) != 0)
		return fail(rd, name, reason);
	r = set_value(k, text, empty, field_of(g, k), &why);
	if (r != 0)
		(void)fail(rd, name, why.s);
	else if (*line == 0)
		*line = rd->line;
	free(text);
	strbuf_clear(&why);
	return r;
}

static int
read_key(struct reader *rd, struct strv line)
{
	struct strv rest = line, name;

	(void)strv_cut(&rest, '=', &name);
	name = strv_trim(name);
	if (rest.p == NULL)
		return fail(rd, name, "expected \"key = value\"");
	if (name.len == 0)
		return fail(rd, line, "the key before \"=\" is missing");
	if (rd->current == SIZE_MAX)
		return fail(rd, name, "stands before the first [section]");
	return set_key(rd, name, rest);
}

static int
read_line(struct reader *rd, struct strv line)
{
	if (strv_ends(line, STRV("\r")))
		line.len--;
	line = strv_trim(line);
	for (size_t i = 0; i < line.len; i++) {
		unsigned char c = (unsigned char)line.p[i];

		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return fail(rd, line, "control byte in this line");
	}
	if (!utf8_valid(line))
		return fail(rd, line, "this line is not UTF-8");
	if (line.len == 0 || line.p[0] == '#' || line.p[0] == ';')
		return 0;
	return line.p[0] == '[' ? read_section(rd, line) : read_key(rd, line);
}

static void
set_list_defaults(struct conf *c)
{
	for (size_t i = 0; i < c->n; i++) {
		struct group *g = &c->groups[i];

		for (size_t j = 0; j < c->n_keys; j++) {
			const struct conf_key *k = &c->spec->keys[j];

			if (k->type == CONF_LIST && g->lines[j] == 0)
				set_default(g, k);
		}
	}
}

int
conf_parse(const struct conf_spec *spec, const char *file_name,
	   struct strv text, struct conf **out, char **msg)
{
	struct reader rd = {0};
	struct strv line;
	int r = 0;

	rd.c = conf_new(spec, file_name);
	rd.index = hash_new();
	rd.current = find_unnamed(rd.c, "");
	while (r == 0 && strv_cut(&text, '\n', &line)) {
		rd.line++;
		r = read_line(&rd, line);
	}
	hash_free(rd.index);
	if (r != 0) {
		conf_free(rd.c);
		*msg = strbuf_take(&rd.msg);
		return r;
	}
	set_list_defaults(rd.c);
	*out = rd.c;
	return 0;
}

int
conf_read(const struct conf_spec *spec, const char *path, struct conf **out,
	  char **msg)
{
	char *text;
	size_t len;
	int r;

	r = file_read(path, CONF_FILE_MAX, &text, &len);
	if (r != 0) {
		*msg =
		    xasprintf("%s: cannot be read: %s", path,
			      r == E_LIMIT ? "larger than 1 MiB" : err_text(r));
		return r;
	}
	r = conf_parse(spec, path, (struct strv){text, len}, out, msg);
	free(text);
	return r;
}

/* --- what was read ------------------------------------------------------ */

static const struct group *
find_group(const struct conf *c, const char *section, const char *name)
{
	size_t i;

	if (name == NULL) {
		i = find_unnamed(c, section);
		return i != SIZE_MAX ? &c->groups[i] : NULL;
	}
	for (i = 0; i < c->n; i++) {
		const struct group *g = &c->groups[i];

		if (g->name != NULL && strcmp(g->name, name) == 0 &&
		    strcmp(g->section->name, section) == 0)
			return g;
	}
	return NULL;
}

const void *
conf_section(const struct conf *c, const char *section)
{
	const struct group *g = find_group(c, section, NULL);

	assert(g != NULL); /* the spec does not have it: a bug */
	return g->data;
}

const void *
conf_named(const struct conf *c, const char *section, size_t i,
	   const char **name)
{
	for (const struct group *g = c->groups; g < c->groups + c->n; g++) {
		if (g->name == NULL || strcmp(g->section->name, section) != 0 ||
		    i-- != 0)
			continue;
		if (name != NULL)
			*name = g->name;
		return g->data;
	}
	return NULL;
}

unsigned
conf_line(const struct conf *c, const char *section, const char *name,
	  const char *key)
{
	const struct group *g = find_group(c, section, name);
	const struct conf_key *k;

	if (g == NULL || (k = find_key(c, g, strv_of(key))) == NULL)
		return 0;
	return g->lines[k - c->spec->keys];
}

const char *
conf_file_name(const struct conf *c)
{
	return c->file_name;
}

void
conf_dump(const struct conf *c, struct strbuf *out)
{
	/* Keys without a section first: nothing can put them later. */
	for (int headed = 0; headed < 2; headed++) {
		for (size_t i = 0; i < c->n; i++) {
			const struct group *g = &c->groups[i];
			const struct conf_key *k = c->spec->keys;

			if ((*g->section->name != '\0') != headed)
				continue;
			if (headed)
				strbuf_addf(out, "[%s%s%s]\n", g->section->name,
					    g->name != NULL ? " " : "",
					    g->name != NULL ? g->name : "");
			for (; k->key != NULL; k++) {
				if (key_belongs(k, g->section))
					confval_print(k, field_of(g, k), out);
			}
			strbuf_addc(out, '\n');
		}
	}
}
