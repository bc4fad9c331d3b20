/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The only file that includes cJSON. jsonlex.c decides what is JSON; cJSON
 * then builds the tree, and what is left to judge on the tree is judged here:
 * repeated names and numbers beyond a double. A struct json is a cJSON node
 * under another name.
 */
#include "config.h"

#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cJSON.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/jsonlex.h"
#include "base/mem.h"

/* Up to here every whole number has a double of its own. */
#define WHOLE_MAX ((UINT64_C(1) << 53) - 1)
/* Objects of more members are checked with a table, smaller ones by pairs. */
#define PAIRS_MAX 8

struct json_doc {
	cJSON *root;
};

static const cJSON *
node(const struct json *v)
{
	return (const cJSON *)(const void *)v;
}

static const struct json *
value(const cJSON *n)
{
	return (const struct json *)(const void *)n;
}

static bool
names_repeat_table(const cJSON *object)
{
	struct hash *seen = hash_new();
	const cJSON *m = object->child;

	while (m != NULL && hash_set(seen, strv_of(m->string), seen) == NULL)
		m = m->next;
	hash_free(seen);
	return m != NULL;
}

static bool
names_repeat(const cJSON *object)
{
	size_t n = 0;

	for (const cJSON *m = object->child; m != NULL; m = m->next) {
		if (++n > PAIRS_MAX)
			return names_repeat_table(object);
		for (const cJSON *o = object->child; o != m; o = o->next) {
			if (strcmp(o->string, m->string) == 0)
				return true;
		}
	}
	return false;
}

/* At most JSONLEX_DEPTH_MAX deep, so recursion is bounded. */
static const char *
tree_check(const cJSON *n)
{
	const char *why = NULL;

	if (cJSON_IsNumber(n) && !isfinite(n->valuedouble))
		return "number out of range";
	if (cJSON_IsObject(n) && names_repeat(n))
		return "the same name twice in an object";
	for (n = n->child; n != NULL && why == NULL; n = n->next)
		why = tree_check(n);
	return why;
}

int
json_parse(struct strv text, struct json_doc **out, const char **why)
{
	const char *reason = jsonlex_check(text);
	cJSON *root = NULL;

	if (reason == NULL) {
		root = cJSON_ParseWithLength(text.p, text.len);
		reason = root != NULL ? tree_check(root) : "cannot be parsed";
	}
	if (reason != NULL) {
		cJSON_Delete(root);
		if (why != NULL)
			*why = reason;
		return E_INVALID;
	}
	*out = xmalloc(sizeof(**out));
	(*out)->root = root;
	return 0;
}

void
json_doc_free(struct json_doc *d)
{
	if (d == NULL)
		return;
	cJSON_Delete(d->root);
	free(d);
}

const struct json *
json_root(const struct json_doc *d)
{
	return value(d->root);
}

enum json_type
json_type(const struct json *v)
{
	const cJSON *n = node(v);

	if (cJSON_IsBool(n))
		return JSON_BOOL;
	if (cJSON_IsNumber(n))
		return JSON_NUMBER;
	if (cJSON_IsString(n))
		return JSON_STRING;
	if (cJSON_IsArray(n))
		return JSON_ARRAY;
	if (cJSON_IsObject(n))
		return JSON_OBJECT;
	return JSON_NULL;
}

const struct json *
json_get(const struct json *v, const char *key)
{
	if (v == NULL || !cJSON_IsObject(node(v)))
		return NULL;
	return value(cJSON_GetObjectItemCaseSensitive(node(v), key));
}

const char *
json_string(const struct json *v)
{
	return v != NULL && cJSON_IsString(node(v)) ? node(v)->valuestring
						    : NULL;
}

int
json_u64(const struct json *v, uint64_t max, uint64_t *out)
{
	double d;

	if (v == NULL)
		return E_NOTFOUND;
	if (!cJSON_IsNumber(node(v)))
		return E_INVALID;
	d = node(v)->valuedouble;
	if (!(d >= 0 && d <= (double)WHOLE_MAX) || trunc(d) != d ||
	    (uint64_t)d > max)
		return E_INVALID;
	*out = (uint64_t)d;
	return 0;
}

int
json_number(const struct json *v, double *out)
{
	if (v == NULL)
		return E_NOTFOUND;
	if (!cJSON_IsNumber(node(v)))
		return E_INVALID;
	*out = node(v)->valuedouble;
	return 0;
}

int
json_bool(const struct json *v, bool *out)
{
	if (v == NULL)
		return E_NOTFOUND;
	if (!cJSON_IsBool(node(v)))
		return E_INVALID;
	*out = cJSON_IsTrue(node(v));
	return 0;
}

/* The fewest digits that read back as the same number. */
static char *
number_text(double d)
{
	char s[40];
	int digits = 15;

	if (trunc(d) == d && fabs(d) <= (double)WHOLE_MAX)
		return xasprintf("%.0f", d == 0 ? 0.0 : d); /* no "-0" */
	do
		snprintf(s, sizeof(s), "%.*g", digits, d);
	while (strtod(s, NULL) != d && digits++ < 17);
	return xstrdup(s);
}

char *
json_scalar_text(const struct json *v)
{
	if (v == NULL)
		return NULL;
	switch (json_type(v)) {
	case JSON_STRING:
		return xstrdup(node(v)->valuestring);
	case JSON_NUMBER:
		return number_text(node(v)->valuedouble);
	case JSON_BOOL:
		return xstrdup(cJSON_IsTrue(node(v)) ? "true" : "false");
	case JSON_NULL:
	case JSON_ARRAY:
	case JSON_OBJECT:
		break;
	}
	return NULL;
}

static bool
is_container(const struct json *v)
{
	return v != NULL && (cJSON_IsArray(node(v)) || cJSON_IsObject(node(v)));
}

bool
json_each(const struct json *v, const struct json **it, const char **name)
{
	if (*it != NULL)
		*it = value(node(*it)->next);
	else if (is_container(v))
		*it = value(node(v)->child);
	if (*it == NULL)
		return false;
	if (name != NULL)
		*name = node(*it)->string;
	return true;
}

size_t
json_count(const struct json *v)
{
	size_t n = 0;

	if (!is_container(v))
		return 0;
	for (const cJSON *m = node(v)->child; m != NULL; m = m->next)
		n++;
	return n;
}
