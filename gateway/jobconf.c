/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs in the configuration: translated, checked, dumped. */
#include "config.h"

#include "gateway/jobconf.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "gateway/gwconf_sec.h"

#define CPUS_MAX 4096

/* What there is when no [flavor] is configured. */
static const struct {
	const char *name;
	uint64_t cpu_milli, memory, pids;
} defaults[] = {{"cpu-basic", 2000, 2ULL << 30, 4096},
		{"cpu-upgrade", 8000, 16ULL << 30, 16384}};

int
jobconf_parse_cpus(struct strv s, uint64_t *out)
{
	static const uint64_t unit[] = {1000, 100, 10, 1};
	struct strv whole;
	uint64_t a, b = 0;

	(void)strv_cut(&s, '.', &whole);
	if (strv_parse_u64(whole, CPUS_MAX, true, &a) != 0)
		return E_INVALID;
	if (s.p != NULL &&
	    (s.len == 0 || s.len > 3 || strv_parse_u64(s, 999, false, &b) != 0))
		return E_INVALID;
	if (s.p != NULL)
		b *= unit[s.len];
	if (a == 0 && b == 0)
		return E_INVALID;
	*out = a * 1000 + b;
	return 0;
}

void
jobconf_add_cpus(struct strbuf *b, uint64_t milli)
{
	strbuf_addf(b, "%llu", (unsigned long long)(milli / 1000));
	if (milli % 1000 == 0)
		return;
	strbuf_addf(b, ".%03llu", (unsigned long long)(milli % 1000));
	while (b->s[b->len - 1] == '0')
		b->s[--b->len] = '\0';
}

static struct gw_flavor *
push_flavor(struct gw_jobs *j, const char *name)
{
	struct gw_flavor *f;

	j->flavors =
	    xreallocarray(j->flavors, j->nflavors + 1, sizeof(*j->flavors));
	f = &j->flavors[j->nflavors++];
	memset(f, 0, sizeof(*f));
	f->name = xstrdup(name);
	return f;
}

static void
default_flavors(struct gw_jobs *j)
{
	for (size_t i = 0; i < ARRAY_LEN(defaults); i++) {
		struct gw_flavor *f = push_flavor(j, defaults[i].name);

		f->cpu_milli = defaults[i].cpu_milli;
		f->memory = defaults[i].memory;
		f->pids = defaults[i].pids;
	}
}

static int
fill_flavors(struct gw_conf *c, char **msg)
{
	const struct sec_flavor *s;
	const char *name;

	for (size_t i = 0; (s = conf_named(c->ini, "flavor", i, &name)) != NULL;
	     i++) {
		struct conf_at at = {"flavor", name, "cpus"};
		struct gw_flavor *f = push_flavor(&c->jobs, name);

		f->memory = s->memory;
		f->pids = s->pids;
		if (s->cpus != NULL && s->cpus[0] != '\0' &&
		    jobconf_parse_cpus(strv_of(s->cpus), &f->cpu_milli) != 0)
			return gwconf_bad(c, msg, &at,
					  "must be a number of cores, like 2 "
					  "or 0.5");
	}
	if (c->jobs.nflavors == 0)
		default_flavors(&c->jobs);
	return 0;
}

int
jobconf_fill(struct gw_conf *c, char **msg)
{
	const struct sec_jobs *s = conf_section(c->ini, "jobs");
	struct conf_at at = {"jobs", NULL, "default_timeout"};
	struct gw_jobs *j = &c->jobs;

	j->enabled = s->enabled;
	j->launcher = xstrdup(s->launcher);
	j->max_jobs = s->max_jobs;
	j->max_per_namespace = s->max_per_namespace;
	j->max_streams = s->max_streams;
	j->retention_ms = s->retention_ms;
	j->retention_max = s->retention_max;
	j->default_timeout_ms = s->default_timeout_ms;
	j->max_timeout_ms = s->max_timeout_ms;
	j->grace_ms = s->grace_ms;
	j->log_max = s->log_max;
	if (j->max_timeout_ms != 0 &&
	    (j->default_timeout_ms == 0 ||
	     j->default_timeout_ms > j->max_timeout_ms))
		return gwconf_bad(c, msg, &at, "is more than max_timeout");
	return fill_flavors(c, msg);
}

void
jobconf_clear(struct gw_jobs *j)
{
	for (size_t i = 0; i < j->nflavors; i++)
		free(j->flavors[i].name);
	free(j->flavors);
	free(j->launcher);
	memset(j, 0, sizeof(*j));
}

const struct gw_flavor *
jobconf_flavor(const struct gw_jobs *j, struct strv name)
{
	for (size_t i = 0; i < j->nflavors; i++)
		if (strv_eq(name, strv_of(j->flavors[i].name)))
			return &j->flavors[i];
	return NULL;
}

static void
dump_number(struct strbuf *b, const char *key, uint64_t v, const char *unit)
{
	strbuf_addf(b, "%s = %llu%s\n", key, (unsigned long long)v, unit);
}

void
jobconf_dump(const struct gw_jobs *j, struct strbuf *b)
{
	strbuf_addf(b, "\n[jobs]\nenabled = %s\nlauncher = %s\n",
		    j->enabled ? "yes" : "no", j->launcher);
	dump_number(b, "max_jobs", j->max_jobs, "");
	dump_number(b, "max_per_namespace", j->max_per_namespace, "");
	dump_number(b, "max_streams", j->max_streams, "");
	dump_number(b, "retention", j->retention_ms, "ms");
	dump_number(b, "retention_max", j->retention_max, "");
	dump_number(b, "default_timeout", j->default_timeout_ms, "ms");
	dump_number(b, "max_timeout", j->max_timeout_ms, "ms");
	dump_number(b, "stop_grace", j->grace_ms, "ms");
	dump_number(b, "log_max", j->log_max, "");
	for (size_t i = 0; i < j->nflavors; i++) {
		const struct gw_flavor *f = &j->flavors[i];

		strbuf_addf(b, "\n[flavor %s]\n", f->name);
		if (f->cpu_milli != 0) {
			strbuf_adds(b, "cpus = ");
			jobconf_add_cpus(b, f->cpu_milli);
			strbuf_addc(b, '\n');
		}
		dump_number(b, "memory", f->memory, "");
		dump_number(b, "pids", f->pids, "");
	}
}
