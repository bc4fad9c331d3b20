/* SPDX-License-Identifier: Apache-2.0 */
/* What must be true of a job, whichever face it was asked for by. */
#include "config.h"

#include "gateway/jobspec.h"

#include <string.h>

#include "base/err.h"
#include "base/scratch.h"

static int
refuse(struct strbuf *why, const char *text)
{
	strbuf_adds(why, text);
	return E_INVALID;
}

static int
check_command(const struct job_spec *s, struct strbuf *why)
{
	const char *host = jobspec_pair(&s->env, "SBX_HOST_MODE");
	bool main = jobspec_main(s);

	if (main && host != NULL && strcmp(host, "1") == 0)
		return refuse(why, "command: not together with host mode");
	if (s->sandbox && !main) {
		if (s->working_dir != NULL)
			return refuse(why, "workingDir: there is no command");
		return 0;
	}
	if (s->command.n + s->arguments.n == 0)
		return refuse(why, "command: is missing");
	if ((s->command.n != 0 ? s->command.v : s->arguments.v)[0][0] == '\0')
		return refuse(why, "command: names no program");
	if (s->working_dir != NULL &&
	    (s->working_dir[0] != '/' ||
	     strlen(s->working_dir) > JOBSPEC_PATH_BYTES))
		return refuse(why, "workingDir: must be an absolute path");
	return 0;
}

static int
check_tags(const struct job_words *tags, struct strbuf *why)
{
	if (tags->n > JOBSPEC_TAGS_MAX) {
		strbuf_addf(why, "tags: has more than %d elements",
			    JOBSPEC_TAGS_MAX);
		return E_INVALID;
	}
	for (size_t i = 0; i < tags->n; i++) {
		size_t len = strlen(tags->v[i]);

		if (len != 0 && len <= JOBSPEC_TAG_BYTES)
			continue;
		strbuf_addf(why, "tags: element %zu is %s", i,
			    len == 0 ? "empty" : "too long");
		return E_INVALID;
	}
	return 0;
}

static int
check_files(const struct job_spec *s, struct strbuf *why)
{
	size_t sum = 0;

	if (s->nfiles > JOBSPEC_FILES_MAX) {
		strbuf_addf(why, "files: has more than %d elements",
			    JOBSPEC_FILES_MAX);
		return E_INVALID;
	}
	for (size_t i = 0; i < s->nfiles; i++) {
		const struct job_file *f = &s->files[i];

		if (f->path[0] != '/' || strlen(f->path) > JOBSPEC_PATH_BYTES)
			return refuse(why,
				      "files.path: must be an absolute path");
		if (f->mode > 07777)
			return refuse(why, "files.mode: is more than 4095");
		if (f->len > JOBSPEC_FILES_BYTES - sum)
			return refuse(why,
				      "files: are more than 1 MiB together");
		sum += f->len;
	}
	return 0;
}

bool
jobspec_is_scratch(const struct job_volume *v)
{
	return v->type != NULL && strcmp(v->type, "scratch") == 0;
}

struct job_volume *
jobspec_scratch(const struct job_spec *s, struct strv name)
{
	for (size_t i = 0; i < s->nvolumes; i++)
		if (jobspec_is_scratch(&s->volumes[i]) &&
		    strv_eq(name, strv_of(s->volumes[i].source)))
			return &s->volumes[i];
	return NULL;
}

static int
check_scratch(const struct job_spec *s, struct strbuf *why)
{
	size_t n = 0;

	for (size_t i = 0; i < s->nvolumes; i++) {
		const struct job_volume *v = &s->volumes[i];

		if (!jobspec_is_scratch(v))
			continue;
		if (++n > SCRATCH_MAX)
			return refuse(why, "volumes: too many scratch volumes");
		if (!scratch_name_ok(strv_of(v->source)))
			return refuse(why, "volumes.source: a scratch volume's "
					   "name is 1 to 63 of a-z 0-9 -");
		if (!scratch_place_ok(v->path))
			return refuse(why, "volumes.mountPath: no place for a "
					   "scratch volume");
		if (v->read_only)
			return refuse(why, "volumes.readOnly: not for a "
					   "scratch volume");
		for (size_t k = 0; k < i; k++)
			if (jobspec_is_scratch(&s->volumes[k]) &&
			    (strcmp(s->volumes[k].source, v->source) == 0 ||
			     strcmp(s->volumes[k].path, v->path) == 0))
				return refuse(why, "volumes: a name or place "
						   "is there twice");
	}
	return 0;
}

/* Clients that know nothing of the field say it by a label. Labels can be
 * changed later, what a job is cannot. */
int
jobspec_check(struct job_spec *s, struct strbuf *why)
{
	int r;

	if (jobspec_pair(&s->labels, "hf-sandbox") != NULL)
		s->sandbox = s->hub = true;
	if (s->image != NULL && s->space != NULL)
		return refuse(why, "spaceId: not together with dockerImage");
	if (s->has_grace && s->grace_ms > JOBSPEC_GRACE_MAX)
		return refuse(why, "stopGraceSeconds: is more than 3600");
	if (s->timeout_s > JOBSPEC_TIMEOUT_MAX)
		return refuse(why, "timeoutSeconds: is more than 366 days");
	if ((r = check_command(s, why)) != 0 ||
	    (r = check_tags(&s->tags, why)) != 0 ||
	    (r = check_scratch(s, why)) != 0)
		return r;
	return check_files(s, why);
}
