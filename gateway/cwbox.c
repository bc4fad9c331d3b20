/* SPDX-License-Identifier: Apache-2.0 */
/* A job as message Sandbox. The numbers of its states are ours already. */
#include "config.h"

#include "gateway/cwschema.h"
#include "gateway/cwsvc_int.h"
#include "gateway/gwconf.h"

static void
add_text(struct cwout *w, const char *name, const char *text)
{
	if (text != NULL && text[0] != '\0')
		cwout_text(w, name, strv_of(text));
}

static void
add_container(struct cwout *w, const struct job_spec *s)
{
	cwout_open(w, "containers");
	add_text(w, "image", s->image);
	if (s->command.n > 0)
		add_text(w, "command", s->command.v[0]);
	for (size_t i = 1; i < s->command.n; i++)
		cwout_text(w, "args", strv_of(s->command.v[i]));
	for (size_t i = 0; i < s->env.n; i++)
		cwout_pair(w, "environment_variables", strv_of(s->env.v[i].key),
			   strv_of(s->env.v[i].value));
	cwout_close(w);
}

static void
add_time(struct cwout *w, const char *name, int64_t ms)
{
	if (ms != 0)
		cwout_time(w, name, ms);
}

static void
add_status(struct cwout *w, const struct job *j)
{
	cwout_open(w, "status");
	cwout_int(w, "state", j->state);
	add_text(w, "state_reason", j->message);
	add_time(w, "create_time", j->created_ms);
	add_time(w, "start_time", j->started_ms);
	add_time(w, "end_time", j->finished_ms);
	if (j->has_exit)
		cwout_int(w, "exit_code", j->exit_code);
	if (j->spec.timeout_s != 0)
		cwout_int(w, "effective_max_lifetime_seconds",
			  (int32_t)j->spec.timeout_s);
	cwout_close(w);
}

const char *
cwsvc_container(const struct job *j)
{
	(void)j;
	return "main";
}

void
cwbox_add(struct cwout *w, const struct job *j, const struct gw_conf *conf,
	  struct strv origin)
{
	(void)conf;
	(void)origin;
	cwout_text(w, "sandbox_id", strv_of(j->id));
	cwout_open(w, "spec");
	add_container(w, &j->spec);
	cwout_close(w);
	add_status(w, j);
}
