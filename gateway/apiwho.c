/* SPDX-License-Identifier: Apache-2.0 */
/* Reading who asks. What is not exactly as a worker writes it is refused:
 * better nobody's request than the wrong one's. */
#include "config.h"

#include "gateway/apiwho.h"

#include <string.h>

#include "base/err.h"
#include "net/http1.h"

static int
parse_role(struct strv v, enum api_role *out)
{
	static const struct {
		const char *word;
		enum api_role role;
	} roles[] = {{"readonly", API_READONLY},
		     {"user", API_USER},
		     {"admin", API_ADMIN},
		     {"operator", API_OPERATOR}};

	for (size_t i = 0; i < ARRAY_LEN(roles); i++) {
		if (strv_eq(v, strv_of(roles[i].word))) {
			*out = roles[i].role;
			return 0;
		}
	}
	return E_INVALID;
}

static int
parse_namespaces(struct strv list, struct api_who *who)
{
	struct strv ns;

	while (strv_cut(&list, ',', &ns)) {
		if (ns.len == 0 || who->nns == API_NS_MAX)
			return E_INVALID;
		who->ns[who->nns++] = ns;
	}
	return who->nns > 0 ? 0 : E_INVALID;
}

int
apiwho_parse(const struct http_head *h, struct api_who *out)
{
	struct strv role = http1_find(h, STRV("X-Sbx-Role"));
	struct strv ns = http1_find(h, STRV("X-Sbx-Namespaces"));
	int r;

	memset(out, 0, sizeof(*out));
	out->origin = http1_find(h, STRV("X-Sbx-Origin"));
	out->name = http1_find(h, STRV("X-Sbx-User"));
	if (out->name.p == NULL && role.p == NULL && ns.p == NULL)
		return 0; /* nobody */
	if (out->name.len == 0 || role.p == NULL || ns.p == NULL)
		return E_INVALID;
	if ((r = parse_role(role, &out->role)) != 0)
		return r;
	return parse_namespaces(ns, out);
}

bool
api_may_read(const struct api_who *who, struct strv ns)
{
	if (who->role >= API_ADMIN)
		return true;
	if (who->role == API_NOBODY || ns.len == 0)
		return false;
	for (unsigned i = 0; i < who->nns; i++)
		if (strv_eq(who->ns[i], ns))
			return true;
	return false;
}

bool
api_may_write(const struct api_who *who, struct strv ns)
{
	return who->role >= API_USER && api_may_read(who, ns);
}
