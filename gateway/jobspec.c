/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading and writing what a job is to be. Each known field has a reader in
 * one table; whatever a reader refuses is said with the field's name, and
 * never with its value, which may be a secret.
 */
#include "config.h"

#include "gateway/jobspec.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"

/* One field being read. */
struct field {
	const char *name;
	struct job_spec *spec;
	bool stored;
	struct strbuf *why;
};

static int bad(const struct field *f, const char *fmt, ...) SBX_PRINTF(2, 3);

static int
bad(const struct field *f, const char *fmt, ...)
{
	char *text;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		abort();
	va_end(ap);
	strbuf_addf(f->why, "%s: %s", f->name, text);
	free(text);
	return E_INVALID;
}

/* --- values ------------------------------------------------------------ */
void
jobspec_push(struct job_pairs *p, struct strv key, struct strv value)
{
	p->v = xreallocarray(p->v, p->n + 1, sizeof(*p->v));
	p->v[p->n].key = xstrndup(key.p, key.len);
	p->v[p->n++].value =
	    value.p != NULL ? xstrndup(value.p, value.len) : NULL;
}

void
jobspec_clear_pairs(struct job_pairs *p)
{
	for (size_t i = 0; i < p->n; i++) {
		free(p->v[i].key);
		mem_free_secret(p->v[i].value);
	}
	free(p->v);
	p->v = NULL;
	p->n = 0;
}

const char *
jobspec_pair(const struct job_pairs *p, const char *key)
{
	for (size_t i = 0; i < p->n; i++)
		if (strcmp(p->v[i].key, key) == 0)
			return p->v[i].value;
	return NULL;
}

static void
clear_words(struct job_words *w)
{
	for (size_t i = 0; i < w->n; i++)
		free(w->v[i]);
	free(w->v);
	w->v = NULL;
	w->n = 0;
}

void
jobspec_clear(struct job_spec *s)
{
	free(s->image);
	free(s->space);
	clear_words(&s->command);
	clear_words(&s->arguments);
	jobspec_clear_pairs(&s->env);
	jobspec_clear_pairs(&s->secrets);
	jobspec_clear_pairs(&s->labels);
	free(s->flavor);
	for (size_t i = 0; i < s->nvolumes; i++) {
		free(s->volumes[i].type);
		free(s->volumes[i].source);
		free(s->volumes[i].path);
	}
	free(s->volumes);
	free(s->request_id);
	memset(s, 0, sizeof(*s));
}

void
jobspec_forget(struct job_spec *s)
{
	for (size_t i = 0; i < s->secrets.n; i++) {
		mem_free_secret(s->secrets.v[i].value);
		s->secrets.v[i].value = NULL;
	}
}

/* --- reading: pieces --------------------------------------------------- */
static int
read_text(const struct field *f, const struct json *v, size_t max, char **out)
{
	const char *s = json_string(v);

	if (s == NULL)
		return bad(f, "must be a string");
	if (s[0] == '\0')
		return bad(f, "is empty");
	if (strlen(s) > max)
		return bad(f, "is longer than %zu bytes", max);
	free(*out);
	*out = xstrdup(s);
	return 0;
}

static int
read_words(const struct field *f, const struct json *v, struct job_words *out)
{
	const struct json *it = NULL;

	if (json_type(v) != JSON_ARRAY)
		return bad(f, "must be an array of strings");
	if (json_count(v) > JOBSPEC_WORDS_MAX)
		return bad(f, "has more than %d elements", JOBSPEC_WORDS_MAX);
	clear_words(out);
	out->v = xcalloc(json_count(v) + 1, sizeof(*out->v));
	while (json_each(v, &it, NULL)) {
		const char *s = json_string(it);

		if (s == NULL)
			return bad(f, "element %zu must be a string", out->n);
		if (strlen(s) > JOBSPEC_WORD_BYTES)
			return bad(f, "element %zu is longer than %d bytes",
				   out->n, JOBSPEC_WORD_BYTES);
		out->v[out->n++] = xstrdup(s);
	}
	return 0;
}

/* "environment.N": names come from outside, so they are cut. */
static int
bad_member(const struct field *f, const char *key, const char *what)
{
	strbuf_addf(f->why, "%s.%.64s: %s", f->name, key, what);
	return E_INVALID;
}

static int
read_variable(const struct field *f, const char *key, const struct json *v,
	      struct job_pairs *out)
{
	char *text;

