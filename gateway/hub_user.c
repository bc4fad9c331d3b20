/* SPDX-License-Identifier: Apache-2.0 */
/* What the hub says of a token's owner: a name and its organisations. */
#include "config.h"

#include "gateway/hub.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"

void
hub_user_clear(struct hub_user *u)
{
	unsigned i;

	free(u->name);
	for (i = 0; i < u->nns; i++)
		free(u->ns[i]);
	memset(u, 0, sizeof(*u));
}

static void
add_ns(struct hub_user *u, const char *name)
{
	if (name != NULL && *name != '\0' && strlen(name) <= 128 &&
	    u->nns < HUB_NS_MAX)
		u->ns[u->nns++] = xstrdup(name);
}

int
hub_parse(struct strv body, struct hub_user *out)
{
	const struct json *root, *it = NULL;
	struct json_doc *d;
	const char *name;

	if (json_parse(body, &d, NULL) != 0)
		return E_INVALID;
	root = json_root(d);
	name = json_string(json_get(root, "name"));
	if (name == NULL || *name == '\0' || strlen(name) > 128) {
		json_doc_free(d);
		return E_INVALID;
	}
	memset(out, 0, sizeof(*out));
	out->name = xstrdup(name);
	add_ns(out, name);
	while (json_each(json_get(root, "orgs"), &it, NULL))
		add_ns(out, json_string(json_get(it, "name")));
	json_doc_free(d);
	return 0;
}
