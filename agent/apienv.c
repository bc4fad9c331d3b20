/* SPDX-License-Identifier: Apache-2.0 */
/* PUT /v1/env: what all commands find in their environment. */
#include "config.h"

#include "agent/api_int.h"

#include <stdlib.h>
#include <string.h>

#include "agent/baseenv.h"
#include "agent/execreq.h"

static bool
apienv_fits(struct call *c, char **v, size_t *n)
{
	size_t bytes = 0;

	for (*n = 0; v != NULL && v[*n] != NULL; (*n)++)
		bytes += strlen(v[*n]) + 1;
	if (*n <= BASEENV_MAX && bytes <= BASEENV_BYTES_MAX)
		return true;
	api_error(c->rq, 400, "bad_request",
		  "env: more than %d names or %d bytes", BASEENV_MAX,
		  BASEENV_BYTES_MAX);
	return false;
}

static void
apienv_set(struct call *c)
{
	struct json_doc *doc = api_json(c, false);
	struct strbuf b = {0};
	char **v = NULL, *why = NULL;
	const struct json *env;
	size_t n;

	if (doc == NULL)
		return;
	env = json_get(json_root(doc), "env");
	if (env == NULL) {
		api_error(c->rq, 400, "bad_request", "env: is missing");
	} else if (execreq_env(env, &v, &why) != 0) {
		api_error(c->rq, 400, "bad_request", "%s", why);
		free(why);
	} else if (!apienv_fits(c, v, &n)) {
		execreq_env_free(v);
	} else {
		baseenv_take(c->api->o.base, v);
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
