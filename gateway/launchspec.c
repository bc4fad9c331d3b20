/* SPDX-License-Identifier: Apache-2.0 */
/* Writing spec.json, reading exit.json; see the header. */
#include "config.h"

#include "gateway/launchspec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/err.h"
#include "base/fdio.h"
#include "base/json.h"
#include "base/mem.h"

/* Where no user namespace separates hosts, each has this many of the ids that
 * agents give to sandboxes (20000-64999). */
#define SLICE_FIRST 20000
#define SLICE_SIZE  500
#define BASE_ENV    "SBX_BASE_ENV"
#define SLICES      90

static const char *const modes[] = {"command", "dedicated", "host"};
static const char *const reasons[] = {"exited",    "timeout", "stopped",
				      "unstarted", "lost",    "oom"};

static void
add_text(struct strbuf *b, const char *key, const char *value)
{
	if (value == NULL)
		return;
	strbuf_addf(b, ",\"%s\":", key);
	strbuf_add_json(b, strv_of(value));
}

static void
add_u64(struct strbuf *b, const char *key, uint64_t v)
{
	if (v != 0)
		strbuf_addf(b, ",\"%s\":%llu", key, (unsigned long long)v);
}

static void
add_list(struct strbuf *b, const char *key, const char *const *v, size_t n)
{
	strbuf_addf(b, ",\"%s\":[", key);
	for (size_t i = 0; i < n; i++) {
		if (i > 0)
			strbuf_addc(b, ',');
		strbuf_add_json(b, strv_of(v[i]));
	}
	strbuf_addc(b, ']');
}

static bool
has(const struct launch_var *v, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(v[i].name, name) == 0)
			return true;
	return false;
}

static void
add_var(struct strbuf *b, bool *first, const char *name, struct strv value)
{
	if (!*first)
		strbuf_addc(b, ',');
	*first = false;
	strbuf_add_json(b, strv_of(name));
	strbuf_addc(b, ':');
	strbuf_add_json(b, value);
}

/* Where the endpoints outside are, unless the job was given something else of
 * that name. Sandboxes of a host do not inherit: its agent hands it on. */
static void
add_outside_vars(struct strbuf *b, bool *first, const struct launch_spec *s,
		 const struct gw_launch *conf)
{
	const struct outside *o = &conf->outside;
	struct strbuf text = {0};

	if (s->closed)
		return;
	for (size_t i = 0; i < o->nends && s->mode != LAUNCH_HOST; i++) {
		if (has(s->env, s->nenv, o->ends[i].name) ||
		    has(s->secrets, s->nsecrets, o->ends[i].name))
			continue;
		strbuf_reset(&text);
		if (conf->net_host)
			strbuf_adds(&text, o->ends[i].url);
		else
			outside_far_url(o, &o->ends[i], &text);
		add_var(b, first, o->ends[i].name,
			(struct strv){text.s, text.len});
	}
	if (s->mode == LAUNCH_HOST && o->nends > 0) {
		outside_vars_json(o, !conf->net_host, &text);
		add_var(b, first, BASE_ENV, (struct strv){text.s, text.len});
	}
	strbuf_clear(&text);
}

/* The last one of a name counts; a secret beats what is not. */
static void
add_vars(struct strbuf *b, const struct launch_spec *s,
	 const struct gw_launch *conf)
{
	bool ours = s->mode == LAUNCH_HOST && conf->outside.nends > 0;
	bool first = true;

	strbuf_adds(b, ",\"env\":{");
	for (size_t i = 0; i < s->nenv + s->nsecrets; i++) {
		bool secret = i >= s->nenv;
		size_t k = secret ? i - s->nenv : i;
		const struct launch_var *v =
		    secret ? &s->secrets[k] : &s->env[k];

		if (has(v + 1, (secret ? s->nsecrets : s->nenv) - k - 1,
			v->name) ||
		    (!secret && has(s->secrets, s->nsecrets, v->name)) ||
		    (ours && strcmp(v->name, BASE_ENV) == 0))
			continue;
		add_var(b, &first, v->name, strv_of(v->value));
	}
	add_outside_vars(b, &first, s, conf);
	strbuf_addc(b, '}');
}

static void
add_outside(struct strbuf *b, const struct outside *o)
{
	char *to;

	if (o->nforwards == 0)
		return;
	strbuf_adds(b, ",\"outside\":[");
	for (size_t i = 0; i < o->nforwards; i++) {
		to = outside_host_port(&o->forwards[i]);
		strbuf_addf(b, "%s\"%u %s\"", i > 0 ? "," : "",
			    o->forwards[i].far, to);
		free(to);
	}
	strbuf_addc(b, ']');
}