	if (key[0] == '\0' || strchr(key, '=') != NULL)
		return bad_member(f, key,
				  "a name must not be empty or contain '='");
	if (strlen(key) > JOBSPEC_NAME_BYTES)
		return bad_member(f, key, "the name is too long");
	if (f->stored && json_type(v) == JSON_NULL) {
		jobspec_push(out, strv_of(key), STRV_NULL);
		return 0;
	}
	if ((text = json_scalar_text(v)) == NULL)
		return bad_member(f, key,
				  "must be a string, number or boolean");
	if (strlen(text) > JOBSPEC_WORD_BYTES) {
		mem_free_secret(text);
		return bad_member(f, key, "the value is too long");
	}
	jobspec_push(out, strv_of(key), strv_of(text));
	mem_free_secret(text);
	return 0;
}

static int
read_variables(const struct field *f, const struct json *v,
	       struct job_pairs *out)
{
	const struct json *it = NULL;
	const char *key;
	int r;

	if (json_type(v) != JSON_OBJECT)
		return bad(f, "must be an object");
	if (json_count(v) > JOBSPEC_ENV_MAX)
		return bad(f, "has more than %d members", JOBSPEC_ENV_MAX);
	while (json_each(v, &it, &key))
		if ((r = read_variable(f, key, it, out)) != 0)
			return r;
	return 0;
}

static int
read_labels(const struct field *f, const struct json *v, struct job_pairs *out)
{
	const struct json *it = NULL;
	const char *key;
	char *text;

	if (json_type(v) != JSON_OBJECT)
		return bad(f, "must be an object");
	if (json_count(v) > JOBSPEC_LABELS_MAX)
		return bad(f, "has more than %d members", JOBSPEC_LABELS_MAX);
	while (json_each(v, &it, &key)) {
		if (key[0] == '\0' || strchr(key, '=') != NULL)
			return bad_member(f, key,
					  "a key must not be empty or "
					  "contain '='");
		if (strlen(key) > JOBSPEC_LABEL_BYTES)
			return bad_member(f, key, "the key is too long");
		if ((text = json_scalar_text(it)) == NULL)
			return bad_member(f, key, "must be a string");
		if (strlen(text) > JOBSPEC_LABEL_BYTES) {
			free(text);
			return bad_member(f, key, "the value is too long");
		}
		jobspec_push(out, strv_of(key), strv_of(text));
		free(text);
	}
	return 0;
}

/* --- reading: fields --------------------------------------------------- */
static int
field_image(const struct field *f, const struct json *v)
{
	return read_text(f, v, JOBSPEC_TEXT_BYTES, &f->spec->image);
}

static int
field_space(const struct field *f, const struct json *v)
{
	return read_text(f, v, JOBSPEC_TEXT_BYTES, &f->spec->space);
}

static int
field_command(const struct field *f, const struct json *v)
{
	return read_words(f, v, &f->spec->command);
}

static int
field_arguments(const struct field *f, const struct json *v)
{
	return read_words(f, v, &f->spec->arguments);
}

static int
field_env(const struct field *f, const struct json *v)
{
	return read_variables(f, v, &f->spec->env);
}

static int
field_secrets(const struct field *f, const struct json *v)
{
	return read_variables(f, v, &f->spec->secrets);
}

static int
field_labels(const struct field *f, const struct json *v)
{
	return read_labels(f, v, &f->spec->labels);
}

static int
field_flavor(const struct field *f, const struct json *v)
{
	return read_text(f, v, JOBSPEC_TEXT_BYTES, &f->spec->flavor);
}

static int
field_request_id(const struct field *f, const struct json *v)
{
	return read_text(f, v, JOBSPEC_TEXT_BYTES, &f->spec->request_id);
}

static int
field_sandbox(const struct field *f, const struct json *v)
{
	if (json_bool(v, &f->spec->sandbox) != 0)
		return bad(f, "must be true or false");
	return 0;
}

static int
field_timeout(const struct field *f, const struct json *v)
{
	double d;

	if (json_type(v) != JSON_NUMBER || json_number(v, &d) != 0)
		return bad(f, "must be a number of seconds");
	if (!(d > 0) || d > (double)JOBSPEC_TIMEOUT_MAX)
		return bad(f, "must be above 0 and at most %llu",
			   (unsigned long long)JOBSPEC_TIMEOUT_MAX);
	f->spec->timeout_s = (uint64_t)ceil(d);
	return 0;
}

