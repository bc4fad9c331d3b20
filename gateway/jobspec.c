/* SPDX-License-Identifier: Apache-2.0 */
/* What a job is to be: its values, and how they are written. */
#include "config.h"

#include "gateway/jobspec.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

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

void
jobspec_clear_words(struct job_words *w)
{
	for (size_t i = 0; i < w->n; i++)
		free(w->v[i]);
	free(w->v);
	w->v = NULL;
	w->n = 0;
}

void
jobspec_push_word(struct job_words *w, struct strv word)
{
	w->v = xreallocarray(w->v, w->n + 1, sizeof(*w->v));
	w->v[w->n++] = xstrndup(word.p, word.len);
}

void
jobspec_push_file(struct job_spec *s, struct strv path, struct strv data,
		  unsigned mode)
{
	struct job_file *f;

	s->files = xreallocarray(s->files, s->nfiles + 1, sizeof(*s->files));
	f = &s->files[s->nfiles++];
	memset(f, 0, sizeof(*f));
	f->path = xstrndup(path.p, path.len);
	if (data.p != NULL)
		f->data =
		    data.len != 0 ? xmemdup(data.p, data.len) : xstrdup("");
	f->len = data.len;
	f->mode = mode;
}

static void
forget_file(struct job_file *f)
{
	if (f->data != NULL)
		mem_secure_zero(f->data, f->len);
	free(f->data);
	f->data = NULL;
}

bool
jobspec_main(const struct job_spec *s)
{
	return s->sandbox && !s->hub && s->command.n + s->arguments.n != 0;
}

void
jobspec_clear(struct job_spec *s)
{
	free(s->image);
	free(s->space);
	jobspec_clear_words(&s->command);
	jobspec_clear_words(&s->arguments);
	jobspec_clear_words(&s->tags);
	jobspec_clear_words(&s->prepare);
	free(s->working_dir);
	for (size_t i = 0; i < s->nfiles; i++) {
		free(s->files[i].path);
		forget_file(&s->files[i]);
	}
	free(s->files);
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
	free(s->restore);
	free(s->restore_volume);
	mem_free_secret(s->face);
	memset(s, 0, sizeof(*s));
}

void
jobspec_forget(struct job_spec *s)
{
	for (size_t i = 0; i < s->secrets.n; i++) {
		mem_free_secret(s->secrets.v[i].value);
		s->secrets.v[i].value = NULL;
	}
	for (size_t i = 0; i < s->nfiles; i++)
		forget_file(&s->files[i]);
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

void
jobspec_add_words(const struct job_words *w, struct strbuf *b)
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

/* What most jobs do without. */
static void
add_rest(struct strbuf *b, const struct job_spec *s)
{
	if (s->working_dir != NULL) {
		strbuf_adds(b, ",\"workingDir\":");
		add_text(b, s->working_dir);
	}
	if (s->memory != 0)
		strbuf_addf(b, ",\"memory\":%llu",
			    (unsigned long long)s->memory);
	if (s->cpu_milli != 0)
		strbuf_addf(b, ",\"cpuMilli\":%llu",
			    (unsigned long long)s->cpu_milli);
	if (s->has_grace)
		strbuf_addf(b, ",\"stopGraceSeconds\":%llu.%03u",
			    (unsigned long long)s->grace_ms / 1000,
			    (unsigned)(s->grace_ms % 1000));
	for (size_t i = 0; i < s->nfiles; i++) {
		strbuf_adds(b, i != 0 ? ",{" : ",\"files\":[{");
		strbuf_adds(b, "\"path\":");
		add_text(b, s->files[i].path);
		strbuf_addf(b, ",\"size\":%zu,\"mode\":%u}", s->files[i].len,
			    s->files[i].mode);
	}
	strbuf_adds(b, s->nfiles != 0 ? "]" : "");
	if (s->closed)
		strbuf_adds(b, ",\"network\":\"none\"");
	if (s->sandbox)
		strbuf_adds(b, ",\"sandbox\":true");
	if (s->hub)
		strbuf_adds(b, ",\"hub\":true");
}

void
jobspec_add_json(const struct job_spec *s, struct strbuf *b)
{
	strbuf_adds(b, "\"dockerImage\":");
	add_text(b, s->image);
	strbuf_adds(b, ",\"spaceId\":");
	add_text(b, s->space);
	strbuf_adds(b, ",\"command\":");
	jobspec_add_words(&s->command, b);
	strbuf_adds(b, ",\"arguments\":");
	jobspec_add_words(&s->arguments, b);
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
	add_rest(b, s);
	if (s->request_id != NULL) {
		strbuf_adds(b, ",\"requestId\":");
		add_text(b, s->request_id);
	}
	if (s->restore != NULL) {
		strbuf_adds(b, ",\"restoreSnapshot\":");
		add_text(b, s->restore);
	}
	if (s->restore_volume != NULL) {
		strbuf_adds(b, ",\"restoreVolume\":");
		add_text(b, s->restore_volume);
	}
}

void
jobspec_add_stored(const struct job_spec *s, struct strbuf *b)
{
	jobspec_add_json(s, b);
	if (s->face != NULL) {
		strbuf_adds(b, ",\"face\":");
		add_text(b, s->face);
	}
}
