/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job as message Sandbox: the spec as it was said, the status from the job.
 * The numbers of its states are ours already.
 */
#include "config.h"

#include <stdlib.h>

#include "base/json.h"
#include "base/mem.h"
#include "gateway/cwjson.h"
#include "gateway/cwquantity.h"
#include "gateway/cwschema.h"
#include "gateway/cwsvc_int.h"
#include "gateway/gwconf.h"
#include "gateway/jobjson.h"

/* What was said when it was made; NULL: nothing was, here. */
static struct cwmsg *
read_spec(const struct job *j)
{
	struct cwjson_error e = {0};
	struct cwmsg *spec = NULL;
	struct json_doc *doc;

	if (j->spec.face == NULL ||
	    json_parse(strv_of(j->spec.face), &doc, NULL) != 0)
		return NULL;
	if (cwjson_read(&cwschema_sandbox_spec, json_root(doc), &spec, &e) != 0)
		spec = NULL;
	cwjson_error_clear(&e);
	json_doc_free(doc);
	return spec;
}

static const char *
container_name(const struct cwmsg *spec)
{
	const char *name = "";

	if (cwmsg_count(spec, "containers") > 0)
		name = cwmsg_text(cwmsg_msg_at(spec, "containers", 0), "name");
	return name[0] != '\0' ? name : "main";
}

char *
cwbox_container(const struct job *j)
{
	struct cwmsg *spec = read_spec(j);
	char *name = xstrdup(container_name(spec));

	cwmsg_free(spec);
	return name;
}

/* Of a job that was made by another API. */
static void
add_spec(struct cwout *w, const struct job_spec *s)
{
	cwout_open(w, "spec");
	cwout_open(w, "containers");
	cwout_text(w, "name", STRV("main"));
	if (s->image != NULL)
		cwout_text(w, "image", strv_of(s->image));
	for (size_t i = 0; i < s->command.n; i++)
		cwout_text(w, i == 0 ? "command" : "args",
			   strv_of(s->command.v[i]));
	for (size_t i = 0; i < s->arguments.n; i++)
		cwout_text(w, s->command.n + i == 0 ? "command" : "args",
			   strv_of(s->arguments.v[i]));
	for (size_t i = 0; i < s->env.n; i++)
		cwout_pair(w, "environment_variables", strv_of(s->env.v[i].key),
			   strv_of(s->env.v[i].value));
	cwout_close(w);
	for (size_t i = 0; i < s->tags.n; i++)
		cwout_text(w, "tags", strv_of(s->tags.v[i]));
	cwout_close(w);
}

/* --- services ---------------------------------------------------------- */

static void
add_service(struct cwout *w, const struct cwmsg *s, struct strv url)
{
	int64_t visibility = cwmsg_int(s, "visibility");

	cwout_open(w, "services");
	cwout_int(w, "port", cwmsg_int(s, "port"));
	cwout_text(w, "name", cwmsg_view(s, "name"));
	cwout_int(w, "protocol", CW_PROTOCOL_TCP);
	cwout_int(w, "visibility",
		  visibility != 0 ? visibility : CW_VISIBILITY_PUBLIC);
	cwout_open(w, "endpoint");
	cwout_int(w, "kind", CW_ENDPOINT_HTTPS);
	/* Whatever was asked for: a bearer of the namespace opens it. */
	cwout_int(w, "auth", CW_AUTH_TOKEN);
	cwout_text(w, "url", url);
	cwout_close(w);
	cwout_text(w, "url", url);
	cwout_close(w);
}

static void
add_services(struct cwout *w, const struct job *j, const struct cwmsg *spec,
	     const struct gw_conf *conf, struct strv origin)
{
	size_t n = cwmsg_count(spec, "services");

	for (size_t i = 0; i < n; i++) {
		const struct cwmsg *s = cwmsg_msg_at(spec, "services", i);
		struct strbuf url = {0};

		jobjson_add_url(&url, conf, origin, j->id,
				(unsigned)cwmsg_int(s, "port"));
		add_service(w, s, (struct strv){url.s, url.len});
		strbuf_clear(&url);
	}
}

