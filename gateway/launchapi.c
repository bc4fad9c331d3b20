/* SPDX-License-Identifier: Apache-2.0 */
/* The registration of a job's agent; its one-time token is the credential. */
#include "config.h"

#include "gateway/launchapi.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "gateway/api.h"
#include "gateway/launch.h"

#define BODY_MAX 4096

static void
registered(struct api_req *r, const struct json *root)
{
	const char *token = json_string(json_get(root, "token"));
	const char *address = json_string(json_get(root, "address"));
	struct strbuf b = {0};
	char *id, *why = NULL;
	int e;

	if (token == NULL || address == NULL) {
		api_error(r, 400, "bad_request", "%s: a text is wanted",
			  token == NULL ? "token" : "address");
		return;
	}
	id = xstrndup(r->param[0].p, r->param[0].len);
	e = launch_register(r->arg, id, strv_of(token), strv_of(address), &why);
	if (e != 0) {
		api_error(r, e == E_INVALID ? 400 : 403,
			  e == E_INVALID ? "bad_request" : "denied", "%s", why);
	} else {
		strbuf_adds(&b, "{\"ok\":true}");
		api_reply_json(r, 200, &b, NULL);
	}
	strbuf_clear(&b);
	free(why);
	free(id);
}

static void
handle(struct api_req *r)
{
	api_body_json(r, BODY_MAX, registered);
}

void
launchapi_add(struct api *a, struct launcher *l)
{
	(void)api_route_public(a, "POST", "/api/jobs/:id/register", handle, l);
}
