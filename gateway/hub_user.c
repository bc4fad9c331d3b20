/* SPDX-License-Identifier: Apache-2.0 */
/* What the hub says of a token's owner: a name and its organisations. */
#include "config.h"

#include "gateway/hub.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"

void
hub_user_clear(struct hub_user *u)
{
	free(u->name);
	free(u->namespaces);
	memset(u, 0, sizeof(*u));
}

/* Names of the Hub are plain words; anything else could be taken for more than
 * one where names stand in a row. */
static bool
is_name(const char *name)
{
	size_t n = name != NULL ? strlen(name) : 0;

	if (n == 0 || n > HUB_NAME_MAX)
		return false;
	for (size_t i = 0; i < n; i++) {
		char c = name[i];

		if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') &&
		    !(c >= '0' && c <= '9') && memchr("-_.@", c, 4) == NULL)
			return false;
	}
	return true;
}

int
hub_parse(struct strv body, struct hub_user *out)
{
	const struct json *root, *it = NULL;
	struct strbuf list = {0};
	struct json_doc *d;
	const char *name;
	unsigned n = 1;

	if (json_parse(body, &d, NULL) != 0)
		return E_INVALID;
	root = json_root(d);
	name = json_string(json_get(root, "name"));
	if (!is_name(name)) {
		json_doc_free(d);
		return E_INVALID;
	}
	memset(out, 0, sizeof(*out));
	out->name = xstrdup(name);
	strbuf_adds(&list, name);
	while (json_each(json_get(root, "orgs"), &it, NULL)) {
		name = json_string(json_get(it, "name"));
		if (is_name(name) && n++ < HUB_NS_MAX)
			strbuf_addf(&list, ",%s", name);
	}
	out->namespaces = strbuf_take(&list);
	json_doc_free(d);
	return 0;
}
