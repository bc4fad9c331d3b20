/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines of a launcher: what is put into them, and what the status
 * command answers. */
#include "config.h"

#include "gateway/launch_command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "gateway/launch_command_int.h"
#include "gateway/template.h"

#define VARS_MAX 16

static size_t
fill_vars(struct cmd_job *j, const struct launch_spec *spec,
	  struct template_var *v, char *room, size_t size)
{
	static const char *const mode[] = {"command", "dedicated", "host"};
	size_t n = 0;

	(void)snprintf(room, size, "%llu",
		       (unsigned long long)(j->grace_ms + 999) / 1000);
	v[n++] = (struct template_var){.name = "id", .value = j->base.id};
	v[n++] = (struct template_var){.name = "dir", .value = j->dir};
	v[n++] = (struct template_var){.name = "grace", .value = room};
	if (spec == NULL)
		return n;
	v[n++] =
	    (struct template_var){.name = "mode", .value = mode[spec->mode]};
	v[n++] = (struct template_var){
	    .name = "image", .value = spec->image != NULL ? spec->image : ""};
	v[n++] = (struct template_var){
	    .name = "flavor",
	    .value = spec->flavor != NULL ? spec->flavor : ""};
	v[n++] = (struct template_var){
	    .name = "argv",
	    .list = spec->argv,
	    .nlist = spec->mode == LAUNCH_COMMAND ? spec->nargv : 0};
	return n;
}

static void
number_var(struct template_var *v, size_t *n, const char *name, uint64_t value,
	   char room[24])
{
	(void)snprintf(room, 24, "%llu", (unsigned long long)value);
	v[(*n)++] = (struct template_var){.name = name, .value = room};
}

static char **
expand_start(struct cmd_job *j, const struct launch_spec *spec,
	     const char *line, char **why)
{
	struct template_var v[VARS_MAX];
	char grace[24], memory[24], cpus[24], pids[24], seconds[24];
	char *env = xasprintf("%s/env", j->dir),
	     *env_sh = xasprintf("%s/env.sh", j->dir);
	size_t n = fill_vars(j, spec, v, grace, sizeof(grace));
	char **argv = NULL;

	v[n++] = (struct template_var){.name = "env_file", .value = env};
	v[n++] = (struct template_var){.name = "env_sh", .value = env_sh};
	number_var(v, &n, "memory", spec->memory, memory);
	number_var(v, &n, "cpu_milli", spec->cpu_milli, cpus);
	number_var(v, &n, "pids", spec->pids, pids);
	number_var(v, &n, "timeout", spec->timeout_ms / 1000, seconds);
	if (template_expand(line, v, n, &argv, why) != 0)
		argv = NULL;
	free(env);
	free(env_sh);
	return argv;
}

char **
launch_command_expand(struct cmd_job *j, const struct launch_spec *spec,
		      const char *line, char **why)
{
	struct template_var v[VARS_MAX];
	char grace[24], **argv = NULL;
	size_t n;

	if (spec != NULL)
		return expand_start(j, spec, line, why);
	n = fill_vars(j, NULL, v, grace, sizeof(grace));
	return template_expand(line, v, n, &argv, why) == 0 ? argv : NULL;
}

/* An exit code, or what wait(2) makes of it (Slurm's squeue). */
static int
exit_code(unsigned n)
{
	if (n <= 255)
		return (int)n;
	return (n & 0x7f) != 0 ? 128 + (int)(n & 0x7f) : (int)(n >> 8);
}

enum launch_command_state
launch_command_parse(const char *text, int *code)
{
	static const struct {
		const char *word;
		enum launch_command_state state;
		int code;    /* unless a number says it */
		bool number; /* does it count? */
	} words[] = {
	    {"created", CMD_PENDING, -1, false},
	    {"configured", CMD_PENDING, -1, false},
	    {"initialized", CMD_PENDING, -1, false},
	    {"pending", CMD_PENDING, -1, false},
	    {"configuring", CMD_PENDING, -1, false},
	    {"starting", CMD_PENDING, -1, false},
	    {"running", CMD_RUNNING, -1, false},
	    {"up", CMD_RUNNING, -1, false},
	    {"completing", CMD_RUNNING, -1, false},
	    {"paused", CMD_RUNNING, -1, false},
	    {"stopping", CMD_RUNNING, -1, false},
	    {"suspended", CMD_RUNNING, -1, false},
	    {"exited", CMD_ENDED, -1, true},
	    {"stopped", CMD_ENDED, -1, true},
	    {"dead", CMD_ENDED, -1, true},
	    {"completed", CMD_ENDED, 0, true},
	    {"succeeded", CMD_ENDED, 0, true},
	    {"failed", CMD_ENDED, 1, true},
	    {"cancelled", CMD_ENDED, -1, false},
	    {"timeout", CMD_ENDED, -1, false},
	    {"out_of_memory", CMD_ENDED, 137, false},
	    {"node_fail", CMD_ENDED, -1, false},
	};
	size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyz"
				  "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");
	const char *rest = text + len;
	uint64_t n;

	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		if (strlen(words[i].word) != len ||
		    strncasecmp(words[i].word, text, len) != 0)
			continue;
		*code = words[i].code;
		rest += strspn(rest, "+ |\t");
		if (words[i].number &&
		    strv_parse_u64(
			(struct strv){rest, strspn(rest, "0123456789")}, 65535,
			false, &n) == 0)
			*code = exit_code((unsigned)n);
		return words[i].state;
	}
	return CMD_UNKNOWN;
}
