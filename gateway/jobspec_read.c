/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading what a job is to be. Each known field has a reader in one table;
 * whatever a reader refuses is said with the field's name, and never with its
 * value, which may be a secret.
 */
#include "config.h"

#include "gateway/jobspec.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
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
	jobspec_clear_words(out);
	while (json_each(v, &it, NULL)) {
		const char *s = json_string(it);

		if (s == NULL)
			return bad(f, "element %zu must be a string", out->n);
		if (strlen(s) > JOBSPEC_WORD_BYTES)
			return bad(f, "element %zu is longer than %d bytes",
				   out->n, JOBSPEC_WORD_BYTES);
		jobspec_push_word(out, strv_of(s));
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
field_restore(const struct field *f, const struct json *v)
{
	return read_text(f, v, JOBSPEC_TEXT_BYTES, &f->spec->restore);
}

static int
field_network(const struct field *f, const struct json *v)
{
	const char *s = json_string(v);

	if (s == NULL || strcmp(s, "none") != 0)
		return bad(f, "must be \"none\", or absent");
	f->spec->closed = true;
	return 0;
}

static int
field_restore_volume(const struct field *f, const struct json *v)
{
	return read_text(f, v, JOBSPEC_TEXT_BYTES, &f->spec->restore_volume);
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
field_grace(const struct field *f, const struct json *v)
{
	double d;

	if (json_type(v) != JSON_NUMBER || json_number(v, &d) != 0)
		return bad(f, "must be a number of seconds");
	if (!(d >= 0) || d * 1000 > (double)JOBSPEC_GRACE_MAX)
		return bad(f, "must be at least 0 and at most %llu",
			   JOBSPEC_GRACE_MAX / 1000);
	f->spec->grace_ms = (uint64_t)ceil(d * 1000);
	f->spec->has_grace = true;
	return 0;
}

static int
field_memory(const struct field *f, const struct json *v)
{
	if (json_u64(v, INT64_MAX, &f->spec->memory) != 0)
		return bad(f, "must be a number of bytes");
	return 0;
}

static int
field_cpu(const struct field *f, const struct json *v)
{
	if (json_u64(v, 4096000, &f->spec->cpu_milli) != 0)
		return bad(f, "must be thousandths of a core");
	return 0;
}

static int
field_working_dir(const struct field *f, const struct json *v)
{
	return read_text(f, v, JOBSPEC_PATH_BYTES, &f->spec->working_dir);
}

static int
field_tags(const struct field *f, const struct json *v)
{
	return read_words(f, v, &f->spec->tags);
}

static int
read_file(const struct field *f, const struct json *v)
{
	const char *path = json_string(json_get(v, "path")),
		   *text = json_string(json_get(v, "content"));
	const struct json *m = json_get(v, "mode");
	struct strbuf data = {0};
	uint64_t mode = 0644, len = 0;

	if (path == NULL || (text == NULL && !f->stored))
		return bad(f, "path and content: must be strings");
	if (m != NULL && json_u64(m, 07777, &mode) != 0)
		return bad(f, "mode: must be a number up to 4095");
	if (f->stored) {
		if (json_u64(json_get(v, "size"), UINT32_MAX, &len) != 0)
			return bad(f, "size");
		jobspec_push_file(f->spec, strv_of(path),
				  (struct strv){NULL, (size_t)len},
				  (unsigned)mode);
		return 0;
	}
	if (base64_decode(strv_of(text), &data) != 0) {
		strbuf_clear(&data);
		return bad(f, "content: must be base64");
	}
	jobspec_push_file(f->spec, strv_of(path),
			  (struct strv){data.s != NULL ? data.s : "", data.len},
			  (unsigned)mode);
	if (data.s != NULL)
		mem_secure_zero(data.s, data.cap);
	strbuf_clear(&data);
	return 0;
}

static int
field_files(const struct field *f, const struct json *v)
{
	const struct json *it = NULL;
	int r;

	if (json_type(v) != JSON_ARRAY)
		return bad(f, "must be an array of objects");
	if (json_count(v) > JOBSPEC_FILES_MAX)
		return bad(f, "has more than %d elements", JOBSPEC_FILES_MAX);
	while (json_each(v, &it, NULL))
		if ((r = read_file(f, it)) != 0)
			return r;
	return 0;
}

static int
field_hub(const struct field *f, const struct json *v)
{
	if (f->stored && json_bool(v, &f->spec->hub) != 0)
		return bad(f, "must be true or false");
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

/* Nobody but the database says it. */
static int
field_face(const struct field *f, const struct json *v)
{
	if (!f->stored)
		return 0;
	return read_text(f, v, SIZE_MAX, &f->spec->face);
}

static const struct {
	const char *name;
	int (*read)(const struct field *f, const struct json *v);
} fields[] = {{"dockerImage", field_image},
	      {"spaceId", field_space},
	      {"command", field_command},
	      {"arguments", field_arguments},
	      {"environment", field_env},
	      {"secrets", field_secrets},
	      {"labels", field_labels},
	      {"flavor", field_flavor},
	      {"timeoutSeconds", field_timeout},
	      {"expose", field_expose},
	      {"volumes", field_volumes},
	      {"requestId", field_request_id},
	      {"restoreSnapshot", field_restore},
	      {"restoreVolume", field_restore_volume},
	      {"network", field_network},
	      {"sandbox", field_sandbox},
	      {"hub", field_hub},
	      {"workingDir", field_working_dir},
	      {"tags", field_tags},
	      {"files", field_files},
	      {"memory", field_memory},
	      {"cpuMilli", field_cpu},
	      {"stopGraceSeconds", field_grace},
	      {"face", field_face}};

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
		r = jobspec_check(&s, why);
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
