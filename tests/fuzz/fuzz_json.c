/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text is either refused with a reason or becomes a tree; a tree written
 * out with our own escapes parses again and writes the same. And every byte
 * string survives being written as a JSON string.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/utf8.h"
#include "tests/fuzz/fuzz.h"

static void
write_value(const struct json *v, struct strbuf *out)
{
	const struct json *it = NULL;
	bool object = json_type(v) == JSON_OBJECT;
	const char *name;
	char *text;

	switch (json_type(v)) {
	case JSON_NULL:
		strbuf_adds(out, "null");
		return;
	case JSON_STRING:
		strbuf_add_json(out, strv_of(json_string(v)));
		return;
	case JSON_BOOL:
	case JSON_NUMBER:
		text = json_scalar_text(v);
		strbuf_adds(out, text);
		free(text);
		return;
	case JSON_ARRAY:
	case JSON_OBJECT:
		break;
	}
	strbuf_addc(out, object ? '{' : '[');
	for (size_t n = 0; json_each(v, &it, &name); n++) {
		if (n > 0)
			strbuf_addc(out, ',');
		if (object) {
			if (json_get(v, name) != it)
				abort();
			strbuf_add_json(out, strv_of(name));
			strbuf_addc(out, ':');
		}
		write_value(it, out);
	}
	strbuf_addc(out, object ? '}' : ']');
}

/* The text of a tree; parses it first. */
static bool
rewrite(struct strv text, struct strbuf *out)
{
	struct json_doc *d = NULL;
	const char *why = NULL;

	if (json_parse(text, &d, &why) != 0) {
		if (d != NULL || why == NULL)
			abort();
		return false;
	}
	write_value(json_root(d), out);
	json_doc_free(d);
	return true;
}

static void
check_tree(struct strv text)
{
	struct strbuf one = {0}, two = {0};

	if (rewrite(text, &one)) {
		if (!rewrite((struct strv){one.s, one.len}, &two) ||
		    !strv_eq((struct strv){one.s, one.len},
			     (struct strv){two.s, two.len}))
			abort();
	}
	strbuf_clear(&one);
	strbuf_clear(&two);
}

static void
check_string(struct strv text)
{
	struct strbuf out = {0};
	struct json_doc *d;

	strbuf_add_json(&out, text);
	if (json_parse((struct strv){out.s, out.len}, &d, NULL) == 0) {
		struct strv back = strv_of(json_string(json_root(d)));

		if (utf8_valid(text) && !strv_eq(back, text))
			abort();
		json_doc_free(d);
	} else if (strv_index(text, '\0') < 0) {
		abort(); /* only U+0000 is refused on the way back */
	}
	strbuf_clear(&out);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct strv text = {(const char *)data, size};

	check_tree(text);
	check_string(text);
	return 0;
}
