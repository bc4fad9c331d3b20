/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a job that commands run: its environment above all, which is on
 * disk as briefly as its start allows. */
#include "config.h"

#include "gateway/launch_command_int.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "base/token.h"

#define TOKEN_BYTES 32

int
launch_command_put(const char *dir, const char *name, const char *text)
{
	char *path = xasprintf("%s/%s", dir, name);
	int r = file_write_atomic(path, text, strlen(text), 0600);

	free(path);
	return r;
}

/* Its text without the end of line; NULL: there is none. */
char *
launch_command_get(const char *dir, const char *name)
{
	char *path = xasprintf("%s/%s", dir, name), *text = NULL;
	size_t len;

	if (file_read(path, 4096, &text, &len) != 0)
		text = NULL;
	else
		text[strcspn(text, "\n")] = '\0';
	free(path);
	return text;
}

void
launch_command_unlink(const char *dir, const char *name)
{
	char *path = xasprintf("%s/%s", dir, name);

	(void)unlink(path);
	free(path);
}

void
launch_command_put_end(const struct cmd_job *j, const struct launch_end *e)
{
	struct strbuf b = {0};

	strbuf_addf(
	    &b, "{\"reason\":\"%s\",\"code\":", launch_reason_text(e->reason));
	if (e->code >= 0)
		strbuf_addf(&b, "%d", e->code);
	else
		strbuf_adds(&b, "null");
	strbuf_adds(&b, ",\"signal\":null,\"message\":");
	strbuf_add_json(&b, strv_of(e->message));
	strbuf_addf(&b, ",\"time\":%llu}\n", (unsigned long long)e->time_ms);
	(void)!launch_command_put(j->dir, "exit.json", b.s);
	strbuf_clear(&b);
}

static bool
is_ours(const char *name)
{
	return strcmp(name, "SBX_CONTROL") == 0 ||
	       strcmp(name, "SBX_CONTROL_UID") == 0 ||
	       strcmp(name, "SBX_SOCKET_MODE") == 0 ||
	       strcmp(name, "SBX_HOMES") == 0 || strcmp(name, "SBX_UIDS") == 0;
}

/* The one form is podman's and docker's (no quotes, so no line ends), the
 * other the shell's. */
static int
add_var(struct strbuf *plain, struct strbuf *shell, const char *name,
	const char *value, char **why)
{
	bool word = *name != '\0' && (*name < '0' || *name > '9');

	for (const char *p = name; *p != '\0'; p++)
		word = word &&
		       (*p == '_' || (*p >= '0' && *p <= '9') ||
			(*p >= 'A' && *p <= 'Z') || (*p >= 'a' && *p <= 'z'));
	if (!word || strchr(value, '\n') != NULL) {
		*why = xasprintf("environment: %s: this launcher takes no line "
				 "ends in values, and only letters, digits and "
				 "_ in names",
				 name);
		return E_INVALID;
	}
	strbuf_addf(plain, "%s=%s\n", name, value);
	strbuf_addf(shell, "export %s='", name);
	for (const char *p = value; *p != '\0'; p++)
		if (*p == '\'')
			strbuf_adds(shell, "'\\''");
		else
			strbuf_addc(shell, *p);
	strbuf_adds(shell, "'\n");
	return 0;
}

static int
add_all(struct cmd_job *j, const struct launch_spec *spec, struct strbuf *plain,
	struct strbuf *shell, char **why)
{
	const struct gw_launcher *s = launch_command_settings(j);
	char token[2 * TOKEN_BYTES + 1], *url;
	int r = 0;

	for (size_t i = 0; r == 0 && i < spec->nenv + spec->nsecrets; i++) {
		const struct launch_var *v =
		    i < spec->nenv ? &spec->env[i]
				   : &spec->secrets[i - spec->nenv];

		if (spec->mode == LAUNCH_COMMAND || !is_ours(v->name))
			r = add_var(plain, shell, v->name, v->value, why);
	}
	if (r == 0 && spec->mode != LAUNCH_COMMAND)
		r = add_var(plain, shell, "SBX_HOST_MODE",
			    spec->mode == LAUNCH_HOST ? "1" : "0", why);
	if (r != 0 || s->register_url == NULL)
		return r;
	token_hex(token, TOKEN_BYTES);
	url = xasprintf("%s/api/jobs/%s/register", s->register_url, j->base.id);
	if ((r = launch_command_put(j->dir, "token", token)) == 0 &&
	    (r = add_var(plain, shell, "SBX_REGISTER_URL", url, why)) == 0)
		r = add_var(plain, shell, "SBX_REGISTER_TOKEN", token, why);
	mem_secure_zero(token, sizeof(token));
	free(url);
	return r;
}

int
launch_command_put_env(struct cmd_job *j, const struct launch_spec *spec,
		       char **why)
{
	struct strbuf plain = {0}, shell = {0};
	int r = add_all(j, spec, &plain, &shell, why);

	if (r == 0)
		r = launch_command_put(j->dir, "env",
				       plain.s != NULL ? plain.s : "");
	if (r == 0)
		r = launch_command_put(j->dir, "env.sh",
				       shell.s != NULL ? shell.s : "");
	if (plain.s != NULL)
		mem_secure_zero(plain.s, plain.cap);
	if (shell.s != NULL)
		mem_secure_zero(shell.s, shell.cap);
	strbuf_clear(&plain);
	strbuf_clear(&shell);
	if (r != 0 && *why == NULL)
		*why = xasprintf("%s: %s", j->dir, err_text(r));
	return r;
}
