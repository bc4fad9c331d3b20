/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading JSON with limits and clear errors. json.c is the only file that
 * includes cJSON. Writing is done with strbuf_add_json() and friends: answers
 * are small and flat, and streaming them needs no tree.
 */
#ifndef SBX_BASE_JSON_H
#define SBX_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/defs.h"
#include "base/str.h"

struct json; /* a value; borrowed from its document */
struct json_doc;

enum json_type {
	JSON_NULL,
	JSON_BOOL,
	JSON_NUMBER,
	JSON_STRING,
	JSON_ARRAY,
	JSON_OBJECT
};

/* Parses one complete JSON text (RFC 8259 to the letter, UTF-8, at most 64
 * levels deep, nothing after it, no U+0000, no lone surrogates, no name twice
 * in an object); E_INVALID otherwise. *why, when not
 * NULL, is set to a static text on failure. The tree takes some 70 bytes a
 * value: bound the text before it gets here. */
int json_parse(struct strv text, struct json_doc **out,
	       const char **why) SBX_MUST_CHECK;
void json_doc_free(struct json_doc *d);
const struct json *json_root(const struct json_doc *d);

enum json_type json_type(const struct json *v);
/* Member of an object, NULL when absent or v is not an object. */
const struct json *json_get(const struct json *v, const char *key);
/* NUL-terminated UTF-8 without NULs in it; NULL when v is NULL or not a
 * string. */
const char *json_string(const struct json *v);
/* E_NOTFOUND when v is NULL, E_INVALID when it is of another type or out of
 * range. Integers must be whole, and below 2^53: from there on a JSON number is
 * not exact. */
int json_u64(const struct json *v, uint64_t max, uint64_t *out) SBX_MUST_CHECK;
int json_number(const struct json *v, double *out) SBX_MUST_CHECK;
int json_bool(const struct json *v, bool *out) SBX_MUST_CHECK;
/* A string, number or boolean as text (numbers in their shortest form,
 * true/false), malloc'ed; NULL for anything else. */
char *json_scalar_text(const struct json *v);

/* Array elements or object members in order: *it starts as NULL. False at
 * the end. name, when not NULL, is set to the member's name. */
bool json_each(const struct json *v, const struct json **it, const char **name);
size_t json_count(const struct json *v);

#endif