static int
field_expose(const struct field *f, const struct json *v)
{
	struct field at = {"expose.ports", f->spec, f->stored, f->why};
	const struct json *ports = json_get(v, "ports"), *it = NULL;
	struct job_spec *s = f->spec;
	uint64_t port;

	if (json_type(v) != JSON_OBJECT)
		return bad(f, "must be an object");
	if (ports == NULL)
		return 0;
	if (json_type(ports) != JSON_ARRAY)
		return bad(&at, "must be an array of port numbers");
	while (json_each(ports, &it, NULL)) {
		if (json_u64(it, 65535, &port) != 0 || port == 0)
			return bad(&at, "must be ports from 1 to 65535");
		for (size_t i = 0; i < s->nports; i++)
			if (s->ports[i] == port)
				return bad(&at, "%u is there twice",
					   (unsigned)port);
		if (s->nports == JOBSPEC_PORTS_MAX)
			return bad(&at, "has more than %d ports",
				   JOBSPEC_PORTS_MAX);
		s->ports[s->nports++] = (uint16_t)port;
	}
	return 0;
}

/* null is what a client leaves open. */
static bool
is_said(const struct json *v)
{
	return v != NULL && json_type(v) != JSON_NULL;
}

static int
read_volume(const struct field *f, const struct json *v)
{
	struct field source = {"volumes.source", f->spec, f->stored, f->why},
		     path = {"volumes.mountPath", f->spec, f->stored, f->why},
		     type = {"volumes.type", f->spec, f->stored, f->why};
	const struct json *t = json_get(v, "type"), *ro;
	struct job_spec *s = f->spec;
	struct job_volume *vol;
	int r;

	if (json_type(v) != JSON_OBJECT)
		return bad(f, "must be an array of objects");
	s->volumes =
	    xreallocarray(s->volumes, s->nvolumes + 1, sizeof(*s->volumes));
	vol = &s->volumes[s->nvolumes++];
	memset(vol, 0, sizeof(*vol));
	ro = json_get(v, "readOnly");
	if ((is_said(t) &&
	     (r = read_text(&type, t, JOBSPEC_TEXT_BYTES, &vol->type)) != 0) ||
	    (r = read_text(&source, json_get(v, "source"), JOBSPEC_TEXT_BYTES,
			   &vol->source)) != 0 ||
	    (r = read_text(&path, json_get(v, "mountPath"), JOBSPEC_TEXT_BYTES,
			   &vol->path)) != 0)
		return r;
	if (is_said(ro) && json_bool(ro, &vol->read_only) != 0) {
		strbuf_adds(f->why, "volumes.readOnly: must be true or false");
		return E_INVALID;
	}
	return 0;
}

static int
field_volumes(const struct field *f, const struct json *v)
{
	const struct json *it = NULL;
	int r;

	if (json_type(v) != JSON_ARRAY)
		return bad(f, "must be an array of objects");
	if (json_count(v) > JOBSPEC_VOLUMES_MAX)
		return bad(f, "has more than %d elements", JOBSPEC_VOLUMES_MAX);
	while (json_each(v, &it, NULL))
		if ((r = read_volume(f, it)) != 0)
			return r;
	return 0;
}

static const struct {
	const char *name;
	int (*read)(const struct field *f, const struct json *v);
} fields[] = {
    {"dockerImage", field_image},      {"spaceId", field_space},
    {"command", field_command},        {"arguments", field_arguments},
    {"environment", field_env},        {"secrets", field_secrets},
    {"labels", field_labels},          {"flavor", field_flavor},
    {"timeoutSeconds", field_timeout}, {"expose", field_expose},
    {"volumes", field_volumes},        {"requestId", field_request_id},
    {"sandbox", field_sandbox}};

static int
read_field(struct field *f, const struct json *v, struct strbuf *ignored)
{
	for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
		if (strcmp(f->name, fields[i].name) != 0)
			continue;
		return is_said(v) ? fields[i].read(f, v) : 0;
	}
	if (ignored != NULL && ignored->len < 512)
		strbuf_addf(ignored, "%s%.64s", ignored->len != 0 ? ", " : "",
			    f->name);
	return 0;
}

/* Clients that know nothing of the field say it by a label. Labels can be
 * changed later, what a job is cannot. */
static int
check_whole(struct job_spec *s, struct strbuf *why)
{
	if (jobspec_pair(&s->labels, "hf-sandbox") != NULL)
		s->sandbox = true;
	if (s->image != NULL && s->space != NULL) {
		strbuf_adds(why, "spaceId: not together with dockerImage");
		return E_INVALID;
	}
	if (s->sandbox)
		return 0;
	if (s->command.n + s->arguments.n == 0) {
		strbuf_adds(why, "command: is missing");
		return E_INVALID;
	}
	if ((s->command.n != 0 ? s->command.v : s->arguments.v)[0][0] == '\0') {
		strbuf_adds(why, "command: names no program");
		return E_INVALID;
	}
	return 0;
}

