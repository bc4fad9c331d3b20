/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any JSON is either refused with a reason that names a key, or becomes a
 * command that can be started, whose text is JSON again.
 */
#include "config.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "agent/execreq.h"
#include "base/json.h"
#include "base/mem.h"
#include "tests/fuzz/fuzz.h"

static void
must(bool ok)
{
	if (!ok)
		abort();
}

static void
check_cmd(const struct run_spec *s)
{
	struct json_doc *d = NULL;

	must(s->argv != NULL && s->argv[0] != NULL && s->cmd != NULL);
	if (json_parse(strv_of(s->cmd), &d, NULL) != 0)
		abort();
	if (json_type(json_root(d)) == JSON_ARRAY) {
		for (size_t i = 0; i < json_count(json_root(d)); i++)
			must(s->argv[i] != NULL);
		must(s->argv[json_count(json_root(d))] == NULL);
	} else {
		must(json_string(json_root(d)) != NULL);
		must(strcmp(s->argv[2], json_string(json_root(d))) == 0);
		must(s->argv[3] == NULL);
	}
	json_doc_free(d);
}

static void
check_spec(const struct run_spec *s)
{
	check_cmd(s);
	for (size_t i = 0; s->env != NULL && s->env[i] != NULL; i++) {
		must(strchr(s->env[i], '=') > s->env[i]);
		must(strncmp(s->env[i], "SBX_", 4) != 0);
	}
	must(s->cwd == NULL || *s->cwd != '\0');
	must(s->timeout_ms <= 1000000000000ULL);
	if (s->exec_id != NULL) {
		must(!s->background && *s->exec_id != '\0');
		must(strcmp(s->exec_id, "attach") != 0);
		must(strlen(s->exec_id) <= 64 && *s->exec_id != '.');
		must(strpbrk(s->exec_id, "/?#% \n") == NULL);
	}
}

static void
check_live(struct strv text)
{
	struct json_doc *d = NULL;
	struct execreq e;
	char *why = NULL;

	if (json_parse(text, &d, NULL) != 0)
		abort();
	if (execreq_take_live(d, &e, &why) == 0) {
		must(why == NULL);
		check_spec(&e.spec);
		must(e.spec.exec_id == NULL && !e.spec.background);
		must(!e.spec.has_input && !e.spec.base64 && !e.spec.detach);
		must(e.spec.tty == NULL || e.spec.tty == &e.size);
	} else {
		must(why != NULL && strchr(why, ':') != NULL);
		free(why);
	}
	execreq_clear(&e);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct strv text = {(const char *)data, size};
	struct json_doc *d = NULL;
	struct execreq e;
	char *why = NULL;
	int sig = 1;

	if (json_parse(text, &d, NULL) != 0)
		return 0;
	if (execreq_signal(json_get(json_root(d), "signal"), &sig) == 0)
		must(sig > 0 && sig < NSIG);
	if (execreq_take(d, &e, &why) == 0) {
		must(why == NULL);
		check_spec(&e.spec);
	} else {
		must(why != NULL && strchr(why, ':') != NULL);
		free(why);
	}
	execreq_clear(&e);
	check_live(text);
	return 0;
}
