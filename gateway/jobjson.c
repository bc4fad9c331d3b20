/* SPDX-License-Identifier: Apache-2.0 */
/* Writing job objects. Field names are the Hub's; what it does not have
 * (state, reason, exitCode, …) stands inside status, where clients that know
 * nothing of it look past it. */
#include "config.h"

#include "gateway/jobjson.h"

#include <string.h>

#include "gateway/gwconf.h"
#include "gateway/route.h"

/* --- URLs -------------------------------------------------------------- */
/* https://host:port/<id>--<port>.sbx, or https://<id>--<port>.domain:port */
void
jobjson_add_url(struct strbuf *b, const struct gw_conf *conf,
		struct strv origin, const char *id, unsigned port)
{
	struct strbuf label = {0};
	struct strv authority = origin, scheme;
	ptrdiff_t colon;

	if (origin.len == 0)
		return;
	if (conf->label_order == LABEL_PORT_ID)
		strbuf_addf(&label, "%u--%s", port, id);
	else
		strbuf_addf(&label, "%s--%u", id, port);
	if (conf->domain == NULL) {
		strbuf_addf(b, "%.*s/%s.sbx", STRV_ARG(origin), label.s);
	} else {
		(void)strv_cut(&authority, ':', &scheme);
		authority = strv_from(authority, authority.len < 2 ? 0 : 2);
		/* Its port: what follows the last colon, brackets apart. */
		colon = -1;
		for (size_t i = 0; i < authority.len; i++)
			if (authority.p[i] == ':')
				colon = (ptrdiff_t)i;
			else if (authority.p[i] == ']')
				colon = -1;
		strbuf_addf(b, "%.*s://%s.%s", STRV_ARG(scheme), label.s,
			    conf->domain);
		if (colon >= 0)
			strbuf_addv(b, strv_from(authority, (size_t)colon));
	}
	strbuf_clear(&label);
}

static void
add_url(struct strbuf *b, const struct gw_conf *conf, struct strv origin,
	const char *id, unsigned port)
{
	struct strbuf url = {0};

	jobjson_add_url(&url, conf, origin, id, port);
	strbuf_add_json(b, (struct strv){url.s, url.len});
	strbuf_clear(&url);
}

static void
add_urls(struct strbuf *b, const struct job *j, const struct gw_conf *conf,
	 struct strv origin)
{
	bool agent = false;

	/* Ports are reached through the agent: without one there are none. */
	if (!j->spec.sandbox || origin.len == 0) {
		strbuf_adds(b, "null");
		return;
	}
	strbuf_addc(b, '[');
	for (size_t i = 0; i < j->spec.nports; i++)
		agent |= j->spec.ports[i] == ROUTE_AGENT_PORT;
	if (!agent)
		add_url(b, conf, origin, j->id, ROUTE_AGENT_PORT);
	for (size_t i = 0; i < j->spec.nports; i++) {
		strbuf_adds(b, i != 0 || !agent ? "," : "");
		add_url(b, conf, origin, j->id, j->spec.ports[i]);
	}
	strbuf_addc(b, ']');
}

/* --- a job ------------------------------------------------------------- */
void
jobjson_add_text(struct strbuf *b, const char *name, const char *value)
{
	strbuf_addf(b, ",\"%s\":", name);
	if (value != NULL)
		strbuf_add_json(b, strv_of(value));
	else
		strbuf_adds(b, "null");
}

void
jobjson_add_time(struct strbuf *b, const char *name, int64_t ms)
{
	strbuf_addf(b, ",\"%s\":", name);
	if (ms == 0) {
		strbuf_adds(b, "null");
		return;
	}
	strbuf_addc(b, '"');
	job_add_time(b, ms);
	strbuf_addc(b, '"');
}

static void
add_status(struct strbuf *b, const struct job *j, const struct gw_conf *conf,
	   struct strv origin)
{
	strbuf_addf(b, ",\"status\":{\"stage\":\"%s\"",
		    job_stage_name(job_stage_of(j)));
	jobjson_add_text(b, "message", j->message);
	strbuf_adds(b, ",\"exposeUrls\":");
	add_urls(b, j, conf, origin);
	strbuf_adds(b, ",\"sshUrl\":null");
	jobjson_add_text(b, "state", job_state_name(j->state));
	jobjson_add_text(b, "reason", job_event_name(j->reason));
	jobjson_add_time(b, "changedAt", j->changed_ms);
	if (j->has_exit)
		strbuf_addf(b, ",\"exitCode\":%d}", j->exit_code);
	else
		strbuf_adds(b, ",\"exitCode\":null}");
}

static void
add_seconds(struct strbuf *b, const char *name, int64_t from, int64_t to)
{
	strbuf_addf(b, "\"%s\":", name);
	if (from == 0)
		strbuf_adds(b, "null");
	else
		strbuf_addf(b, "%lld",
			    (long long)((to > from ? to - from : 0) / 1000));
}

