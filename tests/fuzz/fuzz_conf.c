/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text is either a configuration or an error with a place; and what
 * conf_dump() writes of it parses, and dumps to the same text again.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "tests/fuzz/fuzz.h"

struct top {
	uint64_t workers;
	bool debug;
};

struct site {
	char *path;
	struct conf_list alias;
	struct conf_list names;
	uint64_t timeout;
	uint64_t limit;
	int mode;
};

static const char *const modes[] = {"off", "soft", "hard", NULL};

static const struct conf_section sections[] = {
    {"", false, sizeof(struct top), NULL},
    {"main", false, sizeof(struct site), NULL},
    {"site", true, sizeof(struct site), NULL},
    {NULL, false, 0, NULL}};

#define TOP(f)  offsetof(struct top, f)
#define SITE(f) offsetof(struct site, f)

static const struct conf_key keys[] = {
    {"", "workers", CONF_U64, TOP(workers), "2", 1, 64, NULL, NULL},
    {"", "debug", CONF_BOOL, TOP(debug), NULL, 0, 0, NULL, NULL},
    {"main", "path", CONF_STRING, SITE(path), " a;\"b ", 0, 0, NULL, NULL},
    {"main", "mode", CONF_ENUM, SITE(mode), "soft", 0, 0, modes, NULL},
    {"main", "t", CONF_DURATION, SITE(timeout), NULL, 0, 0, NULL, NULL},
    {"site", "path", CONF_STRING, SITE(path), NULL, 0, 0, NULL, NULL},
    {"site", "alias", CONF_LIST, SITE(alias), NULL, 0, 0, NULL, NULL},
    {"site", "name", CONF_LIST, SITE(names), "one", 0, 0, NULL, NULL},
    {"site", "t", CONF_DURATION, SITE(timeout), "5m", 1, 86400000, NULL, NULL},
    {"site", "size", CONF_SIZE, SITE(limit), "64K", 0, 0, NULL, NULL},
    {NULL, NULL, CONF_STRING, 0, NULL, 0, 0, NULL, NULL}};

static const struct conf_spec spec = {sections, keys};

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct strbuf first = {0}, second = {0};
	struct conf *c = NULL, *again = NULL;
	char *msg = NULL;

	if (conf_parse(&spec, "f", (struct strv){(const char *)data, size}, &c,
		       &msg) != 0) {
		if (c != NULL || strncmp(msg, "f:", 2) != 0)
			abort();
		free(msg);
		return 0;
	}
	conf_dump(c, &first);
	if (conf_parse(&spec, "f", (struct strv){first.s, first.len}, &again,
		       &msg) != 0)
		abort();
	conf_dump(again, &second);
	if (first.len != second.len || memcmp(first.s, second.s, first.len))
		abort();
	strbuf_clear(&first);
	strbuf_clear(&second);
	conf_free(c);
	conf_free(again);
	return 0;
}