static void
add_files(struct strbuf *b, const struct launch_spec *s)
{
	for (size_t i = 0; i < s->nfiles; i++) {
		strbuf_adds(b, i == 0 ? ",\"files\":[{" : ",{");
		strbuf_addf(b, "\"mode\":%u", s->files[i].mode);
		add_text(b, "path", s->files[i].path);
		strbuf_adds(b, ",\"content\":\"");
		base64_encode(s->files[i].content, b);
		strbuf_adds(b, "\"}");
	}
	strbuf_adds(b, s->nfiles != 0 ? "]" : "");
}

static void
add_scratch(struct strbuf *b, const struct launch_spec *s)
{
	for (size_t i = 0; i < s->nscratch; i++) {
		char *entry =
		    xasprintf("%s %s", s->scratch[i].name, s->scratch[i].path);

		strbuf_adds(b, i == 0 ? ",\"scratch\":[" : ",");
		strbuf_add_json(b, strv_of(entry));
		free(entry);
	}
	strbuf_adds(b, s->nscratch != 0 ? "]" : "");
}

void
launchspec_add(struct strbuf *b, const struct launch_spec *s,
	       const struct launchspec_place *p)
{
	size_t nexpose = 0;

	strbuf_addf(b, "{\"id\":\"%s\",\"mode\":\"%s\"", s->id, modes[s->mode]);
	if (s->mode != LAUNCH_HOST && s->nargv != 0)
		add_list(b, "argv", s->argv, s->nargv);
	add_text(b, "cwd", s->cwd);
	add_files(b, s);
	if (s->nprepare != 0)
		add_list(b, "prepare", s->prepare, s->nprepare);
	add_scratch(b, s);
	add_vars(b, s, p->conf);
	add_text(b, "image", s->image);
	add_text(b, "cgroup", p->conf->cgroup);
	add_text(b, "rootfs", launchconf_rootfs(p->conf, s->image));
	while (p->conf->expose[nexpose] != NULL)
		nexpose++;
	add_list(b, "expose", (const char *const *)p->conf->expose, nexpose);
	strbuf_addf(b, ",\"net_private\":%s,\"best_effort\":%s",
		    p->conf->net_host && !s->closed ? "false" : "true",
		    p->conf->best_effort ? "true" : "false");
	if (!p->conf->net_host && !s->closed) {
		add_text(b, "outbound", p->outbound);
		add_outside(b, &p->conf->outside);
	}
	add_u64(b, "timeout_ms", s->timeout_ms);
	add_u64(b, "grace_ms", s->grace_ms);
	add_u64(b, "memory", s->memory);
	add_u64(b, "cpu_milli", s->cpu_milli);
	add_u64(b, "pids", s->pids);
	add_u64(b, "log_max", s->log_max);
	if (p->uid != 0) {
		unsigned at = SLICE_FIRST + p->slot % SLICES * SLICE_SIZE;

		add_u64(b, "uid", p->uid);
		add_u64(b, "uids", LAUNCHCONF_UIDS);
		add_u64(b, "slice", at);
		add_u64(b, "slice_last", at + SLICE_SIZE - 1);
	}
	if (p->worker_uid != (uid_t)-1)
		strbuf_addf(b, ",\"worker_uid\":%lu",
			    (unsigned long)p->worker_uid);
	strbuf_adds(b, "}\n");
}

char *
launchspec_layout(const struct launch_spec *s, const struct launchspec_place *p)
{
	const char *rootfs = launchconf_rootfs(p->conf, s->image);

	return xasprintf("%lu %u %s", (unsigned long)p->uid,
			 p->uid != 0 ? LAUNCHCONF_UIDS : 0,
			 rootfs != NULL ? rootfs : "");
}

static int
fill_end(const struct json *v, struct launchspec_end *out)
{
	const char *reason = json_string(json_get(v, "reason"));
	const char *message = json_string(json_get(v, "message"));
	uint64_t n;

	memset(out, 0, sizeof(*out));
	out->end.message = out->message;
	(void)snprintf(out->message, sizeof(out->message), "%s",
		       message != NULL ? message : "");
	out->end.code =
	    json_u64(json_get(v, "code"), 255, &n) == 0 ? (int)n : -1;
	out->end.signal =
	    json_u64(json_get(v, "signal"), 255, &n) == 0 ? (int)n : 0;
	if (json_u64(json_get(v, "time"), UINT64_MAX, &out->end.time_ms) != 0)
		return E_INVALID;
	for (size_t i = 0; reason != NULL && i < ARRAY_LEN(reasons); i++)
		if (strcmp(reason, reasons[i]) == 0) {
			out->end.reason = (enum launch_reason)i;
			return 0;
		}
	return E_INVALID;
}

int
launchspec_read_end(const char *dir, struct launchspec_end *out)
{
	char *path = xasprintf("%s/exit.json", dir), *text = NULL;
	struct json_doc *d = NULL;
	size_t len;
	int r;

	if ((r = file_read(path, 65536, &text, &len)) == 0 &&
	    (r = json_parse((struct strv){text, len}, &d, NULL)) == 0)
		r = fill_end(json_root(d), out);
	json_doc_free(d);
	free(text);
	free(path);
	return r;
}
