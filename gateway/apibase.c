/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /api/whoami-v2 and GET /api/agent-harnesses. Clients of sandboxes read
 * no more than `name` of the first, but ask for it with every other call; the
 * second must be an object with these two members, which clients then keep
 * for a day.
 */
#include "config.h"

#include "gateway/apibase.h"

#include "gateway/api.h"

static void
add_named(struct strbuf *b, const char *member, struct strv v)
{
	strbuf_addf(b, ",\"%s\":", member);
	strbuf_add_json(b, v);
}

static const char *
role_text(enum api_role role)
{
	return role == API_READONLY ? "read" : "write";
}

static void
whoami(struct api_req *r)
{
	const struct api_who *who = &r->who;
	struct strbuf b = {0};

	strbuf_adds(&b, "{\"type\":\"user\"");
	add_named(&b, "id", who->name);
	add_named(&b, "name", who->ns[0]);
	add_named(&b, "fullname", who->name);
	strbuf_adds(&b, ",\"canPay\":false,\"isPro\":false,\"orgs\":[");
	for (unsigned i = 1; i < who->nns; i++) {
		strbuf_addf(&b, "%s{\"type\":\"org\"", i > 1 ? "," : "");
		add_named(&b, "id", who->ns[i]);
		add_named(&b, "name", who->ns[i]);
		add_named(&b, "fullname", who->ns[i]);
		strbuf_addf(&b, ",\"roleInOrg\":\"%s\"}", role_text(who->role));
	}
	strbuf_adds(&b, "],\"auth\":{\"type\":\"access_token\","
			"\"accessToken\":{\"displayName\":");
	strbuf_add_json(&b, who->name);
	strbuf_addf(&b, ",\"role\":\"%s\"}}}\n", role_text(who->role));
	api_reply_json(r, 200, &b, NULL);
	strbuf_clear(&b);
}

static void
harnesses(struct api_req *r)
{
	struct strbuf b = {0};

	strbuf_adds(&b, "{\"standardEnvVars\":[],\"harnesses\":{}}\n");
	api_reply_json(r, 200, &b, NULL);
	strbuf_clear(&b);
}

void
apibase_add(struct api *a)
{
	(void)api_route(a, "GET", "/api/whoami-v2", whoami, NULL);
	(void)api_route_public(a, "GET", "/api/agent-harnesses", harnesses,
			       NULL);
}
