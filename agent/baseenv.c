/* SPDX-License-Identifier: Apache-2.0 */
/* The base environment; see the header. */
#include "config.h"

#include "agent/baseenv.h"

#include <stddef.h>
#include <string.h>

#include "agent/execreq.h"
#include "agent/jobout.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"

int
baseenv_read(const struct json *v, char ***out, char **why)
{
	size_t bytes = 0, n = 0;
	char **env = NULL;
	int r;

	if ((r = execreq_env(v, &env, why)) != 0)
		return r;
	for (; env != NULL && env[n] != NULL; n++)
		bytes += strlen(env[n]) + 1;
	if (n <= BASEENV_MAX && bytes <= BASEENV_BYTES_MAX) {
		*out = env;
		return 0;
	}
	execreq_env_free(env);
	*why = xasprintf("env: more than %d names or %d bytes", BASEENV_MAX,
			 BASEENV_BYTES_MAX);
	return E_INVALID;
}

int
baseenv_parse(const char *text, char ***out, char **why)
{
	struct json_doc *doc = NULL;
	const char *reason;
	int r;

	if ((r = json_parse(strv_of(text), &doc, &reason)) != 0) {
		*why = xstrdup(reason);
		return r;
	}
	r = baseenv_read(json_root(doc), out, why);
	json_doc_free(doc);
	return r;
}

int
baseenv_read_outside(const struct json *v, char ***out, char **why)
{
	const struct json *it = NULL;
	const char *entry;
	size_t n = 0;

	*out = NULL;
	if (v == NULL)
		return 0;
	*out = xcalloc(JOBOUT_MAX + 1, sizeof(**out));
	while (n < JOBOUT_MAX && json_each(v, &it, NULL) &&
	       (entry = json_string(it)) != NULL && jobout_entry_ok(entry))
		(*out)[n++] = xstrdup(entry);
	if (json_type(v) == JSON_ARRAY && n == json_count(v))
		return 0;
	execreq_env_free(*out);
	*why = xasprintf("outside: not a list of at most %d texts "
			 "\"PORT HOST:PORT\"",
			 JOBOUT_MAX);
	return E_INVALID;
}

void
baseenv_take(struct baseenv *b, char **v, char **outside)
{
	baseenv_clear(b);
	b->v = v;
	b->outside = outside;
}

void
baseenv_clear(struct baseenv *b)
{
	execreq_env_free(b->v);
	b->v = NULL;
	execreq_env_free(b->outside);
	b->outside = NULL;
}
