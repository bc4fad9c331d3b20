/* SPDX-License-Identifier: Apache-2.0 */
/* The gateway and who asks it; see the header. */
#include "config.h"

#include "cli/place.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "cli/url.h"
#include "net/loop.h"

void
say_error(const char *fmt, ...)
{
	va_list ap;

	(void)fputs("sbx: ", stderr);
	va_start(ap, fmt);
	(void)vfprintf(stderr, fmt, ap);
	va_end(ap);
	(void)fputc('\n', stderr);
}

static const char *
place_env(const char *a, const char *b)
{
	const char *s = getenv(a);

	if (s == NULL || *s == '\0')
		s = b != NULL ? getenv(b) : NULL;
	return s != NULL && *s != '\0' ? s : NULL;
}

int
place_open(struct place *p)
{
	struct url u = {NULL, NULL};
	char *msg = NULL;

	if (p->url == NULL)
		p->url = place_env("SBX_URL", "HF_ENDPOINT");
	if (p->token == NULL)
		p->token = place_env("SBX_API_TOKEN", "HF_TOKEN");
	if (p->ca == NULL)
		p->ca = place_env("SSL_CERT_FILE", NULL);
	if (p->url == NULL || p->token == NULL) {
		say_error("no %s: give %s, or set %s",
			  p->url == NULL ? "gateway" : "token",
			  p->url == NULL ? "--url" : "--token-file",
			  p->url == NULL ? "SBX_URL or HF_ENDPOINT"
					 : "SBX_API_TOKEN or HF_TOKEN");
		return EXIT_USAGE;
	}
	if (url_parse(p->url, &u) != 0) {
		say_error("%s: not an http or https URL", p->url);
		return EXIT_USAGE;
	}
	p->loop = loop_new();
	if (web_new(p->loop, u.origin, p->ca, &p->web, &msg) != 0) {
		say_error("%s", msg);
		free(msg);
		url_clear(&u);
		return EXIT_USAGE;
	}
	p->path = u.path;
	free(u.origin);
	return 0;
}

void
place_close(struct place *p)
{
	web_free(p->web);
	if (p->loop != NULL)
		loop_free(p->loop);
	free(p->own_ns);
	free(p->path);
	mem_free_secret(p->secret);
}

/* --- asking ------------------------------------------------------------ */

void
place_refused(const char *what, const struct web_answer *a)
{
	struct json_doc *doc = NULL;
	const char *text = NULL;

	if (json_parse((struct strv){a->body.s, a->body.len}, &doc, NULL) == 0)
		text = json_string(json_get(json_root(doc), "error"));
	if (text != NULL)
		say_error("%s: %s", what, text);
	else
		say_error("%s: the answer is %u", what, a->status);
	json_doc_free(doc);
}

static int
place_send(struct place *p, struct web_ask *q, const char *target,
	   struct web_answer *a)
{
	char *path = xasprintf("%s%s", p->path, target);
	int r;

	q->target = path;
	q->bearer = p->token;
	r = web_ask(p->web, q, a);
	if (r != 0) {
		say_error("%s: %s", web_origin(p->web), a->why);
		r = EXIT_FAILED;
	} else if (a->status >= 400) {
		place_refused(web_origin(p->web), a);
		r = EXIT_FAILED;
	}
	free(path);
	return r;
}

int
place_ask(struct place *p, const char *method, const char *target,
	  const struct strbuf *body, struct json_doc **doc)
{
	struct web_ask q = {.method = method};
	struct web_answer a;
	int r;

	if (body != NULL)
		q.json = (struct strv){body->s, body->len};
	*doc = NULL;
	r = place_send(p, &q, target, &a);
	if (r == 0 &&
	    json_parse((struct strv){a.body.s, a.body.len}, doc, NULL) != 0)
		*doc = NULL;
	web_answer_clear(&a);
	return r;
}

int
place_stream(struct place *p, const char *target,
	     void (*data)(struct strv piece, void *arg), void *arg)
{
	struct web_ask q = {.method = "GET", .data = data, .arg = arg};
	struct web_answer a;
	int r = place_send(p, &q, target, &a);

	web_answer_clear(&a);
	return r;
}

const char *
place_ns(struct place *p)
{
	struct json_doc *doc;
	const char *name;

	if (p->ns != NULL)
		return p->ns;
	if (p->own_ns != NULL)
		return p->own_ns;
	if (place_ask(p, "GET", "/api/whoami-v2", NULL, &doc) != 0)
		return NULL;
	name = json_string(json_get(json_root(doc), "name"));
	if (name != NULL)
		p->own_ns = xstrdup(name);
	else
		say_error("%s: does not say who we are", p->url);
	json_doc_free(doc);
	return p->own_ns;
}

/* --- lists ------------------------------------------------------------- */

/* The next page of a Link field, as a target below the place; NULL: none. */
static char *
place_next(const struct place *p, const char *link)
{
	const char *end, *rel = strstr(link, "rel=\"next\"");
	const char *start = strchr(link, '<');
	struct url u = {NULL, NULL};
	size_t skip = strlen(p->path);
	char *whole, *out = NULL, *query;

	if (rel == NULL || start == NULL || (end = strchr(start, '>')) == NULL)
		return NULL;
	whole = xstrndup(start + 1, (size_t)(end - start - 1));
	query = strchr(whole, '?');
	if (query != NULL)
		*query = '\0';
	if (url_parse(whole, &u) == 0 && strncmp(u.path, p->path, skip) == 0)
		out =
		    xasprintf("%s%s%s", u.path + skip, query != NULL ? "?" : "",
			      query != NULL ? query + 1 : "");
	url_clear(&u);
	free(whole);
	return out;
}

static int
place_page(struct place *p, const char *target, char **next,
	   void (*fn)(const struct json *job, void *arg), void *arg)
{
	struct web_ask q = {.method = "GET"};
	const struct json *it = NULL;
	struct json_doc *doc = NULL;
	struct web_answer a;
	int r = place_send(p, &q, target, &a);

	if (r == 0 &&
	    json_parse((struct strv){a.body.s, a.body.len}, &doc, NULL) != 0) {
		say_error("%s: not a list of jobs", web_origin(p->web));
		r = EXIT_FAILED;
	}
	while (r == 0 && json_each(json_root(doc), &it, NULL))
		fn(it, arg);
	if (r == 0)
		*next = place_next(p, a.link);
	json_doc_free(doc);
	web_answer_clear(&a);
	return r;
}

int
place_each_job(struct place *p, const char *query,
	       void (*fn)(const struct json *job, void *arg), void *arg)
{
	const char *ns = place_ns(p);
	char *target, *next;
	int r;

	if (ns == NULL)
		return EXIT_FAILED;
	target =
	    xasprintf("/api/jobs/%s%s%s", ns, *query != '\0' ? "?" : "", query);
	do {
		next = NULL;
		r = place_page(p, target, &next, fn, arg);
		free(target);
		target = next;
	} while (target != NULL);
	return r;
}