int
jobspec_parse(const struct json *v, bool stored, struct job_spec *out,
	      struct strbuf *ignored, struct strbuf *why)
{
	struct job_spec s = {0};
	struct field f = {NULL, &s, stored, why};
	const struct json *it = NULL;
	int r = 0;

	if (json_type(v) != JSON_OBJECT) {
		strbuf_adds(why, "the body must be a JSON object");
		return E_INVALID;
	}
	while (r == 0 && json_each(v, &it, &f.name))
		r = read_field(&f, it, ignored);
	if (r == 0 && !stored)
		r = check_whole(&s, why);
	if (r != 0)
		jobspec_clear(&s);
	else
		*out = s;
	return r;
}

int
jobspec_parse_labels(const struct json *v, struct job_pairs *out,
		     struct strbuf *why)
{
	struct field f = {"labels", NULL, false, why};
	struct job_pairs p = {0};

	if (read_labels(&f, v, &p) != 0) {
		jobspec_clear_pairs(&p);
		return E_INVALID;
	}
	*out = p;
	return 0;
}

/* --- writing ----------------------------------------------------------- */
static void
add_text(struct strbuf *b, const char *s)
{
	if (s != NULL)
		strbuf_add_json(b, strv_of(s));
	else
		strbuf_adds(b, "null");
}

static void
add_words(struct strbuf *b, const struct job_words *w)
{
	strbuf_addc(b, '[');
	for (size_t i = 0; i < w->n; i++) {
		strbuf_adds(b, i != 0 ? "," : "");
		add_text(b, w->v[i]);
	}
	strbuf_addc(b, ']');
}

static void
add_pairs(struct strbuf *b, const struct job_pairs *p, bool values)
{
	strbuf_addc(b, '{');
	for (size_t i = 0; i < p->n; i++) {
		strbuf_adds(b, i != 0 ? "," : "");
		add_text(b, p->v[i].key);
		strbuf_addc(b, ':');
		add_text(b, values ? p->v[i].value : NULL);
	}
	strbuf_addc(b, '}');
}

void
jobspec_add_labels(const struct job_pairs *p, struct strbuf *b)
{
	add_pairs(b, p, true);
}

static void
add_expose(struct strbuf *b, const struct job_spec *s)
{
	strbuf_adds(b, ",\"expose\":{\"ports\":[");
	for (size_t i = 0; i < s->nports; i++)
		strbuf_addf(b, "%s%u", i != 0 ? "," : "", s->ports[i]);
	strbuf_adds(b, "]},\"volumes\":[");
	for (size_t i = 0; i < s->nvolumes; i++) {
		const struct job_volume *v = &s->volumes[i];

		strbuf_adds(b, i != 0 ? ",{\"type\":" : "{\"type\":");
		add_text(b, v->type);
		strbuf_adds(b, ",\"source\":");
		add_text(b, v->source);
		strbuf_adds(b, ",\"mountPath\":");
		add_text(b, v->path);
		strbuf_addf(b, ",\"readOnly\":%s}",
			    v->read_only ? "true" : "false");
	}
	strbuf_addc(b, ']');
}

void
jobspec_add_json(const struct job_spec *s, struct strbuf *b)
{
	strbuf_adds(b, "\"dockerImage\":");
	add_text(b, s->image);
	strbuf_adds(b, ",\"spaceId\":");
	add_text(b, s->space);
	strbuf_adds(b, ",\"command\":");
	add_words(b, &s->command);
	strbuf_adds(b, ",\"arguments\":");
	add_words(b, &s->arguments);
	strbuf_adds(b, ",\"environment\":");
	add_pairs(b, &s->env, true);
	strbuf_adds(b, ",\"secrets\":");
	add_pairs(b, &s->secrets, false);
	strbuf_adds(b, ",\"flavor\":");
	add_text(b, s->flavor);
	if (s->timeout_s != 0)
		strbuf_addf(b, ",\"timeoutSeconds\":%llu",
			    (unsigned long long)s->timeout_s);
	add_expose(b, s);
	if (s->sandbox)
		strbuf_adds(b, ",\"sandbox\":true");
	if (s->request_id != NULL) {
		strbuf_adds(b, ",\"requestId\":");
		add_text(b, s->request_id);
	}
}
