/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The methods by the paths of their google.api.http annotations, below
 * /coreweave: what the path and the query do not say is in the body. Streams
 * have none.
 */
#include "config.h"

#include <string.h>

#include "base/err.h"
#include "gateway/cwhttp.h"
#include "gateway/cwsvc_int.h"

#define ROOT "/coreweave/v1/"

enum body {
	NO_BODY, /* the query has the fields */
	WHOLE,   /* the body is the message */
	SANDBOX  /* the body is its field `sandbox` */
};

struct cwrest_rule {
	const char *method, *collection;
	const char *verb; /* after a colon; NULL: none */
	const char *id;   /* the field that the path has; NULL: the collection
			   * itself is meant */
	const char *rpc;
	enum body body;
};

static const struct cwrest_rule rules[] = {
    {"POST", "sandboxes", NULL, NULL, "CreateSandbox", SANDBOX},
    {"POST", "sandboxes", "createFromTemplate", NULL,
     "CreateSandboxFromTemplate", WHOLE},
    {"GET", "sandboxes", NULL, NULL, "ListSandboxes", NO_BODY},
    {"POST", "sandboxes", "purge", NULL, "PurgeSandboxes", WHOLE},
    {"GET", "sandboxes", NULL, "sandbox_id", "GetSandbox", NO_BODY},
    {"DELETE", "sandboxes", NULL, "sandbox_id", "DeleteSandbox", NO_BODY},
    {"POST", "sandboxes", "exec", "sandbox_id", "Exec", WHOLE},
    {"POST", "sandboxes", "writeFile", "sandbox_id", "WriteFile", WHOLE},
    {"GET", "sandboxes", "readFile", "sandbox_id", "ReadFile", NO_BODY},
    {"POST", "sandboxes", "snapshot", "sandbox_id", "CreateFileSystemSnapshot",
     WHOLE},
    {"GET", "fileSystemSnapshots", NULL, NULL, "ListFileSystemSnapshots",
     NO_BODY},
    {"GET", "fileSystemSnapshots", NULL, "file_system_snapshot_id",
     "GetFileSystemSnapshot", NO_BODY},
    {"DELETE", "fileSystemSnapshots", NULL, "file_system_snapshot_id",
     "DeleteFileSystemSnapshot", NO_BODY},
};

/* What a path names: "sandboxes/ID:verb". */
struct place {
	struct strv collection, id, verb; /* p NULL: it has none */
};

static void
cut_verb(struct strv *s, struct strv *verb)
{
	struct strv name;

	*verb = *s;
	(void)strv_cut(verb, ':', &name); /* p NULL afterwards: no colon */
	*s = name;
}

static void
find_place(const struct api_req *r, struct place *out)
{
	struct strv rest = strv_from(r->path, STRV(ROOT).len);

	memset(out, 0, sizeof(*out));
	(void)strv_cut(&rest, '/', &out->collection);
	if (r->nparams > 0) {
		out->id = r->param[0];
		cut_verb(&out->id, &out->verb);
	} else {
		cut_verb(&out->collection, &out->verb);
	}
}

static bool
fits(const struct cwrest_rule *rule, struct strv method, const struct place *at)
{
	if (strv_eq(method, STRV("HEAD")))
		method = STRV("GET");
	return strv_eq(method, strv_of(rule->method)) &&
	       strv_eq(at->collection, strv_of(rule->collection)) &&
	       (at->id.p != NULL) == (rule->id != NULL) &&
	       (at->verb.p != NULL) == (rule->verb != NULL) &&
	       strv_eq(at->verb, strv_of(rule->verb));
}

static const struct cwrest_rule *
find_rule(struct strv method, const struct place *at)
{
	for (size_t i = 0; i < ARRAY_LEN(rules); i++)
		if (fits(&rules[i], method, at))
			return &rules[i];
	return NULL;
}

/* --- the message ------------------------------------------------------- */

/* False: the call has failed. */
static bool
read_query(struct cwhttp *h, struct cwmsg *m)
{
	struct cwjson_error e = {0};
	struct strv name, value;
	size_t pos = 0;

	while (api_query_next(h->r, &pos, &name, &value)) {
		if (cwjson_read_text(m, name, value, &e) != E_INVALID)
			continue;
		cwhttp_bad_message(h, &e);
		return false;
	}
	cwjson_error_clear(&e);
	return true;
}

static bool
read_path(struct cwhttp *h, struct cwmsg *m)
{
	const char *field = h->rule->id;

	if (field == NULL)
		return true;
	if (!cwmsg_has(m, field)) {
		cwmsg_set(
		    cwmsg_add(m, cwmsg_field(cwmsg_desc(m), strv_of(field))),
		    h->id);
		return true;
	}
	if (strv_eq(cwmsg_view(m, field), h->id))
		return true;
	cwcall_bad_field(&h->call, field, "is not the one of the path");
	return false;
}

static void
rest_whole(struct cwhttp *h)
{
	struct cwmsg *m = cwmsg_new(h->call.method->in);
	struct strv text = {h->in.s, h->in.len};
	bool ok = true;

	if (h->rule->body == NO_BODY)
		cwhttp_drop(h);
	else
		ok = cwhttp_read(h, text, m,
				 h->rule->body == SANDBOX ? "sandbox" : NULL);
	if (ok && h->rule->body != WHOLE)
		ok = read_query(h, m);
	if (ok && read_path(h, m))
		cwcall_run(&h->call, m);
	else
		cwmsg_free(m);
}

/* --- requests ---------------------------------------------------------- */

static void
rest_cb(struct api_req *r)
{
	static const struct cwerr unknown = {
	    .code = CW_NOT_FOUND, .message = "there is no such thing here"};
	static const struct cwerr missing = {
	    .code = CW_UNIMPLEMENTED,
	    .message = "this method is not supported"};
	const struct cwcall_method *m;
	const struct cwrest_rule *rule;
	struct cwhttp *h;
	struct place at;

	find_place(r, &at);
	if ((rule = find_rule(http1_method(r->head), &at)) == NULL) {
		cwhttp_refuse(r, &unknown, 404, NULL);
		return;
	}
	if ((m = cwsvc_method(strv_of(rule->rpc))) == NULL) {
		cwhttp_refuse(r, &missing, 501, NULL);
		return;
	}
	if (!cwhttp_plain(r, "Content-Encoding"))
		return;
	if ((h = cwhttp_new(r, r->arg, m, &cwhttp_unary)) == NULL)
		return;
	h->rule = rule;
	h->id = at.id;
	cwhttp_collect(h, rest_whole);
}

void
cwrest_add(struct api *a, struct cwsvc *svc)
{
	static const char *const routes[][2] = {
	    {"GET", ROOT "sandboxes"},
	    {"POST", ROOT "sandboxes"},
	    {"POST", ROOT "sandboxes:createFromTemplate"},
	    {"POST", ROOT "sandboxes:purge"},
	    {"GET", ROOT "sandboxes/:id"},
	    {"POST", ROOT "sandboxes/:id"},
	    {"DELETE", ROOT "sandboxes/:id"},
	    {"GET", ROOT "fileSystemSnapshots"},
	    {"GET", ROOT "fileSystemSnapshots/:id"},
	    {"DELETE", ROOT "fileSystemSnapshots/:id"},
	};

	for (size_t i = 0; i < ARRAY_LEN(routes); i++)
		(void)api_route(a, routes[i][0], routes[i][1], rest_cb, svc);
}
