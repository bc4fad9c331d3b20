/* SPDX-License-Identifier: Apache-2.0 */
/*
 * INI configuration, strict, driven by one key table.
 *
 *     # comment            ; comment
 *     [section]   or   [section NAME]
 *     key = value
 *
 * Comments stand on lines of their own. A value runs to the end of its line,
 * without the blanks around it; in double quotes (with \" and \\ in them) it
 * may begin or end with blanks, or hold " #" or " ;". Text is UTF-8. `key =`
 * is the empty text, or for a list: no element.
 *
 * A program describes its keys once, in a table of struct conf_key; the table
 * drives parsing, checking, defaults, --dump-config, and the test that every
 * key is in the manual. Unknown or repeated keys and sections are errors, and
 * every error reads `file:line: key: reason`.
 */
#ifndef SBX_BASE_CONF_H
#define SBX_BASE_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/defs.h"
#include "base/str.h"

enum conf_type {
	CONF_STRING,   /* char *: malloc'ed */
	CONF_BOOL,     /* bool: yes/no, true/false, on/off, 1/0 */
	CONF_U64,      /* uint64_t: decimal, min..max */
	CONF_DURATION, /* uint64_t milliseconds: "10s", "500ms", "1h" */
	CONF_SIZE,     /* uint64_t bytes: "32K" */
	CONF_ENUM,     /* int: one of choices, its index */
	CONF_LIST      /* struct conf_list: may be given several times */
};

struct conf_list {
	char **v;
	size_t n;
};

struct conf_key {
	const char *section; /* "" only for keys above the first section */
	const char *key;
	enum conf_type type;
	size_t offset;     /* of the field in the section's struct */
	const char *deflt; /* as text; NULL: zero/NULL/empty */
	uint64_t min, max; /* U64, DURATION (ms), SIZE; max 0: no bound */
	const char *const *choices; /* ENUM, NULL-terminated */
	const char *help;           /* one line */
};

/* A kind of section: `named` sections may occur many times, each with a NAME
 * of its own; an unnamed one at most once. */
struct conf_section {
	const char *name;
	bool named;
	size_t size; /* of the struct that its keys fill */
	const char *help;
};

struct conf_spec {
	const struct conf_section *sections; /* .name NULL ends */
	const struct conf_key *keys;         /* .key NULL ends */
};

struct conf; /* one parsed configuration, immutable */

/* Parses text (file_name is for messages). On failure *msg gets a malloc'ed
 * "file:line: key: reason" and E_INVALID is returned. */
int conf_parse(const struct conf_spec *spec, const char *file_name,
	       struct strv text, struct conf **out, char **msg) SBX_MUST_CHECK;
/* Reads and parses path (at most 1 MiB). */
int conf_read(const struct conf_spec *spec, const char *path, struct conf **out,
	      char **msg) SBX_MUST_CHECK;
void conf_free(struct conf *c);

/* The filled struct of an unnamed section (defaults when it was not given;
 * never NULL for a section in the spec). */
const void *conf_section(const struct conf *c, const char *section);
/* The i-th named section of that kind, in file order; NULL at the end. */
const void *conf_named(const struct conf *c, const char *section, size_t i,
		       const char **name);
/* Line on which that key was set; 0 when it is the default. name NULL for
 * unnamed sections. For messages about combinations of keys. */
unsigned conf_line(const struct conf *c, const char *section, const char *name,
		   const char *key);
const char *conf_file_name(const struct conf *c);

/* Writes the whole effective configuration as INI that parses to the same;
 * secret-free by rule, since secrets are only ever in files of their own. */
void conf_dump(const struct conf *c, struct strbuf *out);

#endif
