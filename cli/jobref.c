/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding a job, and the way to its agent. The agent's token is made from the
 * user's own and the nonce among the job's labels, as the Python client makes
 * it: whoever started the job can reach it from anywhere.
 */
#include "config.h"

#include "cli/place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/token.h"
#include "cli/url.h"
#include "net/tlsctx.h"

const char *
job_text(const struct json *job, const char *path)
{
	struct strv rest = strv_of(path), part;
	const struct json *v = job;
	const char *s;
	char name[64];

	while (strv_cut(&rest, '.', &part)) {
		(void)snprintf(name, sizeof(name), "%.*s", STRV_ARG(part));
		v = json_get(v, name);
	}
	s = json_string(v);
	return s != NULL ? s : "";
}

const char *
job_stage(const struct job *j)
{
	return job_text(j->v, "status.stage");
}

void
job_clear(struct job *j)
{
	json_doc_free(j->doc);
	if (j->own_web)
		web_free(j->web);
	free(j->id);
	free(j->inside);
	free(j->base);
	free(j->scope);
	mem_secure_zero(j, sizeof(*j));
}

/* --- by name ----------------------------------------------------------- */

struct search {
	const char *what;
	char *id;       /* the one that fits */
	unsigned found; /* how many do */
	bool exact;
};

static void
job_match(const struct json *v, void *arg)
{
	const char *id = job_text(v, "id");
	struct search *s = arg;
	bool exact = strcmp(id, s->what) == 0 ||
		     strcmp(job_text(v, "labels.name"), s->what) == 0;
	bool fits = exact || strncmp(id, s->what, strlen(s->what)) == 0;

	if (!fits || (s->exact && !exact))
		return;
	if (exact && !s->exact) {
		s->exact = true;
		s->found = 0;
	}
	if (s->found++ == 0) {
		free(s->id);
		s->id = xstrdup(id);
	}
}

static int
job_search(struct place *p, const char *what, char **id)
{
	struct search s = {.what = what};
	/* Those that run first: a name may have been used before. */
	int r =
	    place_each_job(p, "stage=RUNNING&stage=SCHEDULING", job_match, &s);

	if (r == 0 && s.found == 0)
		r = place_each_job(p, "", job_match, &s);
	if (r == 0 && s.found == 1) {
		*id = s.id;
		return 0;
	}
	if (r == 0)
		say_error(s.found == 0 ? "%s: no such job"
				       : "%s: more than one job is called so",
			  what);
	free(s.id);
	return EXIT_FAILED;
}

static bool
job_is_id(const char *s)
{
	return strlen(s) == 24 && strspn(s, "0123456789abcdef") == 24;
}

int
job_find(struct place *p, const char *what, struct job *j)
{
	const char *dot = strchr(what, '.'), *ns = place_ns(p);
	char *name, *target;
	int r = 0;

	memset(j, 0, sizeof(*j));
	if (ns == NULL)
		return EXIT_FAILED;
	name =
	    dot != NULL ? xstrndup(what, (size_t)(dot - what)) : xstrdup(what);
	if (dot != NULL)
		j->inside = xstrdup(dot + 1);
	if (job_is_id(name))
		j->id = xstrdup(name);
	else
		r = job_search(p, name, &j->id);
	free(name);
	if (r != 0) {
		job_clear(j);
		return r;
	}
	target = xasprintf("/api/jobs/%s/%s", ns, j->id);
	r = place_ask(p, "GET", target, NULL, &j->doc);
	free(target);
	if (r != 0)
		job_clear(j);
	else
		j->v = json_root(j->doc);
	return r;
}

/* --- its agent --------------------------------------------------------- */

static void
job_token(const struct place *p, struct job *j)
{
	const char *nonce = job_text(j->v, "labels.hf-sandbox-nonce");
	uint8_t mac[32];
	char *msg;

	if (*nonce == '\0')
		return;
	msg = xasprintf("hf-sandbox:%s", nonce);
	tls_hmac_sha256(strv_of(p->token), strv_of(msg), mac);
	token_hex_encode(j->token, mac, sizeof(mac));
	mem_secure_zero(mac, sizeof(mac));
	free(msg);
}

static const char *
job_agent_url(const struct job *j)
{
	const struct json *it = NULL, *status = json_get(j->v, "status");
	const char *s;

	while (json_each(json_get(status, "exposeUrls"), &it, NULL)) {
		s = json_string(it);
		if (s != NULL && strstr(s, "--49983.") != NULL)
			return s;
	}
	return NULL;
}

int
job_reach(struct place *p, struct job *j)
{
	const char *text = job_agent_url(j);
	struct url u = {NULL, NULL};
	char *msg = NULL;

	if (text == NULL || url_parse(text, &u) != 0) {
		say_error("%s: not a sandbox", j->id);
		return EXIT_FAILED;
	}
	if (strcmp(job_stage(j), "RUNNING") != 0 &&
	    strcmp(job_stage(j), "SCHEDULING") != 0) {
		say_error("%s: has ended: %s %s", j->id, job_stage(j),
			  job_text(j->v, "status.message"));
		url_clear(&u);
		return EXIT_FAILED;
	}
	if (strcmp(u.origin, web_origin(p->web)) == 0) {
		j->web = p->web;
	} else if (web_new(p->loop, u.origin, p->ca, &j->web, &msg) == 0) {
		j->own_web = true;
	} else {
		say_error("%s", msg);
		free(msg);
		url_clear(&u);
		return EXIT_FAILED;
	}
	j->base = u.path;
	free(u.origin);
	j->scope = j->inside != NULL
		       ? xasprintf("%s/v1/sandboxes/%s", j->base, j->inside)
		       : xasprintf("%s/v1", j->base);
	job_token(p, j);
	return 0;
}

int
job_try(struct place *p, struct job *j, struct web_ask *q, const char *target,
	struct web_answer *a)
{
	char *path = xasprintf("%s%s", j->scope, target);
	int r;

	q->target = path;
	q->bearer = p->token;
	q->token = j->token[0] != '\0' ? j->token : NULL;
	r = web_ask(j->web, q, a);
	free(path);
	return r;
}

int
job_ask(struct place *p, struct job *j, struct web_ask *q, const char *target,
	struct web_answer *a)
{
	int r = job_try(p, j, q, target, a);

	if (r != 0) {
		say_error("%s: %s", j->id, a->why);
		r = EXIT_FAILED;
	} else if (a->status >= 400) {
		place_refused(j->id, a);
		r = EXIT_FAILED;
	}
	return r;
}
