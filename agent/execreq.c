/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a command from JSON; see the header. */
#include "config.h"

#include "agent/execreq.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "agent/sandbox.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"

#define EXECREQ_ARGS_MAX 65536
#define EXECREQ_ENV_MAX  2048
#define EXECREQ_TAG_MAX  1024
#define EXECREQ_ID_MAX   64
#define EXECREQ_EXACT    9007199254740992.0 /* 2^53 */

static bool
execreq_given(const struct json *v)
{
	return v != NULL && json_type(v) != JSON_NULL;
}

/* --- environment ------------------------------------------------------- */

/* JSON's parser has numbers as doubles: beyond this it may not be the one that
 * was sent any more. */
static bool
execreq_is_inexact(const struct json *v)
{
	double d;

	return json_type(v) == JSON_NUMBER && json_number(v, &d) == 0 &&
	       !(d <= EXECREQ_EXACT && d >= -EXECREQ_EXACT);
}

int
execreq_env(const struct json *v, char ***out, char **why)
{
	const struct json *it = NULL;
	const char *name, *bad;
	char **env, *text;
	size_t n = 0;

	if (!execreq_given(v)) {
		*out = NULL;
		return 0;
	}
	if (json_type(v) != JSON_OBJECT || json_count(v) > EXECREQ_ENV_MAX) {
		*why = xasprintf("env: not an object of at most %d names",
				 EXECREQ_ENV_MAX);
		return E_INVALID;
	}
	env = xcalloc(json_count(v) + 1, sizeof(*env));
	while (json_each(v, &it, &name)) {
		if ((bad = sandbox_env_refused(name)) != NULL) {
			*why = xasprintf("env: %.100s: %s", name, bad);
			break;
		}
		if (execreq_is_inexact(it)) {
			*why = xasprintf("env: %.100s: a number beyond 2^53 is "
					 "wanted as a string",
					 name);
			break;
		}
		if ((text = json_scalar_text(it)) == NULL) {
			*why = xasprintf("env: %.100s: not a string, number or "
					 "boolean",
					 name);
			break;
		}
		env[n++] = xasprintf("%s=%s", name, text);
		free(text);
	}
	if (n < json_count(v)) {
		execreq_env_free(env);
		return E_INVALID;
	}
	*out = env;
	return 0;
}

void
execreq_env_free(char **env)
{
	for (size_t i = 0; env != NULL && env[i] != NULL; i++)
		free(env[i]);
	free(env);
}

/* --- cmd --------------------------------------------------------------- */

static int
execreq_shell(struct execreq *e, const char *line)
{
	static char sh[] = "/bin/sh", dash_c[] = "-c";

	e->argv = xcalloc(4, sizeof(*e->argv));
	e->argv[0] = sh;
	e->argv[1] = dash_c;
	e->argv[2] = (char *)(uintptr_t)line; /* execve does not write */
	strbuf_add_json(&e->cmd, strv_of(line));
	return 0;
}

static int
execreq_argv(struct execreq *e, const struct json *v, char **why)
{
	const struct json *it = NULL;
	const char *s;
	size_t n = 0;

	if (json_count(v) == 0 || json_count(v) > EXECREQ_ARGS_MAX) {
		*why = xstrdup("cmd: the list is empty or too long");
		return E_INVALID;
	}
	e->argv = xcalloc(json_count(v) + 1, sizeof(*e->argv));
	strbuf_addc(&e->cmd, '[');
	while (json_each(v, &it, NULL)) {
		if ((s = json_string(it)) == NULL) {
			*why = xstrdup("cmd: a list of strings is wanted");
			return E_INVALID;
		}
		if (n > 0)
			strbuf_addc(&e->cmd, ',');
		strbuf_add_json(&e->cmd, strv_of(s));
		e->argv[n++] = (char *)(uintptr_t)s;
	}
	strbuf_addc(&e->cmd, ']');
	return 0;
}

