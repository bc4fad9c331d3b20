/* SPDX-License-Identifier: Apache-2.0 */
/* PUT /v1/env: what all commands find in their environment. */
#include "config.h"

#include "agent/api_int.h"

#include <stdlib.h>

#include "agent/baseenv.h"
#include "agent/execreq.h"

static void
apienv_set(struct call *c)
{
	struct json_doc *doc = api_json(c, false);
	struct strbuf b = {0};
	char **v = NULL, **outside = NULL, *why = NULL;
	const struct json *env;
	size_t n = 0;

	if (doc == NULL)
		return;
	env = json_get(json_root(doc), "env");
	if (env == NULL) {
		api_error(c->rq, 400, "bad_request", "env: is missing");
	} else if (baseenv_read_outside(json_get(json_root(doc), "outside"),
					&outside, &why) != 0) {
		api_error(c->rq, 400, "bad_request", "%s", why);
		free(why);
	} else if (baseenv_read(env, &v, &why) != 0) {
		execreq_env_free(outside);
		api_error(c->rq, 400, "bad_request", "%s", why);
		free(why);
	} else {
		while (v != NULL && v[n] != NULL)
			n++;
		baseenv_take(c->api->o.base, v, outside);
		strbuf_addf(&b, "{\"names\":%zu}", n);
		api_answer(c, 200, &b);
	}
	json_doc_free(doc);
}

void
api_env_put(struct call *c)
{
	c->quiet = true;
	api_collect(c, API_SMALL_MAX, apienv_set);
}