static void
add_durations(struct strbuf *b, const struct job *j)
{
	int64_t end = j->finished_ms != 0 ? j->finished_ms : job_now_ms();

	strbuf_adds(b, ",\"durations\":{");
	add_seconds(b, "schedulingSecs", j->started_ms != 0 ? j->created_ms : 0,
		    j->started_ms);
	strbuf_addc(b, ',');
	add_seconds(b, "runningSecs", j->started_ms, end);
	strbuf_addc(b, ',');
	add_seconds(b, "totalSecs", j->created_ms, end);
	strbuf_addc(b, '}');
}

void
jobjson_add(struct strbuf *b, const struct job *j, const struct gw_conf *conf,
	    struct strv origin)
{
	strbuf_addf(b, "{\"id\":\"%s\"", j->id);
	jobjson_add_time(b, "createdAt", j->created_ms);
	jobjson_add_time(b, "startedAt", j->started_ms);
	jobjson_add_time(b, "finishedAt", j->finished_ms);
	strbuf_adds(b, ",\"owner\":{\"type\":");
	strbuf_adds(b, strcmp(j->ns, j->user) == 0 ? "\"user\"" : "\"org\"");
	jobjson_add_text(b, "id", j->ns);
	jobjson_add_text(b, "name", j->ns);
	strbuf_adds(b, "},\"initiator\":{\"type\":\"user\"");
	jobjson_add_text(b, "id", j->user);
	jobjson_add_text(b, "name", j->user);
	strbuf_addc(b, '}');
	add_status(b, j, conf, origin);
	add_durations(b, j);
	strbuf_adds(b, ",\"labels\":");
	jobspec_add_labels(&j->spec.labels, b);
	if (j->spec.tags.n != 0) {
		strbuf_adds(b, ",\"tags\":");
		jobspec_add_words(&j->spec.tags, b);
	}
	strbuf_addc(b, ',');
	jobspec_add_json(&j->spec, b);
	strbuf_addc(b, '}');
}

void
jobjson_add_step(struct strbuf *b, struct strv id, const char *ns,
		 const struct job_step *st)
{
	enum job_stage stage =
	    job_stage(st->state, st->reason, st->has_exit, st->exit_code);

	strbuf_addf(b, "{\"id\":\"%.*s\"", STRV_ARG(id));
	jobjson_add_text(b, "namespace", ns);
	jobjson_add_text(b, "state", job_state_name(st->state));
	jobjson_add_text(b, "stage", job_stage_name(stage));
	jobjson_add_text(b, "reason", job_event_name(st->reason));
	jobjson_add_text(b, "message", st->message);
	jobjson_add_time(b, "at", st->at_ms);
	if (st->has_exit)
		strbuf_addf(b, ",\"exitCode\":%d}", st->exit_code);
	else
		strbuf_adds(b, ",\"exitCode\":null}");
}

/* --- hardware ---------------------------------------------------------- */
/* "cpu-basic" -> "CPU Basic" */
static void
add_pretty(struct strbuf *b, const char *name)
{
	struct strv rest = strv_of(name), word;
	struct strbuf t = {0};

	while (strv_cut(&rest, '-', &word)) {
		strbuf_adds(&t, t.len != 0 ? " " : "");
		if (strv_eq(word, STRV("cpu")) || strv_eq(word, STRV("gpu"))) {
			strbuf_addf(&t, "%cPU", word.p[0] - 'a' + 'A');
		} else if (word.len != 0) {
			char c = word.p[0];

			strbuf_addc(&t, c >= 'a' && c <= 'z'
					    ? (char)(c - 'a' + 'A')
					    : c);
			strbuf_addv(&t, strv_from(word, 1));
		}
	}
	strbuf_add_json(b, (struct strv){t.s, t.len});
	strbuf_clear(&t);
}

static void
add_ram(struct strbuf *b, uint64_t bytes)
{
	if (bytes == 0)
		strbuf_adds(b, "\"no bound\"");
	else if (bytes % (1ULL << 30) == 0)
		strbuf_addf(b, "\"%llu GB\"",
			    (unsigned long long)(bytes >> 30));
	else
		strbuf_addf(b, "\"%llu MB\"",
			    (unsigned long long)(bytes >> 20));
}

void
jobjson_add_hardware(struct strbuf *b, const struct gw_conf *conf)
{
	strbuf_addc(b, '[');
	for (size_t i = 0; i < conf->jobs.nflavors; i++) {
		const struct gw_flavor *f = &conf->jobs.flavors[i];

		strbuf_adds(b, i != 0 ? ",{\"name\":" : "{\"name\":");
		strbuf_add_json(b, strv_of(f->name));
		strbuf_adds(b, ",\"prettyName\":");
		add_pretty(b, f->name);
		strbuf_adds(b, ",\"cpu\":\"");
		if (f->cpu_milli != 0)
			jobconf_add_cpus(b, f->cpu_milli);
		else
			strbuf_adds(b, "all");
		strbuf_adds(b, " vCPU\",\"ram\":");
		add_ram(b, f->memory);
		strbuf_adds(b, ",\"ephemeralStorage\":\"N/A\","
			       "\"accelerator\":null,\"unitCostMicroUSD\":0,"
			       "\"unitCostUSD\":0,\"unitLabel\":\"minute\"}");
	}
	strbuf_addc(b, ']');
}