static int
execreq_cmd(struct execreq *e, const struct json *root, char **why)
{
	const struct json *cmd = json_get(root, "cmd");
	const struct json *sh = json_get(root, "shell");
	const char *line = json_string(cmd);
	bool shell = line != NULL;

	if (execreq_given(sh) && json_bool(sh, &shell) != 0) {
		*why = xstrdup("shell: not a boolean");
		return E_INVALID;
	}
	if (shell && line != NULL)
		return execreq_shell(e, line);
	if (!shell && cmd != NULL && json_type(cmd) == JSON_ARRAY)
		return execreq_argv(e, cmd, why);
	if (execreq_given(sh) && execreq_given(cmd))
		*why = xasprintf("cmd: with shell %s it must be a %s",
				 shell ? "true" : "false",
				 shell ? "string" : "list of strings");
	else
		*why = xstrdup("cmd: a string or a list of strings is wanted");
	return E_INVALID;
}

/* --- the rest ---------------------------------------------------------- */

static int
execreq_bool(const struct json *root, const char *key, bool *out, char **why)
{
	const struct json *v = json_get(root, key);

	if (!execreq_given(v) || json_bool(v, out) == 0)
		return 0;
	*why = xasprintf("%s: not a boolean", key);
	return E_INVALID;
}

static int
execreq_text(const struct json *root, const char *key, const char **out,
	     char **why)
{
	const struct json *v = json_get(root, key);

	if (!execreq_given(v) || (*out = json_string(v)) != NULL)
		return 0;
	*why = xasprintf("%s: not a string", key);
	return E_INVALID;
}

/* Seconds, possibly with a fraction; null, 0 or absent: none. */
static int
execreq_timeout(const struct json *root, uint64_t *ms, char **why)
{
	const struct json *v = json_get(root, "timeout");
	double s;

	if (!execreq_given(v))
		return 0;
	if (json_number(v, &s) != 0 || !(s >= 0 && s <= 1e9)) {
		*why = xstrdup("timeout: not a number of seconds");
		return E_INVALID;
	}
	*ms = (uint64_t)(s * 1000);
	if (*ms == 0 && s > 0)
		*ms = 1;
	return 0;
}

static int
execreq_encoding(const struct json *root, bool *base64, char **why)
{
	const char *s = NULL;

	if (execreq_text(root, "encoding", &s, why) != 0)
		return E_INVALID;
	if (s == NULL || strcmp(s, "utf-8") == 0)
		return 0;
	if (strcmp(s, "base64") == 0) {
		*base64 = true;
		return 0;
	}
	*why = xstrdup("encoding: \"utf-8\" or \"base64\" is wanted");
	return E_INVALID;
}