/* --- status ------------------------------------------------------------ */

static void
add_time(struct cwout *w, const char *name, int64_t ms)
{
	if (ms > 0)
		cwout_time(w, name, ms);
}

static void
add_container_status(struct cwout *w, const struct job *j,
		     const struct cwmsg *spec)
{
	cwout_open(w, "container_statuses");
	cwout_text(w, "name", strv_of(container_name(spec)));
	cwout_int(w, "state", j->state);
	if (j->has_exit)
		cwout_int(w, "exit_code", j->exit_code);
	cwout_int(w, "restart_count", 0);
	cwout_close(w);
}

/* The bounds that it got; nothing of what is not bounded. */
static void
add_bounds(struct cwout *w, const char *name, const struct job *j,
	   const struct gw_conf *conf)
{
	const struct gw_flavor *f =
	    jobconf_flavor(&conf->jobs, strv_of(j->spec.flavor));
	uint64_t cpu = j->spec.cpu_milli, memory = j->spec.memory;
	struct strbuf b = {0};

	if (cpu == 0 && f != NULL)
		cpu = f->cpu_milli;
	if (memory == 0 && f != NULL)
		memory = f->memory;
	if (cpu == 0 && memory == 0)
		return;
	cwout_open(w, name);
	if (cpu != 0) {
		cwquantity_add_milli(&b, cpu);
		cwout_text(w, "cpu", (struct strv){b.s, b.len});
		strbuf_reset(&b);
	}
	if (memory != 0) {
		cwquantity_add_bytes(&b, memory);
		cwout_text(w, "memory", (struct strv){b.s, b.len});
	}
	cwout_close(w);
	strbuf_clear(&b);
}

/* What was requested is nothing that we keep free, but clients show it. */
static void
add_resources(struct cwout *w, const struct job *j, const struct cwmsg *spec,
	      const struct gw_conf *conf)
{
	const struct cwmsg *asked =
	    cwmsg_msg(cwmsg_msg(cwmsg_msg_at(spec, "containers", 0),
				"resource_requirements"),
		      "requests");

	add_bounds(w, "effective_resources", j, conf);
	if (asked == NULL)
		return;
	cwout_open(w, "effective_resource_requirements");
	cwout_open(w, "requests");
	cwout_tree(w, asked);
	cwout_close(w);
	add_bounds(w, "limits", j, conf);
	cwout_close(w);
}

static void
add_status(struct cwout *w, const struct job *j, const struct cwmsg *spec,
	   const struct gw_conf *conf, struct strv origin)
{
	cwout_open(w, "status");
	cwout_int(w, "state", j->state);
	cwout_text(w, "state_reason",
		   strv_of(j->message != NULL ? j->message
					      : job_event_name(j->reason)));
	add_time(w, "create_time", j->created_ms);
	add_time(w, "start_time", j->started_ms);
	add_time(w, "end_time", j->finished_ms);
	add_services(w, j, spec, conf, origin);
	if (j->has_exit)
		cwout_int(w, "exit_code", j->exit_code);
	add_resources(w, j, spec, conf);
	if (j->started_ms != 0)
		cwout_text(w, "runner_id", strv_of(conf->jobs.launcher));
	if (j->spec.timeout_s != 0)
		cwout_int(w, "effective_max_lifetime_seconds",
			  (int32_t)j->spec.timeout_s);
	add_container_status(w, j, spec);
	cwout_close(w);
}

void
cwbox_add(struct cwout *w, const struct job *j, const struct gw_conf *conf,
	  struct strv origin)
{
	struct cwmsg *spec = read_spec(j);

	cwout_text(w, "sandbox_id", strv_of(j->id));
	if (spec != NULL) {
		cwout_open(w, "spec");
		cwout_tree(w, spec);
		cwout_close(w);
	} else {
		add_spec(w, &j->spec);
	}
	add_status(w, j, spec, conf, origin);
	cwmsg_free(spec);
}