/* It stands in a path: GET exec/<exec_id>. */
static bool
execreq_exec_id_ok(const char *s)
{
	static const char first[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "abcdefghijklmnopqrstuvwxyz0123456789";
	static const char more[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				   "abcdefghijklmnopqrstuvwxyz0123456789-_.";

	return strspn(s, first) > 0 && s[strspn(s, more)] == '\0' &&
	       strlen(s) <= EXECREQ_ID_MAX;
}

static int
execreq_exec_id(const struct json *root, struct run_spec *s, char **why)
{
	if (execreq_text(root, "exec_id", &s->exec_id, why) != 0)
		return E_INVALID;
	if (s->exec_id == NULL)
		return 0;
	if (!execreq_exec_id_ok(s->exec_id))
		*why = xasprintf("exec_id: 1 to %d letters, digits and -_. are "
				 "wanted, the first a letter or digit",
				 EXECREQ_ID_MAX);
	else if (s->background)
		*why = xstrdup("exec_id: not for background processes");
	else if (strcmp(s->exec_id, "attach") == 0)
		*why = xstrdup("exec_id: \"attach\" is a route's name");
	else
		return 0;
	return E_INVALID;
}

static int
execreq_u16(const struct json *root, const char *key, uint16_t *out, char **why)
{
	const struct json *v = json_get(root, key);
	uint64_t n = 0;

	if (execreq_given(v) && json_u64(v, UINT16_MAX, &n) != 0) {
		*why = xasprintf("%s: not a number up to 65535", key);
		return E_INVALID;
	}
	*out = (uint16_t)n;
	return 0;
}

/* What a command has when it is live. */
static int
execreq_live(struct execreq *e, const struct json *root, char **why)
{
	struct run_spec *s = &e->spec;
	bool tty = false;

	if (s->background || s->detach || s->base64 || s->exec_id != NULL) {
		*why = xstrdup("background, detach, encoding, exec_id: not for "
			       "exec/attach");
		return E_INVALID;
	}
	if (execreq_bool(root, "stdin", &s->live, why) != 0 ||
	    execreq_bool(root, "tty", &tty, why) != 0 ||
	    execreq_u16(root, "cols", &e->size.cols, why) != 0 ||
	    execreq_u16(root, "rows", &e->size.rows, why) != 0)
		return E_INVALID;
	if (tty)
		s->tty = &e->size;
	return 0;
}

/* Everything but what is to be run, which is there. */
static int
execreq_fill(struct execreq *e, const struct json *root, char **why)
{
	struct run_spec *s = &e->spec;
	const char *input = NULL;
	int r;

	if ((r = execreq_env(json_get(root, "env"), &e->env, why)) != 0 ||
	    (r = execreq_text(root, "cwd", &s->cwd, why)) != 0 ||
	    (r = execreq_text(root, "tag", &s->tag, why)) != 0 ||
	    (r = execreq_timeout(root, &s->timeout_ms, why)) != 0 ||
	    (r = execreq_bool(root, "background", &s->background, why)) != 0 ||
	    (r = execreq_bool(root, "detach", &s->detach, why)) != 0 ||
	    (r = execreq_encoding(root, &s->base64, why)) != 0 ||
	    (r = execreq_exec_id(root, s, why)) != 0 ||
	    (r = s->live ? execreq_live(e, root, why)
			 : execreq_text(root, "stdin", &input, why)) != 0)
		return r;
	if (s->tag != NULL && strlen(s->tag) > EXECREQ_TAG_MAX) {
		*why = xasprintf("tag: longer than %d bytes", EXECREQ_TAG_MAX);
		return E_INVALID;
	}
	if (s->cwd != NULL && *s->cwd == '\0')
		s->cwd = NULL;
	s->has_input = input != NULL;
	s->input = strv_of(input);
	s->argv = e->argv;
	s->env = e->env;
	s->cmd = e->cmd.s;
	return 0;
}

static int
execreq_read(struct json_doc *doc, bool live, struct execreq *out, char **why)
{
	memset(out, 0, sizeof(*out));
	out->doc = doc;
	out->spec.live = live;
	if (execreq_cmd(out, json_root(doc), why) != 0)
		return E_INVALID;
	return execreq_fill(out, json_root(doc), why);
}

int
execreq_take(struct json_doc *doc, struct execreq *out, char **why)
{
	return execreq_read(doc, false, out, why);
}

int
execreq_take_live(struct json_doc *doc, struct execreq *out, char **why)
{
	return execreq_read(doc, true, out, why);
}

int
execreq_take_code(struct json_doc *doc, char *shell, const char *code,
		  struct execreq *out, char **why)
{
	static char dash_c[] = "-c";

	memset(out, 0, sizeof(*out));
	out->doc = doc;
	if (shell != NULL && code != NULL) {
		out->argv = xcalloc(4, sizeof(*out->argv));
		out->argv[0] = shell;
		out->argv[1] = dash_c;
		out->argv[2] = (char *)(uintptr_t)code;
		strbuf_add_json(&out->cmd, strv_of(code));
	}
	if (execreq_given(json_get(json_root(doc), "exec_id"))) {
		*why = xstrdup("exec_id: not for run_code");
		return E_INVALID;
	}
	return execreq_fill(out, json_root(doc), why);
}

void
execreq_clear(struct execreq *e)
{
	execreq_env_free(e->env);
	free(e->argv);
	strbuf_clear(&e->cmd);
	json_doc_free(e->doc);
	memset(e, 0, sizeof(*e));
}

int
execreq_signal(const struct json *v, int *sig)
{
	const char *name = json_string(v), *abbrev;
	uint64_t n;

	if (!execreq_given(v))
		return 0;
	if (name == NULL) {
		if (json_u64(v, NSIG - 1, &n) != 0 || n == 0)
			return E_INVALID;
		*sig = (int)n;
		return 0;
	}
	if (strncasecmp(name, "SIG", 3) == 0)
		name += 3;
	if (strv_parse_u64(strv_of(name), NSIG - 1, true, &n) == 0 && n > 0) {
		*sig = (int)n;
		return 0;
	}
	for (int i = 1; i < NSIG; i++) {
		abbrev = sigabbrev_np(i);
		if (abbrev != NULL && strcasecmp(abbrev, name) == 0) {
			*sig = i;
			return 0;
		}
	}
	return E_INVALID;
}
